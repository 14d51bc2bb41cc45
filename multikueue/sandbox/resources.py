"""The resources an API server has: what is served where, and what is known of each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

__all__ = ["Column", "GroupVersion", "Registry", "Resource"]


class GroupVersion(NamedTuple):
    """API group (empty for core) and version."""

    group: str
    version: str

    def __str__(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version


@dataclass(frozen=True, slots=True)
class Column:
    """A column that `kubectl get` prints: a JSONPath as in a CRD's additionalPrinterColumns. Priority 0 is always shown,
    others with `-o wide`."""

    name: str
    path: str
    type: str = "string"
    priority: int = 0
    format: str = ""
    description: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """One kind as one API server serves it in one version. All versions of a resource share their stored objects.

    `schema` is an OpenAPI v3 schema with Kubernetes' extensions (`x-kubernetes-*`); empty lets everything pass.
    `custom` tells kinds made by a CustomResourceDefinition from built-in ones: no strategic merge patch for them,
    validation, pruning and defaulting by the schema, generation counted by it all but metadata and status.
    `served` may be false for a version that is only stored. `selectable` are field paths for field selectors besides
    metadata.name and metadata.namespace.
    """

    group: str
    version: str
    plural: str
    singular: str
    kind: str
    namespaced: bool
    subresources: frozenset[str] = frozenset()
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
    custom: bool = False
    schema: Mapping[str, Any] = field(default_factory=dict)
    columns: tuple[Column, ...] = ()
    selectable: tuple[str, ...] = ()

    @property
    def api_version(self) -> str:
        return str(GroupVersion(self.group, self.version))

    @property
    def list_kind(self) -> str:
        return f"{self.kind}List"

    @property
    def storage(self) -> str:
        """What all versions of it have in common: where its objects are kept."""
        return f"{self.plural}.{self.group}"


class Registry:
    """What an API server serves now. CustomResourceDefinitions come and go while it runs."""

    def __init__(self, resources: tuple[Resource, ...]) -> None:
        self._resources: dict[tuple[str, str, str], Resource] = {}
        self.generation = 0
        """Goes up with each change, for whoever keeps something derived from it."""
        for resource in resources:
            self.add(resource)

    def add(self, resource: Resource) -> None:
        """Serve it; in the place of one with the same group, version and plural."""
        self._resources[resource.group, resource.version, resource.plural] = resource
        self.generation += 1

    def remove(self, group: str, plural: str) -> None:
        """Serve no version of it any more."""
        for key in [k for k in self._resources if (k[0], k[2]) == (group, plural)]:
            del self._resources[key]
        self.generation += 1

    def find(self, group: str, version: str, plural: str) -> Resource | None:
        return self._resources.get((group, version, plural))

    def of_kind(self, group: str, kind: str) -> Resource | None:
        """Some version of a kind: the first that was added."""
        return next((r for r in self._resources.values() if r.group == group and r.kind == kind), None)

    def __iter__(self) -> Iterator[Resource]:
        return iter(self._resources.values())
