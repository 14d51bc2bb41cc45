"""Empties the workers whose MultiKueueCluster says so by an annotation, as GitOps and the fleet have it.

New workloads stay away by the annotation itself (`api.multikueue.clusters.why_cordoned`). What runs there queues again as by
`multikueue clusters drain`: it is held (`spec.active`) until it has given its quota back, and then released. An
annotation of its own says that it is held for this, so that a manager started in between releases it.

A drain by signal tells the pods of each workload that runs there once, as the command does, until when they have time. An
annotation of the Workload says so, and which time that is. What could not be told is not stopped.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import islice

import msgspec

from multikueue.api.kinds import MULTIKUEUE_CLUSTERS, WORKLOADS
from multikueue.api.kueue.workload import (
    DRAIN_TOLD_ANNOTATION,
    DRAINED_FROM_ANNOTATION,
    EVICTED,
    FINISHED,
    Workload,
    has_given_back,
    workload_spec,
)
from multikueue.api.meta import Condition, ObjectKey, find_condition, render_time, without_condition
from multikueue.api.multikueue.clusters import DRAINED, MultiKueueCluster, drain_of, drain_problem
from multikueue.api.values.foreign import answer_or, excerpt
from multikueue.controllers.reconcile.conditions import write_condition, write_status
from multikueue.controllers.reconcile.context import ReconcileContext
from multikueue.durations import Drain
from multikueue.errors import ApiError, ClusterUnreachable, NotFound
from multikueue.kube.relatives import tell_pods
from multikueue.runtime import DONE, Result

__all__ = ["AT_ONCE", "Drains", "Left", "to_stop"]

AT_ONCE = 8
"""How many workloads of one worker are held at a time: those may go to other workers before the next ones come."""

WITHDRAWN_WITHIN = timedelta(seconds=10)
"""The time for copies that wait on a worker to be taken back because it is cordoned. Those that stay are queued again."""

LOOK_EVERY = timedelta(seconds=2)

TOLD_AGAIN = timedelta(seconds=30)
"""When pods are told again after that failed."""

A_SECOND = timedelta(seconds=1)
"""Times in objects are in whole seconds."""

INVALID_ANNOTATION = "InvalidAnnotation"
NOT_TOLD = "DrainNotTold"


class Left(msgspec.Struct, frozen=True, kw_only=True):
    """What is left of ours on a worker: unfinished workloads that `runs` there, that `waits` there, and that are `held` for its
    drain; the number of `objects` last seen there, 0 where they cannot be seen."""

    runs: Sequence[Workload] = ()
    waits: Sequence[Workload] = ()
    held: Sequence[Workload] = ()
    objects: int = 0

    def condition(self, generation: int, *, is_seen: bool, untold: str = "") -> Condition:
        """The condition `multikueue.dev/Drained`. `is_seen`: the worker is connected, so that its objects are known. `untold`:
        why pods could not be told that it is drained."""
        parts = (
            (len(self.runs), "running"),
            (len(self.waits), "waiting"),
            (len(self.held), "giving quota back"),
            (self.objects, "with objects there"),
        )
        left = ", ".join(f"{number} {what}" for number, what in parts if number)
        unseen = "" if is_seen else "; it is not connected, so its objects cannot be seen"
        unseen += f"; pods cannot be told, and nothing is stopped: {untold}" if untold else ""
        return Condition(
            type=DRAINED,
            status="False" if left else "True",
            reason="Draining" if left else "Drained",
            message=(f"workloads: {left}" if left else "nothing of ours is there") + unseen,
            observed_generation=generation,
        )


def told_until(workload: Workload, worker: str, drain: Drain, began: datetime) -> datetime | None:
    """Until when the pods of a workload were told that they have time; None: they were not, or for another drain: of another
    worker, with another time, or one before this, which `began` then."""
    note = workload.metadata.annotations.get(DRAIN_TOLD_ANNOTATION, "").rpartition(" ")
    until = answer_or(lambda: datetime.fromisoformat(note[2]), otherwise=None) if note[1] else None
    if note[0] != f"{worker} {drain}" or until is None or until.tzinfo is None or drain.after is None:
        return None
    return until if until + A_SECOND >= began + drain.after else None


def to_stop(left: Left, drain: Drain, worker: str, began: datetime, now: datetime) -> tuple[Workload, ...]:
    """The workloads to hold now, `AT_ONCE` together with those that are held already. What others hold, what is evicted
    already, or what was to be told and was not, is left alone. Pure."""
    runs = left.runs if drain.after is not None and now >= began + drain.after else ()
    if drain.should_signal:
        ends = ((each, told_until(each, worker, drain, began)) for each in left.runs)
        runs = [each for each, until in ends if until is not None and now >= until]
    waits = left.waits if now >= began + WITHDRAWN_WITHIN else ()
    able = (each for each in (*runs, *waits) if not each.has(EVICTED) and workload_spec(each).active)
    return tuple(islice(able, max(0, AT_ONCE - len(left.held))))


class Drains(msgspec.Struct, frozen=True):
    """Reconciles one MultiKueueCluster with its annotation `multikueue.dev/drain`, and writes how far it is as a condition."""

    context: ReconcileContext
    _untold: dict[str, tuple[datetime, str]] = msgspec.field(default_factory=dict)
    """By worker: when its pods could not be told, and why."""

    async def reconcile(self, name: str) -> Result:
        """Raises the errors of the manager cluster. A standby does nothing."""
        store = self.context.store
        if not self.context.mandate.is_valid():
            return DONE
        again = LOOK_EVERY if await self._release() else None
        cluster = store.clusters.get(ObjectKey("", name))
        if cluster is None:
            return Result(again_after=again)
        if problem := drain_problem(cluster):
            self._warn(cluster, INVALID_ANNOTATION, problem)
        drain, told = drain_of(cluster), find_condition(cluster.status.conditions, DRAINED)
        if drain is None:
            await self._forget(cluster)
            return Result(again_after=again)
        now, left = self.context.now(), self._left(name)
        began = told.last_transition_time if told is not None and told.status == "False" else None
        untold = await self._tell(cluster, left, drain, began or now) if drain.should_signal else ""
        for workload in to_stop(self._left(name), drain, name, began or now, now):
            await self._hold(workload, name)
        left, worker = self._left(name), store.worker(name)
        condition = left.condition(cluster.metadata.generation, is_seen=worker.link.is_connected, untold=untold)
        await write_condition(self.context, MULTIKUEUE_CLUSTERS, store.clusters, cluster, condition, now)
        return Result(again_after=LOOK_EVERY if again is not None or condition.status == "False" else None)

    def _left(self, name: str) -> Left:
        store, worker = self.context.store, self.context.store.worker(name)
        held = store.workloads.by("held", name)
        ours = [each for each in store.workloads.by("worker", name) if each not in held and not each.has(FINISHED)]
        return Left(
            runs=[each for each in ours if each.status.cluster_name == name],
            waits=[
                each for each in ours if not each.status.cluster_name and name in each.status.nominated_cluster_names
            ],
            held=held,
            objects=len(worker.held()) if worker.link.is_connected else 0,
        )

    async def _tell(self, cluster: MultiKueueCluster, left: Left, drain: Drain, began: datetime) -> str:
        """Tells the pods of some of the workloads that have not been told. Why they cannot be; empty if they can. The note
        follows when all are told, so that who starts in between tells them again."""
        name, now = cluster.metadata.name, self.context.now()
        client = self.context.clients.get(name)
        waiting = [each for each in left.runs if told_until(each, name, drain, began) is None]
        failed_at, why = self._untold.get(name, (now - TOLD_AGAIN, ""))
        if not waiting or client is None or now < failed_at + TOLD_AGAIN:
            return why if waiting else ""
        until = (now + (drain.after or timedelta())).replace(microsecond=0)
        note = {DRAIN_TOLD_ANNOTATION: f"{name} {drain} {render_time(until)}"}
        for workload in waiting[:AT_ONCE]:
            try:
                await tell_pods(client, workload, until)
            except (ApiError, ClusterUnreachable) as error:
                self._untold[name] = now, (why := excerpt(str(error)))
                self._warn(cluster, NOT_TOLD, f"pods cannot be told, and nothing is stopped: {why}")
                return why
            await self._patch(workload, {"metadata": {"annotations": note}})
        self._untold.pop(name, None)
        return ""

    async def _hold(self, workload: Workload, name: str) -> None:
        marks = {DRAINED_FROM_ANNOTATION: name, DRAIN_TOLD_ANNOTATION: None}
        body = {"metadata": {"annotations": marks}, "spec": {"active": False}}
        await self._patch(workload, body)
        message = f"worker {name} is drained: it gives its quota back, and queues again"
        self.context.recorder.emit(WORKLOADS, workload, type_="Normal", reason="Drained", message=message)

    def _warn(self, cluster: MultiKueueCluster, reason: str, message: str) -> None:
        self.context.recorder.emit(MULTIKUEUE_CLUSTERS, cluster, type_="Warning", reason=reason, message=message)

    async def _release(self) -> bool:
        """Releases the held workloads that have given their quota back, of whatever worker; whether others are held still."""
        workloads = self.context.store.workloads
        waiting = False
        for name in workloads.named("held"):
            for workload in workloads.by("held", name):
                if workload.has(FINISHED) or has_given_back(workload):
                    body = {"metadata": {"annotations": {DRAINED_FROM_ANNOTATION: None}}, "spec": {"active": True}}
                    await self._patch(workload, body)
                else:
                    waiting = True
        return waiting

    async def _patch(self, workload: Workload, body: dict[str, object]) -> None:
        try:
            patched = await self.context.manager.merge_patch(WORKLOADS, workload.key, body)
        except NotFound:
            return
        self.context.store.workloads.upsert(patched)

    async def _forget(self, cluster: MultiKueueCluster) -> None:
        conditions = without_condition(cluster.status.conditions, DRAINED)
        status = msgspec.structs.replace(cluster.status, conditions=conditions)
        await write_status(self.context, MULTIKUEUE_CLUSTERS, self.context.store.clusters, cluster, status)
