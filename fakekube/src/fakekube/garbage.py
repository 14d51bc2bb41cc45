"""What kube-controller-manager does about objects that nobody needs any more, within one cluster.

The garbage collector deletes dependents whose owners are gone, in the background or before their owner, or cuts the tie
if they are to stay. The namespace controller empties namespaces that end, and the controller of CustomResourceDefinitions
those kinds. All are told of changes and act some moments later, never within the write that they are told of.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from fakekube.builtins.kinds import CRDS
from fakekube.model.metadata import FOREGROUND, ORPHAN
from fakekube.model.resources import Resource
from fakekube.model.storage import DELETED, Change, Version, key_of
from fakekube.server.deletion import deleted
from fakekube.server.options import DeleteOptions
from fakekube.server.places import NAMESPACES
from fakekube.server.server import Server, Timer
from fakekube.wire import Object, Refused

__all__ = ["Caretaker"]

_CLEANUP = "customresourcecleanup.apiextensions.k8s.io"


class _Place(NamedTuple):
    """Where an object is kept."""

    storage: str
    key: str


class Caretaker:
    """Cleans up in one cluster. `delay` is the seconds from a change to the work that it makes."""

    def __init__(self, server: Server, *, delay: float = 0.05) -> None:
        self._server, self._delay = server, delay
        self._dependents: dict[str, dict[_Place, None]] = {}
        """The objects that name an owner, by the owner's UID."""
        self._queue: dict[_Place, None] = {}
        self._timer: Timer | None = None
        self._unsubscribe = server.storage.subscribe(self._note)
        for storage in server.storage.storages():
            for version in server.storage.select(storage):
                self._learn(_Place(storage, version.key), version.object)

    def close(self) -> None:
        """Do nothing any more."""
        self._unsubscribe()
        if self._timer is not None:
            self._timer.cancel()

    @property
    def is_idle(self) -> bool:
        return not self._queue

    def step(self) -> None:
        """Do now what there is to do."""
        queue, self._queue = self._queue, {}
        for place in queue:
            version = self._server.storage.get(*place)
            if version is not None:
                self._care(place, version)

    def _note(self, change: Change) -> None:
        place, item = _Place(change.storage, change.version.key), change.version.object
        if change.old is not None:
            if change.type != DELETED and _is_alike(item, change.old.object):
                return
            self._unlearn(place, change.old.object)
            # An owner may have waited for just this tie to be cut.
            if change.old.object["metadata"].get("ownerReferences") != item["metadata"].get("ownerReferences"):
                self._mind_owners_of(change.old.object)
        if change.type == DELETED:
            self._mind_end(place, item)
        else:
            self._learn(place, item)

    def _learn(self, place: _Place, item: Object) -> None:
        metadata = item["metadata"]
        for owner in metadata.get("ownerReferences") or ():
            self._dependents.setdefault(owner["uid"], {})[place] = None
            # As long as its owners are there, nothing has to be done about a dependent.
            if self._owner(owner, metadata.get("namespace", "")) is None:
                self._enqueue(place)
        if "deletionTimestamp" not in metadata:
            return
        # An owner that waits for its dependents is work on them before it is work on itself.
        if FOREGROUND in (metadata.get("finalizers") or ()):
            for dependent in self._dependents.get(metadata["uid"], ()):
                self._enqueue(dependent)
        self._enqueue(place)

    def _unlearn(self, place: _Place, item: Object) -> None:
        for owner in item["metadata"].get("ownerReferences") or ():
            known = self._dependents.get(owner["uid"], {})
            known.pop(place, None)
            if not known:
                self._dependents.pop(owner["uid"], None)

    def _mind_end(self, place: _Place, item: Object) -> None:
        """Whoever waited for the end of an object: its dependents, its owners, its namespace, its kind's definition."""
        metadata = item["metadata"]
        for dependent in self._dependents.get(metadata["uid"], ()):
            self._enqueue(dependent)
        self._mind_owners_of(item)
        if namespace := metadata.get("namespace"):
            self._enqueue_dying(_Place(NAMESPACES, namespace))
        self._enqueue_dying(_Place(CRDS, place.storage))

    def _mind_owners_of(self, item: Object) -> None:
        metadata = item["metadata"]
        for owner in metadata.get("ownerReferences") or ():
            if (found := self._owner(owner, metadata.get("namespace", ""))) is not None:
                self._enqueue_dying(found[0])

    def _enqueue_dying(self, place: _Place) -> None:
        version = self._server.storage.get(*place)
        if version is not None and "deletionTimestamp" in version.object["metadata"]:
            self._enqueue(place)

    def _enqueue(self, place: _Place) -> None:
        self._queue[place] = None
        if self._timer is None:
            self._timer = self._server.scheduler.call_later(self._delay, self._due)

    def _due(self) -> None:
        self._timer = None
        self.step()

    def _care(self, place: _Place, version: Version) -> None:
        metadata = version.object["metadata"]
        finalizers = metadata.get("finalizers") or ()
        if "deletionTimestamp" not in metadata:
            self._mind_owners(place, version)
        elif place.storage == NAMESPACES:
            self._end_namespace(place, version)
        elif place.storage == CRDS and _CLEANUP in finalizers:
            self._end_definition(place, version)
        elif ORPHAN in finalizers:
            self._orphan(place, version)
        elif FOREGROUND in finalizers:
            self._end_after_dependents(place, version)

    def _mind_owners(self, place: _Place, version: Version) -> None:
        """Delete a dependent none of whose owners is there and stays; forget those that are gone otherwise."""
        metadata = version.object["metadata"]
        solid, gone, waiting = _Owners(), _Owners(), _Owners()
        for reference in metadata.get("ownerReferences") or ():
            found = self._owner(reference, metadata.get("namespace", ""))
            if found is None:
                (gone if self._is_known(reference, metadata.get("namespace", "")) else solid).append(reference)
            elif _waits(found[1].object):
                waiting.append(reference)
            else:
                solid.append(reference)
        if solid:
            self._forget(place, version, [*gone, *waiting])
        elif waiting and self._dependents.get(metadata["uid"]):
            self._delete(place, version, "Foreground")
        elif gone or waiting:
            self._delete(place, version, _policy(metadata.get("finalizers") or ()))

    def _owner(self, reference: Object, namespace: str) -> tuple[_Place, Version] | None:
        """The owner that a reference in a namespace names, if it is there and the same."""
        resource = self._resource(reference)
        if resource is None:
            return None
        place = _Place(resource.storage, key_of(namespace if resource.namespaced else "", reference["name"]))
        version = self._server.storage.get(*place)
        if version is None or version.object["metadata"]["uid"] != reference["uid"]:
            return None
        return place, version

    def _is_known(self, reference: Object, namespace: str) -> bool:
        """Whether one can tell that an owner is gone: it is of a kind that is served, and could be where it is looked for."""
        resource = self._resource(reference)
        return resource is not None and (bool(namespace) or not resource.namespaced)

    def _resource(self, reference: Object) -> Resource | None:
        group, _, _ = reference["apiVersion"].rpartition("/")
        return self._server.registry.of_kind(group, reference["kind"])

    def _of(self, storage: str) -> Resource | None:
        return next((each for each in self._server.registry if each.storage == storage), None)

    def _forget(self, place: _Place, version: Version, references: Iterable[Object]) -> None:
        """Take owners out of a dependent."""
        uids = {reference["uid"] for reference in references}
        before = version.object["metadata"]["ownerReferences"]
        after = [each for each in before if each["uid"] not in uids]
        if len(after) < len(before):
            self._put(place, version, "ownerReferences", after)

    def _put(self, place: _Place, version: Version, name: str, value: list[object] | list[Object]) -> None:
        """Set a list of the metadata; without finalizers a dying object goes."""
        metadata = {key: each for key, each in version.object["metadata"].items() if key != name}
        item = {**version.object, "metadata": metadata | ({name: value} if value else {})}
        resource = self._of(place.storage)
        if "deletionTimestamp" in metadata and resource is not None and self._server.rules(resource).is_done(item):
            self._server.storage.remove(*place, item)
        else:
            self._server.storage.put(*place, item)

    def _delete(self, place: _Place, version: Version, policy: str) -> None:
        resource = self._of(place.storage)
        if resource is None:
            return
        try:
            deleted(self._server, resource, version, DeleteOptions(policy=policy))
        except Refused:
            return  # a namespace that stays for ever

    def _orphan(self, place: _Place, version: Version) -> None:
        """Cut the ties to all dependents, then let the owner go."""
        uid = version.object["metadata"]["uid"]
        for dependent, found in self._present(uid):
            references = found.object["metadata"].get("ownerReferences") or ()
            self._forget(dependent, found, [each for each in references if each["uid"] == uid])
        self._release(place, ORPHAN)

    def _end_after_dependents(self, place: _Place, version: Version) -> None:
        """Let an owner go once no dependent is left that it has to wait for."""
        uid = version.object["metadata"]["uid"]
        blocking = False
        for dependent, found in self._present(uid):
            references = found.object["metadata"].get("ownerReferences") or ()
            blocking = blocking or any(each["uid"] == uid and each.get("blockOwnerDeletion") for each in references)
            if "deletionTimestamp" not in found.object["metadata"]:
                self._enqueue(dependent)
        if not blocking:
            self._release(place, FOREGROUND)

    def _present(self, uid: str) -> Iterator[tuple[_Place, Version]]:
        """The dependents of an owner that are there."""
        for place in tuple(self._dependents.get(uid, ())):
            version = self._server.storage.get(*place)
            if version is not None:
                yield place, version

    def _release(self, place: _Place, finalizer: str) -> None:
        """Take a finalizer from an object."""
        version = self._server.storage.get(*place)
        if version is not None:
            finalizers = version.object["metadata"].get("finalizers") or []
            self._put(place, version, "finalizers", [each for each in finalizers if each != finalizer])

    def _end_namespace(self, place: _Place, version: Version) -> None:
        """Delete what is in a namespace; once it is empty, give it free."""
        finalizers = (version.object.get("spec") or {}).get("finalizers") or []
        if "kubernetes" not in finalizers:
            return
        if self._emptied(lambda: self._in_namespace(place.key)):
            others = [each for each in finalizers if each != "kubernetes"]
            item = {**version.object, "spec": {"finalizers": others} if others else {}}
            if others or item["metadata"].get("finalizers"):
                self._server.storage.put(*place, item)
            else:
                self._server.storage.remove(*place, item)

    def _in_namespace(self, namespace: str) -> list[tuple[_Place, Version]]:
        storages = dict.fromkeys(each.storage for each in self._server.registry if each.namespaced)
        return [
            (_Place(storage, version.key), version)
            for storage in storages
            for version in self._server.storage.select(storage, namespace)
        ]

    def _end_definition(self, place: _Place, version: Version) -> None:
        """Delete all objects of a kind; once there are none, its definition goes."""
        kind = place.key
        if self._emptied(lambda: [(_Place(kind, each.key), each) for each in self._server.storage.select(kind)]):
            finalizers = [each for each in version.object["metadata"]["finalizers"] if each != _CLEANUP]
            self._put(place, version, "finalizers", finalizers)

    def _emptied(self, contents: Callable[[], list[tuple[_Place, Version]]]) -> bool:
        """Delete all that is there and not dying already; whether nothing is left."""
        for place, version in contents():
            if "deletionTimestamp" not in version.object["metadata"]:
                self._delete(place, version, "Background")
        return not contents()


_Owners = list[Object]


def _is_alike(item: Object, old: Object) -> bool:
    """Whether a change was none that we look at, as most are."""
    new, before = item["metadata"], old["metadata"]
    return all(
        new.get(name) == before.get(name) for name in ("uid", "ownerReferences", "deletionTimestamp", "finalizers")
    )


def _waits(owner: Object) -> bool:
    """Whether an owner is about to go and wants its dependents to go before."""
    metadata = owner["metadata"]
    return "deletionTimestamp" in metadata and FOREGROUND in (metadata.get("finalizers") or ())


def _policy(finalizers: Iterable[str]) -> str:
    """How a dependent goes whose owners are gone: as its finalizers say."""
    for finalizer, policy in ((ORPHAN, "Orphan"), (FOREGROUND, "Foreground")):
        if finalizer in finalizers:
            return policy
    return "Background"
