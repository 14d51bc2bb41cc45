"""Keeps the served kinds equal to the stored CustomResourceDefinitions."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import NamedTuple

from fakekube.builtins.kinds import CRDS
from fakekube.model.resources import Resource
from fakekube.model.storage import DELETED, Change, Version
from fakekube.model.wire import Object
from fakekube.schemas import crd
from fakekube.server.server import Server

__all__ = ["Definitions"]


class Definitions:
    """The controller of CustomResourceDefinitions. It writes their status and adds and removes kinds, without delay.

    `on_end` is called with each kind that is no longer served, or that has changed.
    """

    def __init__(self, server: Server, on_end: Callable[[Resource], None]) -> None:
        self._server, self._on_end = server, on_end
        server.storage.subscribe(self._note, CRDS)

    def install(self, definitions: Iterable[Object]) -> None:
        """Store definitions that are known to be valid, without admission and validation. Much faster than the API."""
        for definition in definitions:
            item = _prepared(_Same(definition))
            metadata = {
                **item["metadata"],
                "uid": self._server.uid(),
                "creationTimestamp": self._server.stamp(),
                "generation": 1,
            }
            accepted = crd.accepted({**item, "metadata": metadata}, self._server.now())
            self._server.storage.put(CRDS, item["metadata"]["name"], accepted)

    def _note(self, change: Change) -> None:
        item = change.version.object
        if change.type == DELETED:
            self._withdraw(item)
            return
        settled = self._settle(change.version)
        before = change.old.object if change.old is not None else {}
        if not settled or (_is_established(before) and before["spec"] == item["spec"]):
            return
        self._withdraw(item)
        if _is_established(item):
            for resource in _resources(_Same(item["spec"])):
                self._server.registry.add(resource)

    def _settle(self, version: Version) -> bool:
        """Whether the status is up to date. Otherwise write it, which causes another call."""
        item = version.object
        others = (each.object for each in self._server.storage.select(CRDS) if each.key != version.key)
        accepted = crd.accepted(item, self._server.now(), others)
        if accepted["status"] == item.get("status"):
            return True
        self._server.storage.put(CRDS, version.key, accepted)
        return False

    def _withdraw(self, item: Object) -> None:
        group, plural = item["spec"]["group"], item["spec"]["names"]["plural"]
        served = [each for each in self._server.registry if (each.group, each.plural) == (group, plural)]
        if not served:
            return
        self._server.registry.remove(group, plural)
        for resource in served[:1]:
            self._on_end(resource)


class _Same(NamedTuple("_Same", [("item", Object)])):
    """An object as a cache key, compared by identity."""

    __slots__ = ()

    def __hash__(self) -> int:
        return id(self.item)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self.item is other.item


@lru_cache(512)
def _prepared(same: _Same) -> Object:
    """A definition with its defaults; clusters with the same definition share it."""
    return crd.defaulted(same.item)


@lru_cache(512)
def _resources(same: _Same) -> tuple[Resource, ...]:
    return crd.resources_of({"spec": same.item})


def _is_established(item: Object) -> bool:
    conditions = (item.get("status") or {}).get("conditions") or ()
    return any(each["type"] == "Established" and each["status"] == "True" for each in conditions)
