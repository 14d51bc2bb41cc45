"""The resources of an API server, and their properties."""

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
    """A printer column of `kubectl get`: a JSONPath as in a CRD's additionalPrinterColumns. Priority 0 is always shown,
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

    `schema` is an OpenAPI v3 schema with Kubernetes' extensions (`x-kubernetes-*`); an empty schema accepts everything.
    `custom` marks kinds of a CustomResourceDefinition. They have no strategic merge patch; the schema validates, prunes
    and defaults them; their generation counts changes outside metadata and status. `served` is false for a version that
    is only stored. `selectable` are field selectors besides metadata.name and metadata.namespace. `scale` has the field
    paths behind the subresource of that name: desired size, actual size, and selector (empty for none). `kept_with` is
    the group of the resource of the same plural that stores the objects, in its own form; None: this one.
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
    """`group/version`, or only the version in the core group."""
    storage: str = field(init=False, repr=False, compare=False)
    """The key of the stored objects, which all versions share."""

    def __post_init__(self) -> None:
        # Computed once, as each request uses them several times.
        object.__setattr__(self, "api_version", str(GroupVersion(self.group, self.version)))
        kept = self.group if self.kept_with is None else self.kept_with
        object.__setattr__(self, "storage", f"{self.plural}.{kept}")

    @property
    def list_kind(self) -> str:
        return f"{self.kind}List"


class Registry:
    """The resources that an API server serves now. CustomResourceDefinitions add and remove resources at run time."""

    def __init__(self, resources: tuple[Resource, ...]) -> None:
        self._resources: dict[tuple[str, str, str], Resource] = {}
        self._stored: dict[tuple[str, str], Resource] = {}
        self.generation = 0
        """Increments with each change, for users of derived values."""
        for resource in resources:
            self.add(resource)

    def add(self, resource: Resource) -> None:
        """Serve a resource, in the place of one with the same group, version and plural."""
        self._resources[resource.group, resource.version, resource.plural] = resource
        first = self._stored.setdefault((resource.group, resource.plural), resource)
        if first.version == resource.version:
            self._stored[resource.group, resource.plural] = resource
        self.generation += 1

    def remove(self, group: str, plural: str) -> None:
        """Stop serving all versions of a resource."""
        for key in [k for k in self._resources if (k[0], k[2]) == (group, plural)]:
            del self._resources[key]
        self._stored.pop((group, plural), None)
        self.generation += 1

    def find(self, group: str, version: str, plural: str) -> Resource | None:
        return self._resources.get((group, version, plural))

    def stored(self, resource: Resource) -> Resource:
        """The storage version of a resource: the first version that was added."""
        return self._stored.get((resource.group, resource.plural), resource)

    def of_kind(self, group: str, kind: str) -> Resource | None:
        """The first added version of a kind."""
        return next((r for r in self._resources.values() if r.group == group and r.kind == kind), None)

    def __iter__(self) -> Iterator[Resource]:
        return iter(self._resources.values())
