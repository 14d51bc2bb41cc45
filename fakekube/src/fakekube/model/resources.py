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
    metadata.name and metadata.namespace. `scale` has the field paths behind the subresource of that name: the size wanted,
    the size that is, and a selector (empty for none). `kept_with` is the group whose resource of the same plural keeps
    the objects, in its own form, if that is not this one.
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
    scale: tuple[str, str, str] | None = None
    kept_with: str | None = None

    api_version: str = field(init=False, repr=False, compare=False)
    """Group and version."""
    storage: str = field(init=False, repr=False, compare=False)
    """What all versions of it have in common: where its objects are kept."""

    def __post_init__(self) -> None:
        # Asked for several times in each request, so made once.
        object.__setattr__(self, "api_version", str(GroupVersion(self.group, self.version)))
        kept = self.group if self.kept_with is None else self.kept_with
        object.__setattr__(self, "storage", f"{self.plural}.{kept}")

    @property
    def list_kind(self) -> str:
        return f"{self.kind}List"


class Registry:
    """What an API server serves now. CustomResourceDefinitions come and go while it runs."""

    def __init__(self, resources: tuple[Resource, ...]) -> None:
        self._resources: dict[tuple[str, str, str], Resource] = {}
        self._stored: dict[tuple[str, str], Resource] = {}
        self.generation = 0
        """Goes up with each change, for whoever keeps something derived from it."""
        for resource in resources:
            self.add(resource)

    def add(self, resource: Resource) -> None:
        """Serve it; in the place of one with the same group, version and plural."""
        self._resources[resource.group, resource.version, resource.plural] = resource
        first = self._stored.setdefault((resource.group, resource.plural), resource)
        if first.version == resource.version:
            self._stored[resource.group, resource.plural] = resource
        self.generation += 1

    def remove(self, group: str, plural: str) -> None:
        """Serve no version of it any more."""
        for key in [k for k in self._resources if (k[0], k[2]) == (group, plural)]:
            del self._resources[key]
        self._stored.pop((group, plural), None)
        self.generation += 1

    def find(self, group: str, version: str, plural: str) -> Resource | None:
        return self._resources.get((group, version, plural))

    def stored(self, resource: Resource) -> Resource:
        """The version in which its objects are kept: the first that was added."""
        return self._stored.get((resource.group, resource.plural), resource)

    def of_kind(self, group: str, kind: str) -> Resource | None:
        """Some version of a kind: the first that was added."""
        return next((r for r in self._resources.values() if r.group == group and r.kind == kind), None)

    def __iter__(self) -> Iterator[Resource]:
        return iter(self._resources.values())
