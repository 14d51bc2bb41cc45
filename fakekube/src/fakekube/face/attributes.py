"""What a request is about: verb, resource, namespace and name, as authorization and the audit log see it.

It is read off the path alone, as the real server does: a resource that does not exist may be asked for, and refused.
"""

from __future__ import annotations

from typing import NamedTuple

from fakekube.model.selectors import field_selector
from fakekube.wire import Refused, Request

__all__ = ["Attributes", "attributes"]


class Attributes(NamedTuple):
    """A request for a resource has one; any other has only its path and, as its verb, the HTTP method in lower case."""

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

# Of a namespace these are parts, not the resources in it.
_OF_NAMESPACES = frozenset({"status", "finalize"})


def attributes(request: Request) -> Attributes:
    """What the request is about."""
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
    """The group, and version and resource after it; nothing for a path that is of no group."""
    match parts:
        case ["api", *rest]:
            return "", rest
        case ["apis", group, *rest]:
            return group, rest
    return "", []


def _place(rest: list[str]) -> tuple[str, list[str]]:
    """The namespace, and resource, name and subresource in it."""
    if rest[0] != "namespaces" or len(rest) == 1:
        return "", rest
    if len(rest) == 2 or rest[2] in _OF_NAMESPACES:
        return rest[1], rest  # the namespace itself, which counts as being in itself
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
    """Who asks for a collection with one name in the field selector is taken to ask for that object."""
    text = request.query.get("fieldSelector", "")
    if not text or request.method not in ("GET", "DELETE"):
        return ""
    try:
        return field_selector(text).exactly("metadata.name") or ""
    except Refused:
        return ""  # the selector is refused when it is used
