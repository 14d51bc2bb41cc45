"""The engine decides what a slow and obvious one decides, whatever comes in whatever order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from multikueue.api.kueue.compatibility import Compatibility, Release
from multikueue.api.kueue.queues import ClusterQueue
from multikueue.api.kueue.workload import Workload
from multikueue.api.meta import ObjectKey
from multikueue.quota.engine import Engine, EngineRules
from multikueue.quota.preemption.fair import FairPreemption
from tests.builders import NOW, WorkloadBuilder, cluster_queue, flavor, limits, local_queue, namespace, workload
from tests.quota.builders import key_of, wants
from tests.quota.obvious import Obvious

QUEUES = ("a", "b", "c")
FLAVORS = ("spot", "fixed")
News = tuple[str, ObjectKey]
AT_REST = 60
"""Cycles within which all must have come to rest."""


@dataclass(slots=True)
class Side:
    """One of the two, as whoever writes statuses sees it."""

    tell: Callable[[Workload, datetime], None]
    remove: Callable[[ObjectKey, datetime], None]
    cycle: Callable[[datetime], list[News]]
    verdicts: Callable[[], dict[ObjectKey, str]]
    workloads: dict[ObjectKey, WorkloadBuilder] = field(default_factory=dict)

    def rest(self, now: datetime) -> list[News]:
        """Cycles, and each status written, until three cycles in a row bring nothing new."""
        news: list[News] = []
        quiet = 0
        for _ in range(AT_REST):
            fresh = self.cycle(now)
            for what, key in fresh:
                if what == "evicted":
                    self.workloads[key] = self.workloads[key].evicted().condition("Requeued", reason="Preempted")
                    self.remove(key, now)
                    self.tell(self.workloads[key].build(), now)
            quiet = 0 if fresh else quiet + 1
            news += fresh
            if quiet > 3 * len(QUEUES) * len(FLAVORS):
                break
        return news


def of_engine(engine: Engine) -> Side:
    def cycle(now: datetime) -> list[News]:
        done = engine.scheduler.cycle(now)
        return [*(("reserved", key) for key in done.reserved), *(("evicted", key) for key in done.evicted)]

    def verdicts() -> dict[ObjectKey, str]:
        return {each.key: found.message for each in waiting(engine) if (found := engine.view.verdict(each.key))}

    def gone(key: ObjectKey, now: datetime) -> None:
        engine.observe(workload(key.name, namespace=key.namespace).build(), None, now)

    def seen(value: Workload, now: datetime) -> None:
        engine.observe(None, value, now)

    return Side(seen, gone, cycle, verdicts)


def waiting(engine: Engine) -> list[Any]:
    return [each for queue in QUEUES for each in engine.view.waiting_in(queue)]


def of_obvious(obvious: Obvious) -> Side:
    def verdicts() -> dict[ObjectKey, str]:
        return {each.key: each.verdict.message for each in obvious.waiting if each.verdict}

    def cycle(now: datetime) -> list[News]:
        return sorted(obvious.cycle(now), key=lambda each: each[0] == "evicted")

    return Side(lambda workload, _now: obvious.arrive(workload), obvious.leave, cycle, verdicts)


SHAPES = st.fixed_dictionaries(
    {
        "strict": st.sampled_from([False, False, True]),
        "within": st.sampled_from(["LowerPriority", "LowerOrNewerEqualPriority", "Never"]),
        "reclaim": st.sampled_from(["LowerPriority", "Any", "Never"]),
        "borrow": st.sampled_from([None, 0, 2]),
        "lend": st.sampled_from([None, 0, 2]),
        "cohort": st.sampled_from(["all", "all", "all", ""]),
        "try_next": st.booleans(),
    }
)
JOBS = 18
ARRIVAL = st.tuples(
    st.just("arrive"), st.integers(0, JOBS - 1), st.sampled_from([2, 2, 2, 1, 3]), st.sampled_from([0, 0, 1, 2])
)
EVENTS = st.lists(
    st.one_of(
        ARRIVAL,
        ARRIVAL,
        ARRIVAL,
        st.tuples(st.just("finish"), st.integers(0, JOBS - 1)),
        st.tuples(st.just("wait"), st.sampled_from([0.4, 1.0, 3.0])),
        st.tuples(st.just("quota"), st.sampled_from(QUEUES), st.sampled_from([2, 3])),
    ),
    min_size=12,
    max_size=40,
)


def queue(name: str, shape: dict[str, Any], cpu: int = 3) -> ClusterQueue:
    made = cluster_queue(name).cohort(shape["cohort"])
    for each, size in zip(FLAVORS, (cpu, cpu - 1), strict=True):
        made = made.quota(each, cpu=limits(size, borrowing=shape["borrow"], lending=shape["lend"]))
    made = made.preempt(within_cluster_queue=shape["within"], reclaim_within_cohort=shape["reclaim"])
    if shape["try_next"]:
        made = made.fungibility(when_can_preempt="TryNextFlavor")
    return (made.strict_fifo() if shape["strict"] else made).build()


@settings(max_examples=50)
@given(st.tuples(SHAPES, SHAPES, SHAPES), EVENTS, st.booleans(), st.sampled_from(["0.16", "0.19"]))
def test_fast_and_slow_decide_the_same(
    shapes: tuple[dict[str, Any], ...], events: list[tuple[Any, ...]], fair: bool, release: Release
) -> None:
    rules, compatibility = FairPreemption() if fair else None, Compatibility.of(release)
    engine = Engine(EngineRules(fair_sharing=rules, compatibility=compatibility))
    obvious = Obvious(fair=rules, compatibility=compatibility)
    engine.observe(None, namespace("default").build(), NOW)
    for name in FLAVORS:
        obvious.flavors[name] = flavor(name).build()
        engine.observe(None, obvious.flavors[name], NOW)
    by_name = dict(zip(QUEUES, shapes, strict=True))
    for name, shape in by_name.items():
        engine.observe(None, queue(name, shape), NOW)
        obvious.set_queue(queue(name, shape), NOW)
        engine.observe(None, local_queue(f"lq-{name}", name).build(), NOW)
        obvious.set_local_queue(local_queue(f"lq-{name}", name).build())
    fast, slow = of_engine(engine), of_obvious(obvious)
    now = NOW
    for event in events:
        match event:
            case "arrive", number, cpu, priority if key_of(f"w{number}") not in fast.workloads:
                made = wants(f"w{number}", queue=f"lq-{QUEUES[number % 3]}", age=JOBS - number, cpu=cpu)
                for side in (fast, slow):
                    side.workloads[key_of(f"w{number}")] = made.priority(priority)
                    side.tell(made.priority(priority).build(), now)
            case "finish", number:
                for side in (fast, slow):
                    side.workloads.pop(key_of(f"w{number}"), None)
                    side.remove(key_of(f"w{number}"), now)
            case "wait", seconds:
                now += timedelta(seconds=seconds)
            case "quota", name, cpu:
                engine.observe(None, queue(name, by_name[name], cpu), now)
                obvious.set_queue(queue(name, by_name[name], cpu), now)
        assert fast.rest(now) == slow.rest(now)
        assert fast.verdicts() == slow.verdicts()
