"""Every knob, grouped by concern, frozen, and read from flags, environment and file here and nowhere else.

A value comes from the strongest source that has it: a flag, then the environment (`MULTIKUEUE_DISPATCH__ORIGIN`, two
underscores between levels), then the YAML file, then the default below. Durations are written as in Kubernetes (`15m`,
`1m30s`, `500ms`), as ISO 8601 (`PT15M`) or as seconds.

Outside of `cli` and `manager` a room receives its own group or a plain value, never the whole tree.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import yaml
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    model_validator,
)
from pydantic_core import ErrorDetails
from pydantic_settings import (
    BaseSettings,
    EnvSettingsSource,
    NoDecode,
    SettingsConfigDict,
    SettingsError,
)

from multikueue.errors import ConfigurationError

__all__ = [
    "Cluster",
    "Dispatch",
    "Log",
    "Probes",
    "Quota",
    "Role",
    "Settings",
    "StrategyChoice",
    "Webhook",
    "duration",
    "expectation",
    "load",
]

ENV_PREFIX = "MULTIKUEUE_"
LEVEL = "__"

Role = Literal["jobs", "quota", "dispatch"]

_LABEL_VALUE = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")
_NUMBER = r"(?:\d+(?:\.\d*)?|\.\d+)"
_DURATION = re.compile(rf"[+-]?(?:{_NUMBER}|(?:{_NUMBER}(?:ns|us|µs|ms|s|m|h))+)")
_DURATION_PART = re.compile(rf"({_NUMBER})(ns|us|µs|ms|s|m|h|$)")
_SECONDS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "": 1.0}


def duration(value: object) -> object:
    """A duration as Kubernetes writes it, or a number of seconds as text; anything else comes back as it is."""
    if not isinstance(value, str) or _DURATION.fullmatch(value) is None:
        return value
    seconds = sum(float(number) * _SECONDS[unit] for number, unit in _DURATION_PART.findall(value))
    try:
        return timedelta(seconds=-seconds if value.startswith("-") else seconds)
    except OverflowError:
        raise ValueError("expected a duration of less than a thousand million days") from None


def _from_commas(value: object) -> object:
    """A list as one types it into an environment variable."""
    return [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value


def _label_value(value: str) -> str:
    if _LABEL_VALUE.fullmatch(value) is None:
        raise ValueError(
            "expected a label value: 1 to 63 letters, digits, '-', '_' or '.', with a letter or digit at both ends"
        )
    return value


def _https(value: str) -> str:
    if not value.startswith("https://"):
        raise ValueError("expected a URL that starts with https://")
    return value


def _not_negative(value: timedelta) -> timedelta:
    if value < timedelta():
        raise ValueError("expected a duration of 0 or more")
    return value


def _positive(value: timedelta) -> timedelta:
    if value <= timedelta():
        raise ValueError("expected a duration longer than 0")
    return value


Span = Annotated[timedelta, BeforeValidator(duration), AfterValidator(_not_negative)]
"""A duration that may be zero."""

Wait = Annotated[timedelta, BeforeValidator(duration), AfterValidator(_positive)]
"""A duration longer than nothing."""


def _require_order(group: BaseModel, shorter: str, longer: str) -> None:
    if getattr(group, shorter) > getattr(group, longer):
        raise ValueError(f"expected {shorter} not to be longer than {longer}")


class _Group(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class Cluster(_Group):
    """The manager cluster: the one with the queues."""

    kubeconfig: Path | None = None
    """File to connect with. Without it: the service account in a pod, else what kubectl would use."""

    context: str | None = None
    """Context of the kubeconfig. Without it: its current context."""

    namespace: str = "kueue-system"
    """Where the Secrets with the workers' kubeconfigs, the ClusterProfiles and our Lease are."""


class StrategyChoice(_Group):
    """Which strategy, and its options."""

    name: str = "all-at-once"
    """Name of an installed strategy; `multikueue strategies` lists them."""

    options: dict[str, Any] = Field(default_factory=dict)
    """The strategy's options; one that it does not have stops the start."""


class Dispatch(_Group):
    """How workloads get to the workers and back. Names and defaults as in Kueue's configuration where it has them."""

    origin: Annotated[str, AfterValidator(_label_value)] = "multikueue"
    """Label value that marks our copies on the workers. Two managers that share a worker need two origins, or each
    deletes what the other made. A change leaves the old copies behind."""

    strategy: StrategyChoice = StrategyChoice()
    """The strategy for queues that do not name one of their own."""

    worker_lost_timeout: Span = timedelta(minutes=15)
    """How long a workload waits for the worker it runs on to come back before it is queued again. Shorter restarts
    sooner after a loss; longer survives longer network trouble without running anything twice."""

    gc_interval: Span = timedelta(minutes=1)
    """Time between two sweeps for copies that nobody owns any more; 0 turns the sweep off."""

    heartbeat_interval: Wait = timedelta(seconds=2)
    """Time between two signs of life asked from a worker. Shorter notices loss sooner, for one small call each."""

    heartbeat_timeout: Wait = timedelta(seconds=2)
    """How long a worker may take to give a sign of life before it counts as missed."""

    suspect_after: Span = timedelta(seconds=2)
    """How long a worker may fail before it is suspect: it gets no new copies, those it has stay."""

    isolate_after: Span = timedelta(seconds=5)
    """How long a worker may fail before it is isolated: calls to it fail at once until it gives a sign of life."""

    concurrency: Annotated[int, Field(ge=1)] = 64
    """How many workloads are looked at at once; more hides more latency and costs memory only."""

    concurrency_per_cluster: Annotated[int, Field(ge=1)] = 12
    """How many calls may be under way to one worker; the limit is each worker's own, so a slow one delays no other."""

    call_timeout: Wait = timedelta(seconds=10)
    """How long one API call may take."""

    retry_first: Wait = timedelta(milliseconds=200)
    """Wait after the first failure of a workload; doubles with each further one."""

    retry_cap: Wait = timedelta(minutes=5)
    """Longest wait after a failure of a workload, so also the longest it lags when a cause goes away unseen."""

    reconnect_first: Wait = timedelta(seconds=1)
    """Longest wait before the first new attempt to connect to a worker; doubles with each further one."""

    reconnect_cap: Wait = timedelta(seconds=30)
    """Longest wait between two attempts to connect, so also the longest a worker that is back goes unnoticed."""

    @model_validator(mode="after")
    def _in_order(self) -> Dispatch:
        _require_order(self, "suspect_after", "isolate_after")
        _require_order(self, "retry_first", "retry_cap")
        _require_order(self, "reconnect_first", "reconnect_cap")
        return self


class Quota(_Group):
    """Who gets quota, and when those that lost it try again."""

    exclude_resource_prefixes: Annotated[tuple[str, ...], NoDecode, BeforeValidator(_from_commas)] = ()
    """Resources whose name starts with one of these are not counted at all."""

    requeue_first: Wait = timedelta(minutes=1)
    """Wait of an evicted workload before its first new attempt; doubles with each further one."""

    requeue_cap: Wait = timedelta(hours=1)
    """Longest wait of an evicted workload."""

    requeue_limit: Annotated[int, Field(ge=0)] | None = None
    """How many attempts a workload has before it is deactivated. Without it: any number."""

    @model_validator(mode="after")
    def _in_order(self) -> Quota:
        _require_order(self, "requeue_first", "requeue_cap")
        return self


class Webhook(_Group):
    """The admission webhook that suspends new jobs and marks them as ours."""

    enabled: bool = False
    """Whether to serve it and to register it with the manager cluster. Without it, users set `managedBy` themselves."""

    host: str = "0.0.0.0"  # noqa: S104  # the API server calls in from outside of the pod
    """Address to listen on."""

    port: Annotated[int, Field(ge=0, le=65535)] = 9443
    """Port to listen on; 0 takes a free one, which is of use with `url` only."""

    url: Annotated[str, AfterValidator(_https)] | None = None
    """Where the API server finds us when we run outside of the cluster; takes the place of the service."""

    service_name: str = "multikueue-webhook"
    """Service in front of us."""

    service_namespace: str | None = None
    """Namespace of that service. Without it: `cluster.namespace`."""

    failure_policy: Literal["Fail", "Ignore"] = "Fail"
    """What happens to new jobs while we are down: Fail refuses them, Ignore lets them in unmarked and unsuspended."""


class Probes(_Group):
    """Health for whoever runs the process, in plain HTTP: /healthz and /readyz."""

    host: str = "0.0.0.0"  # noqa: S104  # the kubelet calls in from outside of the pod
    """Address to listen on."""

    port: Annotated[int, Field(ge=0, le=65535)] | None = None
    """Port to listen on; 0 takes a free one. Without it: no probes."""


class Log(_Group):
    """What we say on standard error."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    """The least important events to show; debug shows each conflict and each decision."""

    format: Literal["json", "console", "auto"] = "auto"
    """One JSON object per line, or lines for people (with colours on a terminal); auto takes console on a terminal."""


class Settings(_Group):
    """The whole tree. `Settings()` is the defaults alone; `load` reads the sources."""

    roles: Annotated[frozenset[Role], NoDecode, BeforeValidator(_from_commas), Field(min_length=1)] = frozenset(
        get_args(Role)
    )
    """What this process does: take in jobs, give quota, dispatch. Beside Kueue, which does the first two: dispatch."""

    cluster: Cluster = Cluster()
    dispatch: Dispatch = Dispatch()
    quota: Quota = Quota()
    webhook: Webhook = Webhook()
    probes: Probes = Probes()
    log: Log = Log()


class _Environment(Settings, BaseSettings):
    """How the tree is spelled in environment variables. Never built: `load` merges the sources, to know them apart."""

    model_config = SettingsConfigDict(env_prefix=ENV_PREFIX, env_nested_delimiter=LEVEL, env_ignore_empty=True)


def load(config: Path | None = None, **flags: object) -> Settings:
    """The settings from flags, environment and the YAML file `config`.

    A flag is named as its environment variable without the prefix: `load(cluster__context="kind-manager")`; one that is
    None was not given. Raises ConfigurationError that names source, field, value and what was expected.
    """
    sources = (_flags(flags), _environment(), *([] if config is None else [_file(config)]))
    merged: dict[str, Any] = {}
    for source in reversed(sources):
        merged = _merge(merged, source.values)
    try:
        return Settings(**merged)
    except ValidationError as error:
        problems = "\n".join(_explain(problem, sources) for problem in error.errors())
        raise ConfigurationError(problems) from None


_NOTHING = object()


@dataclass(frozen=True, slots=True)
class _Source:
    """One place where values come from, as the user spelled them there."""

    name: str
    values: Mapping[str, Any]
    spelling: Literal["flag", "environment", "file"]

    def find(self, path: tuple[str, ...]) -> object:
        """What the user gave for that field, or `_NOTHING`."""
        tree: object = self.values
        for part in path:
            if not isinstance(tree, Mapping) or part not in tree:
                return _NOTHING
            tree = tree[part]
        return tree

    def label(self, path: tuple[str, ...]) -> str:
        """Where the user finds that field."""
        if self.spelling == "flag":
            return f"flag {'.'.join(path)}"
        if self.spelling == "environment":
            return f"environment {ENV_PREFIX}{LEVEL.join(path).upper()}: {'.'.join(path)}"
        return f"{self.name}: {'.'.join(path)}"


def _flags(flags: Mapping[str, object]) -> _Source:
    values: dict[str, Any] = {}
    for name, value in flags.items():
        if value is None:
            continue
        nested = value
        for part in reversed(name.split(LEVEL)):
            nested = {part: nested}
        values = _merge(values, nested)  # type: ignore[arg-type]  # a dict: `split` answers at least one part
    return _Source("flags", values, "flag")


def _environment() -> _Source:
    """Our variables. Unknown names at the first level are ignored: Kubernetes puts some like them into every pod."""
    try:
        return _Source("environment", EnvSettingsSource(_Environment)(), "environment")
    except SettingsError as error:
        raise ConfigurationError(_not_json(error)) from None


def _not_json(error: SettingsError) -> str:
    """Which variable of ours it was: pydantic names only the group at the first level."""
    text = getattr(error.__cause__, "doc", None)
    named = [name for name, value in os.environ.items() if name.upper().startswith(ENV_PREFIX) and value == text]
    return f"environment {' or '.join(named)}: expected JSON, got {text!r}"


def _file(path: Path) -> _Source:
    try:
        tree = yaml.safe_load(path.read_bytes())
    except OSError as error:
        raise ConfigurationError(f"{path}: cannot be read: {error.strerror}") from None
    except yaml.YAMLError as error:
        raise ConfigurationError(f"{path}: expected YAML: {' '.join(str(error).split())}") from None
    if not isinstance(tree or {}, dict):
        raise ConfigurationError(f"{path}: expected a mapping of settings, got {type(tree).__name__}")
    return _Source(str(path), tree or {}, "file")


def _merge(weak: Mapping[str, Any], strong: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(weak)
    for name, value in strong.items():
        both = isinstance(value, dict) and isinstance(merged.get(name), dict)
        merged[name] = _merge(merged[name], value) if both else value
    return merged


def _explain(problem: ErrorDetails, sources: tuple[_Source, ...]) -> str:
    """One problem in one line: where, which field, what was expected, what was found."""
    path = tuple(part for part in problem["loc"] if isinstance(part, str))
    source = next((each for each in sources if each.find(path) is not _NOTHING), sources[-1])
    if problem["type"] == "extra_forbidden":
        return f"{source.label(path)}: expected {_known(path)}"
    found = source.find(path)
    got = "" if found is _NOTHING or isinstance(found, Mapping) else f", got {found!r}"
    return f"{source.label(path)}: {expectation(problem)}{got}"


def expectation(problem: ErrorDetails) -> str:
    """What pydantic expected, as "expected ..."."""
    kind = problem["type"]
    if kind == "value_error":
        return str(problem["ctx"]["error"])
    if kind.startswith("time_delta"):
        return "expected a duration such as 15m, 1m30s or 500ms"
    return f"expected {_EXPECTATIONS.get(kind) or problem['msg'].removeprefix('Input should be ')}"


_EXPECTATIONS = {
    "model_type": "a group of settings",
    "dict_type": "a mapping",
    "int_parsing": "a whole number",
    "bool_parsing": "true or false",
}


def _known(path: tuple[str, ...]) -> str:
    """The names that would have been right in place of the last one, the likeliest alone if there is one."""
    group: type[BaseModel] = Settings
    for part in path[:-1]:
        group = group.model_fields[part].annotation  # type: ignore[assignment]  # only groups have unknown fields
    close = get_close_matches(path[-1], group.model_fields, n=1)
    return f"{close[0]!r}; there is no {path[-1]!r}" if close else f"one of {', '.join(group.model_fields)}"
