"""An answer that what happens contradicts is noticed, and one that was true is not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import anyio
import pytest
from anyio.abc import TaskGroup

from fakekube.model.wire import Object
from multikueue.api import kinds
from multikueue.api.meta import ObjectKey
from multikueue.settings import Settings
from multikueue_simulator.simulation import seen
from multikueue_simulator.simulation.faults.fault_injector import FaultInjector
from multikueue_simulator.simulation.invariants.answers import Asker
from multikueue_simulator.simulation.plan.plan import JobPlan, Outage, Plan
from multikueue_simulator.world import objects
from multikueue_simulator.world.world import NAMESPACE, Layout, Share, World
from tests.simulator.stage import perform

LAYOUT = Layout(workers=(Share("w1", 4),))
PLAN = Plan(seed=1, layout=LAYOUT, jobs=(JobPlan(name="job0"),))


def condition(type_: str) -> Object:
    return {
        "type": type_,
        "status": "True",
        "reason": "x",
        "message": "",
        "lastTransitionTime": "2030-01-01T00:00:00Z",
    }


@dataclass
class Bench:
    """A world without a manager, in which the states are what the test makes them. A manager seems to have acted since the
    beginning."""

    world: World
    injector: FaultInjector
    broken: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.asker = Asker(
            self.world, self.injector, Settings(), lambda: 0.0, lambda *facts: self.broken.append(str(facts[2])), 1
        )
        self.job = self.world.manager.create(kinds.JOBS, objects.job("job0", NAMESPACE, queue="main"))

    def workload(self, *types: str, cpu: int = 1, **status: object) -> Object:
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "job0", "uid": self.job["metadata"]["uid"]}
        template = objects.job("job0", NAMESPACE, queue="main", cpu=cpu)["spec"]["template"]
        made = self.world.manager.create(
            kinds.WORKLOADS,
            {
                "apiVersion": "kueue.x-k8s.io/v1beta2",
                "kind": "Workload",
                "metadata": {
                    "name": "w",
                    "namespace": NAMESPACE,
                    "ownerReferences": [{**owner, "controller": True}],
                },
                "spec": {"queueName": "main", "podSets": [{"name": "main", "count": 1, "template": template}]},
            },
        )
        return self.tell(seen.key(made), *types, **status)

    def tell(self, key: ObjectKey, *types: str, **status: object) -> Object:
        body = {"status": {"conditions": [condition(each) for each in types], **status}}
        return self.world.manager.patch(kinds.WORKLOADS, key, body, subresource="status")

    def running(self) -> Object:
        return self.workload("QuotaReserved", "Admitted", "PodsReady", clusterName="w1")

    async def wait(self, seconds: float) -> None:
        for _ in range(int(seconds / 5)):
            await anyio.sleep(5)
            await self.asker.ask("job0")


def asked(act: Callable[[Bench], object], then: Callable[[Bench], object] = lambda _: None) -> list[str]:
    """What is contradicted in the two minutes after `act` and the two after `then`."""
    found: list[str] = []

    async def test(world: World, tasks: TaskGroup) -> None:
        bench = Bench(world, FaultInjector(world, PLAN, tasks))
        act(bench)
        await bench.wait(120)
        then(bench)
        await bench.wait(120)
        found.extend(bench.broken)

    perform(LAYOUT, test)
    return found


KEY = ObjectKey(NAMESPACE, "w")


def huge(bench: Bench) -> None:
    bench.workload(cpu=100)


def admitted(bench: Bench) -> None:
    bench.tell(KEY, "QuotaReserved", "Admitted", clusterName="w1")


def grown(bench: Bench) -> None:
    """The queue gets more quota."""
    body = bench.world.queue_body("main", cpu=100)
    bench.world.manager.patch(kinds.CLUSTER_QUEUES, ObjectKey("", "main"), {"spec": body["spec"]})
    admitted(bench)


def ended(bench: Bench) -> None:
    """The job has failed, as its status says, and its Workload has succeeded."""
    bench.workload("Finished", "QuotaReserved", "Admitted", clusterName="w1")
    finished = {**condition("Finished"), "reason": "Succeeded"}
    bench.world.manager.patch(kinds.WORKLOADS, KEY, {"status": {"conditions": [finished]}}, subresource="status")
    failed = [{**condition("FailureTarget"), "reason": "x"}, {**condition("Failed"), "reason": "x"}]
    times = {"startTime": "2030-01-01T00:00:00Z", "failed": 1}
    body = {"status": {"conditions": failed, **times}}
    bench.world.manager.patch(kinds.JOBS, ObjectKey(NAMESPACE, "job0"), body, subresource="status")


@pytest.mark.parametrize(
    ("act", "then", "words"),
    [
        (Bench.running, lambda _: None, "it does not run on w1"),
        (Bench.running, lambda bench: bench.injector.do(Outage(host="w1")), "w1 is away"),
        (lambda _: None, lambda _: None, "a manager works"),
        (huge, admitted, "it was admitted since"),
        (ended, lambda _: None, "the job is Failed"),
    ],
    ids=[
        "Running, and nothing runs there",
        "Running on a worker that is away",
        "no manager has looked at it, and one works",
        "it can never start, and does",
        "Finished, and the job has failed",
    ],
)
def test_what_is_contradicted_is_noticed(
    act: Callable[[Bench], object], then: Callable[[Bench], object], words: str
) -> None:
    assert words in "\n".join(asked(act, then))


@pytest.mark.parametrize(
    ("act", "then"),
    [(huge, lambda _: None), (huge, grown)],
    ids=["it can never start, and does not", "it starts once its queue has more"],
)
def test_what_was_true_is_not(act: Callable[[Bench], object], then: Callable[[Bench], object]) -> None:
    assert [text for text in asked(act, then) if "never" in text or "admitted since" in text] == []
