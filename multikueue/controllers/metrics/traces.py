"""One trace for each workload: its waits, its attempts and its copies as spans, sent for what changes in the store.

A span is sent once it has ended, with the times in the objects: nothing is kept in between, and a process that took over sends
the same spans by the same identifiers. What ended without a leader is not sent. As `observer`, it never acts, and it is not
there at all unless traces are on.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from functools import partial

from multikueue.api.kueue.trace_context import ROOT, span_id, trace_id
from multikueue.api.kueue.workload import (
    ADMITTED,
    ATTEMPT_ANNOTATION,
    EVICTED,
    FINISHED,
    NOMINATED,
    PODS_READY,
    QUOTA_RESERVED,
    REQUEUED,
    SLICE_REPLACED,
    SUCCEEDED,
    Workload,
)
from multikueue.dispatch.remote import attempt_of
from multikueue.store.store import Store
from multikueue.store.workers.worker import WorkerView
from multikueue.telemetry.metrics import Metrics
from multikueue.telemetry.spans import EndedSpan

__all__ = ["Traces"]


class Traces:
    """`attach` it once. `tell` takes each span; nothing is sent until `is_acting`."""

    def __init__(
        self,
        store: Store,
        metrics: Metrics,
        tell: Callable[[EndedSpan], None],
        now: Callable[[], datetime],
        is_acting: Callable[[], bool],
    ) -> None:
        self._store, self._failed, self._tell, self._now = store, metrics.look_failed, tell, now
        self._is_acting = is_acting

    def attach(self) -> None:
        self._store.workloads.observe(self._workload_changed, partial(self._failed, "traces"))
        self._store.observe(self, partial(self._failed, "traces"))

    def worker_met(self, worker: WorkerView) -> None:
        worker.workloads.observe(partial(self._copy_changed, worker), partial(self._failed, "traces"))

    def worker_forgotten(self, worker: WorkerView) -> None:
        """Its copies were sent when they went."""

    def reach_changed(self, worker: WorkerView) -> None:
        """A copy stays a copy where it cannot be seen."""

    def _workload_changed(self, old: Workload | None, new: Workload | None) -> None:
        if old is None or not self._is_acting() or old.has(FINISHED):
            return
        is_over = new is None or new.has(FINISHED)
        had, has = old.has(QUOTA_RESERVED), new is not None and new.has(QUOTA_RESERVED)
        if has and not had and new is not None:
            self._waited(new)
        if had and (is_over or not has):
            self._attempt_ended(old, new)
        if is_over:
            self._ended(old, new)

    def _waited(self, new: Workload) -> None:
        reserved = new.since(QUOTA_RESERVED)
        requeued = new.condition(REQUEUED)
        since = requeued.last_transition_time if requeued is not None else new.metadata.creation_timestamp
        if since is not None and reserved is not None:
            self._span(new, ("wait", _mark(attempt_of(new))), since, reserved)

    def _attempt_ended(self, old: Workload, new: Workload | None) -> None:
        reserved = old.since(QUOTA_RESERVED)
        if reserved is None:
            return
        seen, mark = new or old, _mark(attempt_of(old))
        problem, end = self._end_of(new)
        admitted = old.since(ADMITTED) or seen.since(ADMITTED)
        ready = old.since(PODS_READY) or seen.since(PODS_READY)
        facts = {
            "cluster": old.status.cluster_name or seen.status.cluster_name or "",
            "cluster_queue": old.status.admission.cluster_queue if old.status.admission else "",
        }
        own = ("attempt", mark)
        self._span(old, own, reserved, end, facts=facts, problem=problem)
        nominated = old.condition(NOMINATED)
        asked = nominated.last_transition_time if nominated is not None else None
        self._span(old, ("dispatch", mark), asked or reserved, admitted or end, parent=own, facts=facts)
        if admitted is not None and ready is not None:
            self._span(old, ("start", mark), admitted, ready, parent=own, facts=facts)
        if admitted is not None:
            self._span(old, ("run", mark), ready or admitted, end, parent=own, facts=facts, problem=problem)

    def _ended(self, old: Workload, new: Workload | None) -> None:
        problem, end = self._end_of(new)
        if old.metadata.creation_timestamp is not None:
            self._span(old, (ROOT,), old.metadata.creation_timestamp, end, parent=(), problem=problem)

    def _end_of(self, new: Workload | None) -> tuple[str, datetime]:
        """Why what ends here failed, and when it ended."""
        if new is None:
            return "Deleted", self._now()
        finished, evicted = new.condition(FINISHED), new.condition(EVICTED)
        if finished is not None and finished.status == "True":
            is_good = finished.reason in (SUCCEEDED, SLICE_REPLACED)
            return (
                "" if is_good else f"{finished.reason}: {finished.message}",
                finished.last_transition_time or self._now(),
            )
        if evicted is not None and evicted.status == "True":
            return f"{evicted.reason}: {evicted.message}", evicted.last_transition_time or self._now()
        return "QuotaGivenBack", self._now()

    def _copy_changed(self, worker: WorkerView, old: Workload | None, new: Workload | None) -> None:
        """A copy is sent when it goes, as part of the attempt whose mark it has."""
        if old is None or new is not None or not self._is_acting() or not worker.link.is_known:
            return
        local, made = self._store.workloads.get(old.key), old.metadata.creation_timestamp
        mark = _mark(old.metadata.annotations.get(ATTEMPT_ANNOTATION, ""))
        if local is None or made is None or not mark:
            return
        facts = {"cluster": worker.name, "admitted": "true" if old.has(ADMITTED) else "false"}
        self._span(
            local, ("copy", worker.name, old.metadata.uid), made, self._now(), parent=("attempt", mark), facts=facts
        )

    def _span(
        self,
        workload: Workload,
        words: tuple[str, ...],
        start: datetime,
        end: datetime,
        *,
        parent: tuple[str, ...] = (ROOT,),
        facts: dict[str, str] | None = None,
        problem: str = "",
    ) -> None:
        meta = workload.metadata
        named = {"namespace": meta.namespace, "workload": meta.name, **(facts or {})}
        self._tell(
            EndedSpan(
                name=words[0],
                trace=trace_id(meta.uid),
                id=span_id(meta.uid, *words),
                parent=span_id(meta.uid, *parent) if parent else "",
                start=start,
                end=end,
                facts={f"multikueue.{name}": value for name, value in named.items()},
                problem=problem,
            )
        )


def _mark(attempt: str) -> str:
    """When an attempt was reserved, of its mark, which names the workload too."""
    return attempt.partition("/")[0]
