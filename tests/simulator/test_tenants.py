"""Whatever a tenant does one after the other, what is counted is what runs at least, and nobody makes room by submitting.

Sequences are drawn: submissions, odd ones too, edits, suspensions, other sizes, deletions in each manner, with and without time
between. The tenant has the rights of `admin`, and writes no status.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random
from typing import Any

import anyio
import pytest
from anyio.abc import TaskGroup

from fakekube.model.wire import Refused
from multikueue.api import kinds
from multikueue.api.kind import Kind
from multikueue.api.kueue.workload import ELASTIC_ANNOTATION, QUEUE_LABEL
from multikueue.api.meta import ObjectKey
from multikueue.api.values import quantity
from multikueue.jobs.integrations.frameworks import FRAMEWORKS
from multikueue.settings import Cluster, InForce, Integrations, Settings
from multikueue_simulator.world import objects
from multikueue_simulator.world.world import NAMESPACE, Layout, Share, World
from tests.simulator.stage import perform
from tests.simulator.test_job_kinds import definition

Tree = dict[str, Any]

LAYOUT = Layout(queues=(Share("main", 12),), workers=(Share("w1", 8), Share("w2", 8)))
JOB_SET = FRAMEWORKS["jobset.x-k8s.io/jobset"].kind
FOREVER, SHORT = 100_000.0, 7.0
NAMES = ("a", "b")
SEEDS = 15
"""Stories; 60 were tried."""
MOST_AT_REST = 60.0
"""Seconds of the world. What is on its way, as a deletion, is over by then."""

CPUS = ("1", "1", "1", "2", "500m", "-50", "-1n", "0", "1e30")
UNCHECKED = (*CPUS, "-50", "-50", "-3")
"""Of kinds whose API server does not look at amounts."""


@dataclass(frozen=True)
class Step:
    """What is done to the jobs of that name; `size` and `cpu` are those that it is about; then a pause of seconds."""

    what: str
    name: str
    size: int
    cpu: str
    pause: float

    @property
    def key(self) -> ObjectKey:
        return ObjectKey(NAMESPACE, self.name)


# What a tenant may do.


def job(step: Step, **spec: Any) -> Tree:
    seconds = SHORT if step.size > 4 else FOREVER
    body = objects.job(step.name, NAMESPACE, queue="main", parallelism=step.size, seconds=seconds)
    body["spec"] |= spec
    body["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]["cpu"] = step.cpu
    return body


def elastic(step: Step) -> Tree:
    body = job(step, completions=100)
    body["metadata"]["annotations"][ELASTIC_ANNOTATION] = "true"
    return body


def pod(step: Step) -> Tree:
    return {"containers": [{"name": "main", "image": "busybox", "resources": {"requests": {"cpu": step.cpu}}}]}


def job_set(step: Step) -> Tree:
    """Its API server does not look at amounts."""
    of_job = {"parallelism": step.size, "completions": step.size, "template": {"spec": pod(step)}}
    replicated = [{"name": "workers", "replicas": 1, "template": {"spec": of_job}}]
    return {
        "apiVersion": JOB_SET.api_version,
        "kind": JOB_SET.kind,
        "metadata": {"name": step.name, "namespace": NAMESPACE, "labels": {QUEUE_LABEL: "main"}},
        "spec": {"suspend": True, "managedBy": "kueue.x-k8s.io/multikueue", "replicatedJobs": replicated},
    }


def own_workload(step: Step) -> Tree:
    pods = {"name": "main", "count": step.size, "template": {"spec": pod(step) | {"restartPolicy": "Never"}}}
    return {
        "apiVersion": kinds.WORKLOADS.api_version,
        "kind": "Workload",
        "metadata": {"name": f"own-{step.name}-{step.size}", "namespace": NAMESPACE},
        "spec": {"queueName": "main", "podSets": [pods], "active": True},
    }


Made = tuple[Kind[Any], Callable[[Step], Tree]]

SUBMITTED: dict[str, Made] = {
    "a Job": (kinds.JOBS, job),
    "a Job of waves": (kinds.JOBS, lambda step: job(step, completions=2 * step.size)),
    "a Job of more pods than it needs": (kinds.JOBS, lambda step: job(step, completions=max(1, step.size // 2))),
    "an indexed Job": (
        kinds.JOBS,
        lambda step: job(step, completionMode="Indexed", backoffLimitPerIndex=0, backoffLimit=100),
    ),
    "an elastic Job": (kinds.JOBS, elastic),
    "a JobSet": (JOB_SET, job_set),
    "a Workload of its own": (kinds.WORKLOADS, own_workload),
}


def template(step: Step) -> Tree:
    return {"template": {"spec": pod(step)}}


EDITS: dict[str, Callable[[Step], Tree]] = {
    "parallelism": lambda step: {"spec": {"parallelism": step.size}},
    "completions": lambda step: {"spec": {"completions": step.size}},
    "both": lambda step: {"spec": {"parallelism": step.size, "completions": step.size}},
    "requests": lambda step: {"spec": template(step)},
    "suspend": lambda _: {"spec": {"suspend": True}},
    "resume": lambda _: {"spec": {"suspend": False}},
    "another queue": lambda _: {"metadata": {"labels": {QUEUE_LABEL: "other"}}},
    "no queue": lambda _: {"metadata": {"labels": {QUEUE_LABEL: None}}},
    "its queue": lambda _: {"metadata": {"labels": {QUEUE_LABEL: "main"}}},
    "no manager": lambda _: {"spec": {"managedBy": None}},
    "elastic": lambda _: {"metadata": {"annotations": {ELASTIC_ANNOTATION: "true"}}},
    "not elastic": lambda _: {"metadata": {"annotations": {ELASTIC_ANNOTATION: None}}},
}

OF_WORKLOADS: dict[str, Tree] = {"deactivate": {"active": False}, "activate": {"active": True}}

DELETIONS = ("delete", "orphan", "delete the Workload")

END = "a pod ends"
"""Nobody does that."""

UNLOOKED_AT = ("a JobSet", "a Workload of its own")
TURNS = (*SUBMITTED, *UNLOOKED_AT, *EDITS, *OF_WORKLOADS, *DELETIONS, *(END,) * 6)


def story(chance: Random) -> list[Step]:
    """A job that runs, and what is done then."""

    def step(what: str) -> Step:
        cpu = chance.choice(UNCHECKED if what in UNLOOKED_AT else CPUS)
        return Step(what, chance.choice(NAMES), chance.randint(1, 6), cpu, chance.choice((0.0, 0.3, 2.0, 15.0)))

    begins = [Step(chance.choice(list(SUBMITTED)), name, chance.randint(2, 4), "1", 5.0) for name in NAMES]
    return begins + [step(chance.choice(TURNS)) for _ in range(10)]


def done(world: World, step: Step) -> None:
    """What the API server refuses is not done."""
    manager = world.manager
    try:
        if step.what in SUBMITTED:
            kind, make = SUBMITTED[step.what]
            manager.create(kind, make(step))
        elif step.what == END:
            a_pod_ends(world, step.key)
        elif step.what in EDITS:
            manager.patch(kinds.JOBS, step.key, EDITS[step.what](step))
        elif step.what in ("delete", "orphan"):
            propagation = "Orphan" if step.what == "orphan" else "Background"
            for kind in (kinds.JOBS, JOB_SET):
                if manager.stored(kind, step.key) is not None:
                    manager.call("DELETE", kind.path(step.key), query={"propagationPolicy": propagation})
        else:
            for key in workloads_of(world, step.name):
                if step.what == "delete the Workload":
                    manager.delete(kinds.WORKLOADS, key)
                else:
                    manager.patch(kinds.WORKLOADS, key, {"spec": OF_WORKLOADS[step.what]})
    except Refused:
        pass


def a_pod_ends(world: World, key: ObjectKey) -> None:
    for worker in world.workers.values():
        job = worker.site.stored(kinds.JOBS, key) or {}
        status = job.get("status", {})
        if status.get("active"):
            over = status.get("succeeded", 0) + 1
            told = {"active": status["active"] - 1, "ready": 0, "succeeded": over}
            if job["spec"].get("completionMode") == "Indexed":
                told |= {"completedIndexes": f"0-{over - 1}" if over > 1 else "0"}
            worker.site.patch(kinds.JOBS, key, {"status": told}, subresource="status")


def workloads_of(world: World, name: str) -> list[ObjectKey]:
    return [
        ObjectKey(NAMESPACE, each["metadata"]["name"])
        for each in world.manager.all(kinds.WORKLOADS)
        if any(owner["name"] == name for owner in each["metadata"].get("ownerReferences", ()))
    ]


# What is counted, and what runs.


def used(world: World) -> int:
    """Milli-CPU that the queue counts; below zero if any of its figures is."""
    (queue,) = world.manager.all(kinds.CLUSTER_QUEUES)
    totals = [
        quantity.amount("cpu", quantity.parse(resource["total"]))
        for field in ("flavorsUsage", "flavorsReservation")
        for flavor in queue.get("status", {}).get(field) or ()
        for resource in flavor["resources"]
    ]
    return min(totals) if min(totals, default=0) < 0 else max(totals, default=0)


def over(world: World) -> Counter[str]:
    """The pods that gave their quota back, and the workloads that are over, by whose they are."""
    found: Counter[str] = Counter()
    for each in world.manager.all(kinds.WORKLOADS):
        name, status = each["metadata"]["name"], each.get("status", {})
        found[name] += sum(pods["count"] for pods in status.get("reclaimablePods") or ())
        found[name] += 1000 * is_true(each, "Finished") + 1000 * (each["metadata"].get("deletionTimestamp") is not None)
    return found


def is_true(body: Tree, type_: str) -> bool:
    conditions = body.get("status", {}).get("conditions", ())
    return any(each["type"] == type_ and each["status"] == "True" for each in conditions)


def running(world: World) -> int:
    """Milli-CPU of the pods of all workers together: of Jobs those that run, of other jobs those that may."""
    found = 0
    for worker in world.workers.values():
        for body in worker.site.all(kinds.JOBS):
            (container,) = body["spec"]["template"]["spec"]["containers"]
            request = quantity.amount("cpu", quantity.parse(container["resources"]["requests"]["cpu"]))
            found += max(0, request) * (body.get("status", {}).get("active") or 0)
        for body in worker.site.all(JOB_SET):
            found += sum(admitted(copy) for copy in worker.site.all(kinds.WORKLOADS) if owns(body, copy))
    return found


def owns(job_set: Tree, copy: Tree) -> bool:
    name = job_set["metadata"].get("labels", {}).get("kueue.x-k8s.io/prebuilt-workload-name")
    return bool(copy["metadata"]["name"] == name and is_true(copy, "Admitted") and not is_true(copy, "Finished"))


def admitted(copy: Tree) -> int:
    assignments = copy["status"]["admission"]["podSetAssignments"]
    return sum(quantity.amount("cpu", quantity.parse(each["resourceUsage"].get("cpu", "0"))) for each in assignments)


def wrong(world: World) -> Iterator[str]:
    if used(world) < 0:
        yield f"{used(world)} is used"
    if running(world) > used(world):
        yield f"{running(world)} runs, and {used(world)} is counted"


async def settled(world: World) -> list[str]:
    """What is wrong once all is at rest."""
    for _ in range(int(MOST_AT_REST)):
        await anyio.sleep(1.0)
        if not (found := list(wrong(world))):
            return []
    return found


async def lived(world: World, tasks: TaskGroup, steps: list[Step]) -> None:
    for site in world.sites:
        site.cluster.install([definition(JOB_SET)])
    integrations = Integrations(frameworks=("batch/job", "jobset.x-k8s.io/jobset"), elastic_jobs=True)
    in_force = InForce(Settings(cluster=Cluster(namespace=LAYOUT.secrets), integrations=integrations))
    await world.add_manager("manager-0", in_force).begin(tasks).wait()
    for step in steps:
        if is_submission := step.what in SUBMITTED:
            assert await settled(world) == []
        ended = over(world)
        await anyio.sleep(2.0 if is_submission else 0.0)  # until the statuses of queues are written
        before = used(world)
        done(world, step)
        await anyio.sleep(step.pause)
        assert used(world) >= 0, step
        if is_submission and over(world) - ended == Counter():
            assert used(world) >= before, step
    assert await settled(world) == []


@pytest.mark.parametrize("seed", range(SEEDS))
def test_what_is_counted_is_what_runs_at_least_whatever_a_tenant_does(seed: int) -> None:
    perform(LAYOUT, lambda world, tasks: lived(world, tasks, story(Random(seed))))
