"""What a kind does besides being stored: its defaults, what the server sets itself, and what it does not take.

`Rules` is what most built-in kinds do, `Custom` is every kind made by a CustomResourceDefinition; `builtins` has the others.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

from fakekube.model.names import NameRule, dns_subdomain
from fakekube.model.refusals import Problem
from fakekube.model.resources import Resource
from fakekube.model.selectors import Alias
from fakekube.wire import Json, Object, Refused, User

__all__ = ["PLAIN", "Custom", "Rules", "custom", "texts", "without_nulls"]

_METADATA = frozenset({"apiVersion", "kind", "metadata"})
_METADATA_AND_STATUS = _METADATA | {"status"}


class Rules:
    """A built-in kind without anything special. Everything here is pure, and no object is changed in place.

    The order on a write is: `defaulted` as soon as the object is decoded, then `created` or `updated`, then the problems.
    """

    name: NameRule = staticmethod(dns_subdomain)
    blank: ClassVar[Object] = {"spec": {}}
    """What Go's type of the kind has in it before anything is said: nobody owns that as a whole."""
    counts_generation: ClassVar[bool] = False
    plain_finalizers: ClassVar[bool] = False
    """Whether finalizers need no domain."""
    updates_blindly: ClassVar[bool] = True
    """Whether an update without a resource version is taken."""
    creates_on_update: ClassVar[bool] = False
    returns_deleted: ClassVar[bool] = False
    """Whether a deletion answers with the object and not with a Status."""
    is_owner: ClassVar[bool] = True
    """Whether its deletion minds dependents: there is nothing to propagate for the others."""
    orphans: ClassVar[bool] = False
    """Whether dependents are orphaned when nobody says what to do with them."""
    status_metadata: ClassVar[bool] = True
    """Whether labels, annotations and the like can be changed through the status."""
    tells_grace: ClassVar[bool] = True
    """Whether a dying object has its deletionGracePeriodSeconds."""
    dies_in_generations: ClassVar[bool] = True
    """Whether the mark of deletion is a new generation."""
    keeps_status: ClassVar[bool] = False
    """Whether an object may be created with its status."""
    fields: ClassVar[Sequence[str]] = ()
    """What field selectors know besides metadata.name and metadata.namespace."""
    aliases: ClassVar[Mapping[str, Alias]] = {}
    """Names in field selectors to where the field is."""

    def defaulted(self, item: Object, /) -> Object:
        return item

    def check(self, item: Object, /) -> None:
        """Raises Refused (400) for what cannot be read although its types are right."""

    def signed(self, item: Object, _user: User, /) -> Object:
        """A new object with what it says about whoever makes it."""
        return item

    def created(self, item: Object, /) -> Object:
        """A new object, with what the server sets. Name and UID are there already."""
        return item

    def updated(self, new: Object, _old: Object, /) -> Object:
        """What becomes of an update: what the server keeps to itself is put back."""
        return new

    def problems(self, _item: Object, /) -> list[Problem]:
        """What is wrong with an object that is created or updated."""
        return []

    def update_problems(self, _new: Object, _old: Object, /) -> list[Problem]:
        """What is wrong with a change of anything but the status."""
        return []

    def status_problems(self, _new: Object, _old: Object, /) -> list[Problem]:
        """What is wrong with a change of the status."""
        return []

    def differs(self, new: Object, old: Object, /) -> bool:
        """Whether an update counts as a new generation."""
        return bool(new.get("spec") != old.get("spec"))

    def grace_period(self, _item: Object, _asked: int | None, /) -> int | None:
        """The seconds until a deletion that somebody must carry out; None if it is carried out at once."""
        return None

    def refused_deletion(self, _resource: Resource, _item: Object, /) -> Refused | None:
        """Why an object may not be deleted."""
        return None

    def deletion_warning(self, _policy: str, /) -> str:
        return ""

    def lingers(self, _item: Object, /) -> bool:
        """Whether a deletion marks the object even if it has no finalizers."""
        return False

    def dying(self, item: Object, /) -> Object:
        """An object that was just marked as deleted."""
        return item

    def is_done(self, item: Object, /) -> bool:
        """Whether nothing keeps a dying object any more."""
        metadata = item["metadata"]
        return not metadata.get("finalizers") and not metadata.get("deletionGracePeriodSeconds")

    def unknown_field(self, resource: Resource, path: str) -> str:
        """How a field selector is refused that asks for a field it cannot."""
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
    """Whether two objects differ in anything but some of their fields. What they share is not looked into."""
    for name, value in new.items():
        if name not in ignored and (name not in old or (value is not old[name] and value != old[name])):
            return True
    return any(name not in new for name in old if name not in ignored)


def without_nulls(value: Json) -> Json:
    """The same without fields that are null or empty lists, as typed kinds forget them; itself if there are none."""
    if isinstance(value, dict):
        return _mapping_without_nulls(value)
    if isinstance(value, list):
        made = [without_nulls(each) for each in value]
        return made if any(one is not other for one, other in zip(made, value, strict=True)) else value
    return value


def _mapping_without_nulls(value: dict[str, Any]) -> dict[str, Any]:
    made = {}
    changed = False
    for name, inner in value.items():
        if inner is None or inner == []:
            changed = True
            continue
        made[name] = kept = without_nulls(inner)
        changed = changed or kept is not inner
    return made if changed else value


def texts(mapping: Json) -> Iterator[str]:
    """The texts in a map whose types nobody looked at yet."""
    yield from (value for value in mapping.values() if isinstance(value, str)) if isinstance(mapping, dict) else ()
