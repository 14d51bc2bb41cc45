"""Finds a strategy by name among the installed entry points and builds it from options.

Our own strategies register in the same way as a user's: by an entry point of the group `multikueue.strategies` that
names a frozen dataclass. Only the requested strategy is imported, so a broken one does not affect the others.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any, cast, get_type_hints

from pydantic import TypeAdapter, ValidationError

from multikueue.durations import duration
from multikueue.errors import ConfigurationError
from multikueue.strategy import Strategy

__all__ = ["GROUP", "Description", "Option", "describe", "is_ours", "load", "load_from", "names", "reads"]

GROUP = "multikueue.strategies"
OURS = "multikueue"

_CLASS = re.compile(r"[\w.]+:[\w.]+")


@dataclass(frozen=True, slots=True)
class Option:
    """One option of a strategy: its name, and its type and default as text. `default` is None if it is required."""

    name: str
    type: str
    default: str | None

    def __str__(self) -> str:
        return f"{self.name}: {self.type}" + ("" if self.default is None else f" = {self.default}")


@dataclass(frozen=True, slots=True)
class Description:
    """Help text, options and package of a strategy, for users who choose one."""

    name: str
    help: str
    options: tuple[Option, ...]
    package: str


def names() -> tuple[str, ...]:
    """The installed strategies, sorted. Imports none of them."""
    return tuple(sorted({point.name for point in _installed(tuple(sys.path))}))


@cache
def _installed(_path: tuple[str, ...]) -> tuple[EntryPoint, ...]:
    """All strategies on that path. Cached: the scan reads files of every installed distribution."""
    return tuple(entry_points(group=GROUP))


def load(name: str, options: Mapping[str, Any]) -> Strategy:
    """The strategy of that name with these options. Durations may be text, such as `5m`.

    Raises ConfigurationError for an unknown or broken strategy, an unknown option, or an option of the wrong type; the
    message lists the valid ones.
    """
    return _built(name, _kind(_entry_point(name)), options)


def load_from(path: str, options: Mapping[str, Any]) -> Strategy:
    """The strategy at `module:Class`, which need not be installed, with these options. Raises as `load`."""
    if _CLASS.fullmatch(path) is None:
        raise ConfigurationError(f"strategy {path!r}: expected module:Class")
    return _built(path, _kind(EntryPoint(name=path, value=path, group=GROUP)), options)


def _built(name: str, kind: type, options: Mapping[str, Any]) -> Strategy:
    known = _options(kind)
    unknown = sorted(str(name) for name in set(options) - {option.name for option in known})
    if unknown:
        raise ConfigurationError(f"strategy {name!r}: there is no option {', '.join(unknown)}; {_listed(known)}")
    try:
        return cast(Strategy, TypeAdapter(kind).validate_python(_with_durations(kind, options)))
    except ValidationError as error:
        raise ConfigurationError(f"strategy {name!r}: {_problems(error)}; {_listed(known)}") from None
    except (Exception, SystemExit) as error:
        raise ConfigurationError(f"strategy {name!r} cannot be built: {type(error).__name__}: {error}") from error


def describe(name: str) -> Description:
    """Help text and options of a strategy. Raises ConfigurationError as `load`."""
    point = _entry_point(name)
    kind, distribution = _kind(point), point.dist
    return Description(
        name=name,
        help=inspect.getdoc(kind) or "",
        options=_options(kind),
        package=f"{distribution.name} {distribution.version}" if distribution else "",
    )


def is_ours(name: str) -> bool:
    """Whether a strategy comes with this package. Raises ConfigurationError for an unknown name."""
    distribution = _entry_point(name).dist
    return distribution is not None and distribution.name == OURS


def reads(strategy: Strategy) -> frozenset[str]:
    """The inputs that a strategy needs besides the fleet: its class attribute `reads`, a tuple of words."""
    words = getattr(type(strategy), "reads", ())
    return frozenset(word for word in words if isinstance(word, str)) if isinstance(words, tuple) else frozenset()


def _entry_point(name: str) -> EntryPoint:
    found = {point.value: point for point in _installed(tuple(sys.path)) if point.name == name}
    if not found:
        raise ConfigurationError(
            f"strategy {name!r}: expected one that is installed: {', '.join(names()) or 'none is'}"
        )
    if len(found) > 1:
        raise ConfigurationError(f"strategy {name!r}: installed more than once: {', '.join(sorted(found))}")
    return next(iter(found.values()))


def _kind(point: EntryPoint) -> type:
    """The class of a strategy. Raises ConfigurationError if it cannot be imported, or is no strategy."""
    name = point.name
    try:
        kind = point.load()
    except (Exception, SystemExit) as error:  # the import runs third-party code, which may raise anything
        raise ConfigurationError(
            f"strategy {name!r}: {point.value} cannot be imported: {type(error).__name__}: {error}"
        ) from error
    if not _is_strategy(kind):
        raise ConfigurationError(
            f"strategy {name!r}: expected {point.value} to be a frozen dataclass with a method nominate"
        )
    return cast(type, kind)


def _is_strategy(kind: object) -> bool:
    if not isinstance(kind, type) or not dataclasses.is_dataclass(kind):
        return False
    frozen: bool = kind.__dataclass_params__.frozen  # type: ignore[attr-defined]  # every dataclass has it
    return frozen and callable(getattr(kind, "nominate", None))


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


def _with_durations(kind: type, options: Mapping[str, Any]) -> dict[str, Any]:
    hints = _hints(kind)
    return {
        name: duration(value) if hints[name] in (timedelta, timedelta | None) else value
        for name, value in options.items()
    }


def _type_name(hint: object) -> str:
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
    # A wrong option is rare, and whoever lists strategies needs no settings.
    from multikueue.settings import expectation

    return "; ".join(
        f"{'.'.join(map(str, each['loc'])) or 'options'}: {expectation(each)}, got {each['input']!r}"
        for each in error.errors()
    )
