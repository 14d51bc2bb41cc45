"""An API server in memory for what we keep for ourselves: Secrets, registrations, ConfigMaps; and reviews of access."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from multikueue.api.kinds import Kind
from multikueue.api.meta import ObjectKey, decoder, encode
from multikueue.errors import AlreadyExists, Conflict, NotFound

Tree = dict[str, Any]


class Api:
    """`interfere` runs before each call, as others would. `allowed` decides on reviews, by their spec."""

    def __init__(self) -> None:
        self.objects: dict[tuple[str, ObjectKey], Tree] = {}
        self.writes: list[str] = []
        self.reviews: list[Tree] = []
        self.interfere: Callable[[str], None] = lambda _call: None
        self.allowed: Callable[[Tree], Tree] = lambda _spec: {"allowed": True}
        self._versions = 0

    async def get(self, kind: Kind[Any], key: ObjectKey) -> Any:
        self.interfere(f"get {kind.plural}")
        return _value(kind, self._found(kind, key))

    async def create(self, kind: Kind[Any], namespace: str, body: Tree) -> Any:
        self.interfere(f"create {kind.plural}")
        key = ObjectKey(namespace, body["metadata"]["name"])
        if (kind.plural, key) in self.objects:
            raise AlreadyExists(409, "AlreadyExists", str(key))
        self.writes.append(f"create {kind.plural}")
        return _value(kind, self.put(kind, key, body))

    async def merge_patch(self, kind: Kind[Any], key: ObjectKey, body: Tree) -> Any:
        self.interfere(f"patch {kind.plural}")
        found = self._found(kind, key)
        if body["metadata"]["resourceVersion"] != found["metadata"]["resourceVersion"]:
            raise Conflict(409, "Conflict", str(key))
        self.writes.append(f"patch {kind.plural}")
        return _value(kind, self.put(kind, key, _merged(found, body)))

    async def request(self, method: str, path: str, *, body: bytes) -> bytes:
        self.interfere(f"{method} {path}")
        assert path.endswith("/subjectaccessreviews")
        self.reviews.append(msgspec.json.decode(body)["spec"])
        return encode({"status": self.allowed(self.reviews[-1])})

    def put(self, kind: Kind[Any], key: ObjectKey, body: Tree) -> Tree:
        """Somebody else's write."""
        self._versions += 1
        metadata = {"uid": "uid", **body.get("metadata", {}), "name": key.name, "namespace": key.namespace}
        metadata["resourceVersion"] = str(self._versions)
        self.objects[kind.plural, key] = msgspec.json.decode(encode(body | {"metadata": metadata}))
        return self.objects[kind.plural, key]

    def _found(self, kind: Kind[Any], key: ObjectKey) -> Tree:
        if (kind.plural, key) not in self.objects:
            raise NotFound(404, "NotFound", str(key))
        return self.objects[kind.plural, key]


def _merged(old: Tree, patch: Tree) -> Tree:
    merged = dict(old)
    for name, value in patch.items():
        both = isinstance(value, dict) and isinstance(merged.get(name), dict)
        merged[name] = _merged(merged[name], value) if both else value
    return merged


def _value(kind: Kind[Any], shown: Tree) -> Any:
    kept: Any = kind.type
    return decoder(kept)(encode(shown))
