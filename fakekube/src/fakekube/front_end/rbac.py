"""RBAC: decisions from the ClusterRoles, Roles and bindings in storage.

An aggregated ClusterRole has the rules of those that it selects; they are not written into it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from fakekube.front_end.attributes import Attributes
from fakekube.model.selectors import selector_of
from fakekube.model.storage import Storage, key_of
from fakekube.model.wire import Object, Refused, User

__all__ = ["MASTERS", "Authorizer", "Decision", "refusal"]

MASTERS = "system:masters"
"""The group whose members may do everything, whatever the roles say."""

_GROUP = "rbac.authorization.k8s.io"
_CLUSTER_ROLES, _ROLES = f"clusterroles.{_GROUP}", f"roles.{_GROUP}"
_CLUSTER_BINDINGS, _BINDINGS = f"clusterrolebindings.{_GROUP}", f"rolebindings.{_GROUP}"

Rule = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Decision:
    """Whether a request is allowed, and the binding that allows it, if any."""

    allowed: bool
    reason: str = ""


_EVERYTHING: tuple[Rule, ...] = (
    {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]},
    {"verbs": ["*"], "nonResourceURLs": ["*"]},
)

_PUBLIC: tuple[Rule, ...] = (
    {"verbs": ["get"], "nonResourceURLs": ["/healthz", "/livez", "/readyz", "/version", "/version/"]},
)

_AUTHENTICATED: tuple[Rule, ...] = (
    {
        "verbs": ["create"],
        "apiGroups": ["authorization.k8s.io"],
        "resources": ["selfsubjectaccessreviews", "selfsubjectrulesreviews"],
    },
    {"verbs": ["create"], "apiGroups": ["authentication.k8s.io"], "resources": ["selfsubjectreviews"]},
    {
        "verbs": ["get"],
        "nonResourceURLs": ["/api", "/api/*", "/apis", "/apis/*", "/openapi", "/openapi/*", "/version", "/version/"],
    },
)
"""The default bindings of a cluster: the rules of every user (`_PUBLIC`), and of every authenticated user."""


@dataclass(frozen=True, slots=True)
class _Binding:
    """A parsed binding: subjects, namespace (empty for all), and the rules of its role."""

    users: frozenset[str]
    groups: frozenset[str]
    namespace: str
    rules: tuple[Rule, ...]
    described: str

    def holds(self, user: User, namespace: str) -> bool:
        """Whether the binding applies to the user in the namespace."""
        if self.namespace not in ("", namespace):
            return False
        return user.name in self.users or not self.groups.isdisjoint(user.groups)


class Authorizer:
    """Decides by the roles and bindings in storage; with `enforced` false every request is allowed."""

    def __init__(self, storage: Storage, *, enforced: bool) -> None:
        self._storage, self.enforced = storage, enforced
        for kept in (_CLUSTER_ROLES, _ROLES, _CLUSTER_BINDINGS, _BINDINGS):
            storage.subscribe(lambda _change: self._forget(), kept)

    def decide(self, user: User, asked: Attributes) -> Decision:
        """Whether the user may make the request."""
        if not self.enforced or MASTERS in user.groups:
            return Decision(True)
        if any(_allows(rule, asked) for rule in _standing(user)):
            return Decision(True)
        for binding in self._bindings:
            if binding.holds(user, asked.namespace) and any(_allows(rule, asked) for rule in binding.rules):
                return Decision(True, f'RBAC: allowed by {binding.described} "{user.name}"')
        return Decision(False)

    def rules(self, user: User, namespace: str) -> Iterator[Rule]:
        """All rules of the user in a namespace."""
        if not self.enforced or MASTERS in user.groups:
            yield from _EVERYTHING
        yield from _standing(user)
        for binding in self._bindings:
            if binding.holds(user, namespace):
                yield from binding.rules

    def _forget(self) -> None:
        self.__dict__.pop("_bindings", None)

    @cached_property
    def _bindings(self) -> tuple[_Binding, ...]:
        kept = (_CLUSTER_BINDINGS, _BINDINGS)
        return tuple(self._binding(version.object) for name in kept for version in self._storage.select(name))

    def _binding(self, item: Object) -> _Binding:
        namespace, role = item["metadata"].get("namespace", ""), item["roleRef"]
        users = {name for subject in item.get("subjects") or () for name in _user_names(subject, namespace)}
        groups = {subject["name"] for subject in item.get("subjects") or () if subject["kind"] == "Group"}
        name = f"{namespace}/{item['metadata']['name']}" if namespace else item["metadata"]["name"]
        kind = "RoleBinding" if namespace else "ClusterRoleBinding"
        described = f'{kind} "{name}" of {role["kind"]} "{role["name"]}" to User'
        return _Binding(frozenset(users), frozenset(groups), namespace, self._rules(role, namespace), described)

    def _rules(self, role: Mapping[str, str], namespace: str) -> tuple[Rule, ...]:
        kept, within = (_ROLES, namespace) if role["kind"] == "Role" else (_CLUSTER_ROLES, "")
        found = self._storage.get(kept, key_of(within, role["name"]))
        if found is None:
            return _EVERYTHING if role["name"] == "cluster-admin" else ()
        if (found.object.get("aggregationRule") or {}).get("clusterRoleSelectors"):
            return tuple(self._aggregated(role["name"], set()))
        return tuple(found.object.get("rules") or ())

    def _aggregated(self, name: str, seen: set[str]) -> Iterator[Rule]:
        """The rules of a ClusterRole and of those that it selects, which may select others."""
        found = self._storage.get(_CLUSTER_ROLES, key_of("", name))
        if found is None or name in seen:
            return
        seen.add(name)
        chosen = [
            selector_of(each) for each in (found.object.get("aggregationRule") or {}).get("clusterRoleSelectors") or ()
        ]
        if not chosen:
            yield from found.object.get("rules") or ()
        for version in self._storage.select(_CLUSTER_ROLES) if chosen else ():
            metadata = version.object["metadata"]
            if any(each.matches(metadata.get("labels")) for each in chosen):
                yield from self._aggregated(metadata["name"], seen)


def _standing(user: User) -> tuple[Rule, ...]:
    return (*_PUBLIC, *_AUTHENTICATED) if "system:authenticated" in user.groups else _PUBLIC


def _user_names(subject: Mapping[str, str], namespace: str) -> Iterator[str]:
    if subject["kind"] == "User":
        yield subject["name"]
    if subject["kind"] == "ServiceAccount":
        yield f"system:serviceaccount:{subject.get('namespace') or namespace}:{subject['name']}"


def _allows(rule: Rule, asked: Attributes) -> bool:
    if not _among(asked.verb, rule.get("verbs")):
        return False
    if not asked.resource:
        return any(_is_path(pattern, asked.path) for pattern in rule.get("nonResourceURLs") or ())
    names = rule.get("resourceNames")
    return (
        _among(asked.group, rule.get("apiGroups"))
        and (_among(asked.qualified, rule.get("resources")) or _of_any(asked, rule.get("resources")))
        and (not names or asked.name in names)
    )


def _among(value: str, listed: Iterable[str] | None) -> bool:
    return any(each in ("*", value) for each in listed or ())


def _of_any(asked: Attributes, listed: Iterable[str] | None) -> bool:
    """Whether a rule names the subresource of every resource: `*/status`."""
    return bool(asked.subresource) and f"*/{asked.subresource}" in (listed or ())


def _is_path(pattern: str, path: str) -> bool:
    return path.startswith(pattern[:-1]) if pattern.endswith("*") else path == pattern


def refusal(user: User, asked: Attributes) -> Refused:
    """The 403 for a forbidden request, in kube-apiserver's words."""
    who = f'User "{user.name}" cannot {asked.verb}'
    if not asked.resource:
        return Refused(403, "Forbidden", f'forbidden: {who} path "{asked.path}"')
    kind = f"{asked.resource}.{asked.group}" if asked.group else asked.resource
    what = f'{kind} "{asked.name}"' if asked.name else kind
    where = f'in the namespace "{asked.namespace}"' if asked.namespace else "at the cluster scope"
    message = f'{what} is forbidden: {who} resource "{asked.qualified}" in API group "{asked.group}" {where}'
    named = {"name": asked.name, "group": asked.group, "kind": asked.resource}
    return Refused(403, "Forbidden", message, details={key: value for key, value in named.items() if value})
