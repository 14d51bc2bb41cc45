"""What waits without a word is noticed, and what is said is not; nor is what nobody could know of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import anyio
import pytest
from anyio.abc import TaskGroup

from fakekube.model.wire import Object
from multikueue.api import kinds
from multikueue_simulator.simulation import seen
from multikueue_simulator.simulation.faults.fault_injector import FaultInjector
from multikueue_simulator.simulation.invariants.silence import Silence
from multikueue_simulator.simulation.plan.plan import JobPlan, Outage, Plan
from multikueue_simulator.world import objects
from multikueue_simulator.world.world import MANAGER, NAMESPACE, Layout, Share, World
from tests.simulator.stage import perform

LAYOUT = Layout(workers=(Share("w1", 4),))
PLAN = Plan(seed=1, layout=LAYOUT, jobs=(JobPlan(name="job0"),))
QUOTA = {
    "type": "QuotaReserved",
    "status": "True",
    "reason": "x",
    "message": "",
    "lastTransitionTime": "2030-01-01T00:00:00Z",
}


@dataclass
class Bench:
    """A world without a manager, in which the states are what the test makes them."""

    world: World
    injector: FaultInjector
    plan: Plan = PLAN
    broken: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.silence = Silence(self.world, self.plan, self.injector, lambda *facts: self.broken.append(str(facts[2])))
        self.job = self.world.manager.create(kinds.JOBS, objects.job("job0", NAMESPACE, queue="main"))

    def workload(self, *conditions: Object, **status: object) -> Object:
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "job0", "uid": self.job["metadata"]["uid"]}
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
                "spec": {
                    "queueName": "main",
                    "podSets": [{"name": "main", "count": 1, "template": self.job["spec"]["template"]}],
                },
            },
        )
        body = {"status": {"conditions": list(conditions), **status}}
        return self.world.manager.patch(kinds.WORKLOADS, seen.key(made), body, subresource="status")

    def say(self, about: Object, type_: str = "Warning") -> None:
        reference = {"kind": about["kind"], "name": about["metadata"]["name"], "uid": about["metadata"]["uid"]}
        self.world.manager.create(
            kinds.EVENTS,
            {
                "apiVersion": "v1",
                "kind": "Event",
                "metadata": {"name": "e", "namespace": NAMESPACE},
                "involvedObject": {**reference, "namespace": NAMESPACE},
                "type": type_,
                "reason": "x",
                "message": "words",
            },
        )

    async def look(self, seconds: float) -> list[str]:
        for _ in range(int(seconds / 5)):
            await anyio.sleep(5)
            self.silence.look(anyio.current_time(), 0.0)
        return self.broken


def looked_at(act: Callable[[Bench], object], seconds: float = 100.0) -> list[str]:
    found: list[str] = []

    async def test(world: World, tasks: TaskGroup) -> None:
        bench = Bench(world, FaultInjector(world, PLAN, tasks))
        act(bench)
        found.extend(await bench.look(seconds))

    perform(LAYOUT, test)
    return found


def nothing(_bench: Bench) -> None:
    pass


def reserved(bench: Bench, *more: Object, **status: object) -> Object:
    return bench.workload(QUOTA, *more, **status)


EVICTED = {**QUOTA, "type": "Evicted"}
SAID = {"name": objects.CHECK, "state": "Pending", "message": "words", "lastTransitionTime": "2030-01-01T00:00:00Z"}


@pytest.mark.parametrize(
    ("act", "words"),
    [
        (nothing, "it has no workload"),
        (reserved, "no worker has a copy"),
        (lambda bench: reserved(bench, EVICTED), "its job has to stop"),
    ],
    ids=["a job without a workload", "quota without a copy", "quota after an eviction"],
)
def test_what_waits_in_silence_is_noticed(act: Callable[[Bench], object], words: str) -> None:
    assert words in looked_at(act)[0]
    assert looked_at(act, seconds=30.0) == []


@pytest.mark.parametrize(
    "act",
    [
        lambda bench: bench.workload(),
        lambda bench: reserved(bench, admissionChecks=[SAID]),
        lambda bench: bench.say(bench.job),
        lambda bench: bench.say(reserved(bench)),
        lambda bench: bench.injector.do(Outage(host=MANAGER)),
        lambda bench: (reserved(bench), bench.injector.do(Outage(host="w1"))),
    ],
    ids=[
        "for quota",
        "with a message in its check",
        "with a warning about the job",
        "with a warning about the workload",
        "while the manager cluster is away",
        "for workers that are away",
    ],
)
def test_other_waits_are_none_of_it(act: Callable[[Bench], object]) -> None:
    assert looked_at(act, seconds=60.0) == []


@pytest.mark.parametrize("has_ended", [False, True], ids=["while it runs", "once it has ended"])
def test_what_runs_on_the_manager_cluster_waits_for_its_end_alone(has_ended: bool) -> None:
    plan = replace(PLAN, layout=replace(LAYOUT, home=2))

    async def test(world: World, tasks: TaskGroup) -> None:
        bench = Bench(world, FaultInjector(world, plan, tasks), plan)
        reserved(bench, {**QUOTA, "type": "Admitted"})
        if has_ended:
            times = dict.fromkeys(("startTime", "completionTime"), QUOTA["lastTransitionTime"])
            conditions = [{**QUOTA, "type": type_} for type_ in ("SuccessCriteriaMet", "Complete")]
            complete = {"status": {"conditions": conditions, **times}}
            world.manager.patch(kinds.JOBS, seen.key(bench.job), complete, subresource="status")
        said = await bench.look(100.0)
        assert {text.partition(": ")[2] for text in said} == ({"its job has ended"} if has_ended else set())

    perform(plan.layout, test)


def test_silence_begins_when_a_message_is_taken_back() -> None:
    """What was said for minutes is done at last, and its message goes before the copy comes."""

    async def test(world: World, tasks: TaskGroup) -> None:
        bench = Bench(world, FaultInjector(world, PLAN, tasks))
        told = reserved(bench, admissionChecks=[SAID])
        await bench.look(200.0)
        quiet = {"status": {"admissionChecks": [{**SAID, "message": ""}]}}
        world.manager.patch(kinds.WORKLOADS, seen.key(told), quiet, subresource="status")
        assert await bench.look(50.0) == []
        (text,) = set(await bench.look(10.0))
        assert text == "Workload w waits for 60 s in silence: no worker has a copy"

    perform(LAYOUT, test)


def test_an_event_that_warns_of_nothing_says_nothing() -> None:
    assert looked_at(lambda bench: bench.say(reserved(bench), "Normal"))
