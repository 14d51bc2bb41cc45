"""Answers and watch events to typed values that own their memory.

A raw subtree that msgspec hands out is a view into the bytes it was decoded from: one cached object would keep a whole
page of a list alive. So every raw field is copied out once, right after decoding, before anybody else sees the value.
Which fields these are is found out once per type.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from types import UnionType
from typing import Annotated, Any, Generic, Protocol, TypeVar, Union, get_args, get_origin

import anyio.lowlevel
import msgspec
from msgspec.structs import force_setattr

from multikueue.api.job import CustomJob
from multikueue.api.kinds import Kind
from multikueue.api.meta import Object, ObjectKey, decoder, encode

__all__ = [
    "UNREADABLE",
    "Change",
    "Event",
    "Listing",
    "Stub",
    "StubMeta",
    "change_of",
    "cut_list_of",
    "event_of",
    "list_of",
    "object_of",
    "stub_of",
    "whole",
    "without_depths",
]

T = TypeVar("T", bound=Object)
T_co = TypeVar("T_co", bound=Object, covariant=True)


class Event(msgspec.Struct, gc=False):
    """One line of a watch. BOOKMARK and ERROR share the envelope, so the object stays raw until its type is known."""

    type: str
    object: msgspec.Raw


class Change(Protocol[T_co]):
    """One line of a watch with its object decoded."""

    @property
    def type(self) -> str: ...

    @property
    def object(self) -> T_co: ...


class StubMeta(msgspec.Struct, gc=False):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = msgspec.field(name="resourceVersion", default="")


class Stub(msgspec.Struct, gc=False):
    """As much of an object as must be right even where nothing else is: bookmarks, and what cannot be decoded."""

    metadata: StubMeta = msgspec.field(default_factory=StubMeta)

    @property
    def key(self) -> ObjectKey | None:
        return ObjectKey(self.metadata.namespace, self.metadata.name) if self.metadata.name else None


class _ListMeta(msgspec.Struct, gc=False):
    resource_version: str = msgspec.field(name="resourceVersion", default="")
    cont: str = msgspec.field(name="continue", default="")


class _RawPage(msgspec.Struct, gc=False):
    metadata: _ListMeta
    items: list[msgspec.Raw] | None = None


@dataclass(frozen=True, slots=True)
class _Change(Generic[T]):
    type: str
    object: T


@dataclass(frozen=True, slots=True)
class Listing(Generic[T]):
    """One answer to a list request. `garbage` holds each item that is not of its kind's shape, with the reason."""

    items: list[T]
    garbage: list[tuple[Stub, Exception]]
    resource_version: str
    cont: str


UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What a decoder raises; text that is no UTF-8 has an error of its own, and so has what is nested too deeply even to be
skipped: from about a thousand levels, depending on the version of Python and on who asks."""

_decode_event = msgspec.json.Decoder(Event).decode
_decode_stub = msgspec.json.Decoder(Stub).decode
_decode_raw_page = msgspec.json.Decoder(_RawPage).decode

_DEEPEST = 200
"""Levels. No honest object has a quarter of them."""

_TEXT = rb'[^"{}\[\]]++|"(?:[^"\\]++|\\.)*+"?'


def _up_to(levels: int) -> bytes:
    """What matches anything of that many levels at most."""
    return _TEXT + rb"|[{\[](?:" + _up_to(levels - 1) + rb")*+[}\]]" if levels else _TEXT


@cache
def _bracket() -> re.Pattern[bytes]:
    """The next bracket around something of more levels than objects have as a rule: so those are skipped at the speed of a
    pattern. It matches wherever it is tried, hence in one pass, also in what is no JSON. Large, so made when needed."""
    return re.compile(rb"(?:" + _up_to(8) + rb")*+([{}\[\]]|\Z)", re.DOTALL)


_CUT = b'"(nested too deeply)"'
"""In place of what is too deep. Whoever writes these words himself is left out where somebody else nested too deeply."""


_STEPS = 10_000
"""Brackets between two turns of the event loop."""


async def without_depths(data: bytes) -> bytes:
    """The same JSON, cut where it is too deep. That takes a second for some 10 MB of brackets: others have turns meanwhile."""
    kept: list[bytes] = []
    for count, part in enumerate(_kept(data)):
        if part:
            kept.append(part)
        if count % _STEPS == 0:
            await anyio.lowlevel.checkpoint()
    return b"".join(kept)


def _kept(data: bytes) -> Iterator[bytes]:
    """What stays of it, by and by: something for each bracket that is looked at, even if it is nothing."""
    depth = start = 0
    for found in _bracket().finditer(data):
        bracket, part = found[1], b""
        if bracket in (b"{", b"["):
            depth += 1
            if depth == _DEEPEST:
                part = data[start : found.start(1)]
        elif bracket:
            if depth == _DEEPEST:
                part, start = _CUT, found.end()
            depth -= 1
        yield part
    yield data[start:]


def whole(data: msgspec.Raw) -> msgspec.Raw:
    """The same. Raises RecursionError if its depths were cut off."""
    if _CUT in bytes(data):
        raise RecursionError
    return data


def event_of(line: bytes) -> Event:
    """A line of a watch. Raises msgspec.DecodeError if the line is no event at all, RecursionError if it goes too deep."""
    return _decode_event(line)


def stub_of(data: bytes | msgspec.Raw) -> Stub:
    """Which object it is, and its version, of anything; empty where they cannot be read."""
    try:
        return _decode_stub(data)
    except UNREADABLE:
        return Stub()


@cache
def object_of(kind: type[T]) -> Callable[[bytes | msgspec.Raw], T]:
    """The decoder of `kind` whose values own their memory. Raises one of UNREADABLE."""
    decode, own, carries = decoder(kind), _owner(kind), issubclass(kind, CustomJob)
    if own is None:
        return decode

    def decode_and_own(data: bytes | msgspec.Raw) -> T:
        item: T = decode(data)
        own(item)
        if carries:
            _carry_others(item, data)
        return item

    return decode_and_own


@cache
def change_of(kind: type[T]) -> Callable[[bytes], Change[T]]:
    """The decoder of a watch line in one pass, which halves the cost of an event; the object owns its memory.

    It raises one of UNREADABLE for whatever is odd: an ERROR, a null, an object out of shape, no event at all. Then
    `event_of` and `object_of` tell which. (An ERROR may also pass, as an object without a name.)
    """
    if issubclass(kind, CustomJob):
        return _change_in_two_passes(object_of(kind))
    fields: list[tuple[str, Any] | tuple[str, Any, Any]] = [("type", str), ("object", kind)]
    decode = msgspec.json.Decoder(msgspec.defstruct(f"{kind.__name__}Change", fields, gc=False)).decode
    own = _owner(kind)

    def decode_and_own(line: bytes) -> Change[T]:
        change: Any = decode(line)
        if own is not None:
            own(change.object)
        return change  # type: ignore[no-any-return]  # the struct made above has the fields of a Change

    return decode_and_own


def _change_in_two_passes(one: Callable[[msgspec.Raw], T]) -> Callable[[bytes], Change[T]]:
    """The same for a kind with fields that only a second look finds."""

    def decode(line: bytes) -> Change[T]:
        event = event_of(line)
        return _Change(event.type, one(event.object))

    return decode


@cache
def list_of(kind: Kind[T]) -> Callable[[bytes], Listing[T]]:
    """The decoder of one page of a list of `kind`. It raises msgspec.DecodeError if the page itself is no list, and
    RecursionError if it goes too deep: then `cut_list_of` is for what `without_depths` leaves.

    The page is decoded in one go; item by item only if that failed, since then one of them is odd or broken.
    """
    strict = msgspec.json.Decoder(_page_type(kind.type)).decode
    one, own = object_of(kind.type), _owner(kind.type)
    if issubclass(kind.type, CustomJob):
        return lambda data: _item_by_item(data, one)

    def decode_page(data: bytes) -> Listing[T]:
        try:
            page = strict(data)
        except (msgspec.ValidationError, UnicodeDecodeError, RecursionError):
            return _item_by_item(data, one)
        items: list[T] = page.items or []
        if own is not None:
            for item in items:
                own(item)
        return Listing(items, [], page.metadata.resource_version, page.metadata.cont)

    return decode_page


def cut_list_of(kind: Kind[T]) -> Callable[[bytes], Listing[T]]:
    """The same for a page whose depths were cut off: what is not `whole` any more is garbage."""
    return lambda data: _item_by_item(data, object_of(kind.type))


def _page_type(kind: type[Object]) -> Any:
    items: Any = list[kind] | None  # type: ignore[valid-type]
    fields: list[tuple[str, Any] | tuple[str, Any, Any]] = [("metadata", _ListMeta), ("items", items, None)]
    return msgspec.defstruct(f"{kind.__name__}Page", fields, gc=False)


def _item_by_item(data: bytes, one: Callable[[msgspec.Raw], T]) -> Listing[T]:
    page = _decode_raw_page(data)
    items: list[T] = []
    garbage: list[tuple[Stub, Exception]] = []
    for raw in page.items or ():
        try:
            items.append(one(whole(raw)))
        except UNREADABLE as error:
            garbage.append((stub_of(raw), error))
    return Listing(items, garbage, page.metadata.resource_version, page.metadata.cont)


_KNOWN_FIELDS = frozenset(("apiVersion", "kind", "metadata", "spec", "status"))
_fields_of = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


def _carry_others(job: Any, data: bytes | msgspec.Raw) -> None:
    """Keeps the fields at the top of a custom job that no kind of ours has a name for."""
    others = {name: field for name, field in _fields_of(data).items() if name not in _KNOWN_FIELDS}
    if others:
        force_setattr(job, "others", msgspec.Raw(encode(others)))


# What follows turns a type into a function that copies out its raw subtrees in place. Values are frozen for everybody
# else; here they have just been made and nobody holds them yet.

_Own = Callable[[Any], None]


def _owner(kind: Any) -> _Own | None:
    """A function that makes a value of that type own its raw subtrees; None if it has none.

    Raises TypeError where a type keeps raw subtrees in a place this module does not look at.
    """
    origin, args = get_origin(kind), get_args(kind)
    if kind is msgspec.Raw:
        raise TypeError("a raw subtree must be a field of a struct")
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return _struct_owner(kind)
    if origin is Annotated:
        return _owner(args[0])
    if origin in (list, tuple):
        return _each(_owner(args[0]))
    if origin in (Union, UnionType):
        return _unless_absent([own for option in args if (own := _owner(option)) is not None])
    if origin is dict and _owner(args[1]) is not None:
        raise TypeError("raw subtrees below the values of a dict are not foreseen")
    return None


@cache
def _struct_owner(kind: type[msgspec.Struct]) -> _Own | None:
    fields = msgspec.structs.fields(kind)
    raws = tuple(field.name for field in fields if _is_raw(field.type))
    owners = ((field.name, _owner(field.type)) for field in fields if not _is_raw(field.type))
    nested = tuple((name, own) for name, own in owners if own is not None)
    if not raws and not nested:
        return None

    def own_struct(value: Any) -> None:
        for name in raws:
            raw = getattr(value, name)
            if raw is not msgspec.UNSET:
                force_setattr(value, name, raw.copy())
        for name, own in nested:
            own(getattr(value, name))

    return own_struct


def _is_raw(kind: Any) -> bool:
    return kind is msgspec.Raw or (get_origin(kind) in (Union, UnionType) and msgspec.Raw in get_args(kind))


def _each(own: _Own | None) -> _Own | None:
    if own is None:
        return None

    def own_each(values: Any) -> None:
        for value in values:
            own(value)

    return own_each


def _unless_absent(inner: list[_Own]) -> _Own | None:
    if not inner:
        return None
    if len(inner) > 1:
        raise TypeError("a union of two types with raw subtrees is not foreseen")
    own = inner[0]

    def own_present(value: Any) -> None:
        if value is not None and value is not msgspec.UNSET:
            own(value)

    return own_present
