"""What the workloads on workers with prices teach of what queues spend."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from multikueue.api.kueue.queues import MAX_SPEND_ANNOTATION, ClusterQueue, LocalQueue
from multikueue.api.kueue.workload import Workload
from multikueue.api.meta import ObjectKey
from multikueue.api.multikueue.clusters import PRICES_ANNOTATION, MultiKueueCluster
from multikueue.store.caches.cache import Cache
from multikueue.store.caches.spends import Spends, assigned
from tests.builders import NOW, WorkloadBuilder, cluster_queue, local_queue, multikueue_cluster, workload

HOUR = timedelta(hours=1)
CQ, LQ = ObjectKey("", "cq"), ObjectKey("default", "main")


class Known:
    """A store's caches, as far as spends follow them. Two cores cost 1 an hour on `cloud`."""

    def __init__(self) -> None:
        self.workloads: Cache[Workload] = Cache(indexes={"worker": lambda each: (each.status.cluster_name,)})
        self.clusters: Cache[MultiKueueCluster] = Cache()
        self.queues: tuple[Cache[ClusterQueue], Cache[LocalQueue]] = Cache(), Cache()
        self.clock, self.versions = NOW, 1
        self.known = Spends(self.workloads, self.clusters, self.queues, lambda: self.clock)
        self.queues[0].upsert(cluster_queue("cq").annotations({MAX_SPEND_ANNOTATION: "100/1000h"}).build())
        self.queues[1].upsert(local_queue("main").build())

    def price(self, name: str = "cloud", text: str = "cpu=0.5") -> None:
        self.versions += 1
        self.clusters.upsert(
            multikueue_cluster(name).annotations({PRICES_ANNOTATION: text}).version(self.versions).build()
        )

    def put(self, built: WorkloadBuilder) -> None:
        self.versions += 1
        self.workloads.upsert(built.version(self.versions).build())

    def spent(self, queue: ObjectKey = LQ) -> Any:
        account = self.known.account(queue)
        assert account is not None
        return pytest.approx(account.spent_by(self.clock), rel=0.04, abs=1e-9)


def runs(name: str = "wl", *, on: str = "cloud", since: timedelta = timedelta()) -> WorkloadBuilder:
    return workload(name).queue("main").request(cpu=2).reserved("cq").admitted(at=NOW - since).cluster_name(on)


def test_without_prices_nothing_is_looked_at() -> None:
    known = Known()
    known.put(runs())
    assert (known.known.account(LQ), known.known.of(runs().build())) == (None, ())
    known.price(text="")
    assert known.known.account(LQ) is None


def test_what_runs_on_a_worker_costs_from_its_start_to_its_end() -> None:
    known = Known()
    known.price()
    known.put(runs())
    known.put(runs("elsewhere", on="home"))
    known.put(workload("waits").queue("main").request(cpu=2).reserved("cq").nominated("cloud"))
    known.clock += 3 * HOUR
    assert known.spent() == 3
    known.put(runs().finished(at=known.clock))
    known.clock += 3 * HOUR
    known.put(runs().finished(at=known.clock).labels(seen="again"))
    assert (known.spent(), known.spent(CQ)) == (3, 3)


@pytest.mark.parametrize("end", ["evicted", "deleted"])
def test_who_loses_its_quota_costs_nothing_any_more(end: str) -> None:
    known = Known()
    known.price()
    known.put(runs())
    known.clock += HOUR
    if end == "deleted":
        known.workloads.remove(runs().version(99).build())
    else:
        known.put(workload("wl").queue("main").request(cpu=2))
    known.clock += HOUR
    assert known.spent() == 1


def test_a_price_counts_from_when_it_is_told() -> None:
    known = Known()
    known.price("other")
    known.put(runs())
    known.clock += HOUR
    known.price()
    known.clock += HOUR
    assert known.spent() == 1
    known.price(text="cpu=5")
    known.clock += HOUR
    assert known.spent() == 11
    known.price(text="")
    known.clock += HOUR
    assert known.spent() == 11


def test_the_price_of_a_flavor_goes_before_that_of_its_resource() -> None:
    known = Known()
    known.price(text="cpu=5, default/cpu=0.25")
    known.put(runs())
    known.clock += HOUR
    assert known.spent() == 0.5


def test_a_process_that_starts_counts_from_what_the_queue_was_told() -> None:
    """One ran throughout, one ended meanwhile, and one before."""
    known = Known()
    known.price()
    told = known.known.account(CQ)
    assert told is not None
    told.spent, told.at = 7, NOW
    conditions = told.told((), generation=1, now=NOW)
    again = Known()
    built = cluster_queue("cq").annotations({MAX_SPEND_ANNOTATION: "100/1000h"}).version(2).build()
    again.queues[0].upsert(replace(built, status=replace(built.status, conditions=conditions)))
    again.clock = NOW + 4 * HOUR
    again.price()
    again.put(runs("throughout", since=HOUR))
    again.put(runs("ended", since=HOUR).finished(at=NOW + HOUR))
    again.put(runs("before", since=9 * HOUR).finished(at=NOW - HOUR))
    assert again.spent(CQ) == 7 + 4 + 1


def test_strategies_are_shown_the_queues_with_a_limit() -> None:
    known = Known()
    known.price()
    known.put(runs())
    known.clock += 150 * HOUR
    (shown,) = known.known.of(workload("next").queue("main").reserved("cq").build())
    assert (shown.queue, shown.most) == ("ClusterQueue cq", 100)
    assert shown.spent > 100


def test_what_is_assigned_is_by_flavor() -> None:
    assert assigned(runs().build()) == {("default", "cpu"): 2000}
    assert assigned(workload("wl").build()) == {}
