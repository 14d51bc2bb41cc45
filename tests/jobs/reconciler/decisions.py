"""What the tests of decisions on jobs share: a view, and the decision in short."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
from hypothesis import strategies as st
from msgspec.structs import replace

from fakekube.server.patching.patches import merge_patch
from multikueue.api.jobs.job import Job
from multikueue.api.kueue.workload import (
    CLUSTER_LABEL,
    PriorityClassRef,
    Workload,
)
from multikueue.api.meta import decoder, encode
from multikueue.jobs.framework.actions import (
    Action,
    CreateWorkload,
    DeleteWorkload,
    PatchJob,
    PatchJobStatus,
    PatchWorkloadStatus,
    RemoveFinalizer,
    UpdateWorkloadSpec,
)
from multikueue.jobs.framework.priority import Priority, workload_class_ref
from multikueue.jobs.reconciler.decide import JobView, decide
from tests.builders import NOW, JobBuilder, WorkloadBuilder, job
from tests.jobs.builders import Tree, become, ours, plain, stored, with_spec, workload_of

UID = "uid-job-default-j"
HELD = ours().build()
FREE = ours().suspended(False).build()
PENDING = workload_of(HELD)
RESERVED = become(PENDING, lambda w: w.reserved().cluster_name("w1"))
ADMITTED = become(RESERVED, lambda w: w.admitted())
EVICTED = become(ADMITTED, lambda w: w.evicted(message="Preempted to accommodate a workload"))
SUCCEEDED = become(ADMITTED, lambda w: w.finished(message="Job finished successfully"))
RELEASED = become(EVICTED, lambda w: w.unreserved())
START = PatchJob(
    {"metadata": {"uid": UID, "resourceVersion": HELD.metadata.resource_version}, "spec": {"suspend": False}}
)


START_ON_W1 = PatchJob(START.patch | {"metadata": START.patch["metadata"] | {"labels": {CLUSTER_LABEL: "w1"}}})


STOP = PatchJob({"metadata": {"uid": UID}, "spec": {"suspend": True}})
REMOTE_RUNNING = job("j").running(active=1).build()
REMOTE_COMPLETE = job("j").running().complete().build()


def actions(view: JobView) -> tuple[Action, ...]:
    return decide(view, NOW).actions


def kinds(view: JobView) -> list[str]:
    return [type(action).__name__ for action in actions(view)]


def changed(builder: JobBuilder | None = None) -> Job:
    return (builder or ours()).parallelism(3).completions(3).build()


LOW, HIGH = Priority(1, workload_class_ref("low")), Priority(2, workload_class_ref("high"))


POD_CLASS = Priority(3, PriorityClassRef(group="scheduling.k8s.io", kind="PriorityClass", name="p"))
STOPPED = ours().running(active=2).build()


class Cluster:
    """The manager cluster as far as the decision can see and change it; every write moves the resource version."""

    def __init__(self, view: JobView) -> None:
        self.view, self.writes = view, 0

    def perform(self, action: Action) -> None:
        self.writes += 1
        match action:
            case CreateWorkload(body):
                assert not any(w.metadata.name == body["metadata"]["name"] for w in self.view.workloads), "name taken"
                self._set_workloads(*self.view.workloads, stored(body))
            case UpdateWorkloadSpec(key, patch) | PatchWorkloadStatus(key, patch):
                self._set_workloads(*(self._patched(w, patch) if w.key == key else w for w in self.view.workloads))
            case DeleteWorkload(key, uid):
                self._delete(key, uid)
            case RemoveFinalizer(key):
                self._set_workloads(*(w for w in self.view.workloads if w.key != key))
            case PatchJob(patch) | PatchJobStatus(patch):
                self.view = replace(self.view, job=self._patched(self.view.job, patch))

    def _delete(self, key: Any, uid: str) -> None:
        gone = [w for w in self.view.workloads if w.key == key]
        assert [w.metadata.uid for w in gone] == [uid]
        self._set_workloads(*(become(w, lambda b: b.deleted()) if w.key == key else w for w in self.view.workloads))

    def _set_workloads(self, *workloads: Workload) -> None:
        self.view = replace(self.view, workloads=workloads)

    def _patched(self, value: Any, patch: Tree) -> Any:
        shown, sent = plain(value), plain(patch)
        for name in ("resourceVersion", "uid"):
            if name in sent["metadata"]:
                assert sent["metadata"][name] == shown["metadata"][name], "precondition"
        merged = merge_patch(shown, sent)
        merged["metadata"]["resourceVersion"] = str(self.writes + 100)
        kind: Any = type(value)
        return decoder(kind)(encode(merged))


def rest(view: JobView, *, rounds: int = 12) -> Cluster:
    """The cluster after the decision had its way until it wanted nothing more."""
    cluster = Cluster(view)
    for _ in range(rounds):
        decision = decide(cluster.view, NOW)
        if not decision.actions:
            return cluster
        for action in decision.actions:
            cluster.perform(action)
    raise AssertionError("never comes to rest")


PHASES: list[Callable[[WorkloadBuilder], WorkloadBuilder]] = [
    lambda w: w,
    lambda w: w.reserved(),
    lambda w: w.admitted(),
    lambda w: w.admitted().evicted(),
    lambda w: w.admitted().evicted().unreserved(),
    lambda w: w.reserved().deleted(),
    lambda w: w.admitted().finished(),
]


@st.composite
def workloads(draw: st.DrawFn) -> tuple[Workload, ...]:
    """None, one or two Workloads, in any phase, that match some of the jobs."""
    found = []
    for number in range(draw(st.integers(0, 2))):
        made = workload_of(with_spec(HELD, parallelism=draw(st.sampled_from([1, 2])), completions=2))
        name = draw(st.sampled_from([made.metadata.name, "mine"])) if number == 0 else "second"
        metadata = msgspec.structs.replace(made.metadata, name=name, uid=f"uid-{number}")
        seen = msgspec.structs.replace(made, metadata=metadata)
        found.append(become(seen, draw(st.sampled_from(PHASES))))
    return tuple(found)
