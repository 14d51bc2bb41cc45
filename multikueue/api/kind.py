"""A kind of objects: its place in the REST API, and the type it decodes to."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Generic, TypeVar

from multikueue.api.meta import Object, ObjectKey

T_co = TypeVar("T_co", bound=Object, covariant=True)


@dataclass(frozen=True, slots=True)
class Kind(Generic[T_co]):
    """One kind: API group (empty for core), version, plural, kind, scope, and value type.

    `name` is the kind with its group, without the version: `JobSet.jobset.x-k8s.io`, `Job.batch`, `Pod`.
    """

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool
    type: type[T_co]
    name: str = field(init=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", f"{self.kind}.{self.group}" if self.group else self.kind)

    @property
    def is_optional(self) -> bool:
        """Whether a cluster may lack this kind of jobs, or forbid us to read it: all but batch Jobs."""
        return self.group != "batch"

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, key: ObjectKey | None = None, *, subresource: str = "") -> str:
        """The URL path of the collection over all namespaces, or of one object and its subresource."""
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        if key is None:
            return f"{root}/{self.plural}"
        tail = f"/{subresource}" if subresource else ""
        return f"{self.collection(key.namespace)}/{key.name}{tail}"

    def collection(self, namespace: str) -> str:
        """The URL path to create objects at."""
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        return f"{root}/namespaces/{namespace}/{self.plural}" if self.namespaced else f"{root}/{self.plural}"
