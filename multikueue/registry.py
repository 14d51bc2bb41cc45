"""Finds a strategy by name among the installed entry points and builds it from options, and the parts it is made of.

Our own strategies register in the same way as a user's: by an entry point of the group `multikueue.strategies` that
names a frozen dataclass. Only the requested strategy is imported, so a broken one does not affect the others.

An option whose type is `tuple[Filter, ...]` or `tuple[Weighted, ...]` takes parts by name: a list of names, or of mappings
from the name to the part's options, with the `weight` of a scorer beside it::

    {"filters": ["named", {"labels": {"match": {"region": ["eu"]}}}], "scorers": [{"tiers": {"order": ["spot"]}, "weight": 2}]}
"""

from __future__ import annotations

import dataclasses
import inspect
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any, cast, get_type_hints

from pydantic import TypeAdapter, ValidationError

from multikueue.durations import duration
from multikueue.errors import ConfigurationError
from multikueue.strategy import Filter, Strategy, Weighted

__all__ = [
    "FILTERS",
    "GROUPS",
    "SCORERS",
    "STRATEGIES",
    "Description",
    "Group",
    "Option",
    "describe",
    "is_ours",
    "load",
    "load_from",
    "names",
    "part_name",
    "reads",
]

OURS = "multikueue"

_CLASS = re.compile(r"[\w.]+:[\w.]+")


@dataclass(frozen=True, slots=True)
class Group:
    """A group of entry points, whose classes have that method. `noun` is what messages call one of them."""

    name: str
    noun: str
    method: str


STRATEGIES = Group("multikueue.strategies", "strategy", "nominate")
FILTERS = Group("multikueue.filters", "filter", "refuses")
SCORERS = Group("multikueue.scorers", "scorer", "score")
GROUPS = (STRATEGIES, FILTERS, SCORERS)

_PARTS = {tuple[Filter, ...]: FILTERS, tuple[Weighted, ...]: SCORERS}
"""The types of options that take parts."""


@dataclass(frozen=True, slots=True)
class Option:
    """One option of a strategy or a part: its name, and its type and default as text. `default` is None if it is required."""

    name: str
    type: str
    default: str | None

    def __str__(self) -> str:
        return f"{self.name}: {self.type}" + ("" if self.default is None else f" = {self.default}")


@dataclass(frozen=True, slots=True)
class Description:
    """Help text, options and package of a strategy or a part, for users who choose one."""

    name: str
    help: str
    options: tuple[Option, ...]
    package: str


def names(group: Group = STRATEGIES) -> tuple[str, ...]:
    """What is installed of the group, sorted. Imports nothing of it."""
    return tuple(sorted({point.name for point in _installed(group.name, tuple(sys.path))}))


@cache
def _installed(group: str, _path: tuple[str, ...]) -> tuple[EntryPoint, ...]:
    """All entry points of a group on that path. Cached: the scan reads files of every installed distribution."""
    return tuple(entry_points(group=group))


def load(name: str, options: Mapping[str, Any], group: Group = STRATEGIES) -> Any:
    """The strategy, filter or scorer of that name with these options. Durations may be text, such as `5m`.

    Raises ConfigurationError for an unknown or broken strategy or part, an unknown option, or an option of the wrong type;
    the message lists the valid ones.
    """
    return _load(name, options, group, "")


def part_name(part: object) -> str:
    """Under which name a filter or scorer is installed; its class, if under none."""
    kind = type(part)
    path = f"{kind.__module__}:{kind.__qualname__}"
    points = (point for group in (FILTERS, SCORERS) for point in _installed(group.name, tuple(sys.path)))
    return next((point.name for point in points if point.value == path), kind.__qualname__)


def load_from(path: str, options: Mapping[str, Any]) -> Any:
    """The strategy, filter or scorer at `module:Class`, which need not be installed, with these options. Raises as `load`."""
    if _CLASS.fullmatch(path) is None:
        raise ConfigurationError(f"strategy {path!r}: expected module:Class")
    point = EntryPoint(name=path, value=path, group=STRATEGIES.name)
    return _built(_kind(point, None, ""), options, f"strategy {path!r}")


def describe(name: str, group: Group = STRATEGIES) -> Description:
    """Help text and options of a strategy or a part. Raises ConfigurationError as `load`."""
    point = _entry_point(name, group, "")
    kind, distribution = _kind(point, group, ""), point.dist
    return Description(
        name=name,
        help=inspect.getdoc(kind) or "",
        options=_options(kind),
        package=f"{distribution.name} {distribution.version}" if distribution else "",
    )


def is_ours(name: str, options: Mapping[str, Any]) -> bool:
    """Whether a strategy comes with this package, and so do all the parts that its options name. Raises ConfigurationError
    for an unknown name of a strategy."""
    point = _entry_point(name, STRATEGIES, "")
    return _comes_with_us(point) and all(
        _comes_with_us(each)
        for group, part in _named_parts(_kind(point, STRATEGIES, ""), options)
        for each in _installed(group.name, tuple(sys.path))
        if each.name == part
    )


def reads(strategy: Strategy) -> frozenset[str]:
    """The inputs that a strategy with its options, and its parts, need besides the fleet: their attributes `reads`, tuples of
    words."""
    lists = (getattr(each, "reads", ()) for each in (strategy, *_parts_of(strategy)))
    return frozenset(word for words in lists if isinstance(words, tuple) for word in words if isinstance(word, str))


def _parts_of(strategy: Any) -> Iterator[object]:
    for option, hint in _hints(type(strategy)).items():
        for part in getattr(strategy, option) if _group_of(hint) is not None else ():
            yield part.scorer if isinstance(part, Weighted) else part


def _load(name: str, options: Mapping[str, Any], group: Group, place: str) -> Any:
    return _built(_kind(_entry_point(name, group, place), group, place), options, f"{place}{group.noun} {name!r}")


def _built(kind: type, options: Mapping[str, Any], what: str) -> Any:
    known = _options(kind)
    unknown = sorted(str(name) for name in set(options) - {option.name for option in known})
    if unknown:
        raise ConfigurationError(f"{what}: there is no option {', '.join(unknown)}; {_listed(known)}")
    try:
        return TypeAdapter(kind).validate_python(_converted(kind, options, what))
    except ConfigurationError:
        raise
    except ValidationError as error:
        raise ConfigurationError(f"{what}: {_problems(error)}; {_listed(known)}") from None
    except (Exception, SystemExit) as error:
        raise ConfigurationError(f"{what} cannot be built: {type(error).__name__}: {error}") from error


def _comes_with_us(point: EntryPoint) -> bool:
    return point.dist is not None and point.dist.name == OURS


def _entry_point(name: str, group: Group, place: str) -> EntryPoint:
    found = {point.value: point for point in _installed(group.name, tuple(sys.path)) if point.name == name}
    what = f"{place}{group.noun} {name!r}"
    if not found:
        raise ConfigurationError(f"{what}: expected one that is installed: {', '.join(names(group)) or 'none is'}")
    if len(found) > 1:
        raise ConfigurationError(f"{what}: installed more than once: {', '.join(sorted(found))}")
    return next(iter(found.values()))


def _kind(point: EntryPoint, group: Group | None, place: str) -> type:
    """The class of an entry point; without a group, of any. Raises ConfigurationError if it cannot be imported, or is of
    another shape."""
    what = f"{place}{(group or STRATEGIES).noun} {point.name!r}"
    try:
        kind = point.load()
    except (Exception, SystemExit) as error:  # the import runs third-party code, which may raise anything
        raise ConfigurationError(
            f"{what}: {point.value} cannot be imported: {type(error).__name__}: {error}"
        ) from error
    methods = [each.method for each in GROUPS if group in (None, each)]
    if not _is_frozen(kind) or not any(callable(getattr(kind, method, None)) for method in methods):
        raise ConfigurationError(
            f"{what}: expected {point.value} to be a frozen dataclass with a method {' or '.join(methods)}"
        )
    return cast(type, kind)


def _is_frozen(kind: object) -> bool:
    if not isinstance(kind, type) or not dataclasses.is_dataclass(kind):
        return False
    frozen: bool = kind.__dataclass_params__.frozen  # type: ignore[attr-defined]  # every dataclass has it
    return frozen


def _options(kind: type) -> tuple[Option, ...]:
    hints = _hints(kind)
    return tuple(
        Option(each.name, _type_name(hints[each.name]), _default(each))
        for each in dataclasses.fields(kind)
        if each.init
    )


def _hints(kind: type) -> dict[str, Any]:
    """The types of the fields. A name that only type checkers can resolve stays as written."""
    try:
        return get_type_hints(kind)
    except NameError:
        return {each.name: each.type for each in dataclasses.fields(kind)}


def _converted(kind: type, options: Mapping[str, Any], what: str) -> dict[str, Any]:
    """The options with durations for texts and parts for names."""
    hints = _hints(kind)
    return {name: _value(hints[name], value, f"{what}: {name}") for name, value in options.items()}


def _value(hint: Any, value: Any, place: str) -> Any:
    if hint in (timedelta, timedelta | None):
        return duration(value)
    group = _group_of(hint)
    if group is None:
        return value
    if not isinstance(value, list | tuple):
        raise ConfigurationError(f"{place}: expected a list of {group.noun}s, got {value!r}")
    return tuple(_part(each, group, f"{place}.{index}: ") for index, each in enumerate(value))


def _part(item: Any, group: Group, place: str) -> Any:
    """The part that an item of a list asks for: a name, a mapping from the name to options, or a part already."""
    if callable(getattr(item, group.method, None)) or isinstance(item, Weighted):
        return item
    name, options, weight = _asked_part(item, group, place)
    part = _load(name, options, group, place)
    return part if group is FILTERS else Weighted(part, weight)


def _asked_part(item: Any, group: Group, place: str) -> tuple[str, Mapping[str, Any], float]:
    more: dict[str, Any] = {"weight": 1.0} if group is SCORERS else {}
    named = {item: {}} if isinstance(item, str) else dict(item) if isinstance(item, Mapping) else {}
    more |= {key: named.pop(key) for key in more if key in named}
    ((name, options),) = named.items() if len(named) == 1 else ((None, None),)
    weight = more.get("weight", 1.0)
    if not isinstance(name, str) or not isinstance(options or {}, Mapping):
        raise ConfigurationError(f"{place}expected the name of a {group.noun}, or name: options, got {item!r}")
    if isinstance(weight, bool) or not isinstance(weight, int | float) or not 0 < weight < float("inf"):
        raise ConfigurationError(f"{place}expected weight to be a number greater than 0, got {weight!r}")
    return name, options or {}, float(weight)


def _named_parts(kind: type, options: Mapping[str, Any]) -> Iterator[tuple[Group, str]]:
    for option, hint in _hints(kind).items():
        group, value = _group_of(hint), options.get(option)
        if group is not None and isinstance(value, list | tuple):
            for item in value:
                asked = item if isinstance(item, Mapping) else [item] if isinstance(item, str) else ()
                yield from ((group, name) for name in asked)


def _group_of(hint: Any) -> Group | None:
    """The group of the parts that an option of this type takes. Compared, not looked up: a type need not be hashable."""
    return next((group for type_, group in _PARTS.items() if type_ == hint), None)


def _type_name(hint: object) -> str:
    group = _group_of(hint)
    if group is not None:
        return f"list of {group.noun}s"
    text = hint if isinstance(hint, str) else inspect.formatannotation(hint)
    return text.replace("datetime.timedelta", "duration")


def _default(option: dataclasses.Field[Any]) -> str | None:
    if option.default is not dataclasses.MISSING:
        return _shown(option.default)
    if option.default_factory is not dataclasses.MISSING:
        return _shown(option.default_factory())
    return None


def _shown(value: object) -> str:
    return f"{value.total_seconds():g}s" if isinstance(value, timedelta) else repr(value)


def _listed(options: tuple[Option, ...]) -> str:
    return f"its options are: {'; '.join(map(str, options))}" if options else "it has no options"


def _problems(error: ValidationError) -> str:
    # A wrong option is rare, and a caller that lists strategies needs no settings.
    from multikueue.settings import expectation

    return "; ".join(
        f"{'.'.join(map(str, each['loc'])) or 'options'}: {expectation(each)}, got {each['input']!r}"
        for each in error.errors()
    )
