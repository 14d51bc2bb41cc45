"""The variants of a parent (KEP 8691): makes, removes, activates and deactivates them.

Their statuses, and the parent's, are written by the main reconcile, from facts that it gets here.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from functools import singledispatchmethod
from hashlib import sha1
from typing import Any

import msgspec
from msgspec.structs import replace

from multikueue.api.jobs.pod import GROUP_WORKLOAD_ANNOTATION
from multikueue.api.kinds import WORKLOADS
from multikueue.api.kueue.concurrent_admission import FLAVORS_ANNOTATION, GATE, PARENT_LABEL, parent_of
from multikueue.api.kueue.workload import (
    ADMISSION_GATED_BY_ANNOTATION,
    JOB_OWNER_GVK_ANNOTATION,
    JOB_OWNER_NAME_ANNOTATION,
    Workload,
    admission_gates,
    queue_of,
    workload_spec,
)
from multikueue.api.meta import ObjectKey
from multikueue.controllers.reconcile.context import ReconcileContext
from multikueue.controllers.workloads.jobs import delete_workload
from multikueue.errors import AlreadyExists, ApiError, Conflict, Forbidden, Invalid, NotFound
from multikueue.jobs.framework.workloads import LONGEST_NAME, member_reference
from multikueue.quota.workload.family import (
    Action,
    Create,
    Delete,
    Family,
    Mark,
    Reprioritize,
    SetActive,
    actions,
    admission_of,
)
from multikueue.quota.workload.family_facts import of_parent, of_variant
from multikueue.quota.workload.lifecycle import Facts
from multikueue.runtime import DONE, Result
from multikueue.store.caches.families import Families
from multikueue.store.store import Store

__all__ = ["Variants", "in_family", "variant_body"]

_OF_THE_PARENT = frozenset(
    {ADMISSION_GATED_BY_ANNOTATION, JOB_OWNER_GVK_ANNOTATION, JOB_OWNER_NAME_ANNOTATION, GROUP_WORKLOAD_ANNOTATION}
)
"""Annotations that say something of the job, or hold back what is not made yet."""

_HASH_LENGTH = 5


def in_family(facts: Facts, local: Workload, store: Store, families: Families) -> Facts:
    """The facts of a workload with what its family knows, if it has one."""
    family, quota = families.of(local), store.engine.view
    if parent_of(local) is not None:
        queue, flavors = _place(facts, local, store)
        checks = quota.checks_of_variant(queue, flavors)
        facts = replace(facts, scheduling=replace(facts.scheduling, required_checks=checks))
        return of_variant(facts, local, family)
    if family is None or family.policy is None:
        return facts
    facts = of_parent(facts, family)
    if admission_of(family) is not None or local.status.admission is not None:
        checks = quota.checks_of_parent(*_place(facts, local, store))
    else:
        checks = tuple(check.name for check in local.status.admission_checks)
    return replace(facts, scheduling=replace(facts.scheduling, required_checks=checks))


def _place(facts: Facts, local: Workload, store: Store) -> tuple[str, set[str]]:
    """Its ClusterQueue, and its flavors if it has quota there."""
    admission = facts.scheduling.reservation or local.status.admission
    if admission is not None:
        return admission.cluster_queue, admission.flavors
    queue = store.local_queues.get(queue_of(local))
    return queue.spec.cluster_queue if queue is not None else "", set()


class Variants(msgspec.Struct, frozen=True):
    """Reconciles each Workload after its main reconcile: a parent has its variants, and a variant its parent."""

    context: ReconcileContext

    async def reconcile(self, key: ObjectKey) -> Result:
        store = self.context.store
        local, families = store.workloads.get(key), store.families
        if local is None or families is None:
            return DONE
        family = families.of(local)
        if parent_of(local) is not None:
            if families.is_orphan(local):
                await delete_workload(self.context, key, local.metadata.uid)
        elif family is not None:
            is_gated = store.engine.should_check_gates and bool(admission_gates(local.metadata))
            await self._perform_all(tuple(actions(family, is_gated=is_gated)), family)
        return DONE

    async def _perform_all(self, found: Iterable[Action], family: Family) -> None:
        """One that is refused does not keep the others from being done; then it is raised, to be tried again."""
        refused: ApiError | None = None
        for action in found:
            try:
                await self._perform(action, family)
            except (AlreadyExists, Conflict, Forbidden, Invalid) as error:
                refused = refused or error
        if refused is not None:
            raise refused

    @singledispatchmethod
    async def _perform(self, action: object, family: Family) -> None:
        raise NotImplementedError(action)

    @_perform.register
    async def _mark(self, _action: Mark, family: Family) -> None:
        await self._patch(family.parent, {"metadata": {"labels": {PARENT_LABEL: "true"}}})

    @_perform.register
    async def _create(self, action: Create, family: Family) -> None:
        body, store = variant_body(family.parent, action.flavor), self.context.store
        key = ObjectKey(family.parent.metadata.namespace, body["metadata"]["name"])
        try:
            store.workloads.upsert(await self.context.manager.create(WORKLOADS, key.namespace, body))
        except AlreadyExists:
            found = await self.context.manager.get(WORKLOADS, key)
            owner = parent_of(found)
            if owner is None or owner.uid != family.parent.metadata.uid:
                raise
            if found.metadata.deletion_timestamp is not None:
                raise Conflict(409, "Conflict", f"the Workload {key} is being deleted") from None
            store.workloads.upsert(found)
            return
        self._tell(family.parent, "CreatedVariant", f'Variant Workload "{key}" created')

    @_perform.register
    async def _delete(self, action: Delete, family: Family) -> None:
        await delete_workload(self.context, action.variant.key, action.variant.metadata.uid)
        self._tell(family.parent, "DeletedVariant", f'Variant Workload "{action.variant.key}" deleted; {action.why}')

    @_perform.register
    async def _set_active(self, action: SetActive, _family: Family) -> None:
        await self._patch(action.variant, {"spec": {"active": action.is_active}})
        said = "activated" if action.is_active else "deactivated"
        self._tell(action.variant, f"{said.capitalize()}Variant", f"Variant Workload {said} due to {action.why}")

    @_perform.register
    async def _reprioritize(self, action: Reprioritize, family: Family) -> None:
        spec = workload_spec(family.parent)
        await self._patch(
            action.variant, {"spec": {"priority": spec.priority, "priorityClassRef": spec.priority_class_ref}}
        )

    async def _patch(self, workload: Workload, body: dict[str, Any]) -> None:
        """Patches the newest version that is known; a Conflict says that there is a newer one to look at."""
        store = self.context.store
        newest = store.workloads.get(workload.key)
        seen = newest if newest is not None and newest.metadata.uid == workload.metadata.uid else workload
        version = {"resourceVersion": seen.metadata.resource_version}
        patch = body | {"metadata": version | body.get("metadata", {})}
        with suppress(NotFound):
            store.workloads.upsert(await self.context.manager.merge_patch(WORKLOADS, workload.key, patch))

    def _tell(self, about: Workload, reason: str, message: str) -> None:
        self.context.recorder.emit(WORKLOADS, about, type_="Normal", reason=reason, message=message)


def variant_body(parent: Workload, flavor: str) -> dict[str, Any]:
    """The variant of a parent for that flavor. How long its job may run is the parent's concern.

    Unlike Kueue's it does not hold up the deletion of its parent: that would take one more right on some clusters.
    """
    meta = parent.metadata
    spec: dict[str, Any] = msgspec.json.decode(parent.spec)
    spec.pop("maximumExecutionTimeSeconds", None)
    kept = {key: text for key, text in meta.annotations.items() if key not in _OF_THE_PARENT}
    return {
        "apiVersion": WORKLOADS.api_version,
        "kind": WORKLOADS.kind,
        "metadata": {
            "name": _variant_name(parent, flavor),
            "namespace": meta.namespace,
            "labels": {key: text for key, text in meta.labels.items() if key != PARENT_LABEL},
            "annotations": kept | {FLAVORS_ANNOTATION: flavor},
            "ownerReferences": [member_reference(WORKLOADS, meta) | {"controller": True}],
        },
        "spec": spec | {"preemptionGates": [*spec.get("preemptionGates", ()), {"name": GATE}]},
    }


def _variant_name(parent: Workload, flavor: str) -> str:
    """As Kueue names it: that of the parent without its hash, the flavor, and a hash of its own."""
    meta = parent.metadata
    text = "\n".join((WORKLOADS.kind, WORKLOADS.group, meta.name, meta.uid, flavor))
    digest = sha1(text.encode(), usedforsecurity=False).hexdigest()[:_HASH_LENGTH]
    base = meta.name.rpartition("-")[0] or meta.name
    longest = LONGEST_NAME - _HASH_LENGTH - 1
    return f"{f'{base}-variant-{flavor}'[:longest].rstrip('-.')}-{digest}"
