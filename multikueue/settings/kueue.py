"""Kueue's configuration file, read as settings: one file, as it is a table of that file's fields and their fate.

A field that means something here is translated; one that asks for what is done in any case is fine; any other is named as
ignored, with the reason. A field or framework that Kueue does not know is refused, as Kueue does not start with it: it would
be a typing error without effect. What the file leaves out has our default, except where another program relies on Kueue's,
such as on the port of the probes: `Field.default`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

import msgspec

from multikueue.errors import ConfigurationError
from multikueue.settings.problems import instead_of, shown, spelled
from multikueue.settings.tree import FAIR_STRATEGIES, FRAMEWORKS, Release

__all__ = [
    "FIELDS",
    "FIRST",
    "FRAMEWORKS",
    "GROUP",
    "VERSIONS",
    "Field",
    "Ignored",
    "Translation",
    "is_kueues",
    "translate",
]

GROUP = "config.kueue.x-k8s.io"
VERSIONS = ("v1beta1", "v1beta2")
FIRST = "0.16"
"""The first release of Kueue whose configuration is known here."""

RELEASES = get_args(Release)
NEWEST = RELEASES[-1]
"""The release whose defaults hold if no other one is asked for."""

ALL_AT_ONCE = "kueue.x-k8s.io/multikueue-dispatcher-all-at-once"
INCREMENTAL = "kueue.x-k8s.io/multikueue-dispatcher-incremental"

GATES_OF_FIELDS = ("MultiKueueAdaptersForCustomJobs", "MultiKueueIncrementalDispatcherConfig")
"""Feature gates by which other fields of the file count."""

NOT_COVERED = ("leaderworkerset.x-k8s.io/leaderworkerset", "sparkoperator.k8s.io/sparkapplication")
"""Frameworks of Kueue that are no integrations here."""

KUBECONFIGS = Path("/etc/multikueue/kubeconfigs")
"""Where Kueue wants kubeconfigs to be that are named by their path."""

NAMESPACE_FILE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
"""Where a pod finds the name of its namespace."""

EVERYWHERE = "0.0.0.0"  # noqa: S104
"""What Go takes an empty host for."""

Parts = tuple[str, ...]
Tree = Mapping[str, Any]


class Ignored(msgspec.Struct, frozen=True):
    """A field or variable that has no effect, what is said in it, why it has none, and where it stands."""

    field: str
    value: str
    why: str
    place: str

    def __str__(self) -> str:
        return f"{self.field}: {self.value} is ignored: {self.why}"


class Translation(msgspec.Struct, frozen=True):
    """A file of Kueue's in our names: `values`, and `defaults` for what it leaves out.

    `names` has the field of Kueue's behind each setting.
    """

    values: Tree
    defaults: Tree
    names: Mapping[Parts, str]
    ignored: tuple[Ignored, ...]

    def name(self, path: tuple[str | int, ...]) -> str:
        """Kueue's name for a setting, for what is within one, or for a group of them."""
        for length in range(len(path), 0, -1):
            if path[:length] in self.names:
                return spelled((self.names[path[:length]], *path[length:]))  # type: ignore[index]  # it is in there
        within = [name for setting, name in self.names.items() if setting[: len(path)] == path]
        return ", ".join(dict.fromkeys(within)) or spelled(path)


def _as_it_is(value: Any) -> tuple[Any, ...]:
    return (value,)


def _whole(value: Any) -> Any:
    return value


def _nothing(_value: Any) -> Any:
    return None


def _never(_tree: Tree) -> str:
    return ""


class Field(msgspec.Struct, frozen=True, kw_only=True):
    """One field of Kueue's and its fate.

    `path` says where it is, with `*` for any key. `to` are the settings it means and `convert` their values, which
    raises ValueError "expected ...". `unheeded` is what of its value has no effect, if anything, and `why` the reason;
    a value that is `fine` asks for what is done in any case. `off` says why it has no effect in a given file, if so.
    `default` is what it stands for when it is left out, in the words of `left_out`; without it, or if that is None, our
    own default holds.
    `versions` are those that have it, from the release `since` on if that is not the first we know, and up to the release
    `until`: a newer Kueue does not start with it, unless its value is `fine`. One that `is_group` and means something by
    being there has fields of its own.
    """

    path: Parts
    to: tuple[Parts, ...] = ()
    convert: Callable[[Any], tuple[Any, ...]] = _as_it_is
    unheeded: Callable[[Any], Any] = _nothing
    fine: tuple[Any, ...] = ()
    why: str = ""
    off: Callable[[Tree], str] = _never
    default: Callable[[Tree, str], Any] | None = None
    left_out: str = ""
    versions: Literal["both", "v1beta1", "v1beta2"] = "both"
    since: str = FIRST
    until: str = NEWEST
    is_group: bool = False

    @property
    def name(self) -> str:
        return spelled(self.path)

    def settings(self, value: Any) -> dict[Parts, Any]:
        return dict(zip(self.to, self.convert(value), strict=True)) if self.to else {}


def is_kueues(tree: Mapping[Any, Any], path: Path) -> bool:
    """Whether this is Kueue's configuration rather than ours. Raises ConfigurationError if it is another object."""
    if "apiVersion" not in tree and "kind" not in tree:
        return False
    version, kind = tree.get("apiVersion"), tree.get("kind")
    if kind != "Configuration":
        raise ConfigurationError(f"{path}: kind: expected Configuration ({GROUP}), got {shown(kind)}")
    known = [f"{GROUP}/{each}" for each in VERSIONS]
    if version not in known:
        raise ConfigurationError(f"{path}: apiVersion: expected {' or '.join(known)}, got {shown(version)}")
    return True


def translate(tree: Mapping[Any, Any], path: Path, release: str = NEWEST) -> Translation:
    """The file as settings, with the defaults of a release.

    Raises ConfigurationError that names the file and each field at fault, with what it expected."""
    reading = _Reading(str(path), tree, str(tree["apiVersion"]).removeprefix(f"{GROUP}/"), release)
    reading.group(tree, ())
    if reading.problems:
        raise ConfigurationError("\n".join(f"{path}: {problem}" for problem in reading.problems))
    return Translation(reading.values, reading.defaults(), reading.names, tuple(reading.ignored))


@dataclass(slots=True)
class _Reading:
    """The settings found so far on the way through a file."""

    place: str
    tree: Tree
    version: str
    release: str
    values: dict[str, Any] = field(default_factory=dict)
    names: dict[Parts, str] = field(default_factory=dict)
    given: set[Parts] = field(default_factory=set)
    ignored: list[Ignored] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def group(self, tree: Mapping[Any, Any], at: Parts) -> None:
        for key, value in tree.items():
            where = (*at, key if isinstance(key, str) else shown(key))
            known = _BY_PATH.get(where) or _BY_PATH.get((*at, "*"))
            if where in (("apiVersion",), ("kind",)):
                continue
            if known is not None and known.versions in ("both", self.version):
                if value is None:
                    continue
                self.field(where, known, value)
                if known.is_group and isinstance(value, Mapping):
                    self.group(value, where)
            elif where not in _GROUPS:
                self.problems.append(f"{spelled(where)}: {self.instead(where, known)}")
            elif value is None:
                continue
            elif isinstance(value, Mapping):
                self.group(value, where)
            else:
                self.problems.append(f"{spelled(where)}: expected a mapping, got {shown(value)}")

    def field(self, where: Parts, known: Field, value: Any) -> None:
        off = known.off(self.tree)
        if off:
            self.ignore(where, value, off)
            return
        if _is_older(known.until, self.release):
            if value not in known.fine:
                self.ignore(where, value, f"Kueue {self.release} leaves no choice")
            return
        try:
            settings = known.settings(value)
        except ValueError as error:
            self.problems.append(f"{spelled(where)}: {error}, got {shown(value)}")
            return
        self.given.add(known.path)
        for setting, meant in settings.items():
            _put(self.values, setting, meant)
            self.names[setting] = spelled(where)
        rest = known.unheeded(value)
        if rest is not None and value not in known.fine:
            self.ignore(where, rest, known.why)

    def instead(self, where: Parts, known: Field | None) -> str:
        """What was expected in the place of a field that this version has not."""
        if known is not None:
            return f"expected in {known.versions} only, and Kueue does not start with it in {self.version}"
        level = [
            path[len(where) - 1]
            for path, versions in _VERSIONS.items()
            if _is_beside(path, where, versions, self.version)
        ]
        return f"expected {instead_of(where[-1], dict.fromkeys(level))}, and Kueue does not start with it"

    def ignore(self, where: Parts, value: Any, why: str) -> None:
        self.ignored.append(Ignored(spelled(where), shown(value), why, self.place))

    def defaults(self) -> Tree:
        """Kueue's own default for an absent field, if it matters to another field."""
        values: dict[str, Any] = {}
        for known in FIELDS:
            value = known.default(self.tree, self.release) if known.default and known.path not in self.given else None
            if value is not None:
                for setting, meant in known.settings(value).items():
                    _put(values, setting, meant)
        return values


def _is_older(one: str, other: str) -> bool:
    """Whether one release is before another. What is none is refused when the settings are made."""
    return one in RELEASES and other in RELEASES and RELEASES.index(one) < RELEASES.index(other)


def _put(tree: dict[str, Any], path: Parts, value: Any) -> None:
    for part in path[:-1]:
        tree = tree.setdefault(part, {})
    tree[path[-1]] = value


def _is_beside(path: Parts, where: Parts, versions: str, version: str) -> bool:
    return len(path) >= len(where) and path[: len(where) - 1] == where[:-1] and versions in ("both", version)


# What values mean.


def _address(value: Any) -> tuple[Any, ...]:
    """Host and port of a Go address; the port is None where Kueue would not serve."""
    if value in ("", "0"):
        return (EVERYWHERE, None)
    host, colon, port = value.rpartition(":") if isinstance(value, str) else ("", "", "")
    if not colon or re.fullmatch(r"[0-9]{1,5}", port) is None or int(port) > 65535:
        raise ValueError("expected an address such as :8081, or 0 for none")
    return (host.strip("[]") or EVERYWHERE, int(port))


def _by_being_there(value: Any) -> tuple[Any, ...]:
    if not isinstance(value, Mapping):
        raise ValueError("expected a mapping")
    return (True,)


def _dispatcher(value: Any) -> tuple[Any, ...]:
    if not isinstance(value, str) or not value:
        raise ValueError("expected the name of a dispatcher")
    return ({ALL_AT_ONCE: "all-at-once", INCREMENTAL: "incremental"}.get(value, "external"),)


def _switch(on: Any, off: Any) -> Callable[[Any], tuple[Any, ...]]:
    """A feature gate for a setting that is more than true or false."""

    def convert(value: Any) -> tuple[Any, ...]:
        if not isinstance(value, bool):
            raise ValueError("expected true or false")
        return (on if value else off,)

    return convert


def _origin(value: Any) -> tuple[Any, ...]:
    return ("multikueue" if value == "" else value,)


def _providers(value: Any) -> tuple[Any, ...]:
    """Kueue's list of providers in our words. A value that is no list of mappings is left for the settings to refuse."""
    if not isinstance(value, list):
        return (value,)
    return ([_renamed(each, {"execConfig": "exec"}, exec=_command) for each in value],)


def _command(value: Any) -> Any:
    """The command of a provider; what a process without a terminal has no use for is left out."""
    names = {"apiVersion": "api_version", "provideClusterInfo": "provide_cluster_info"}
    without = ("installHint", "interactiveMode")
    renamed = _renamed(value, names)
    if not isinstance(renamed, dict):
        return renamed
    return {name: each for name, each in renamed.items() if name not in without and each is not None}


def _transformations(value: Any) -> tuple[Any, ...]:
    """A value that is no list of mappings is left for the settings to refuse."""
    return ([_renamed(each, {"multiplyBy": "multiply_by"}) for each in value] if isinstance(value, list) else value,)


def _device_classes(value: Any) -> tuple[Any, ...]:
    """Mappings whose devices count by number. A value that is no list of mappings is left for the settings to refuse."""
    if not isinstance(value, list):
        return (value,)
    by_number = (each for each in value if not _sources(each))
    return ([_without(_renamed(each, {"deviceClassNames": "device_class_names"}), "sources") for each in by_number],)


def _sources(mapping: Any) -> Any:
    return mapping.get("sources") if isinstance(mapping, Mapping) else None


def _by_sources(value: Any) -> Any:
    """The mappings whose devices count by counters or capacity."""
    return [each for each in value if _sources(each)] or None if isinstance(value, list) else None


def _without(value: Any, name: str) -> Any:
    return {key: each for key, each in value.items() if key != name} if isinstance(value, dict) else value


def _renamed(value: Any, names: Mapping[str, str], **inner: Callable[[Any], Any]) -> Any:
    if not isinstance(value, Mapping):
        return value
    renamed = {names.get(name, name): each for name, each in value.items()}
    return {name: inner.get(str(name), _whole)(each) for name, each in renamed.items()}


def _namespace(_tree: Tree, _release: str) -> str:
    try:
        return NAMESPACE_FILE.read_text().strip() or "kueue-system"
    except (OSError, UnicodeDecodeError):
        return "kueue-system"


# What has no effect.


def _frameworks(value: Any) -> tuple[Any, ...]:
    if not isinstance(value, list):
        raise ValueError("expected a list of names")
    for name in map(str, value):
        if name not in FRAMEWORKS and name not in NOT_COVERED:
            raise ValueError(f"expected {_framework_like(name)}, and Kueue does not start with it")
    return (tuple(each for each in map(str, value) if each in FRAMEWORKS),)


def _selector(value: Any) -> tuple[Any, ...]:
    """A LabelSelector in the words of kubectl. An empty one selects all."""
    if not isinstance(value, Mapping) or not set(value) <= {"matchLabels", "matchExpressions"}:
        raise ValueError("expected a label selector with matchLabels and matchExpressions")
    labels, expressions = value.get("matchLabels") or {}, value.get("matchExpressions") or []
    if not isinstance(labels, Mapping) or not isinstance(expressions, list):
        raise ValueError("expected a mapping of matchLabels and a list of matchExpressions")
    return (",".join([*(f"{key}={each}" for key, each in labels.items()), *map(_term, expressions)]),)


def _term(expression: Any) -> str:
    match expression:
        case {"key": str(key), "operator": "In" | "NotIn" as operator, "values": [_, *_] as values}:
            return f"{key} {operator.lower()} ({','.join(map(str, values))})"
        case {"key": str(key), "operator": "Exists" | "DoesNotExist" as operator}:
            return key if operator == "Exists" else f"!{key}"
    raise ValueError("expected key, operator In, NotIn, Exists or DoesNotExist, and values in matchExpressions")


def _framework_like(name: str) -> str:
    """The framework that was meant: the one of that name in a group, or the nearest."""
    known = (*FRAMEWORKS, *NOT_COVERED)
    named = [each for each in known if each.rpartition("/")[2] == name.rpartition("/")[2].lower()]
    return f"{named[0]!r}; there is no {shown(name)}" if named else instead_of(name, known)


def _names(value: Any) -> tuple[Any, ...]:
    """Kueue's list of objects with nothing but a name. What is none is left for the settings to refuse."""
    if not isinstance(value, list):
        return (value,)
    return ([each["name"] if isinstance(each, Mapping) and set(each) == {"name"} else each for each in value],)


def _uncovered(value: Any) -> Any:
    """The frameworks that are not covered."""
    return [each for each in value if str(each) not in FRAMEWORKS] or None if isinstance(value, list) else None


def _within(tree: Tree, *path: str) -> Any:
    found: Any = tree
    for part in path:
        found = found.get(part) if isinstance(found, Mapping) else None
    return found


def _switched_off(group: str) -> Callable[[Tree], str]:
    """v1beta1 has a switch for this group, and it is off until it is on; in v1beta2 the group is the switch."""

    def off(tree: Tree) -> str:
        is_old = tree.get("apiVersion") == f"{GROUP}/v1beta1"
        return f"{group}.enable is not true" if is_old and _within(tree, group, "enable") is not True else ""

    return off


def _blocks_unless_told(tree: Tree, _release: str) -> bool | None:
    """Whether pods that are not ready block all others where the file does not say: in v1beta1 they do."""
    is_old = tree.get("apiVersion") == f"{GROUP}/v1beta1"
    return True if is_old and _within(tree, "waitForPodsReady", "enable") is True else None


def _waits_unless_told(tree: Tree, release: str) -> dict[str, Any] | None:
    """Since 0.19 pods are waited for where the file does not say, unless a feature gate says so."""
    is_new = tree.get("apiVersion") != f"{GROUP}/v1beta1"
    return {} if is_new and _is_waiting_default(release) and not _is_waiting_disabled(tree) else None


def _patience(tree: Tree, release: str) -> str | None:
    is_new = tree.get("apiVersion") != f"{GROUP}/v1beta1"
    return "30m" if is_new and _is_waiting_default(release) else None


def _is_waiting_default(release: str) -> bool:
    return release not in ("0.16", "0.18")


def _is_waiting_disabled(tree: Tree) -> bool:
    return _within(tree, "featureGates", "DisableWaitForPodsReady") is True


def _never_waits(tree: Tree) -> str:
    return "featureGates.DisableWaitForPodsReady is true" if _is_waiting_disabled(tree) else ""


def _not_incremental(tree: Tree) -> str:
    name = _within(tree, "multiKueue", "dispatcherName")
    return "" if name == INCREMENTAL else f"dispatcherName is not {INCREMENTAL}"


def _gated_off(gate: str) -> Callable[[Tree], str]:
    def off(tree: Tree) -> str:
        return f"featureGates.{gate} is false" if _within(tree, "featureGates", gate) is False else ""

    return off


def _own_certificate(tree: Tree) -> str:
    return (
        "internalCertManagement.enable is false" if _within(tree, "internalCertManagement", "enable") is False else ""
    )


# The table, in the order of Kueue's own documentation.

_LATER = "not supported yet"
_BY_NUMBER = "devices are counted by number, not by counters or capacity"


def _path(text: str) -> Parts:
    """`a.b[c.d]` to its parts."""
    plain, bracket, key = text.removesuffix("]").partition("[")
    return (*plain.split("."), *([key] if bracket else ()))


def _means(path: str, *to: str, **more: Any) -> Field:
    return Field(path=_path(path), to=tuple(tuple(each.split(".")) for each in to), **more)


def _ignored(path: str, why: str, **more: Any) -> Field:
    return Field(**{"path": _path(path), "why": why, "unheeded": _whole, **more})


FIELDS: tuple[Field, ...] = (
    _means("namespace", "cluster.namespace", default=_namespace, left_out="the pod's namespace, or kueue-system"),
    _means("webhook.port", "webhook.port", convert=lambda value: (9443 if value == 0 else value,)),
    _means("webhook.host", "webhook.host", convert=lambda value: (EVERYWHERE if value == "" else value,)),
    _ignored("webhook.certDir", "the webhook makes its own certificate"),
    _means("leaderElection.leaderElect", "leader_election.enabled", default=lambda *_: True, left_out="true"),
    _means("leaderElection.leaseDuration", "leader_election.lease_duration"),
    _means("leaderElection.renewDeadline", "leader_election.renew_deadline"),
    _means("leaderElection.retryPeriod", "leader_election.retry_period"),
    _ignored(
        "leaderElection.resourceLock",
        "a Lease is used",
        fine=(
            "",
            "leases",
        ),
    ),
    _ignored(
        "leaderElection.resourceName",
        "the Lease is our own, leader_election.resource_name: with Kueue's, one of the two would never act",
    ),
    _ignored("leaderElection.resourceNamespace", "the Lease is in cluster.namespace"),
    _means("metrics.bindAddress", "metrics.host", "metrics.port", convert=_address),
    _means("metrics.enableClusterQueueResources", "metrics.enable_cluster_queue_resources"),
    _means("metrics.localQueueMetrics.enable", "metrics.enable_local_queues", since="0.17"),
    _ignored("metrics.localQueueMetrics.localQueueSelector", "those of all LocalQueues or of none", since="0.17"),
    _ignored("metrics.customLabels", _LATER, fine=([],), since="0.17"),
    _means(
        "health.healthProbeBindAddress",
        "probes.host",
        "probes.port",
        convert=_address,
        default=lambda *_: ":8081",
        left_out=":8081",
    ),
    _ignored(
        "health.readinessEndpointName",
        "the endpoint is /readyz",
        fine=(
            "",
            "readyz",
            "/readyz",
        ),
    ),
    _ignored(
        "health.livenessEndpointName",
        "the endpoint is /healthz",
        fine=(
            "",
            "healthz",
            "/healthz",
        ),
    ),
    _ignored(
        "pprofBindAddress",
        "there is no profile to serve",
        fine=(
            "",
            "0",
        ),
    ),
    _ignored(
        "controller.groupKindConcurrency.*",
        "made for threads; what a loop of ours looks at at once costs memory only: dispatch.concurrency",
    ),
    _ignored("controller.cacheSyncTimeout", "caches are waited for as long as it takes"),
    _ignored(
        "tls.minVersion",
        _LATER,
        fine=(
            "",
            "VersionTLS12",
        ),
    ),
    _ignored("tls.cipherSuites", _LATER, fine=([],)),
    _ignored("tls.curvePreferences", _LATER, fine=([],), since="0.19"),
    _ignored(
        "manageJobsWithoutQueueName",
        "only jobs that name a queue are taken in, and those that get the LocalQueue default by webhook.default_queue",
        fine=(False,),
    ),
    _means("managedJobsNamespaceSelector", "integrations.managed_namespaces", convert=_selector),
    _ignored("internalCertManagement.enable", "the webhook makes its own certificate", fine=(True,)),
    _means("internalCertManagement.webhookServiceName", "webhook.service_name", off=_own_certificate),
    _ignored("internalCertManagement.webhookSecretName", "the Secret has a name of our own"),
    _means(
        "waitForPodsReady",
        "quota.pods_ready.enabled",
        convert=_by_being_there,
        is_group=True,
        versions="v1beta2",
        default=_waits_unless_told,
        left_out="on since 0.19",
        off=_never_waits,
    ),
    _means("waitForPodsReady.enable", "quota.pods_ready.enabled", versions="v1beta1"),
    _means(
        "waitForPodsReady.timeout",
        "quota.pods_ready.timeout",
        off=_switched_off("waitForPodsReady"),
        default=_patience,
        left_out="30m since 0.19",
    ),
    _means(
        "waitForPodsReady.blockAdmission",
        "quota.pods_ready.block_admission",
        off=_switched_off("waitForPodsReady"),
        default=_blocks_unless_told,
        left_out="true in v1beta1 and false in v1beta2",
    ),
    _means(
        "waitForPodsReady.recoveryTimeout",
        "quota.pods_ready.recovery_timeout",
        off=_switched_off("waitForPodsReady"),
    ),
    _ignored("waitForPodsReady.unscheduledTimeout", _LATER, versions="v1beta2", since="0.20"),
    _ignored(
        "waitForPodsReady.maxTimeoutOnWorkload",
        "no job has a timeout of its own, all have waitForPodsReady.timeout",
        versions="v1beta2",
        since="0.20",
    ),
    _means(
        "waitForPodsReady.requeuingStrategy.timestamp",
        "quota.pods_ready.requeuing_timestamp",
        off=_switched_off("waitForPodsReady"),
    ),
    _means(
        "waitForPodsReady.requeuingStrategy.backoffLimitCount",
        "quota.pods_ready.backoff_limit_count",
        off=_switched_off("waitForPodsReady"),
    ),
    _means(
        "waitForPodsReady.requeuingStrategy.backoffBaseSeconds",
        "quota.requeue_first",
        off=_switched_off("waitForPodsReady"),
    ),
    _means(
        "waitForPodsReady.requeuingStrategy.backoffMaxSeconds",
        "quota.requeue_cap",
        off=_switched_off("waitForPodsReady"),
    ),
    _ignored("clientConnection.qps", "calls are limited by how many are under way, not by rate"),
    _ignored("clientConnection.burst", "calls are limited by how many are under way, not by rate"),
    _means(
        "integrations.frameworks",
        "integrations.frameworks",
        convert=_frameworks,
        unheeded=_uncovered,
        why="not covered yet",
    ),
    _ignored("integrations.externalFrameworks", "any Workload is queued, whoever made it", fine=([],)),
    _means("integrations.labelKeysToCopy", "integrations.label_keys_to_copy"),
    _ignored(
        "integrations.podOptions",
        "Kueue ignores it as well: managedJobsNamespaceSelector has taken its place",
        versions="v1beta1",
    ),
    _means("multiKueue.gcInterval", "dispatch.gc_interval"),
    _means("multiKueue.origin", "dispatch.origin", convert=_origin),
    _means("multiKueue.workerLostTimeout", "dispatch.worker_lost_timeout"),
    _means("multiKueue.dispatcherName", "dispatch.strategy.name", convert=_dispatcher),
    _means(
        "multiKueue.incrementalDispatcherConfig.stepSize",
        "dispatch.strategy.options.step",
        off=lambda tree: _not_incremental(tree) or _gated_off("MultiKueueIncrementalDispatcherConfig")(tree),
        versions="v1beta2",
        since="0.19",
    ),
    _means(
        "multiKueue.externalFrameworks",
        "integrations.external",
        convert=_names,
        off=_gated_off("MultiKueueAdaptersForCustomJobs"),
    ),
    _means(
        "multiKueue.clusterProfile.credentialsProviders",
        "dispatch.cluster_profile.access_providers",
        convert=_providers,
        versions="v1beta2",
    ),
    _means(
        "multiKueue.clusterProfile.accessProviders",
        "dispatch.cluster_profile.access_providers",
        convert=_providers,
        versions="v1beta2",
        since="0.19",
    ),
    _means("fairSharing", "quota.fair_sharing", convert=_by_being_there, is_group=True, versions="v1beta2"),
    _means("fairSharing.enable", "quota.fair_sharing", versions="v1beta1"),
    _means(
        "fairSharing.preemptionStrategies",
        "quota.preemption_strategies",
        convert=lambda value: (list(FAIR_STRATEGIES) if value == [] else value,),
        off=_switched_off("fairSharing"),
    ),
    _means("admissionFairSharing", "quota.admission_fair_sharing.enabled", convert=_by_being_there, is_group=True),
    _means("admissionFairSharing.usageHalfLifeTime", "quota.admission_fair_sharing.usage_half_life_time"),
    _means(
        "admissionFairSharing.usageSamplingInterval",
        "quota.admission_fair_sharing.usage_sampling_interval",
        convert=lambda value: ("5m" if value in ("0", "0s") else value,),
    ),
    _means("admissionFairSharing.resourceWeights", "quota.admission_fair_sharing.resource_weights"),
    _means("resources.excludeResourcePrefixes", "quota.exclude_resource_prefixes"),
    _means("resources.transformations", "quota.transformations", convert=_transformations),
    _means(
        "resources.deviceClassMappings",
        "quota.dra.device_class_mappings",
        convert=_device_classes,
        unheeded=_by_sources,
        why=f"{_BY_NUMBER}, so work that claims devices of these classes waits",
    ),
    _means("resources.quotaCheckStrategy", "quota.check_strategy", versions="v1beta2", since="0.18"),
    _means("featureGates.AdmissionGatedBy", "quota.admission_gates", since="0.17"),
    _means("featureGates.KueueDRAIntegration", "quota.dra.enabled", since="0.18"),
    _ignored(
        "featureGates.KueueDRARejectWorkloadsWhenDRADisabled",
        "where devices are not counted, work that claims some waits",
        fine=(True,),
        since="0.18",
    ),
    _means("featureGates.KueueDRAIntegrationExtendedResource", "quota.dra.extended_resources", since="0.18"),
    _ignored("featureGates.KueueDRAIntegrationPartitionableDevices", _BY_NUMBER, fine=(False,), since="0.18"),
    _ignored("featureGates.KueueDRAIntegrationConsumableCapacity", _BY_NUMBER, fine=(False,), since="0.19"),
    _means("featureGates.DynamicResourceAllocation", "quota.dra.enabled", until="0.16", fine=(False,)),
    _ignored(
        "featureGates.ConcurrentAdmission", "Kueue rejects it beside a check of MultiKueue", fine=(False,), since="0.18"
    ),
    _ignored(
        "featureGates.WorkloadIdentifierAnnotations",
        "quota.compatibility says whether annotations name Workloads and groups: since 0.18",
        fine=(True,),
        since="0.17",
    ),
    _means("featureGates.UnadmittedWorkloadsObservability", "quota.unadmitted_reasons", since="0.19"),
    _means("featureGates.UnadmittedWorkloadsExplicitStatus", "quota.explicit_status", since="0.19"),
    _means(
        "featureGates.MultiKueueIncrementalDispatcherRespectConfigOrder",
        "dispatch.strategy.options.order",
        convert=_switch("config", "name"),
        off=_not_incremental,
    ),
    _ignored(
        "featureGates.MultiKueueBatchJobWithManagedBy",
        "batch Jobs need managedBy, as with Kueue since 0.17",
        fine=(True,),
    ),
    _means("featureGates.MultiKueue", "integrations.kueue_holds_pods"),
    _ignored(
        "featureGates.MultiKueueWaitForWorkloadAdmitted",
        "a worker wins once it has admitted the work, as in Kueue since 0.18",
        fine=(True,),
    ),
    _ignored(
        "featureGates.MultiKueueRedoAdmissionOnEvictionInWorker",
        "work that its worker evicts is dispatched again, as in Kueue since 0.18",
        fine=(True,),
    ),
    _means("featureGates.MultiKueueOrchestratedPreemption", "dispatch.orchestrated_preemption", since="0.17"),
    _means("featureGates.MultiKueueManagerQuotaAutomation", "capacity_follow.quota_management", since="0.18"),
    _means("featureGates.MultiKueueClusterProfile", "dispatch.cluster_profile.enabled"),
    _means(
        "featureGates.MultiKueueAllowInsecureKubeconfigs",
        "dispatch.insecure_kubeconfigs",
        until="0.18",
        fine=(False,),
    ),
    _means(
        "featureGates.MultiKueueKubeConfigPathValidation",
        "dispatch.kubeconfig_directory",
        convert=_switch(str(KUBECONFIGS), None),
        since="0.19",
    ),
    _ignored("featureGates.DisableWaitForPodsReady", "it says whether another field counts", fine=(True, False)),
    _means("featureGates.LocalQueueDefaulting", "webhook.default_queue"),
    _means("featureGates.ElasticJobsViaWorkloadSlices", "integrations.elastic_jobs"),
    _means("featureGates.LocalQueueMetrics", "metrics.enable_local_queues"),
    *(
        _ignored(f"featureGates.{gate}", "it says whether other fields count", fine=(True, False))
        for gate in GATES_OF_FIELDS
    ),
    _ignored("featureGates.VisibilityOnDemand", "visibility.enabled says whether", fine=(False,)),
    _ignored("featureGates.*", "feature gates of Kueue have no meaning here"),
    _means("objectRetentionPolicies.workloads.afterFinished", "retention.after_finished"),
    _means("objectRetentionPolicies.workloads.afterDeactivatedByKueue", "retention.after_deactivated"),
    _means("objectRetentionPolicies.remoteObjects.afterFinished", "retention.copies", versions="v1beta2", since="0.21"),
    _means("visibilityServer.bindAddress", "visibility.host", versions="v1beta2", since="0.17"),
    _means("visibilityServer.bindPort", "visibility.port", versions="v1beta2", since="0.17"),
    _ignored("queueVisibility", "pending workloads are shown on demand", versions="v1beta1"),
)

_BY_PATH = {known.path: known for known in FIELDS}
_VERSIONS = {known.path: known.versions for known in FIELDS}
_GROUPS = {known.path[:length] for known in FIELDS for length in range(1, len(known.path))}
