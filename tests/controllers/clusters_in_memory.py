"""Clusters in memory for the controllers' tests: objects as an API server keeps them, watched by the store's caches.

Only what the controllers rely on is kept: versions, preconditions, names that are taken, finalizers, the status apart from
the rest. What they must not rely on (order between kinds, quick events) is up to the test: events may be held back.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import msgspec

from fakekube.patching import patches
from fakekube.patching.patches import merge_patch
from fakekube.wire import Refused
from multikueue.api.kinds import Kind
from multikueue.api.meta import ObjectKey, encode, render_time
from multikueue.errors import AlreadyExists, Conflict, Forbidden, Invalid, MultiKueueError, NotFound
from multikueue.kube.client import Page
from multikueue.kube.decode import object_of
from multikueue.store.cache import Cache

Body = dict[str, Any]
Fault = Callable[[str, str], MultiKueueError | None]
"""Asked before each call with verb and plural; what it answers is raised instead of the call."""


@dataclass
class ClusterInMemory:
    """One cluster. `calls` lists what was asked of it, as `verb plural[/subresource]`, `authors` in whose name JSON
    patches came."""

    name: str
    now: Callable[[], datetime]
    objects: dict[tuple[str, ObjectKey], Body] = field(default_factory=dict)
    calls: list[str] = field(default_factory=list)
    authors: list[str] = field(default_factory=list)
    fault: Fault = lambda _verb, _plural: None
    hidden: set[str] = field(default_factory=set)
    """Namespaces that it refuses to list."""
    lose_answer: Fault = lambda _verb, _plural: None
    cluster: str = ""
    _sinks: list[tuple[Kind[Any], Cache[Any], Callable[[Body], bool]]] = field(default_factory=list)
    _versions: itertools.count[int] = field(default_factory=lambda: itertools.count(1))

    def watch(self, kind: Kind[Any], sink: Cache[Any], selected: Callable[[Body], bool] = lambda _: True) -> None:
        self._sinks.append((kind, sink, selected))

    @contextmanager
    def unheard(self) -> Iterator[None]:
        """What changes in this block no watch tells."""
        sinks, self._sinks = self._sinks, []
        yield
        self._sinks = sinks

    def writes(self) -> list[str]:
        return [call for call in self.calls if not call.startswith("get")]

    def find(self, kind: Kind[Any], key: ObjectKey) -> Body | None:
        return self.objects.get((kind.plural, key))

    def all(self, kind: Kind[Any]) -> list[Body]:
        return [body for (plural, _), body in self.objects.items() if plural == kind.plural]

    # What a client does.

    async def get(self, kind: Kind[Any], key: ObjectKey) -> Any:
        self._asked("get", kind)
        return self._value(kind, self._existing(kind, key))

    async def list(self, kind: Kind[Any], *, namespace: str = "") -> Page[Any]:
        self._asked("list", kind)
        if namespace in self.hidden:
            raise Forbidden(403, "Forbidden", f"{kind.plural} in {namespace}")
        there = (body for body in self.all(kind) if namespace in ("", body["metadata"].get("namespace", "")))
        return Page(tuple(self._value(kind, body) for body in there), "1")

    async def create(self, kind: Kind[Any], namespace: str, body: Mapping[str, Any]) -> Any:
        self._asked("create", kind)
        made = plain(body)
        key = ObjectKey(namespace if kind.namespaced else "", made["metadata"]["name"])
        if self.find(kind, key):
            raise AlreadyExists(409, "AlreadyExists", f"{kind.plural} {key} already exists")
        made["metadata"] |= {"namespace": key.namespace, "uid": f"{self.name}-{next(self._versions)}", "generation": 1}
        made["metadata"]["creationTimestamp"] = render_time(self.now())
        made.pop("status", None)
        return self._answer("create", kind, self._store(kind, key, made))

    async def merge_patch(
        self, kind: Kind[Any], key: ObjectKey, body: Mapping[str, Any], *, subresource: str = ""
    ) -> Any:
        self._asked("patch", kind, subresource)
        old, patch = self._existing(kind, key), plain(body)
        wanted = patch.get("metadata", {}).pop("resourceVersion", None)
        if wanted is not None and wanted != old["metadata"]["resourceVersion"]:
            raise Conflict(409, "Conflict", "the object has been modified")
        patch = {"status": patch["status"]} if subresource else {k: v for k, v in patch.items() if k != "status"}
        new = merge_patch(old, patch)
        if new == old:
            return self._value(kind, old)
        if new.get("spec") != old.get("spec"):
            new["metadata"]["generation"] = new["metadata"].get("generation", 1) + 1
        if new["metadata"].get("deletionTimestamp") and not new["metadata"].get("finalizers"):
            self._remove(kind, key, new)
            return self._value(kind, new)
        return self._answer("patch", kind, self._store(kind, key, new))

    async def json_patch(
        self, kind: Kind[Any], key: ObjectKey, operations: Sequence[Mapping[str, Any]], *, manager: str
    ) -> Any:
        self._asked("patch", kind)
        self.authors.append(manager)
        try:
            new = patches.json_patch(self._existing(kind, key), list(operations))
        except Refused as refused:
            raise Invalid(refused.code, "Invalid", refused.message) from None
        return self._answer("patch", kind, self._store(kind, key, new))

    async def delete(self, kind: Kind[Any], key: ObjectKey, *, uid: str = "", propagation: str = "") -> Any:
        self._asked("delete", kind)
        old = self._existing(kind, key)
        if uid and uid != old["metadata"]["uid"]:
            raise Conflict(409, "Conflict", "the UID is another")
        if old["metadata"].get("finalizers"):
            leaving = merge_patch(old, {"metadata": {"deletionTimestamp": render_time(self.now())}})
            return self._answer("delete", kind, self._store(kind, key, leaving))
        self._remove(kind, key, old)
        return self._lost("delete", kind)

    # What others do.

    def put(self, kind: Kind[Any], body: Body) -> None:
        """Somebody else wrote the object."""
        key = ObjectKey(body["metadata"].get("namespace", ""), body["metadata"]["name"])
        body = plain(body)
        body["metadata"].setdefault("uid", f"{self.name}-{next(self._versions)}")
        self._store(kind, key, body)

    def change(self, kind: Kind[Any], key: ObjectKey, patch: Body) -> None:
        """Somebody else patched the object."""
        self._store(kind, key, merge_patch(self._existing(kind, key), patch))

    def drop(self, kind: Kind[Any], key: ObjectKey) -> None:
        """Somebody else deleted the object."""
        self._remove(kind, key, self._existing(kind, key))

    def _asked(self, verb: str, kind: Kind[Any], subresource: str = "") -> None:
        self.calls.append(f"{verb} {kind.plural}" + (f"/{subresource}" if subresource else ""))
        error = self.fault(verb, kind.plural)
        if error is not None:
            raise error

    def _answer(self, verb: str, kind: Kind[Any], body: Body) -> Any:
        self._lost(verb, kind)
        return self._value(kind, body)

    def _lost(self, verb: str, kind: Kind[Any]) -> None:
        """The call took effect, and its answer may still not come."""
        error = self.lose_answer(verb, kind.plural)
        if error is not None:
            raise error

    def _existing(self, kind: Kind[Any], key: ObjectKey) -> Body:
        found = self.find(kind, key)
        if found is None:
            raise NotFound(404, "NotFound", f"{kind.plural} {key} not found")
        return found

    def _store(self, kind: Kind[Any], key: ObjectKey, body: Body) -> Body:
        body["metadata"]["resourceVersion"] = str(next(self._versions))
        self.objects[kind.plural, key] = body
        for _, sink, selected in self._of(kind):
            if selected(body):
                sink.upsert(self._value(kind, body))
        return body

    def _remove(self, kind: Kind[Any], key: ObjectKey, body: Body) -> None:
        del self.objects[kind.plural, key]
        for _, sink, selected in self._of(kind):
            if selected(body):
                sink.remove(self._value(kind, body))

    def _of(self, kind: Kind[Any]) -> Sequence[tuple[Kind[Any], Cache[Any], Callable[[Body], bool]]]:
        return [watched for watched in self._sinks if watched[0] is kind]

    def _value(self, kind: Kind[Any], body: Body) -> Any:
        value_type: Any = kind.type
        return object_of(value_type)(encode(body))


def plain(body: Mapping[str, Any]) -> Body:
    plain: Body = msgspec.json.decode(encode(body))
    return plain
