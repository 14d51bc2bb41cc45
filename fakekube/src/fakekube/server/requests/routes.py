"""Routes: from paths of the API to resources and objects."""

from __future__ import annotations

from dataclasses import dataclass

from fakekube.model.resources import Registry, Resource
from fakekube.model.storage import key_of

__all__ = ["Route", "Router"]


_STATUSES = frozenset({"status", "approval"})


@dataclass(frozen=True, slots=True)
class Route:
    """The target of a path: a resource in the cluster or in a namespace, one object of it, or a subresource of that
    object."""

    resource: Resource
    namespace: str = ""
    name: str = ""
    subresource: str = ""

    @property
    def is_status(self) -> bool:
        """Whether the route leads to the status subresource."""
        return self.subresource in _STATUSES

    @property
    def key(self) -> str:
        return key_of(self.namespace, self.name)


class Router:
    """Finds routes by path. Results are cached until the registry changes."""

    def __init__(self, registry: Registry, *, remembered: int = 20_000) -> None:
        self._registry, self._remembered = registry, remembered
        self._routes: dict[str, Route | None] = {}
        self._generation = registry.generation

    def find(self, path: str) -> Route | None:
        """The route of a path below /api or /apis; None for an unknown resource."""
        if self._generation != self._registry.generation or len(self._routes) >= self._remembered:
            self._routes.clear()
            self._generation = self._registry.generation
        try:
            return self._routes[path]
        except KeyError:
            route = self._routes[path] = self._found(path)
            return route

    def _found(self, path: str) -> Route | None:
        match path.strip("/").split("/"):
            case ["api", version, *rest]:
                return self._below("", version, rest)
            case ["apis", group, version, *rest]:
                return self._below(group, version, rest)
        return None

    def _below(self, group: str, version: str, steps: list[str]) -> Route | None:
        match steps:
            # `namespaces` begins the path of a namespace's subresource, or of other resources inside the namespace.
            case ["namespaces", namespace, plural, *rest] if (plural, bool(rest)) not in _OF_NAMESPACES:
                return self._route(group, version, plural, namespace, rest)
            case [plural, *rest]:
                return self._route(group, version, plural, "", rest)
        return None

    def _route(self, group: str, version: str, plural: str, namespace: str, rest: list[str]) -> Route | None:
        resource = self._registry.find(group, version, plural)
        if resource is None or (namespace and not resource.namespaced) or len(rest) > 2:
            return None
        if rest and resource.namespaced and not namespace:
            return None
        name, subresource = (*rest, "", "")[:2]
        if subresource and subresource not in resource.subresources and not resource.custom:
            return None
        return Route(resource, namespace, name, subresource)


_OF_NAMESPACES = frozenset({("status", False), ("finalize", False)})
