"""Creates, updates or deletes one object of the plan, and never touches one that is not ours.

Our objects have the label `app.kubernetes.io/managed-by: multikueue`. An object of the same name without it is foreign:
creating it is an error that names it, and removing it leaves it in place.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Literal

import msgspec

from multikueue.api.kind import Kind
from multikueue.api.kinds import MULTIKUEUE_CONFIGS, NAMESPACES
from multikueue.api.meta import ObjectKey, decoder, encode
from multikueue.api.multikueue.clusters import CLUSTERS_ANNOTATION, MultiKueueConfig, clusters_of
from multikueue.errors import AlreadyExists, ConfigurationError, Conflict, InvalidObject, NotFound
from multikueue.kube.cluster_client import ClusterClient
from multikueue.registration.choices import OUR_NAME
from multikueue.registration.plan import MANAGED_BY_LABEL, MOST_CLUSTERS, Wanted, config_object

__all__ = ["OwnershipStep", "Side", "ask", "is_ours"]

BEYOND = (
    f"the API allows {MOST_CLUSTERS} clusters in its spec, so {{}} stands in its annotation {CLUSTERS_ANNOTATION}. Kueue's own"
    " dispatcher does not read it: for that one, make a config and a queue for each 20 clusters, or follow a Placement"
)


ROUNDS = 20
"""Attempts at an object that others write at the same time."""

StepAction = Literal["created", "updated", "unchanged", "removed", "absent", "kept"]


class OwnershipStep(msgspec.Struct, frozen=True):
    """The result for one object, and its cluster; `is_planned`: the result it would have."""

    action: StepAction
    what: str
    where: str
    is_planned: bool = False
    why: str = ""

    def __str__(self) -> str:
        reason = f": {self.why}" if self.why else ""
        return f"{self.what} on {self.where} {'would be ' if self.is_planned else ''}{self.action}{reason}"


class Side(msgspec.Struct, frozen=True, kw_only=True):
    """One of the two clusters; `where` is its name in reports. With `dry_run` it only reads and reports."""

    client: ClusterClient
    where: str
    report: Callable[[OwnershipStep], None]
    dry_run: bool = False

    async def refuse_foreign(self, wanted: Iterable[Wanted]) -> None:
        """Raise InvalidObject for the first wanted object that exists and is not ours."""
        for one in wanted:
            if not one.is_shared:
                self._check_ours(one, await self.find(one.kind, one.key))

    async def ensure(self, wanted: Wanted) -> None:
        """Create the object, update it to the plan, or leave it; raises InvalidObject if it is not ours."""
        await again(lambda: self._ensure(wanted))

    async def _ensure(self, wanted: Wanted) -> None:
        found = await self.find(wanted.kind, wanted.key)
        if found is None:
            return await self._create(wanted)
        if wanted.is_shared:
            return self._did("unchanged", str(wanted))
        self._check_ours(wanted, found)
        if _has_all(found, wanted.body):
            return self._did("unchanged", str(wanted))
        if not self.dry_run:
            # The UID is a precondition: our object may just have been replaced by one that is not ours.
            body = {**wanted.body, "metadata": {**wanted.body["metadata"], "uid": found["metadata"]["uid"]}}
            await self.client.merge_patch(wanted.kind, wanted.key, body)
        return self._did("updated", str(wanted))

    async def remove(self, kind: Kind[Any], key: ObjectKey) -> None:
        """Delete the object if it is ours; otherwise report it and leave it."""
        what = f"{kind.kind} {key}"
        found = await self.find(kind, key)
        if found is None:
            return self._did("absent", what)
        if not is_ours(found):
            return self._did("kept", what, why=f"it has no label {MANAGED_BY_LABEL}={OUR_NAME}, so it is not ours")
        if not self.dry_run:
            await self.client.delete(kind, key, uid=found["metadata"]["uid"])
        return self._did("removed", what)

    async def leave(self, kind: Kind[Any], key: ObjectKey, why: str) -> None:
        """Report an object that stays, if it exists."""
        if await self.find(kind, key) is not None:
            self._did("kept", f"{kind.kind} {key}", why=why)

    async def find(self, kind: Kind[Any], key: ObjectKey) -> dict[str, Any] | None:
        """The whole object as the server has it; None if there is none."""
        try:
            return await ask(self.client, "GET", kind.path(key))
        except NotFound:
            return None

    async def add_to_config(self, name: str, cluster: str) -> None:
        """Append the cluster to a MultiKueueConfig. It may be foreign: the operator named it. Raises InvalidObject if it is
        full."""
        await again(lambda: self._add_to_config(name, cluster))

    async def _add_to_config(self, name: str, cluster: str) -> None:
        found = await self.find(MULTIKUEUE_CONFIGS, ObjectKey("", name))
        if found is None:
            return await self._create(config_object(name, cluster))
        clusters = _clusters(found)
        if cluster in clusters:
            return self._did("unchanged", f"MultiKueueConfig {name}")
        return await self._set_clusters(found, [*clusters, cluster])

    async def remove_from_config(self, name: str, cluster: str) -> None:
        """Remove the cluster from a config of ours; the last one stays, since the API demands at least one."""
        await again(lambda: self._remove_from_config(name, cluster))

    async def _remove_from_config(self, name: str, cluster: str) -> None:
        found = await self.find(MULTIKUEUE_CONFIGS, ObjectKey("", name))
        clusters = _clusters(found) if found else []
        if found is None or cluster not in clusters:
            return
        others = [each for each in clusters if each != cluster]
        if not is_ours(found):
            self._did("kept", f"MultiKueueConfig {name}", why=f"it still names {cluster}, but it is not ours")
        elif not others:
            self._did("kept", f"MultiKueueConfig {name}", why=f"{cluster} is its only cluster, and it needs one")
        else:
            await self._set_clusters(found, others)

    async def _set_clusters(self, config: dict[str, Any], clusters: list[str]) -> None:
        """The API allows `MOST_CLUSTERS` in the spec; the rest stands in the annotation, which our managers read."""
        name, version = config["metadata"]["name"], config["metadata"]["resourceVersion"]
        more = ",".join(clusters[MOST_CLUSTERS:])
        if not self.dry_run:
            # A merge patch replaces the whole list, so the version read is a precondition.
            metadata = {"resourceVersion": version, "annotations": {CLUSTERS_ANNOTATION: more or None}}
            body = {"metadata": metadata, "spec": {"clusters": clusters[:MOST_CLUSTERS]}}
            await self.client.merge_patch(MULTIKUEUE_CONFIGS, ObjectKey("", name), body)
        self._did("updated", f"MultiKueueConfig {name}", why=BEYOND.format(more) if more else "")

    async def _create(self, wanted: Wanted) -> None:
        if not self.dry_run:
            await self._post(wanted)
        self._did("created", str(wanted))

    async def _post(self, wanted: Wanted) -> None:
        try:
            await ask(self.client, "POST", wanted.kind.collection(wanted.key.namespace), wanted.manifest)
        except NotFound as error:
            kind, namespace = wanted.kind, wanted.key.namespace
            if namespace and await self.find(NAMESPACES, ObjectKey("", namespace)) is None:
                raise ConfigurationError(f"{self.where} has no namespace {namespace} for {wanted}") from error
            whose = "Kueue's CRDs" if kind.group == MULTIKUEUE_CONFIGS.group else "the CRD of that kind"
            raise ConfigurationError(
                f"{self.where} does not serve {kind.plural} in {kind.api_version}: install {whose} there first"
            ) from error

    def _check_ours(self, wanted: Wanted, found: Mapping[str, Any] | None) -> None:
        if found is None or is_ours(found):
            return
        raise InvalidObject(
            f"{wanted} on {self.where}",
            "metadata.labels",
            f"{MANAGED_BY_LABEL}={OUR_NAME}; it belongs to somebody else:"
            " rename or delete it, or hand it over with this label",
        )

    def _did(self, action: StepAction, what: str, why: str = "") -> None:
        changes = action in ("created", "updated", "removed")
        self.report(OwnershipStep(action, what, self.where, is_planned=self.dry_run and changes, why=why))


async def again(step: Callable[[], Awaitable[None]]) -> None:
    """Do a step that looks before it writes, and once more from the start where somebody else wrote in between."""
    for _ in range(ROUNDS - 1):
        try:
            return await step()
        except (AlreadyExists, Conflict):
            continue
    return await step()


async def ask(client: ClusterClient, method: str, path: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """One request, JSON both ways."""
    answer: dict[str, Any] = msgspec.json.decode(await client.request(method, path, body=body))
    return answer


def _clusters(config: Mapping[str, Any]) -> list[str]:
    """All clusters of a MultiKueueConfig as the server has it."""
    return list(clusters_of(decoder(MultiKueueConfig)(encode(config))))


def is_ours(item: Mapping[str, Any]) -> bool:
    return bool((item["metadata"].get("labels") or {}).get(MANAGED_BY_LABEL) == OUR_NAME)


def _has_all(found: Any, wanted: Any) -> bool:
    """Whether `found` has everything wanted: servers add fields to mappings, never to the lists we write."""
    if isinstance(wanted, Mapping):
        found = {} if found is None else found
        return isinstance(found, Mapping) and all(_has_all(found.get(name), value) for name, value in wanted.items())
    return bool(found == wanted)
