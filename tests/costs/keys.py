"""What one event asks to reconcile, by its kind, as ever more workloads wait: keys, calls of functions, and time.

Only the keys that an event concerns are reconciled: where it concerns none of the pending workloads, neither figure may
grow with their number. Calls are counted, since they are the same on any machine; the time is the best of a few rounds.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import count
from typing import Any

import msgspec

from multikueue.api.jobs.pod import GROUP_LABEL, Pod
from multikueue.api.kinds import PODS
from multikueue.api.kubernetes.builtins import LimitRange, LimitRangeItem, LimitRangeSpec, Overhead, RuntimeClass
from multikueue.api.kueue.admission_checks import ACTIVE
from multikueue.api.meta import Object, ObjectKey, ObjectMeta, is_true
from multikueue.jobs.integrations.frameworks import Adapters
from multikueue.jobs.kinds.batch_job.adapter import BATCH_JOB
from multikueue.jobs.kinds.pods.pod import PLAIN_POD
from multikueue.quota.engine import Engine
from multikueue.store.caches.cache import Cache
from multikueue.store.queues import Key, Queue
from multikueue.store.store import Store
from tests.builders import (
    NOW,
    admission_check,
    cluster_queue,
    cohort,
    flavor,
    job,
    local_queue,
    multikueue_cluster,
    multikueue_config,
    namespace,
    secret,
    workload,
    workload_priority_class,
)
from tests.costs.counting import FUNCTIONS, Counts, functions_counted

__all__ = ["EVENTS", "SIZES", "Cost", "Event", "as_markdown", "cost", "measure"]

SIZES = (1_000, 10_000)
ROUNDS = 5


@dataclass(slots=True)
class Asked:
    """The keys that a store asks to reconcile, each once as in work queues: stands for the store's `WorkQueues`."""

    keys: set[tuple[str, object]] = field(default_factory=set)

    def add(self, queue: Queue, key: Key, /, **_order: bool) -> None:
        if queue != "admission":
            self.keys.add((queue, key))


@dataclass(frozen=True, slots=True)
class Event:
    """One kind of event: `happens` is played on a world, with a new number each time. `many`: the event concerns all
    pending workloads, so its cost may grow with them."""

    what: str
    happens: Callable[[Store, int], None]
    many: bool = False


@dataclass(frozen=True, slots=True)
class Cost:
    """Keys to reconcile, functions called, seconds."""

    keys: int
    calls: int
    seconds: float


def world(size: int) -> tuple[Store, Asked]:
    """A store with `size` pending workloads in one queue and namespace; a second queue, namespace and so on is idle."""
    asked = Asked()
    store = Store(Engine(), asked, lambda: NOW, adapters=Adapters((BATCH_JOB, PLAIN_POD)))
    for name in ("default", "idle"):
        store.namespaces.upsert(namespace(name).build())
        store.flavors.upsert(flavor(name).build())
        store.priority_classes.upsert(workload_priority_class(name, 5).build())
        store.checks.upsert(admission_check(name).config(name).active().build())
        store.configs.upsert(multikueue_config(name, f"of-{name}").build())
        store.clusters.upsert(multikueue_cluster(f"of-{name}").secret(name).build())
        store.cohorts.upsert(cohort(name).build())
        store.cluster_queues.upsert(cluster_queue(name).cohort(name).quota(name, cpu=1).checks(name).build())
        store.local_queues.upsert(local_queue(name, name, namespace=name).build())
    for number in range(size):
        store.jobs.upsert(job(f"job-{number}").queue("default").suspended().managed_by().build())
        store.workloads.upsert(_waiting(number))
    store.open_jobs(PODS).replace([_member(number) for number in range(size)])
    engine = store.engine
    engine.scheduler.cycle(NOW)
    asked.keys.clear()
    return store, asked


def _waiting(number: int) -> Any:
    named = workload(f"wl-{number}").queue("default").request(cpu=2).priority(5, workload_class="default")
    return named.owner_job(f"job-{number}").build()


def _member(number: int, version: int = 1) -> Pod:
    meta = ObjectMeta(
        name=f"pod-{number}",
        namespace="default",
        uid=f"pod-{number}",
        resource_version=str(version),
        labels={GROUP_LABEL: "group"},
    )
    return Pod(metadata=meta)


def _again(cache: Cache[Any], name: str, number: int, *, where: str = "", **changes: Any) -> None:
    """Put a newer version of a cached object, with these fields of it or of its metadata changed."""
    seen: Object | None = cache.get(ObjectKey(where, name))
    assert seen is not None, name
    own = {key: value for key, value in changes.items() if key in seen.__struct_fields__}
    meta = {key: value for key, value in changes.items() if key not in own}
    cache.upsert(
        msgspec.structs.replace(
            seen,
            metadata=msgspec.structs.replace(seen.metadata, resource_version=str(1_000_000 + number), **meta),
            **own,
        )
    )


def _labels(number: int) -> dict[str, str]:
    return {"seen": str(number)}


def _limit_range(store: Store, where: str, number: int) -> None:
    meta = ObjectMeta(name="limits", namespace=where, uid=f"limits-{where}", resource_version=str(number))
    item = LimitRangeItem(type="Container", max={"cpu": str(1000 + number)})
    store.limit_ranges.upsert(LimitRange(metadata=meta, spec=LimitRangeSpec(limits=(item,))))


def _runtime_class(store: Store, number: int) -> None:
    meta = ObjectMeta(name="idle", uid="idle", resource_version=str(number))
    store.runtime_classes.upsert(RuntimeClass(metadata=meta, overhead=Overhead(pod_fixed={"cpu": f"{number}m"})))


def _flavor_spec(store: Store, name: str, number: int) -> None:
    store.flavors.upsert(flavor(name).node_labels(pool=str(number)).version(1_000_000 + number).build())


def _cohort(store: Store, name: str, number: int) -> None:
    changed = cohort(name).quota("idle", cpu=number).version(1_000_000 + number).generation(1000 + number)
    store.cohorts.upsert(changed.build())


def _local_queue(store: Store, number: int) -> None:
    """Stop the LocalQueue, or resume it. Its pending workloads follow later, some at a time."""
    seen = store.local_queues.get(ObjectKey("default", "default"))
    runs = seen is not None and seen.spec.stop_policy == "None"
    changed = local_queue("default", "default", namespace="default").version(1_000_000 + number).generation(number)
    store.local_queues.upsert((changed.stopped() if runs else changed).build())


def _check(store: Store, name: str, number: int, *, turns: bool) -> None:
    """Change the status of a check; with `turns` also whether it is active."""
    seen = store.checks.get(ObjectKey("", name))
    active = (seen is not None and is_true(seen.status.conditions, ACTIVE)) != turns
    built = admission_check(name).config(name).active(active, at=NOW + timedelta(seconds=number))
    store.checks.upsert(built.version(1_000_000 + number).build())


EVENTS: Sequence[Event] = (
    Event("a workload's label", lambda s, n: _again(s.workloads, "wl-0", n, where="default", labels=_labels(n))),
    Event("a job's label", lambda s, n: _again(s.jobs.of(_jobs()), "job-0", n, where="default", labels=_labels(n))),
    Event("a Pod of a group as large", lambda s, n: s.jobs.of(PODS).upsert(_member(0, 1_000_000 + n))),
    Event("a flavor that no queue of theirs names", lambda s, n: _flavor_spec(s, "idle", n)),
    Event("a label of their flavor", lambda s, n: _again(s.flavors, "default", n, labels=_labels(n))),
    Event("their flavor", lambda s, n: _flavor_spec(s, "default", n), many=True),
    Event("a LimitRange elsewhere", lambda s, n: _limit_range(s, "idle", n)),
    Event("a LimitRange of theirs", lambda s, n: _limit_range(s, "default", n)),
    Event("a RuntimeClass that none names", _runtime_class),
    Event(
        "the value of a priority class that none names",
        lambda s, n: _again(s.priority_classes, "idle", n, value=n),
    ),
    Event("a label of their priority class", lambda s, n: _again(s.priority_classes, "default", n, labels=_labels(n))),
    Event(
        "the value of their priority class", lambda s, n: _again(s.priority_classes, "default", n, value=n), many=True
    ),
    Event(
        "the status of their check, as active as before",
        lambda s, n: _check(s, "default", n, turns=False),
    ),
    Event(
        "their check becomes inactive, or active",
        lambda s, n: _check(s, "default", n, turns=True),
        many=True,
    ),
    Event("another queue's check", lambda s, n: _check(s, "idle", n, turns=True)),
    Event("the status of their ClusterQueue", lambda s, n: _again(s.cluster_queues, "default", n)),
    Event("the spec of another ClusterQueue", lambda s, n: _again(s.cluster_queues, "idle", n, generation=1000 + n)),
    Event(
        "the spec of their ClusterQueue",
        lambda s, n: _again(s.cluster_queues, "default", n, generation=1000 + n),
        many=True,
    ),
    Event("another tree's Cohort", lambda s, n: _cohort(s, "idle", n)),
    Event("the Cohort of their ClusterQueue", lambda s, n: _cohort(s, "default", n), many=True),
    Event("the status of their LocalQueue", lambda s, n: _again(s.local_queues, "default", n, where="default")),
    Event("their LocalQueue is stopped, or runs again", _local_queue, many=True),
    Event("a label of another namespace", lambda s, n: _again(s.namespaces, "idle", n, labels=_labels(n))),
    Event("the heartbeat of a MultiKueueCluster", lambda s, n: _again(s.clusters, "of-default", n)),
    Event("a Secret", lambda s, n: s.secrets.upsert(secret("other").version(1_000_000 + n).build())),
)


def _jobs() -> Any:
    return BATCH_JOB.kind


def cost(event: Event, store: Store, asked: Asked, numbers: count[int]) -> Cost:
    """The cost of one event in that world: over a few rounds the most keys, the fewest calls, the shortest time."""
    costs = [_once(event, store, asked, numbers) for _ in range(ROUNDS)]
    return Cost(max(c.keys for c in costs), min(c.calls for c in costs), min(c.seconds for c in costs))


def _once(event: Event, store: Store, asked: Asked, numbers: count[int]) -> Cost:
    _rest(store)
    asked.keys.clear()
    timed, counted = next(numbers), next(numbers)
    began = time.perf_counter()
    event.happens(store, timed)
    seconds = time.perf_counter() - began
    keys = len(asked.keys)
    _rest(store)
    return Cost(keys, _calls(lambda: event.happens(store, counted)), seconds)


def _rest(store: Store) -> None:
    """Run cycles until the work that an event deferred is done."""
    scheduler = store.engine.scheduler
    while (due := scheduler.next_look(NOW)) is not None and due <= NOW:
        scheduler.cycle(NOW)


def _calls(work: Callable[[], None]) -> int:
    counts: Counts = Counter()
    with functions_counted(counts, builtins=True):
        work()
    return counts[FUNCTIONS]


def measure(sizes: Sequence[int] = SIZES) -> dict[int, list[Cost]]:
    """The costs of `EVENTS`, by the number of pending workloads."""
    found: dict[int, list[Cost]] = {}
    for size in sizes:
        store, asked = world(size)
        numbers = count(2)
        found[size] = [cost(event, store, asked, numbers) for event in EVENTS]
    return found


def _rows(found: dict[int, list[Cost]]) -> list[list[str]]:
    head = ["Event"] + [f"{what}, {size:,} wait" for what in ("keys", "calls", "µs") for size in found]
    rows = [head]
    for index, event in enumerate(EVENTS):
        costs = [found[size][index] for size in found]
        figures = [*(each.keys for each in costs), *(each.calls for each in costs)]
        rows.append([event.what, *map(str, figures), *(f"{1e6 * each.seconds:.0f}" for each in costs)])
    return rows


def as_markdown(found: dict[int, list[Cost]]) -> str:
    head, *rows = _rows(found)
    lines = [head, ["---"] + ["--:"] * (len(head) - 1), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
