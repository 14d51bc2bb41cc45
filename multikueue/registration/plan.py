"""The objects that must exist on a worker and on the manager, as plain dicts. Pure.

The rights on the worker are those of contract 6.6 that we use, and no others.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterable, Mapping
from hashlib import sha256
from itertools import groupby
from typing import Any

import msgspec

from multikueue.api.kind import Kind
from multikueue.api.kinds import MULTIKUEUE_CLUSTERS, MULTIKUEUE_CONFIGS, NAMESPACES, PODS, SECRETS, SERVICE_ACCOUNTS
from multikueue.api.kubernetes.builtins import is_namespace
from multikueue.api.meta import Object, ObjectKey
from multikueue.api.multikueue.clusters import KUBECONFIG_KEY
from multikueue.errors import ConfigurationError
from multikueue.jobs.integrations.frameworks import FRAMEWORKS
from multikueue.registration.choices import OUR_NAME
from multikueue.store.workers.watch_scope import EVERYWHERE, NAMESPACES_ANNOTATION

__all__ = [
    "COMPARED_RIGHTS",
    "FOLLOWED_RIGHTS",
    "GRANTED",
    "IDENTITY",
    "JOB_KINDS",
    "LABELS",
    "MAKE_QUEUES",
    "MANAGER_UID_ANNOTATION",
    "MOST_CLUSTERS",
    "OPTIONAL_KINDS",
    "RIGHTS",
    "ROLES",
    "ROLE_BINDINGS",
    "RUN_PODS",
    "VIEW_PODS",
    "Registration",
    "Right",
    "Wanted",
    "copy_rights",
    "manager_objects",
    "worker_objects",
]

MANAGED_BY_LABEL = "app.kubernetes.io/managed-by"
LABELS = {MANAGED_BY_LABEL: OUR_NAME}

MOST_CLUSTERS = 20
"""The maximum in the spec of one MultiKueueConfig (contract 1.3)."""

MANAGER_UID_ANNOTATION = "multikueue.dev/manager-uid"
"""On the worker's ClusterRole: the manager cluster that the account is for, by the UID of its namespace kube-system."""

RBAC = "rbac.authorization.k8s.io"
CLUSTER_ROLES = Kind(RBAC, "v1", "clusterroles", "ClusterRole", False, Object)
CLUSTER_ROLE_BINDINGS = Kind(RBAC, "v1", "clusterrolebindings", "ClusterRoleBinding", False, Object)
ROLES = Kind(RBAC, "v1", "roles", "Role", True, Object)
ROLE_BINDINGS = Kind(RBAC, "v1", "rolebindings", "RoleBinding", True, Object)

_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_LABEL_VALUE = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")

# --- the rights on the worker ----------------------------------------------------------------------------------------

_COPY = ("get", "list", "watch", "create", "delete")
_CHANGED = frozenset({("batch", "jobs"), ("ray.io", "rayclusters"), ("", "pods")})
"""Resources whose copies are patched: Jobs and RayClusters (elastic ones) and Pods (Kueue's finalizer). Other copies are
replaced."""


class Right(msgspec.Struct, frozen=True):
    """Verbs on one resource (or `resource/subresource`) of one API group, or on its object of that `name`. A
    `namespaced` right may be limited to some namespaces."""

    group: str
    resource: str
    verbs: tuple[str, ...]
    name: str = ""
    is_namespaced: bool = True

    def __str__(self) -> str:
        what = f"{self.resource}.{self.group}" if self.group else self.resource
        return f"{what}/{self.name}" if self.name else what


IDENTITY = Right("", "namespaces", ("get",), "kube-system", is_namespaced=False)
"""Identifies the cluster. A worker registered without it works, but cannot be told from another."""

COMPARED_RIGHTS = (
    Right("", "limitranges", ("list",)),
    Right("node.k8s.io", "runtimeclasses", ("list",), is_namespaced=False),
    Right("scheduling.k8s.io", "priorityclasses", ("list",), is_namespaced=False),
    Right("kueue.x-k8s.io", "workloadpriorityclasses", ("list",), is_namespaced=False),
    Right("resource.k8s.io", "resourceclaimtemplates", ("list",)),
    Right("resource.k8s.io", "deviceclasses", ("list",), is_namespaced=False),
)
"""Granted so that people can compare them with the manager's (`quota.visibility.differences`). No decision needs them."""

QUEUE_RIGHTS = (
    Right("kueue.x-k8s.io", "workloads", (*_COPY, "patch")),
    Right("kueue.x-k8s.io", "workloads/status", ("patch",)),
    Right("kueue.x-k8s.io", "clusterqueues", ("list",), is_namespaced=False),
    Right("kueue.x-k8s.io", "localqueues", ("list",)),
)

_KINDS = tuple(adapter.kind for adapter in FRAMEWORKS.values())

JOB_KINDS = tuple(kind for kind in _KINDS if not kind.is_optional)
"""The kinds of jobs that every worker must have."""

OPTIONAL_KINDS = tuple(kind for kind in _KINDS if kind.is_optional)
"""The kinds it may have, from `jobs.integrations.frameworks`. A new one gets its rights at the next registration."""


def _job_rights(kinds: Iterable[Kind[Any]]) -> tuple[Right, ...]:
    return copy_rights((kind.group, kind.plural) for kind in kinds)


def copy_rights(resources: Iterable[tuple[str, str]]) -> tuple[Right, ...]:
    """The rights on copies of jobs, given groups and plurals."""
    return tuple(
        Right(group, plural, (*_COPY, "patch") if (group, plural) in _CHANGED else _COPY) for group, plural in resources
    )


FOLLOWED_RIGHTS = (
    Right("kueue.x-k8s.io", "clusterqueues", ("watch",), is_namespaced=False),
    Right("kueue.x-k8s.io", "localqueues", ("watch",)),
)
"""Granted so that quotas follow the worker's at once (`capacity_follow`). Without them they do so at intervals."""

ROOM_RIGHTS = (
    Right("kueue.x-k8s.io", "cohorts", ("list", "watch"), is_namespaced=False),
    Right("kueue.x-k8s.io", "resourceflavors", ("list", "watch"), is_namespaced=False),
)
"""Granted so that a strategy may choose by what workers have room for. Without them less is known."""

RIGHTS = (*QUEUE_RIGHTS, *_job_rights(JOB_KINDS))
"""The rights that a worker must grant."""

GRANTED = (*RIGHTS, *_job_rights(kind for kind in OPTIONAL_KINDS if kind != PODS))
"""The rights granted when a worker joins, unless frameworks are named."""

MAKE_QUEUES = (
    Right("", "namespaces", ("get", "create"), is_namespaced=False),
    Right("kueue.x-k8s.io", "localqueues", ("get", "create")),
)
"""Granted too so that the manager makes the queues that the worker lacks of its own (`controllers.fleet.worker_queues`)."""

RUN_PODS = _job_rights((PODS,))
"""Granted too if Pods are jobs, and only then: a client that may create any Pod may do nearly anything its node may."""

VIEW_PODS = (
    Right("", "pods", ("get", "list", "watch")),
    Right("", "pods/log", ("get",)),
    Right("", "events", ("list", "watch")),
)
"""Granted too so that people can read pods with the manager's credential, or ask the manager for those of their workloads
(`controllers.serving.remote_reads`). No decision needs them."""


# --- the names -------------------------------------------------------------------------------------------------------


class Registration(msgspec.Struct, frozen=True, kw_only=True):
    """A worker that joins, and its names.

    `namespace` has the Secret on the manager and the ServiceAccount on the worker. `may_run_pods`: the manager may create
    Pods. `may_view_pods`: holders of the Secret may read them. `may_make_queues`: the manager may make LocalQueues, and
    namespaces unless the worker offers some only. `frameworks` are the known kinds of jobs that it may create
    besides Jobs, by the names of Kueue's integrations (default: all but Pods), `run_kinds` further ones, each as
    plural.group. `run_in` are the namespaces of these rights (default: all). `profile`: the ClusterProfile by which the manager
    reaches it, in place of a Secret. Raises ConfigurationError for a name that Kubernetes would refuse.
    """

    cluster: str
    namespace: str = "kueue-system"
    origin: str = OUR_NAME
    may_run_pods: bool = False
    frameworks: tuple[str, ...] = ()
    may_view_pods: bool = False
    may_make_queues: bool = False
    run_kinds: tuple[str, ...] = ()
    run_in: tuple[str, ...] = ()
    profile: str = ""

    def __post_init__(self) -> None:
        if not is_name(self.cluster) or not is_name(self.secret.name):
            raise ConfigurationError(
                f"cluster name {self.cluster!r}: expected lower case letters, digits, '-' and '.', at most 242 of them"
            )
        for namespace in (self.namespace, *self.run_in):
            if not is_namespace(namespace):
                raise ConfigurationError(
                    f"namespace {namespace!r}: expected lower case letters, digits and '-', at most 63 of them"
                )
        if not _LABEL_VALUE.fullmatch(self.origin):
            raise ConfigurationError(
                f"origin {self.origin!r}: expected a label value: letters, digits, '-', '_' and '.', at most 63 of them"
            )

        for name in self.frameworks:
            if name not in FRAMEWORKS:
                raise ConfigurationError(f"framework {name!r}: expected some of {', '.join(FRAMEWORKS)}")
            if FRAMEWORKS[name].kind == PODS:
                raise ConfigurationError(f"framework {name!r}: the right to make Pods is --run-pods")
        for kind in self.run_kinds:
            if not is_name(kind) or "." not in kind:
                raise ConfigurationError(
                    f"kind {kind!r}: expected its plural and its group, as in jobsets.jobset.x-k8s.io"
                )

    @property
    def namespaces(self) -> tuple[str, ...]:
        """The namespaces that the worker offers, as the store has them."""
        return tuple(sorted(set(self.run_in))) or EVERYWHERE

    @property
    def secret(self) -> ObjectKey:
        return ObjectKey(self.namespace, f"{OUR_NAME}-{self.cluster}")

    @property
    def account(self) -> ObjectKey:
        """The ServiceAccount; role and binding share its name. One set for each manager (origin) of the worker."""
        name = OUR_NAME if self.origin == OUR_NAME else f"{OUR_NAME}-{_as_name(self.origin)}"
        return ObjectKey(self.namespace, name)

    @property
    def renewal(self) -> ObjectKey:
        """The Role by which the account renews its own token, and its binding: no account of another origin is called so."""
        return ObjectKey(self.namespace, f"{self.account.name}:renewal")

    @property
    def user(self) -> str:
        """The user name in a client certificate."""
        return f"{OUR_NAME}:{self.origin}"


def is_name(text: str) -> bool:
    """Whether the text is an RFC 1123 subdomain, and so a valid name of nearly any object."""
    return len(text) <= 253 and _SUBDOMAIN.fullmatch(text) is not None


def _as_name(origin: str) -> str:
    """The origin as part of an object's name; a digest keeps names apart that would become equal."""
    name = origin.lower().replace("_", "-")
    if name == origin and is_name(name):
        return name
    return f"{name.replace('.', '-')}-{sha256(origin.encode()).hexdigest()[:6]}"


# --- the objects -----------------------------------------------------------------------------------------------------


class Wanted(msgspec.Struct, frozen=True):
    """An object that must exist, without its fields that are None. One that `is_shared` may be foreign: it is created if
    missing, and never changed."""

    kind: Kind[Any]
    body: Mapping[str, Any]
    is_shared: bool = False

    @property
    def key(self) -> ObjectKey:
        metadata = self.body["metadata"]
        return ObjectKey(metadata.get("namespace", ""), metadata["name"])

    def __str__(self) -> str:
        return f"{self.kind.kind} {self.key}"

    @property
    def manifest(self) -> dict[str, Any]:
        """The whole object, as for `kubectl apply`."""
        return {"apiVersion": self.kind.api_version, "kind": self.kind.kind, **_without_none(self.body)}


def worker_objects(registration: Registration, *, has_user: bool = False, manager_uid: str = "") -> tuple[Wanted, ...]:
    """The account on the worker, its rights, and the manager cluster it is for, if known; `has_user` adds the user of
    a client certificate."""
    namespace, name = registration.account
    subjects = [{"kind": SERVICE_ACCOUNTS.kind, "name": name, "namespace": namespace}]
    if has_user:
        subjects.append({"kind": "User", "name": registration.user, "apiGroup": RBAC})
    mark = {"annotations": {MANAGER_UID_ANNOTATION: manager_uid}} if manager_uid else {}
    account = Wanted(SERVICE_ACCOUNTS, {"metadata": {"name": name, "namespace": namespace, "labels": LABELS}})
    places = dict.fromkeys((*registration.namespaces, ""))
    roles = (each for place in places for each in _role(registration, place, subjects, {} if place else mark))
    return _namespace(registration), account, *roles, *_renewal(registration, subjects)


def _renewal(registration: Registration, subjects: list[dict[str, str]]) -> tuple[Wanted, Wanted]:
    """The right to renew the account's own token: a Role, since a ClusterRole would be good for accounts of that name in all
    namespaces."""
    metadata = {"name": registration.renewal.name, "namespace": registration.renewal.namespace, "labels": LABELS}
    own = Right("", "serviceaccounts/token", ("create",), registration.account.name)
    reference = {"apiGroup": RBAC, "kind": ROLES.kind, "name": registration.renewal.name}
    return (
        Wanted(ROLES, {"metadata": metadata, "rules": role_rules([own])}),
        Wanted(ROLE_BINDINGS, {"metadata": metadata, "roleRef": reference, "subjects": subjects}),
    )


def _role(
    registration: Registration, place: str, subjects: list[dict[str, str]], mark: Mapping[str, Any]
) -> tuple[Wanted, Wanted]:
    """The role and binding in a namespace, or cluster-wide."""
    role, binding = (ROLES, ROLE_BINDINGS) if place else (CLUSTER_ROLES, CLUSTER_ROLE_BINDINGS)
    metadata = {"name": registration.account.name, "labels": LABELS} | ({"namespace": place} if place else {})
    holds = (
        right for right in _rights(registration) if place in (registration.namespaces if right.is_namespaced else ("",))
    )
    reference = {"apiGroup": RBAC, "kind": role.kind, "name": registration.account.name}
    return (
        Wanted(role, {"metadata": {**metadata, **mark}, "rules": role_rules(holds)}),
        Wanted(binding, {"metadata": metadata, "roleRef": reference, "subjects": subjects}),
    )


def _rights(registration: Registration) -> tuple[Right, ...]:
    run, view = RUN_PODS if registration.may_run_pods else (), VIEW_PODS if registration.may_view_pods else ()
    made: tuple[Right, ...] = MAKE_QUEUES if registration.may_make_queues else ()
    if registration.run_in:
        made = tuple(right for right in made if right.is_namespaced)
    named = (kind.partition(".") for kind in registration.run_kinds)
    others = copy_rights((group, plural) for plural, _, group in named)
    wanted = {FRAMEWORKS[name].kind for name in registration.frameworks}
    known = (*RIGHTS, *_job_rights(kind for kind in OPTIONAL_KINDS if kind in wanted)) if wanted else GRANTED
    return (IDENTITY, *COMPARED_RIGHTS, *FOLLOWED_RIGHTS, *ROOM_RIGHTS, *known, *others, *run, *view, *made)


def manager_objects(registration: Registration, kubeconfig: bytes = b"") -> tuple[Wanted, ...]:
    """The objects on the manager, the MultiKueueCluster last; without a kubeconfig the Secret has no data."""
    namespace, name = registration.secret
    secret: dict[str, Any] = {"metadata": {"name": name, "namespace": namespace, "labels": LABELS}}
    if kubeconfig:
        secret["data"] = {KUBECONFIG_KEY: b64encode(kubeconfig).decode()}
    source: dict[str, Any] = {"kubeConfig": {"location": name, "locationType": "Secret"}, "clusterProfileRef": None}
    if registration.profile:
        source = {"kubeConfig": None, "clusterProfileRef": {"name": registration.profile}}
    offers = {NAMESPACES_ANNOTATION: ",".join(registration.namespaces) or None}
    metadata = {"name": registration.cluster, "labels": LABELS, "annotations": offers}
    cluster = {"metadata": metadata, "spec": {"clusterSource": source}}
    secrets = () if registration.profile else (Wanted(SECRETS, secret),)
    return _namespace(registration), *secrets, Wanted(MULTIKUEUE_CLUSTERS, cluster)


def config_object(name: str, cluster: str) -> Wanted:
    """A new MultiKueueConfig, with its first cluster."""
    return Wanted(MULTIKUEUE_CONFIGS, {"metadata": {"name": name, "labels": LABELS}, "spec": {"clusters": [cluster]}})


def role_rules(rights: Iterable[Right]) -> list[dict[str, Any]]:
    """The rules of a role: consecutive rights of one group with the same verbs share a rule."""
    grouped = groupby(rights, key=lambda right: (right.group, right.verbs, right.name))
    return [
        {"apiGroups": [group], "resources": [right.resource for right in same], "verbs": list(verbs)}
        | ({"resourceNames": [name]} if name else {})
        for (group, verbs, name), same in grouped
    ]


def _without_none(body: Mapping[str, Any]) -> dict[str, Any]:
    """The body without None values, and without mappings that had only those."""
    found = {name: _without_none(value) if isinstance(value, Mapping) else value for name, value in body.items()}
    return {name: value for name, value in found.items() if value is not None and (value != {} or body[name] == {})}


def _namespace(registration: Registration) -> Wanted:
    return Wanted(NAMESPACES, {"metadata": {"name": registration.namespace}}, is_shared=True)
