"""The base of all builders of objects."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, Self, TypeVar

from msgspec.structs import replace

from multikueue.api.kueue.admission_checks import ACTIVE
from multikueue.api.meta import Condition, Object, ObjectMeta, OwnerReference, with_condition
from multikueue.testing import NOW

T_co = TypeVar("T_co", bound=Object, covariant=True)


@dataclass(frozen=True, slots=True)
class Builder(Generic[T_co]):
    """Builder of any object with metadata."""

    value: T_co

    def build(self) -> T_co:
        return self.value

    def uid(self, uid: str) -> Self:
        return self._with_metadata(uid=uid)

    def version(self, number: int) -> Self:
        """Sets the resource version."""
        return self._with_metadata(resource_version=str(number))

    def generation(self, number: int) -> Self:
        return self._with_metadata(generation=number)

    def created(self, at: datetime) -> Self:
        return self._with_metadata(creation_timestamp=at)

    def deleted(self, at: datetime = NOW) -> Self:
        """Sets the deletion timestamp."""
        return self._with_metadata(deletion_timestamp=at)

    def labels(self, labels: Mapping[str, str] | None = None, **more: str) -> Self:
        """Adds labels, or replaces those of the same name."""
        return self._with_metadata(labels={**self.value.metadata.labels, **(labels or {}), **more})

    def annotations(self, annotations: Mapping[str, str] | None = None, **more: str) -> Self:
        return self._with_metadata(annotations={**self.value.metadata.annotations, **(annotations or {}), **more})

    def finalizers(self, *names: str) -> Self:
        return self._with_metadata(finalizers=names)

    def owned_by(self, *, api_version: str, kind: str, name: str, uid: str, controller: bool = True) -> Self:
        """Adds an owner reference."""
        owner = OwnerReference(api_version=api_version, kind=kind, name=name, uid=uid, controller=controller)
        return self._with_metadata(owner_references=(*self.value.metadata.owner_references, owner))

    def _with_metadata(self, **changes: Any) -> Self:
        return self._with(metadata=replace(self.value.metadata, **changes))

    def _with(self, **changes: Any) -> Self:
        return dataclasses.replace(self, value=replace(self.value, **changes))

    def _with_spec(self, **changes: Any) -> Self:
        spec: Any = self.value.spec  # type: ignore[attr-defined]  # each builder that calls this has one
        return self._with(spec=replace(spec, **changes))

    def _with_status(self, **changes: Any) -> Self:
        status: Any = self.value.status  # type: ignore[attr-defined]  # as above
        return self._with(status=replace(status, **changes))

    def _with_condition(self, condition: Condition, at: datetime) -> Self:
        conditions: tuple[Condition, ...] = self.value.status.conditions  # type: ignore[attr-defined]  # as above
        return self._with_status(conditions=with_condition(conditions, condition, at))


def metadata_of(kind: str, name: str, namespace: str = "") -> ObjectMeta:
    """The metadata of an object that a server has just created."""
    return ObjectMeta(
        name=name,
        namespace=namespace,
        uid=uid_of(kind, name, namespace),
        resource_version="1",
        generation=1,
        creation_timestamp=NOW,
    )


def uid_of(kind: str, name: str, namespace: str = "") -> str:
    """A readable UID that is a valid label value."""
    return "-".join(part for part in ("uid", kind, namespace, name) if part)


def active_condition(yes: bool, reason: str, message: str) -> Condition:
    return Condition(type=ACTIVE, status="True" if yes else "False", reason=reason, message=message)
