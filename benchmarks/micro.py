"""Single rooms of the product without a cluster: work per CPU second, and memory per cached object.

The figures gate what the design promises for one core; each is the best of a few rounds, by CPU time.
"""

from __future__ import annotations

import dataclasses
import gc
import time
import tracemalloc
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta

import msgspec
from msgspec.structs import replace

from benchmarks.figures import Target, at_least, at_most
from multikueue.api.kueue.usage import WorkloadUsage
from multikueue.api.kueue.workload import Workload
from multikueue.dispatch.remote import Remote, attempt_of
from multikueue.kube.decode import change_of
from multikueue.quota.engine import Engine
from multikueue.store.caches.cache import Cache
from multikueue.store.caches.rooms import WorkerRoom
from multikueue.strategy import FlavorRoom, Fleet, Nomination, Room, Weighted, Worker
from multikueue.strategy import Workload as StrategyWorkload
from multikueue.testing import strategy_workload
from multikueue.workload.case import Case
from multikueue.workload.decide import decide
from multikueue.workload.handlers.outcome import Outcome
from multikueue.workload.nomination.request import nomination_request
from multikueue.workload.strategy_call import LoadedStrategy, NominationResult, call_strategy
from multikueue_strategies.composed import Composed
from multikueue_strategies.filters import Labels
from multikueue_strategies.room import MostRoom
from multikueue_strategies.scorers import Order, Price, Tiers
from tests.builders import NOW, cluster_queue, flavor, job, local_queue, namespace, workload
from tests.builders.workloads import WorkloadBuilder

__all__ = ["Result", "measure_all"]

ROUNDS = 3
EVENTS = 20_000
OBJECTS = 10_000
QUEUES = 10
DECISIONS = 5_000
EVENT_BYTES = 3_800
CHECK = "mk"
CROWD = 1_000
CHOICES = 30
CHOICE_MS = 2


@dataclass(frozen=True, slots=True)
class Result:
    """One figure and its target."""

    label: str
    value: float
    target: Target

    @property
    def met(self) -> bool:
        return self.target.met(self.value, None) is not False


def measure_all() -> list[Result]:
    """All figures. Takes some 20 s of CPU."""
    lines = [event(number) for number in range(EVENTS)]
    return [
        Result("watch events decoded, per CPU s", per_cpu_second(lambda: decode(lines)), at_least(100_000)),
        Result("objects taken into a cache, per CPU s", per_cpu_second(lambda: fill(lines)), at_least(50_000)),
        Result("workloads given quota, per CPU s", admissions(), at_least(2_000)),
        Result("decisions about one workload, per CPU s", per_cpu_second(decisions), at_least(10_000)),
        Result(
            "a choice among 1,000 workers by room and tiers, ms", 1000 / per_cpu_second(choices), at_most(CHOICE_MS)
        ),
        Result(
            "a choice among 1,000 workers by order and price, ms", 1000 / per_cpu_second(priced), at_most(CHOICE_MS)
        ),
        Result(
            "memory per workload of others on a worker whose room is read, KiB", memory_of_others() / 1024, at_most(4)
        ),
        Result("memory per cached workload, KiB", memory_per_object(lines[:OBJECTS]) / 1024, at_most(5)),
        Result("full garbage collection over a cache of 20,000, ms", 1000 * collection(lines), at_most(20)),
    ]


def per_cpu_second(work: Callable[[], int]) -> float:
    """The best rate of a few rounds; `work` returns how much it did."""
    return max(_rate(work) for _ in range(ROUNDS))


def _rate(work: Callable[[], int]) -> float:
    began = time.process_time()
    done = work()
    return done / (time.process_time() - began)


def event(number: int) -> bytes:
    """The line of a watch for a workload, as large as in real clusters: half of it is managedFields."""
    built = _reserved(f"wl-{number}").build()
    tree = msgspec.to_builtins(msgspec.structs.replace(built, spec=msgspec.Raw()), builtin_types=(msgspec.Raw,))
    tree["spec"] = built.spec
    tree["metadata"] |= {"resourceVersion": str(number + 1), "managedFields": []}
    bare = len(msgspec.json.encode(tree))
    tree["metadata"]["managedFields"] = [{"manager": "kueue", "fieldsV1": {"f:status": "x" * (EVENT_BYTES - bare)}}]
    return msgspec.json.encode({"type": "MODIFIED", "object": tree}) + b"\n"


def decode(lines: Sequence[bytes]) -> int:
    change = change_of(Workload)
    for line in lines:
        change(line)
    return len(lines)


def fill(lines: Sequence[bytes]) -> int:
    _filled(lines)
    return len(lines)


def _filled(lines: Sequence[bytes]) -> Cache[Workload]:
    change, cache = change_of(Workload), Cache[Workload]()
    for line in lines:
        cache.upsert(change(line).object)
    return cache


def memory_per_object(lines: Sequence[bytes]) -> float:
    """Bytes of one cached workload."""
    _filled(lines[:100])  # allocations that happen once only
    tracemalloc.start()
    cache = _filled(lines)
    gc.collect()
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return size / len(cache)


def collection(lines: Sequence[bytes]) -> float:
    """Seconds of a full collection with these workloads in a cache. Older objects are frozen, as in the manager."""
    gc.collect()
    gc.freeze()
    cache = _filled(lines)
    began = time.process_time()
    gc.collect()
    seconds = time.process_time() - began
    gc.unfreeze()
    assert len(cache) == len(lines)
    return seconds


def admissions() -> float:
    """Workloads that get quota per CPU second, filling the queues included."""
    return max(_rate(_admit_all) for _ in range(ROUNDS))


def _admit_all() -> int:
    engine = _engine()
    for number in range(OBJECTS // 5):
        built = workload(f"wl-{number}").queue(f"lq-{number % QUEUES}").request(cpu=1).build()
        engine.observe(None, built, NOW)
    admitted, now = 0, NOW
    while (due := engine.scheduler.next_look(now)) is not None and due <= now:
        admitted += len(engine.scheduler.cycle(now).reserved)
        now += timedelta(microseconds=1)
    return admitted


def _engine() -> Engine:
    engine = Engine()
    engine.observe(None, namespace("default").build(), NOW)
    engine.observe(None, flavor("default").build(), NOW)
    for number in range(QUEUES):
        engine.observe(None, cluster_queue(f"cq-{number}").cohort("all").quota("default", cpu=OBJECTS).build(), NOW)
        engine.observe(None, local_queue(f"lq-{number}", f"cq-{number}").build(), NOW)
    return engine


class Everywhere:
    """The cheapest possible strategy."""

    def nominate(self, workload: StrategyWorkload, fleet: Fleet) -> Nomination:  # noqa: ARG002
        return Nomination(fleet.names)


EVERYWHERE = LoadedStrategy("everywhere", Everywhere())


def decisions() -> int:
    """Decide about the three most frequent states of a workload; returns the number of decisions."""
    cases = _cases()
    for _ in range(DECISIONS // len(cases)):
        for case in cases:
            decided(replace(case))
    return DECISIONS


def decided(case: Case) -> Outcome:
    """Decide as a workload's reconcile does, which calls the strategy where there is something to nominate."""
    request = nomination_request(case)
    if request is not None:
        nomination = call_strategy(EVERYWHERE.strategy, request.workload, request.fleet)
        case = replace(case, nomination_result=NominationResult(request=request, by=EVERYWHERE, nomination=nomination))
    return decide(case)


def choices() -> int:
    """Choices among 1,000 workers, of which the room of one has changed since the last; returns their number."""
    scorers = (Weighted(MostRoom()), Weighted(Tiers(("on-premises", "spot")), 2.0))
    return _choose(Composed(filters=(Labels(exclude={"broken": ()}),), scorers=scorers))


def priced() -> int:
    prices = {f"worker-{number}": {"cpu": 0.01 + number / 1e5} for number in range(CROWD)}
    return _choose(Composed(scorers=(Weighted(Order()), Weighted(Price(prices)))))


def _choose(strategy: Composed) -> int:
    workers = [
        Worker(
            name=f"worker-{number}",
            labels={"multikueue.dev/tier": "spot" if number % 2 else "on-premises"},
            room=Room(quotas=(_room(number),)),
        )
        for number in range(CROWD)
    ]
    for number in range(CHOICES):
        workers[number] = dataclasses.replace(workers[number], room=Room(quotas=(_room(number + 1),)))
        asked = strategy_workload(f"wl-{number}").request(cpu=4).build()
        assert strategy.nominate(asked, Fleet(workers=tuple(workers), now=NOW)).clusters
    return CHOICES


def _room(number: int) -> FlavorRoom:
    used = 1000 * (number % 60)
    return FlavorRoom(flavor="default", resource="cpu", nominal=64_000, used=used, most=64_000, free=64_000 - used)


def memory_of_others() -> float:
    """Bytes for one workload of somebody else on a worker: as it is watched, and as it counts."""
    change = change_of(WorkloadUsage)
    lines = [event(number) for number in range(OBJECTS)]

    def filled() -> Cache[WorkloadUsage]:
        room = WorkerRoom("w1", Cache(), Cache(), {})
        for line in lines:
            room.workloads.upsert(change(line).object)
        return room.workloads

    filled()  # allocations that happen once only
    tracemalloc.start()
    cache = filled()
    gc.collect()
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return size / len(cache)


def _cases() -> list[Case]:
    names = ("w1", "w2", "w3")
    reserved = _reserved("wl")
    attempt = attempt_of(reserved.build())
    copy = workload("wl").queue("lq-0").request(cpu=1).origin().attempt(attempt)
    admitted = copy.reserved("remote").admitted().build()
    remote_job = job("job").origin().prebuilt("wl").attempt(attempt).build()
    waiting = tuple(Remote(cluster=name, workload=copy.build()) for name in names)
    won = (Remote(cluster="w1", workload=admitted, job=remote_job), Remote(cluster="w2"), Remote(cluster="w3"))
    running = reserved.check(CHECK, "Ready").admitted().cluster_name("w1")
    return [
        _case(reserved, tuple(Remote(cluster=name) for name in names)),
        _case(reserved.nominated(*names), waiting),
        _case(running, won),
    ]


def _case(local: WorkloadBuilder, remotes: tuple[Remote, ...]) -> Case:
    built = local.build()
    return Case(now=NOW, key=built.key, workload=built, check=CHECK, remotes=remotes)


def _reserved(name: str) -> WorkloadBuilder:
    return workload(name).queue("lq-0").request(cpu=1, memory="1Gi").owner_job("job").reserved("cq-0").check(CHECK)
