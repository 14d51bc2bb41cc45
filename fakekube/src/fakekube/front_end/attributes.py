"""The attributes of a request: verb, resource, namespace and name, as authorization and the audit log use them.

They come from the path and the query alone, as in kube-apiserver: a request for an unknown resource is authorized too.
"""

from __future__ import annotations

from typing import NamedTuple

from fakekube.model.selectors import field_selector
from fakekube.model.wire import Refused, Request

__all__ = ["Attributes", "attributes"]


class Attributes(NamedTuple):
    """The attributes of a request. A non-resource request has only a path and, as its verb, the HTTP method in lower
    case."""

    verb: str
    path: str
    group: str = ""
    version: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""

    @property
    def qualified(self) -> str:
        """The resource with its subresource, as in rules: `jobs/status`."""
        return f"{self.resource}/{self.subresource}" if self.subresource else self.resource


_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch"}

# Subresources of a namespace; any other segment here is a resource inside the namespace.
_OF_NAMESPACES = frozenset({"status", "finalize"})


def attributes(request: Request) -> Attributes:
    """The attributes of a request."""
    parts = [part for part in request.path.split("/") if part]
    group, rest = _rooted(parts)
    if not rest or not rest[1:]:
        return Attributes(request.method.lower(), request.path)
    version, *rest = rest
    watching = rest[0] == "watch" and len(rest) > 1
    if watching:
        del rest[0]
    namespace, place = _place(rest)
    resource, name, subresource = (*place, "", "")[:3]
    if not name:
        name = _name_in(request)
    verb = _verb(request, single=len(place) > 1, watching=watching)
    return Attributes(verb, request.path, group, version, resource, subresource, namespace, name)


def _rooted(parts: list[str]) -> tuple[str, list[str]]:
    """The group, and the segments from the version on; no segments for a non-resource path."""
    match parts:
        case ["api", *rest]:
            return "", rest
        case ["apis", group, *rest]:
            return group, rest
    return "", []


def _place(rest: list[str]) -> tuple[str, list[str]]:
    """The namespace, and the segments of resource, name and subresource."""
    if rest[0] != "namespaces" or len(rest) == 1:
        return "", rest
    if len(rest) == 2 or rest[2] in _OF_NAMESPACES:
        return rest[1], rest  # the namespace object itself, which counts as inside itself
    return rest[1], rest[2:]


def _verb(request: Request, *, single: bool, watching: bool) -> str:
    if request.method == "DELETE":
        return "delete" if single else "deletecollection"
    if request.method not in ("GET", "HEAD"):
        return _VERBS.get(request.method, request.method.lower())
    if watching or (not single and request.query.get("watch") in ("1", "true", "True")):
        return "watch"
    return "get" if single else "list"


def _name_in(request: Request) -> str:
    """The name that a field selector on `metadata.name` gives to a request for a collection."""
    text = request.query.get("fieldSelector", "")
    if not text or request.method not in ("GET", "DELETE"):
        return ""
    try:
        return field_selector(text).exactly("metadata.name") or ""
    except Refused:
        return ""  # the handler refuses the invalid selector
