"""Decodes answers and watch events into values that own their memory: one file, as all bounds on text are here.

A raw subtree from msgspec is a view into the decoded bytes: one cached object would keep a whole page of a list alive.
So every raw field is copied once, right after decoding, before other code sees the value. The raw fields are looked up
once per type.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache
from types import UnionType
from typing import Annotated, Any, Generic, Protocol, TypeVar, Union, get_args, get_origin

import anyio.lowlevel
import msgspec
from msgspec.structs import force_setattr

from multikueue.api.jobs.job import CustomJob
from multikueue.api.kind import Kind
from multikueue.api.meta import Object, ObjectKey, decoder, encode
from multikueue.api.values.foreign import why_unreadable

__all__ = [
    "UNREADABLE",
    "DecodedEvent",
    "Listing",
    "Stub",
    "StubMeta",
    "WatchEvent",
    "change_of",
    "cut_list_of",
    "event_of",
    "list_of",
    "object_of",
    "pieces_of",
    "stub_of",
    "whole",
    "without_depths",
]

T = TypeVar("T", bound=Object)
T_co = TypeVar("T_co", bound=Object, covariant=True)


class WatchEvent(msgspec.Struct, gc=False):
    """One line of a watch. BOOKMARK and ERROR share the envelope, so the object stays raw until its type is known."""

    type: str
    object: msgspec.Raw


class DecodedEvent(Protocol[T_co]):
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
    """Name and version of an object: all there is of a bookmark, and of an object that cannot be decoded."""

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


class _Envelope(msgspec.Struct, gc=False):
    metadata: _ListMeta
    items: msgspec.Raw = msgspec.Raw()


class _DecodedEvent(msgspec.Struct, Generic[T], frozen=True):
    type: str
    object: T


class Listing(msgspec.Struct, Generic[T], frozen=True):
    """One page of a list. `garbage` has each item that does not fit its kind, with the reason."""

    items: list[T]
    garbage: list[tuple[Stub, str]]
    resource_version: str
    cont: str


UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""Errors of a decoder. UnicodeDecodeError: text that is no UTF-8. RecursionError: JSON nested too deeply even to skip,
from about a thousand levels, depending on the version of Python and the depth of the call."""

_decode_event = msgspec.json.Decoder(WatchEvent).decode
_decode_stub = msgspec.json.Decoder(Stub).decode
_decode_raw_page = msgspec.json.Decoder(_RawPage).decode
_decode_envelope = msgspec.json.Decoder(_Envelope).decode
_decode_items = msgspec.json.Decoder(list[msgspec.Raw]).decode

_DEEPEST = 200
"""Levels. No real object has a quarter of them."""

_TEXT = rb'[^"{}\[\]]++|"(?:[^"\\]++|\\.)*+"?'


def _up_to(levels: int) -> bytes:
    """A pattern for JSON of at most that many levels."""
    return _TEXT + rb"|[{\[](?:" + _up_to(levels - 1) + rb")*+[}\]]" if levels else _TEXT


@cache
def _bracket() -> re.Pattern[bytes]:
    """A pattern for the next bracket around more levels than most objects have: the regex engine skips the shallow
    ones.

    It matches at every position, so one pass suffices, also over invalid JSON. Large, so compiled on first use."""
    return re.compile(rb"(?:" + _up_to(8) + rb")*+([{}\[\]]|\Z)", re.DOTALL)


_CUT = b'"(nested too deeply)"'
"""Replaces the levels that are too deep. In a page that was cut, an object with this very text counts as cut, too."""


_STEPS = 10_000
"""Brackets between two checkpoints."""


async def without_depths(data: bytes) -> bytes:
    """The JSON without the levels that are too deep. 10 MB of brackets take a second, so there are checkpoints."""
    kept: list[bytes] = []
    for count, part in enumerate(_kept(data)):
        if part:
            kept.append(part)
        if count % _STEPS == 0:
            await anyio.lowlevel.checkpoint()
    return b"".join(kept)


def _kept(data: bytes) -> Iterator[bytes]:
    """The parts that stay: one, possibly empty, for each bracket examined, so that the caller can yield to the loop."""
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
    """`data` unchanged. Raises RecursionError if `without_depths` cut it."""
    if _CUT in bytes(data):
        raise RecursionError
    return data


def event_of(line: bytes) -> WatchEvent:
    """A line of a watch. Raises msgspec.DecodeError if the line is no event, RecursionError if it is nested too
    deeply."""
    return _decode_event(line)


def stub_of(data: bytes | msgspec.Raw) -> Stub:
    """Name and version of the object; empty where they cannot be decoded. Never raises."""
    try:
        return _decode_stub(data)
    except UNREADABLE:
        return Stub()


@cache
def object_of(kind: type[T]) -> Callable[[bytes | msgspec.Raw], T]:
    """The decoder of `kind`, whose values own their memory. The decoder raises one of UNREADABLE."""
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
def change_of(kind: type[T]) -> Callable[[bytes], DecodedEvent[T]]:
    """The decoder of a watch line in one pass, which halves the cost of an event; the object owns its memory.

    The decoder raises one of UNREADABLE for an ERROR, a null, an object that does not fit, or no event: `event_of` and
    `object_of` then say which. (An ERROR may also pass, as an object without a name.)
    """
    if issubclass(kind, CustomJob):
        return _change_in_two_passes(object_of(kind))
    fields: list[tuple[str, Any] | tuple[str, Any, Any]] = [("type", str), ("object", kind)]
    decode = msgspec.json.Decoder(msgspec.defstruct(f"{kind.__name__}Change", fields, gc=False)).decode
    own = _owner(kind)

    def decode_and_own(line: bytes) -> DecodedEvent[T]:
        change: Any = decode(line)
        if own is not None:
            own(change.object)
        return change  # type: ignore[no-any-return]  # the struct made above has the fields of a Change

    return decode_and_own


def _change_in_two_passes(one: Callable[[msgspec.Raw], T]) -> Callable[[bytes], DecodedEvent[T]]:
    """The decoder of a watch line for a custom job, whose unnamed fields need a second pass over the object."""

    def decode(line: bytes) -> DecodedEvent[T]:
        event = event_of(line)
        return _DecodedEvent(event.type, one(event.object))

    return decode


@cache
def list_of(kind: Kind[T]) -> Callable[[bytes], Listing[T]]:
    """The decoder of one page of a list of `kind`.

    The decoder raises msgspec.DecodeError if the page is no list, and RecursionError if it is nested too deeply: then
    `without_depths` cuts it for `cut_list_of`. A page is decoded at once; item by item only after a failure, to find
    the broken items.
    """
    strict = msgspec.json.Decoder(_page_type(kind.type)).decode
    one, own = object_of(kind.type), _owner(kind.type)
    if issubclass(kind.type, CustomJob):
        return lambda data: _item_by_item(data, one)

    def decode_page(data: bytes) -> Listing[T]:
        try:
            page = strict(data)
        except (msgspec.ValidationError, UnicodeDecodeError, RecursionError):
            page = None
        if page is None:  # not in the handler: each item's error would refer to the page's
            return _item_by_item(data, one)
        items: list[T] = page.items or []
        if own is not None:
            for item in items:
                own(item)
        return Listing(items, [], page.metadata.resource_version, page.metadata.cont)

    return decode_page


_FEW_COMMAS, _MANY_COMMAS = 20_000, 100_000
"""A page with few is decoded at once: it has few values, of whatever size. One with many may have as many items, too many to
have an object for each, and is searched for them: a list of 500 objects, as servers send it, has less, and is searched in
ten times as long as it is decoded."""

_PIECE = 250
"""Items of a piece."""


@cache
def _some_items() -> re.Pattern[bytes]:
    """A pattern for items of a JSON list, with the comma after each. It does not match an item deeper than `_DEEPEST`."""
    text = rb'"(?:[^"\\]++|\\.)*+"|[^"{}\[\],]++'
    item = text + rb"|[{\[](?:" + _up_to(_DEEPEST) + rb")*+[}\]]"
    return re.compile(rb"(?:\s*+(?:" + item + rb")\s*+(?:,|\Z)){1,%d}+" % _PIECE, re.DOTALL)


def pieces_of(page: bytes) -> Iterator[bytes]:
    """The page as several of 250 items each, if it has many values: an item of two bytes decodes to hundreds.

    Raises msgspec.DecodeError if the page is no list, and RecursionError if an item is nested too deeply.
    """
    commas = page.count(b",")
    if commas < _FEW_COMMAS:
        yield page
        return
    envelope = _decode_envelope(page)
    items = memoryview(envelope.items)
    if re.match(rb"\[(?!\s*\])", items) is None:
        yield page
        return
    head = b'{"metadata":' + encode(envelope.metadata) + b',"items":['
    for piece in _found(items[1:-1]) if commas >= _MANY_COMMAS else _counted(items):
        yield head + piece + b"]}"


def _counted(items: memoryview) -> Iterator[bytes]:
    """The items of a list, 250 at a time."""
    each = _decode_items(items)
    for start in range(0, len(each), _PIECE):
        yield b",".join(each[start : start + _PIECE])


def _found(items: memoryview) -> Iterator[bytes]:
    """The same, of items without brackets around them, and without an object for each. Raises RecursionError if one is
    nested too deeply."""
    end = 0
    while end < len(items):
        found = _some_items().match(items, end)
        if found is None:
            raise RecursionError
        start, end = end, found.end()
        yield bytes(items[start:end]).rstrip().removesuffix(b",")


def cut_list_of(kind: Kind[T]) -> Callable[[bytes], Listing[T]]:
    """The decoder of a page that `without_depths` cut: items that are not `whole` are garbage."""
    return lambda data: _item_by_item(data, object_of(kind.type))


def _page_type(kind: type[Object]) -> Any:
    items: Any = list[kind] | None  # type: ignore[valid-type]
    fields: list[tuple[str, Any] | tuple[str, Any, Any]] = [("metadata", _ListMeta), ("items", items, None)]
    return msgspec.defstruct(f"{kind.__name__}Page", fields, gc=False)


def _item_by_item(data: bytes, one: Callable[[msgspec.Raw], T]) -> Listing[T]:
    page = _decode_raw_page(data)
    items: list[T] = []
    garbage: list[tuple[Stub, str]] = []
    for raw in page.items or ():
        try:
            items.append(one(whole(raw)))
        except UNREADABLE as error:
            garbage.append((stub_of(raw), why_unreadable(error)))  # the error would keep this frame, in a cycle
    return Listing(items, garbage, page.metadata.resource_version, page.metadata.cont)


_KNOWN_FIELDS = frozenset(("apiVersion", "kind", "metadata", "spec", "status"))
_fields_of = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


def _carry_others(job: Any, data: bytes | msgspec.Raw) -> None:
    """Keep the top-level fields of a custom job that our type does not name."""
    others = {name: field for name, field in _fields_of(data).items() if name not in _KNOWN_FIELDS}
    if others:
        force_setattr(job, "others", msgspec.Raw(encode(others)))


# The functions below turn a type into a function that copies its raw subtrees in place. Values are frozen elsewhere;
# these were just decoded, and no other code holds them yet.

_Own = Callable[[Any], None]


def _owner(kind: Any) -> _Own | None:
    """A function that makes a value of that type own its raw subtrees; None if it has none.

    Raises TypeError for raw subtrees in a place that this module does not support.
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
        return _of_one([own for option in args if (own := _owner(option)) is not None])
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
            part = getattr(value, name)
            if part:  # not None, UNSET or empty
                own(part)

    return own_struct


def _is_raw(kind: Any) -> bool:
    return kind is msgspec.Raw or (get_origin(kind) in (Union, UnionType) and msgspec.Raw in get_args(kind))


def _each(own: _Own | None) -> _Own | None:
    if own is None:
        return None

    def own_each(values: Any) -> None:
        for value in values:
            if value:  # as above
                own(value)

    return own_each


def _of_one(inner: list[_Own]) -> _Own | None:
    if len(inner) > 1:
        raise TypeError("a union of two types with raw subtrees is not foreseen")
    return inner[0] if inner else None
