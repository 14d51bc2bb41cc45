"""Controllers of kube-controller-manager that delete objects, within one cluster.

The garbage collector deletes dependents whose owners are gone, in the background or in the foreground, or orphans them.
The namespace controller empties terminating namespaces; the controller of CustomResourceDefinitions deletes the objects
of a definition under deletion. All act a short delay after a change, never within the write that caused it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from fakekube.builtins.kinds import CRDS
from fakekube.model.metadata import FOREGROUND, ORPHAN
from fakekube.model.resources import Resource
from fakekube.model.storage import DELETED, Change, Version, key_of
from fakekube.model.wire import Object, Refused
from fakekube.server.requests.options import DeleteOptions
from fakekube.server.server import Server, Timer
from fakekube.server.verbs.deletion import deleted
from fakekube.server.verbs.places import NAMESPACES

__all__ = ["ClusterControllers"]

_CLEANUP = "customresourcecleanup.apiextensions.k8s.io"


class _Place(NamedTuple):
    """The storage and the key of an object."""

    storage: str
    key: str


class ClusterControllers:
    """The controllers of one cluster. `delay` is the time from a change to its effect, in seconds."""

    def __init__(self, server: Server, *, delay: float = 0.05) -> None:
        self._server, self._delay = server, delay
        self._dependents: dict[str, dict[_Place, None]] = {}
        """The dependents of each owner, by the owner's UID."""
        self._queue: dict[_Place, None] = {}
        self._timer: Timer | None = None
        self._unsubscribe = server.storage.subscribe(self._note)
        for storage in server.storage.storages():
            for version in server.storage.select(storage):
                self._learn(_Place(storage, version.key), version.object)

    def close(self) -> None:
        """Stop for good."""
        self._unsubscribe()
        if self._timer is not None:
            self._timer.cancel()

    @property
    def is_idle(self) -> bool:
        return not self._queue

    def step(self) -> None:
        """Process the queue now."""
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
            # An owner may have waited for the removal of just this reference.
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
            # A dependent needs work only if an owner is missing.
            if self._owner(owner, metadata.get("namespace", "")) is None:
                self._enqueue(place)
        if "deletionTimestamp" not in metadata:
            return
        # In a foreground deletion the dependents are processed before their owner.
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
        """Enqueue all that waited for the end of an object: its dependents, owners, namespace and definition."""
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
        """Delete a dependent without a lasting owner; otherwise remove the references to missing owners."""
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
        """The owner that a reference in a namespace names; None if it is missing or has another UID."""
        resource = self._resource(reference)
        if resource is None:
            return None
        place = _Place(resource.storage, key_of(namespace if resource.namespaced else "", reference["name"]))
        version = self._server.storage.get(*place)
        if version is None or version.object["metadata"]["uid"] != reference["uid"]:
            return None
        return place, version

    def _is_known(self, reference: Object, namespace: str) -> bool:
        """Whether a missing owner is proof of its deletion: its kind is served, and its scope fits the dependent's."""
        resource = self._resource(reference)
        return resource is not None and (bool(namespace) or not resource.namespaced)

    def _resource(self, reference: Object) -> Resource | None:
        group, _, _ = reference["apiVersion"].rpartition("/")
        return self._server.registry.of_kind(group, reference["kind"])

    def _of(self, storage: str) -> Resource | None:
        return next((each for each in self._server.registry if each.storage == storage), None)

    def _forget(self, place: _Place, version: Version, references: Iterable[Object]) -> None:
        """Remove owner references from a dependent."""
        uids = {reference["uid"] for reference in references}
        before = version.object["metadata"]["ownerReferences"]
        after = [each for each in before if each["uid"] not in uids]
        if len(after) < len(before):
            self._put(place, version, "ownerReferences", after)

    def _put(self, place: _Place, version: Version, name: str, value: list[object] | list[Object]) -> None:
        """Replace a list in the metadata. An object under deletion is removed if nothing holds it any more."""
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
            return  # a namespace that cannot be deleted

    def _orphan(self, place: _Place, version: Version) -> None:
        """Remove the references to an owner from all dependents, then its finalizer `orphan`."""
        uid = version.object["metadata"]["uid"]
        for dependent, found in self._present(uid):
            references = found.object["metadata"].get("ownerReferences") or ()
            self._forget(dependent, found, [each for each in references if each["uid"] == uid])
        self._release(place, ORPHAN)

    def _end_after_dependents(self, place: _Place, version: Version) -> None:
        """Release an owner once no dependent blocks its deletion."""
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
        """The existing dependents of an owner."""
        for place in tuple(self._dependents.get(uid, ())):
            version = self._server.storage.get(*place)
            if version is not None:
                yield place, version

    def _release(self, place: _Place, finalizer: str) -> None:
        """Remove a finalizer from an object."""
        version = self._server.storage.get(*place)
        if version is not None:
            finalizers = version.object["metadata"].get("finalizers") or []
            self._put(place, version, "finalizers", [each for each in finalizers if each != finalizer])

    def _end_namespace(self, place: _Place, version: Version) -> None:
        """Delete the contents of a namespace; once it is empty, remove its finalizer `kubernetes`."""
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
        """Delete all objects of a kind; once none is left, release its definition."""
        kind = place.key
        if self._emptied(lambda: [(_Place(kind, each.key), each) for each in self._server.storage.select(kind)]):
            finalizers = [each for each in version.object["metadata"]["finalizers"] if each != _CLEANUP]
            self._put(place, version, "finalizers", finalizers)

    def _emptied(self, contents: Callable[[], list[tuple[_Place, Version]]]) -> bool:
        """Delete the contents that are not under deletion yet. Returns whether nothing is left."""
        for place, version in contents():
            if "deletionTimestamp" not in version.object["metadata"]:
                self._delete(place, version, "Background")
        return not contents()


_Owners = list[Object]


def _is_alike(item: Object, old: Object) -> bool:
    """Whether a change touches none of the fields that matter here; most changes do not."""
    new, before = item["metadata"], old["metadata"]
    return all(
        new.get(name) == before.get(name) for name in ("uid", "ownerReferences", "deletionTimestamp", "finalizers")
    )


def _waits(owner: Object) -> bool:
    """Whether an owner is in a foreground deletion."""
    metadata = owner["metadata"]
    return "deletionTimestamp" in metadata and FOREGROUND in (metadata.get("finalizers") or ())


def _policy(finalizers: Iterable[str]) -> str:
    """The propagation policy of a dependent without owners, by its finalizers."""
    for finalizer, policy in ((ORPHAN, "Orphan"), (FOREGROUND, "Foreground")):
        if finalizer in finalizers:
            return policy
    return "Background"
