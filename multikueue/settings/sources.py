"""Where values come from and which source wins: flags, environment, a file of ours or Kueue's own, defaults."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from itertools import takewhile
from pathlib import Path
from typing import Any, get_args

import msgspec
import yaml
from pydantic import ValidationError
from pydantic_core import ErrorDetails
from pydantic_settings import BaseSettings, EnvSettingsSource, SettingsConfigDict, SettingsError

from multikueue.errors import ConfigurationError
from multikueue.settings import kueue
from multikueue.settings.kueue import Ignored
from multikueue.settings.live import Timings
from multikueue.settings.problems import expectation, instead_of, shown, spelled
from multikueue.settings.tree import GONE, Dispatch, Settings, leaves

__all__ = ["ENV_PREFIX", "LEVEL", "Loaded", "Source", "load", "read"]

ENV_PREFIX = "MULTIKUEUE_"
LEVEL = "__"

NOTHING = object()

_RELEASE = ("quota", "compatibility")

Where = tuple[str | int, ...]
"""The path of a setting, of what is within one, or of what was taken for one."""

_LOST: Where = ("dispatch", "worker_lost_timeout")


class Source(msgspec.Struct, frozen=True):
    """One place where values come from, by the names of our tree.

    `label` names a field and its place in an error, `origin` says in a table where its value comes from.
    """

    values: Mapping[str, Any]
    label: Callable[[Where], str]
    origin: Callable[[Where], str]

    def find(self, path: Where) -> object:
        """The value of the field at this place, or `NOTHING`."""
        tree: Any = self.values
        for part in path:
            known = range(len(tree)) if isinstance(tree, list) else tree if isinstance(tree, Mapping) else ()
            if part not in known:
                return NOTHING
            tree = tree[part]
        return tree

    def depth(self, path: Where) -> int:
        """How much of the path is in this place."""
        return next(n for n in range(len(path), -1, -1) if self.find(path[:n]) is not NOTHING)


class Loaded(msgspec.Struct, frozen=True):
    """Settings, and how they came about: the sources that had a say, strongest first, and what was ignored."""

    settings: Settings
    sources: tuple[Source, ...] = ()
    ignored: tuple[Ignored, ...] = ()
    config: Path | None = None
    flags: Mapping[str, object] = {}

    def origin(self, path: Where) -> str:
        """Where the value of a setting comes from: `flag`, a variable, a file, or `default`."""
        source = next((each for each in self.sources if each.find(path) is not NOTHING), None)
        return "default" if source is None else source.origin(path)

    def place(self, path: Where) -> str:
        """Where the user finds a setting, for an error about its value."""
        source = next((each for each in self.sources if each.find(path) is not NOTHING), None)
        return f"default: {spelled(path)}" if source is None else source.label(path)

    def again(self) -> Loaded:
        """The same sources, read once more. Raises as `read`."""
        return read(self.config, **self.flags)


def load(config: Path | None = None, **flags: object) -> Settings:
    """The settings alone, of what `read` finds."""
    return read(config, **flags).settings


def read(config: Path | None = None, **flags: object) -> Loaded:
    """The settings from flags, environment and the YAML file `config`: one of ours, or Kueue's own Configuration.

    A flag is named as its environment variable without the prefix: `read(cluster__context="kind-manager")`; one that is
    None was not given. Raises ConfigurationError that names source, field, value and what was expected.
    """
    ignored = tuple(_unknown_variables(os.environ))
    sources: tuple[Source, ...] = (_flags(flags), _environment())
    if config is not None:
        from_file, without_effect = _file(config, _release(sources))
        sources += from_file
        ignored += without_effect
    settings = _settings(sources)
    return Loaded(settings, sources, (*ignored, *_too_short(settings.dispatch, sources)), config, flags)


def _too_short(dispatch: Dispatch, sources: tuple[Source, ...]) -> Iterator[Ignored]:
    """A time after which a worker is lost, where the worker is not even isolated by then."""
    isolated = Timings().isolate_after
    if dispatch.worker_lost_timeout >= isolated:
        return
    where = next(each for each in sources if each.find(_LOST) is not NOTHING)
    why = f"a worker is isolated before it is lost, and that takes {isolated.total_seconds():g}s"
    yield Ignored(where.label(_LOST), f"{dispatch.worker_lost_timeout.total_seconds():g}s", why, where.origin(_LOST))


def _settings(sources: tuple[Source, ...]) -> Settings:
    merged: dict[str, Any] = {}
    for source in reversed(sources):
        merged = _merge(merged, source.values)
    try:
        return Settings.model_validate(merged)
    except ValidationError as error:
        problems = "\n".join(_explain(problem, sources) for problem in error.errors())
        raise ConfigurationError(problems) from None


def _merge(weak: Mapping[str, Any], strong: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(weak)
    for name, value in strong.items():
        both = isinstance(value, dict) and isinstance(merged.get(name), dict)
        merged[name] = _merge(merged[name], value) if both else value
    return merged


def _explain(problem: ErrorDetails, sources: tuple[Source, ...]) -> str:
    """One problem in one line: where, which field, what was expected, what was found."""
    path = problem["loc"]
    if not path:  # between groups: the message names them
        return expectation(problem)
    source = max(sources, key=lambda each: each.depth(path))  # the first of those, and so the strongest
    if problem["type"] == "extra_forbidden":
        if why := GONE.get(spelled(path)):
            return f"{source.label(path)}: this setting is gone: {why}"
        return f"{source.label(path)}: expected {instead_of(str(path[-1]), _names(path[:-1]))}"
    found = source.find(path[: source.depth(path)])
    got = "" if isinstance(found, Mapping) else f", got {shown(found)}"
    return f"{source.label(path)}: {expectation(problem)}{got}"


def _names(path: Where) -> list[str]:
    """The fields of the group at that path, which may be within a list."""
    group: Any = Settings
    for part in path:
        group = get_args(group)[0] if isinstance(part, int) else group.model_fields[part].annotation
    return list(group.model_fields)


# Flags.


def _flags(flags: Mapping[str, object]) -> Source:
    values: dict[str, Any] = {}
    for name, value in flags.items():
        if value is None:
            continue
        nested = value
        for part in reversed(name.split(LEVEL)):
            nested = {part: nested}
        values = _merge(values, nested)  # type: ignore[arg-type]  # a dict: `split` answers at least one part
    return Source(values, label=lambda path: f"flag {spelled(path)}", origin=lambda _: "flag")


# Environment.


class _Environment(Settings, BaseSettings):
    """How the tree is spelled in environment variables. Never built: `read` merges the sources, to know them apart."""

    model_config = SettingsConfigDict(env_prefix=ENV_PREFIX, env_nested_delimiter=LEVEL, env_ignore_empty=True)


_NO_SETTINGS = re.compile(r"CONFIG|TEST_\w+")
"""What else the rest of a variable's name may be: the option `--config`, and what tests name."""

_OF_A_SERVICE = re.compile(r"(\w+_)?(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)")
_ADDRESS_OF_A_SERVICE = re.compile(r"(tcp|udp|sctp)://")


def _unknown_variables(variables: Mapping[str, str]) -> Iterator[Ignored]:
    """Variables that look like ours and are no setting. Their values are not shown: they may be anything.

    They are no error: Kubernetes puts some like them into each pod of a namespace with a Service called `multikueue`, or
    `multikueue-webhook`. Those are not reported.
    """
    known = {_variable(leaf.path) for leaf in leaves()}
    for name, value in variables.items():
        ours, _, rest = name.upper().partition(ENV_PREFIX)
        if ours or not rest or rest.partition(LEVEL)[0].lower() in Settings.model_fields:
            continue
        if _NO_SETTINGS.fullmatch(rest) or _OF_A_SERVICE.fullmatch(rest) or _ADDRESS_OF_A_SERVICE.match(value):
            continue
        yield Ignored(name, "its value", f"expected {instead_of(name.upper(), sorted(known))}", "environment")


def _environment() -> Source:
    """Our variables. Those that name no setting at the first level are not looked at (`_unknown_variables`)."""
    try:
        values = EnvSettingsSource(_Environment)()
    except SettingsError as error:
        raise ConfigurationError(_not_json(error)) from None
    return Source(values, label=lambda path: f"environment {_variable(path)}: {spelled(path)}", origin=_variable)


def _variable(path: Where) -> str:
    """The variable for a setting; what is within a list, or no name of ours, is within the variable before it."""
    names = takewhile(lambda part: part.isascii() and part.isidentifier() and len(part) < 100, map(str, path))
    return f"{ENV_PREFIX}{LEVEL.join(names).upper()}"


def _not_json(error: SettingsError) -> str:
    """The name of our variable: pydantic names only the group at the first level."""
    text = getattr(error.__cause__, "doc", None)
    named = [name for name, value in os.environ.items() if name.upper().startswith(ENV_PREFIX) and value == text]
    return f"environment {' or '.join(named)}: expected JSON, got {shown(text)}"


# Files.


def _release(sources: tuple[Source, ...]) -> str:
    """The release of Kueue whose defaults hold. What is none is an error when the settings are made."""
    found = next((value for each in sources if (value := each.find(_RELEASE)) is not NOTHING), kueue.NEWEST)
    return found if isinstance(found, str) else kueue.NEWEST


def _file(path: Path, release: str) -> tuple[tuple[Source, ...], tuple[Ignored, ...]]:
    """The sources that a file is: itself, and for Kueue's own file the defaults that Kueue has for what it leaves out."""
    tree = _yaml(path)
    if not kueue.is_kueues(tree, path):
        return (Source(tree, label=lambda at: f"{path}: {spelled(at)}", origin=lambda _: str(path)),), ()
    mapped = kueue.translate(tree, path, release)
    given = Source(
        mapped.values,
        label=lambda at: f"{path}: {mapped.name(at)}",
        origin=lambda at: f"{path}: {mapped.name(at)}",
    )
    defaults = Source(
        mapped.defaults,
        label=lambda at: f"Kueue's default: {spelled(at)}",
        origin=lambda _: "Kueue's default",
    )
    return (given, defaults), mapped.ignored


def _yaml(path: Path) -> dict[str, Any]:
    try:
        text = path.read_bytes()
    except OSError as error:
        raise ConfigurationError(f"{path}: cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise ConfigurationError(f"{path}: cannot be read: {error}") from None
    return _tree(text, str(path))


def _tree(text: bytes | str, place: str) -> dict[str, Any]:
    try:
        tree = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ConfigurationError(f"{place}: expected YAML: {' '.join(str(error).split())}") from None
    if tree is None:
        return {}
    if not isinstance(tree, dict):
        raise ConfigurationError(f"{place}: expected a mapping of settings, got {type(tree).__name__}")
    return tree
