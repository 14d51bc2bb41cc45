"""Discovery: the server's version, its groups, and the resources of each, in the old and the aggregated format.

`answer` knows the paths. Its documents are cached until the registry changes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple
from weakref import WeakKeyDictionary

import msgspec

from fakekube.model.resources import GroupVersion, Registry, Resource
from fakekube.model.wire import JSON, Object, Request, Response

__all__ = ["VERSION", "Subresource", "answer", "groups", "subresource", "versions"]

VERSION = "v1.37.2"
"""The simulated version of Kubernetes."""

_AGGREGATED = f"{JSON};g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


class Subresource(NamedTuple):
    """The verbs of a subresource, and its kind if that is not the resource's own."""

    verbs: tuple[str, ...]
    group: str = ""
    version: str = ""
    kind: str = ""


_SUBRESOURCES: Mapping[tuple[str, str], Subresource] = {
    ("pods", "log"): Subresource(("get",)),
    ("pods", "binding"): Subresource(("create",), "", "v1", "Binding"),
    ("pods", "eviction"): Subresource(("create",), "policy", "v1", "Eviction"),
    ("namespaces", "finalize"): Subresource(("update",)),
    ("serviceaccounts", "token"): Subresource(("create",), "authentication.k8s.io", "v1", "TokenRequest"),
}
_SCALE = Subresource(("get", "patch", "update"), "autoscaling", "v1", "Scale")
_OWN = Subresource(("get", "patch", "update"))


def subresource(resource: Resource, name: str) -> Subresource:
    """The description of a subresource."""
    return _SCALE if name == "scale" else _SUBRESOURCES.get((resource.plural, name), _OWN)


@dataclass(slots=True)
class _Kept:
    """The documents of one generation of the registry."""

    generation: int
    documents: dict[tuple[str, ...], Response | None]


_kept: WeakKeyDictionary[Registry, _Kept] = WeakKeyDictionary()


def answer(registry: Registry, request: Request) -> Response | None:
    """The answer to a GET of a discovery path; None for another path or an unknown group."""
    parts = tuple(part for part in request.path.split("/") if part)
    if not parts or len(parts) > 3 or request.method != "GET" or parts[0] not in ("api", "apis", "version"):
        return None
    kept = _kept.get(registry)
    if kept is None or kept.generation != registry.generation:
        kept = _kept[registry] = _Kept(registry.generation, {})
    key = (*parts, "aggregated") if _wants_aggregated(parts, request.accept) else parts
    if key not in kept.documents:
        kept.documents[key] = _made(registry, key)
    return kept.documents[key]


def _wants_aggregated(parts: tuple[str, ...], accept: str) -> bool:
    """Whether the client prefers the aggregated format, which kube-apiserver has at the two roots only."""
    first = accept.replace(" ", "").partition(",")[0]
    return len(parts) == 1 and parts[0] != "version" and first.startswith(_AGGREGATED)


def _made(registry: Registry, parts: tuple[str, ...]) -> Response | None:
    match parts:
        case ["version"]:
            return _json(_version())
        case ["api"]:
            return _json(_core_versions(registry))
        case ["apis"]:
            return _json(_group_list(registry))
        case ["api" | "apis" as root, "aggregated"]:
            return _json(_aggregated(registry, core=root == "api"), _AGGREGATED)
        case ["apis", group] if group in groups(registry):
            return _json({"kind": "APIGroup", "apiVersion": "v1", **_group(registry, group)})
        case ["api", version] if version in versions(registry, ""):
            return _json(_resource_list(registry, GroupVersion("", version)))
        case ["apis", group, version] if group and version in versions(registry, group):
            return _json(_resource_list(registry, GroupVersion(group, version)))
    return None


def _json(document: Object, content_type: str = JSON) -> Response:
    return Response(body=msgspec.json.encode(document), content_type=content_type)


def groups(registry: Registry) -> list[str]:
    """The groups except core, in the order of registration."""
    return list(dict.fromkeys(resource.group for resource in registry if resource.group))


def versions(registry: Registry, group: str) -> list[str]:
    """The versions of a group, the preferred one first: stable before beta before alpha, high before low."""
    found = {resource.version for resource in registry if resource.group == group}
    return sorted(found, key=_priority)


_VERSION = re.compile(r"v(\d+)(?:(alpha|beta)(\d+))?")
_STAGES = {None: 0, "beta": 1, "alpha": 2}


def _priority(version: str) -> tuple[int, int, int, str]:
    match = _VERSION.fullmatch(version)
    if match is None:
        return 3, 0, 0, version
    return _STAGES[match[2]], -int(match[1]), -int(match[3] or 0), version


def _version() -> Object:
    major, minor, _ = VERSION.removeprefix("v").split(".")
    return {
        "major": major,
        "minor": minor,
        "gitVersion": VERSION,
        "gitCommit": "",
        "gitTreeState": "",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": "",
        "platform": "fakekube/memory",
    }


def _core_versions(registry: Registry) -> Object:
    return {"kind": "APIVersions", "versions": versions(registry, ""), "serverAddressByClientCIDRs": []}


def _group_list(registry: Registry) -> Object:
    listed = [_group(registry, group) for group in groups(registry)]
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": listed}


def _group(registry: Registry, group: str) -> Object:
    named = [{"groupVersion": f"{group}/{version}", "version": version} for version in versions(registry, group)]
    return {"name": group, "versions": named, "preferredVersion": named[0]}


def _of(registry: Registry, at: GroupVersion) -> list[Resource]:
    found = (resource for resource in registry if (resource.group, resource.version) == at)
    return sorted(found, key=lambda resource: resource.plural)


def _resource_list(registry: Registry, at: GroupVersion) -> Object:
    entries = [entry for resource in _of(registry, at) for entry in _entries(resource)]
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": str(at), "resources": entries}


def _entries(resource: Resource) -> Iterable[Object]:
    yield {
        "name": resource.plural,
        "singularName": resource.singular,
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": resource.verbs,
        **_named(resource),
    }
    for name in sorted(resource.subresources):
        known = subresource(resource, name)
        origin = {"group": known.group, "version": known.version} if known.kind else {}
        yield {
            "name": f"{resource.plural}/{name}",
            "singularName": "",
            "namespaced": resource.namespaced,
            **{key: value for key, value in origin.items() if value},
            "kind": known.kind or resource.kind,
            "verbs": known.verbs,
        }


def _named(resource: Resource) -> Object:
    """The short names and categories of a resource, if any."""
    names = {"shortNames": resource.short_names, "categories": resource.categories}
    return {key: list(value) for key, value in names.items() if value}


def _aggregated(registry: Registry, *, core: bool) -> Object:
    listed = [""] * bool(versions(registry, "")) if core else groups(registry)
    items = [
        {
            "metadata": {"name": group} if group else {},
            "versions": [
                _version_entry(registry, GroupVersion(group, version)) for version in versions(registry, group)
            ],
        }
        for group in listed
    ]
    return {"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items}


def _version_entry(registry: Registry, at: GroupVersion) -> Object:
    resources = [_aggregated_entry(resource) for resource in _of(registry, at)]
    return {"version": at.version, "resources": resources, "freshness": "Current"}


def _aggregated_entry(resource: Resource) -> Object:
    own = {"group": resource.group, "version": resource.version, "kind": resource.kind}
    subresources = [
        {
            "subresource": name,
            "responseKind": {"group": known.group, "version": known.version, "kind": known.kind} if known.kind else own,
            "verbs": known.verbs,
        }
        for name in sorted(resource.subresources)
        for known in [subresource(resource, name)]
    ]
    return {
        "resource": resource.plural,
        "responseKind": own,
        "scope": "Namespaced" if resource.namespaced else "Cluster",
        "singularResource": resource.singular,
        "verbs": resource.verbs,
        **_named(resource),
        **({"subresources": subresources} if subresources else {}),
    }
