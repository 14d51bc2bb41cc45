"""Rules of a kind: its defaults, the fields that the server sets, and its validation.

`Rules` is the base of built-in kinds, `Custom` is for kinds of CustomResourceDefinitions; `builtins` has the others.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

from fakekube.model.refusals import Problem
from fakekube.model.resources import Resource
from fakekube.model.selectors import Alias
from fakekube.model.values.names import NameRule, dns_subdomain
from fakekube.model.wire import Json, Object, Refused, User

__all__ = ["PLAIN", "Custom", "Rules", "custom", "texts", "without_nulls"]

_METADATA = frozenset({"apiVersion", "kind", "metadata"})
_METADATA_AND_STATUS = _METADATA | {"status"}


class Rules:
    """A built-in kind without special rules. All methods are pure; none changes an object in place.

    The order on a write is: `defaulted` right after decoding, then `created` or `updated`, then the problems.
    """

    name: NameRule = staticmethod(dns_subdomain)
    blank: ClassVar[Object] = {"spec": {}}
    """Fields in the zero value of the kind's Go type: no manager owns them as a whole."""
    counts_generation: ClassVar[bool] = False
    plain_finalizers: ClassVar[bool] = False
    """Whether finalizers may lack a domain."""
    updates_blindly: ClassVar[bool] = True
    """Whether an update without a resource version is accepted."""
    creates_on_update: ClassVar[bool] = False
    returns_deleted: ClassVar[bool] = False
    """Whether a deletion answers with the object instead of a Status."""
    is_owner: ClassVar[bool] = True
    """Whether its deletion concerns dependents; other kinds ignore propagation."""
    orphans: ClassVar[bool] = False
    """Whether dependents are orphaned by default."""
    status_metadata: ClassVar[bool] = True
    """Whether a write to the status subresource can change labels, annotations and other metadata."""
    tells_grace: ClassVar[bool] = True
    """Whether an object under deletion has deletionGracePeriodSeconds."""
    dies_in_generations: ClassVar[bool] = True
    """Whether the deletion mark increments the generation."""
    keeps_status: ClassVar[bool] = False
    """Whether a create keeps the status."""
    fields: ClassVar[Sequence[str]] = ()
    """Field selectors besides metadata.name and metadata.namespace."""
    aliases: ClassVar[Mapping[str, Alias]] = {}
    """Path of each field selector whose name is not a path."""

    def defaulted(self, item: Object, /) -> Object:
        return item

    def check(self, item: Object, /) -> None:
        """Raise Refused (400) for values that the server cannot decode though their types are right."""

    def signed(self, item: Object, _user: User, /) -> Object:
        """A new object with the fields that record its creator."""
        return item

    def created(self, item: Object, /) -> Object:
        """A new object with the fields that the server sets. Name and UID are set already."""
        return item

    def updated(self, new: Object, _old: Object, /) -> Object:
        """An update with the fields restored that clients cannot change."""
        return new

    def problems(self, _item: Object, /) -> list[Problem]:
        """Problems of an object on create or update."""
        return []

    def update_problems(self, _new: Object, _old: Object, /) -> list[Problem]:
        """Problems of a change outside the status."""
        return []

    def status_problems(self, _new: Object, _old: Object, /) -> list[Problem]:
        """Problems of a change of the status."""
        return []

    def differs(self, new: Object, old: Object, /) -> bool:
        """Whether an update increments the generation."""
        return bool(new.get("spec") != old.get("spec"))

    def grace_period(self, _item: Object, _asked: int | None, /) -> int | None:
        """Seconds of a graceful deletion, which another component completes; None: delete at once."""
        return None

    def refused_deletion(self, _resource: Resource, _item: Object, /) -> Refused | None:
        """The error if the object may not be deleted."""
        return None

    def deletion_warning(self, _policy: str, /) -> str:
        return ""

    def lingers(self, _item: Object, /) -> bool:
        """Whether a deletion marks the object even if it has no finalizers."""
        return False

    def dying(self, item: Object, /) -> Object:
        """An object right after the deletion mark."""
        return item

    def is_done(self, item: Object, /) -> bool:
        """Whether nothing holds an object under deletion any more."""
        metadata = item["metadata"]
        return not metadata.get("finalizers") and not metadata.get("deletionGracePeriodSeconds")

    def unknown_field(self, resource: Resource, path: str) -> str:
        """The message for an unsupported field selector."""
        if self.fields:
            return f"field label not supported: {path}"
        known = '"metadata.name", "metadata.namespace"' if resource.namespaced else '"metadata.name"'
        return f'"{path}" is not a known field selector: only {known}'


PLAIN = Rules()


class Custom(Rules):
    """A kind made by a CustomResourceDefinition."""

    blank: ClassVar[Object] = {}
    plain_finalizers = True
    counts_generation = True
    updates_blindly = False
    status_metadata = False

    def differs(self, new: Object, old: Object, /) -> bool:
        return _differ(new, old, _METADATA)

    def unknown_field(self, _resource: Resource, path: str) -> str:
        return f"field label not supported: {path}"


class _CustomWithStatus(Custom):
    def differs(self, new: Object, old: Object, /) -> bool:
        return _differ(new, old, _METADATA_AND_STATUS)


CUSTOM = Custom()
_CUSTOM_WITH_STATUS = _CustomWithStatus()


def custom(resource: Resource) -> Rules:
    return _CUSTOM_WITH_STATUS if "status" in resource.subresources else CUSTOM


def _differ(new: Object, old: Object, ignored: frozenset[str]) -> bool:
    """Whether two objects differ outside the ignored fields. Shared subtrees are not compared."""
    for name, value in new.items():
        if name not in ignored and (name not in old or (value is not old[name] and value != old[name])):
            return True
    return any(name not in new for name in old if name not in ignored)


def without_nulls(value: Json, *, keep_lists: bool = False) -> Json:
    """The value without null fields and, unless they are kept, empty lists, as typed kinds drop them; the same object without
    any."""
    if isinstance(value, dict):
        return _mapping_without_nulls(value, keep_lists=keep_lists)
    if isinstance(value, list):
        made = [without_nulls(each, keep_lists=keep_lists) for each in value]
        return made if any(one is not other for one, other in zip(made, value, strict=True)) else value
    return value


def _mapping_without_nulls(value: dict[str, Any], *, keep_lists: bool) -> dict[str, Any]:
    made = {}
    changed = False
    for name, inner in value.items():
        if inner is None or (inner == [] and not keep_lists):
            changed = True
            continue
        made[name] = kept = without_nulls(inner, keep_lists=keep_lists)
        changed = changed or kept is not inner
    return made if changed else value


def texts(mapping: Json) -> Iterator[str]:
    """The texts in a map whose types are unchecked."""
    yield from (value for value in mapping.values() if isinstance(value, str)) if isinstance(mapping, dict) else ()
