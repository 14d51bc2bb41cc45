"""Common parts of all objects: key, metadata, owner, conditions; decoders that tolerate what servers send, once per text."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Annotated, Any, Generic, Literal, NamedTuple, TypeVar

import msgspec

Whole = TypeVar("Whole")
T = TypeVar("T")

# Numbers and times within the limits of Kubernetes; an object with any other cannot be decoded.
Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
Time = Annotated[datetime, msgspec.Meta(tz=True)]

_LONGEST_VERSION = 20

ConditionStatus = Literal["True", "False", "Unknown"]


LONGEST_MESSAGE = 32768
"""Characters in the message of a condition or a check. The API takes no more, and part of the text may be foreign."""


class ObjectKey(NamedTuple):
    """Namespace (empty for cluster-scoped kinds) and name."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


class Value(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, rename="camel", kw_only=True):
    """Base of all values. They have no reference cycles by construction, so the garbage collector need not track
    them."""


class OwnerReference(Value):
    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool = False
    block_owner_deletion: bool | None = None


class ObjectMeta(Value):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: Int64 = 0
    creation_timestamp: Time | None = None
    deletion_timestamp: Time | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    finalizers: tuple[str, ...] = ()
    owner_references: tuple[OwnerReference, ...] = ()


class Condition(Value, kw_only=True):
    """metav1.Condition. The API requires type, status and message even when empty, so they have no default to omit."""

    type: str
    status: ConditionStatus
    reason: str = ""
    message: str
    last_transition_time: Time | None = None
    observed_generation: Int64 = 0


class Object(Value):
    """Any object with metadata; the base of each kind."""

    metadata: ObjectMeta = ObjectMeta()

    @property
    def key(self) -> ObjectKey:
        meta = self.metadata
        return tuple.__new__(ObjectKey, (meta.namespace, meta.name))  # past the constructor in Python: for each event

    @property
    def version(self) -> int:
        """The resource version as a number: opaque by tradition, ordered by the API server's promise."""
        return version_of(self.metadata.resource_version)


def natural(name: str) -> tuple[Any, ...]:
    """The rank of a name in a list for people: the numbers in it count as numbers, so `w2` stands before `w10`."""
    return [int(part) if number % 2 else part for number, part in enumerate(re.split("([0-9]+)", name))], name


def version_of(text: str) -> int:
    """A resource version as a number; 0 if it is none. Kubernetes counts in 64 bits, which have up to 20 digits."""
    return int(text) if len(text) <= _LONGEST_VERSION and text.isascii() and text.isdecimal() else 0


def controller_of(meta: ObjectMeta) -> OwnerReference | None:
    """The owner that controls the object, if any."""
    for owner in meta.owner_references:
        if owner.controller:
            return owner
    return None


def find_condition(conditions: Iterable[Condition], type_: str) -> Condition | None:
    for condition in conditions:  # a plain loop: called a hundred times per workload and event
        if condition.type == type_:
            return condition
    return None


def is_true(conditions: Iterable[Condition], type_: str) -> bool:
    for condition in conditions:
        if condition.type == type_:
            return condition.status == "True"
    return False


def with_condition(conditions: tuple[Condition, ...], new: Condition, now: datetime) -> tuple[Condition, ...]:
    """The conditions with `new` in place of the one of its type (or at the end).

    As in Kubernetes, the transition time moves only when the status does. If nothing differs the same tuple is
    returned, so that a caller can tell that there is nothing to write. A message that is too long is cut.
    """
    old = find_condition(conditions, new.type)
    moved = old is None or old.status != new.status
    since = now.replace(microsecond=0) if moved else (old and old.last_transition_time)
    new = msgspec.structs.replace(new, message=new.message[:LONGEST_MESSAGE], last_transition_time=since)
    if old == new:
        return conditions
    if old is None:
        return (*conditions, new)
    return tuple(new if c.type == new.type else c for c in conditions)


def without_condition(conditions: tuple[Condition, ...], type_: str) -> tuple[Condition, ...]:
    kept = tuple([c for c in conditions if c.type != type_])
    return conditions if len(kept) == len(conditions) else kept


def render_time(when: datetime) -> str:
    """RFC 3339 in whole seconds with a Z, as Kubernetes writes metav1.Time."""
    return when.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def decoder(kind: type[T]) -> Callable[[bytes | msgspec.Raw], T]:
    """A decoder of `kind` from JSON that reads null as absent.

    Servers sometimes write null for an empty list. That is rare, so the fast strict decoder goes first, and the slow
    way runs only if it fails. Raises msgspec.ValidationError if the object does not have this shape at all.
    """
    known: Callable[[bytes | msgspec.Raw], T] | None = _DECODERS.get(kind)
    if known is None:
        known = _DECODERS[kind] = _decoder(kind)
    return known


_DECODERS: dict[Any, Callable[[bytes | msgspec.Raw], Any]] = {}


def _decoder(kind: type[T]) -> Callable[[bytes | msgspec.Raw], T]:
    strict = msgspec.json.Decoder(kind)
    carried = {f.encode_name for f in _fields(kind) if f.type is msgspec.Raw}

    def decode(data: bytes | msgspec.Raw) -> T:
        try:
            return strict.decode(data)
        except msgspec.ValidationError:
            return strict.decode(encode(_without_null_fields(data, carried)))

    return decode


def _fields(kind: Any) -> tuple[msgspec.structs.FieldInfo, ...]:
    is_struct = isinstance(kind, type) and issubclass(kind, msgspec.Struct)
    return msgspec.structs.fields(kind) if is_struct else ()


def _without_null_fields(data: bytes | msgspec.Raw, carried: set[str]) -> Any:
    """Without null in the fields that we read; raw fields stay as they are, byte for byte."""
    try:
        parts = msgspec.json.decode(data, type=dict[str, msgspec.Raw])
    except msgspec.ValidationError:
        return msgspec.Raw(data)
    read = {name: part for name, part in parts.items() if bytes(part) != b"null"}
    return {name: part if name in carried else _without_nulls(msgspec.json.decode(part)) for name, part in read.items()}


def _without_nulls(tree: Any) -> Any:
    if isinstance(tree, dict):
        return {key: _without_nulls(value) for key, value in tree.items() if value is not None}
    if isinstance(tree, list):
        return [_without_nulls(value) for value in tree if value is not None]
    return tree


encode = msgspec.json.Encoder().encode
"""Any value, dict or raw subtree to JSON bytes."""


class Decoded(Generic[Whole, T]):
    """Values of one type by the identity of their raw text, which is a `part` of an object: the latest ones, of so many
    bytes that the large objects of a tenant take little memory when they are gone; the very latest of any size, since
    code that works on an object asks for it a dozen times. The text is kept beside its value, so that no other text can
    have its identity.
    """

    def __init__(self, kind: type[T], part: Callable[[Whole], msgspec.Raw], *, most: int, most_bytes: int) -> None:
        self._kind, self._part = kind, part
        self._most, self._most_bytes = most, most_bytes
        self._known: dict[int, tuple[msgspec.Raw, T]] = {}
        self._bytes = 0

    def of(self, item: Whole) -> T:
        """Raises msgspec.ValidationError for a text that is no such value."""
        raw = self._part(item)
        known = self._known.get(id(raw))
        if known is not None:
            return known[1]
        value = decoder(self._kind)(raw)
        self._known[id(raw)] = raw, value
        self._bytes += len(raw)
        while len(self._known) > self._most or (self._bytes > self._most_bytes and len(self._known) > 1):
            oldest, _ = self._known.pop(next(iter(self._known)))
            self._bytes -= len(oldest)
        return value
