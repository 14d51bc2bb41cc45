"""What workers have for a ClusterQueue: shares, flavors, and what counts for how long."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from multikueue.api.meta import ObjectKey
from multikueue.quota.capacity.offers import Feeders, Offer, Record, WorkerQueues, offer, share
from tests.builders import NOW, cluster_queue, local_queue
from tests.builders.queues import ClusterQueueBuilder

KEY = ObjectKey("default", "lq")
HOLD = timedelta(minutes=5)
MANAGER = cluster_queue("main").quota("default", cpu=10)
FEEDERS: Feeders = {"main": [KEY]}


def worker(*queues: ClusterQueueBuilder, **routes: str) -> WorkerQueues:
    """A worker whose LocalQueues lead to these ClusterQueues: `lq` to the first, unless said otherwise."""
    routes = routes or {"lq": queues[0].build().metadata.name}
    local_queues = (local_queue(name, target).build() for name, target in routes.items())
    return WorkerQueues.of(local_queues, (queue.build() for queue in queues))


def having(cpu: int) -> WorkerQueues:
    return worker(cluster_queue("theirs").quota("default", cpu=cpu))


def offered(
    record: Record,
    queue: ClusterQueueBuilder = MANAGER,
    *,
    feeders: Feeders = FEEDERS,
    flavors: Mapping[str, str] | None = None,
    after: timedelta = timedelta(),
) -> Offer:
    return offer(queue.build(), feeders, record, cluster="w1", flavors=flavors or {}, hold=HOLD, now=NOW + after)


def seen(queues: WorkerQueues) -> Record:
    record = Record(NOW - HOLD)
    record.saw(queues, NOW)
    return record


# --- the share ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("queue", "nominal"),
    [
        pytest.param(cluster_queue("q").quota("default", cpu=4), 4000, id="as it is"),
        pytest.param(cluster_queue("q").quota("default", cpu=4).active(), 4000, id="active"),
        pytest.param(cluster_queue("q").quota("default", cpu=4).active(False), 0, id="inactive"),
        pytest.param(cluster_queue("q").quota("default", cpu=4).stopped(), 0, id="stopped"),
        pytest.param(cluster_queue("q").quota("default", cpu=4).stopped("HoldAndDrain"), 0, id="drained"),
        pytest.param(
            cluster_queue("q").quota("default", cpu=4).effective(cluster_queue("q").quota("default", cpu=9)),
            9000,
            id="as an orchestrator says",
        ),
    ],
)
def test_a_worker_offers_the_nominal_quota_of_what_takes_in_work(queue: ClusterQueueBuilder, nominal: int) -> None:
    assert share(worker(queue), "main", FEEDERS) == {("default", "cpu"): nominal}


def test_a_worker_offers_nothing_where_an_orchestrator_gives_nothing() -> None:
    queue = cluster_queue("q").quota("default", cpu=4).effective(cluster_queue("q"))
    assert share(worker(queue), "main", FEEDERS) == {}


def test_a_local_queue_that_is_stopped_leads_nowhere() -> None:
    queues = WorkerQueues.of(
        [local_queue("lq", "q").stopped().build()], [cluster_queue("q").quota("default", cpu=4).build()]
    )
    assert share(queues, "main", FEEDERS) == {}


def test_a_local_queue_of_a_queue_that_is_missing_leads_nowhere() -> None:
    assert share(worker(cluster_queue("q").quota("default", cpu=4), lq="other"), "main", FEEDERS) == {}


def test_each_cluster_queue_counts_once_however_many_lead_to_it_and_others_not() -> None:
    queues = worker(
        cluster_queue("a").quota("default", cpu=4),
        cluster_queue("b").quota("default", cpu=2),
        cluster_queue("c").quota("default", cpu=50),
        one="a",
        two="a",
        three="b",
        foreign="c",
    )
    feeders = {"main": [ObjectKey("default", name) for name in ("one", "two", "three")]}
    assert share(queues, "main", feeders) == {("default", "cpu"): 6000}


shared = st.integers(0, 10**15)
names = st.sampled_from("abcdef")
routed = st.dictionaries(names, st.sampled_from("xyz"))


@given(st.dictionaries(st.sampled_from("xyz"), shared), routed, st.dictionaries(st.sampled_from("pqr"), st.sets(names)))
def test_what_is_shared_is_divided_without_a_rest(
    amounts: dict[str, int], routes: dict[str, str], feeding: dict[str, set[str]]
) -> None:
    queues = WorkerQueues(
        {ObjectKey("default", name): target for name, target in routes.items()},
        {name: {("default", "cpu"): amount} for name, amount in amounts.items()},
    )
    feeders = {name: [ObjectKey("default", key) for key in keys] for name, keys in feeding.items()}
    shares = [sum(share(queues, name, feeders).values()) for name in feeders]
    reached = {target for name, target in routes.items() if any(name in keys for keys in feeding.values())}
    assert sum(shares) == sum(amount for name, amount in amounts.items() if name in reached)


# --- flavors -----------------------------------------------------------------------------------------------------------

TWO = cluster_queue("main").quota("spot", cpu=1).quota("fixed", cpu=1)


@pytest.mark.parametrize(
    ("queue", "theirs", "flavors", "amounts", "notes"),
    [
        pytest.param(TWO, {"spot": 4, "fixed": 2}, {}, {"spot": 4, "fixed": 2}, 0, id="the same names"),
        pytest.param(TWO, {"preemptible": 4, "fixed": 2}, {}, {"fixed": 2}, 1, id="an unknown one counts for nothing"),
        pytest.param(TWO, {"preemptible": 0, "fixed": 2}, {}, {"fixed": 2}, 0, id="nothing of an unknown one"),
        pytest.param(TWO, {"p": 4, "fixed": 2}, {"p": "spot"}, {"spot": 4, "fixed": 2}, 0, id="a flavor by the map"),
        pytest.param(TWO, {"p": 4, "spot": 2}, {"p": "spot"}, {"spot": 6}, 0, id="two flavors into one"),
        pytest.param(
            TWO, {"spot": 4}, {"w1/spot": "fixed", "spot": "x"}, {"fixed": 4}, 0, id="a cluster's own goes first"
        ),
        pytest.param(TWO, {"spot": 4}, {"w2/spot": "fixed"}, {"spot": 4}, 0, id="another cluster's means nothing"),
        pytest.param(MANAGER, {"a": 4, "b": 2}, {}, {"default": 6}, 0, id="the only flavor takes all"),
        pytest.param(MANAGER, {"a": 4, "b": 2}, {"b": "other"}, {"default": 4}, 1, id="unless the map leads elsewhere"),
    ],
)
def test_flavors_of_a_worker_are_told_in_the_managers(
    queue: ClusterQueueBuilder, theirs: dict[str, int], flavors: dict[str, str], amounts: dict[str, int], notes: int
) -> None:
    built = cluster_queue("theirs")
    for name, cpu in theirs.items():
        built = built.quota(name, cpu=cpu)
    found = offered(seen(worker(built)), queue, flavors=flavors)
    assert found.amounts == {(name, "cpu"): cpu * 1000 for name, cpu in amounts.items()}
    assert len(found.notes) == notes


def test_a_resource_that_the_manager_does_not_count_is_nothing_to_tell() -> None:
    found = offered(seen(worker(cluster_queue("theirs").quota("default", {"cpu": 4, "memory": "1Gi"}))))
    assert (found.amounts, found.notes) == ({("default", "cpu"): 4000}, ())
    assert found.resources == {"cpu", "memory"}


# --- over time ---------------------------------------------------------------------------------------------------------


def cpu(found: Offer) -> int:
    return found.amounts.get(("default", "cpu"), 0) // 1000


def test_more_counts_at_once_and_less_after_the_hold() -> None:
    record = seen(having(4))
    record.saw(having(9), NOW)
    assert cpu(offered(record)) == 9
    record.saw(having(2), NOW)
    assert cpu(offered(record, after=HOLD - timedelta(seconds=1))) == 9
    assert cpu(offered(record, after=HOLD)) == 2


def test_a_worker_that_is_away_counts_for_a_while_and_then_for_nothing_of_what_it_has_counted() -> None:
    record = seen(having(4))
    record.missed(NOW)
    assert offered(record).notes == ("w1 is away; what it had counts for a while",)
    assert cpu(offered(record)) == 4
    gone = offered(record, after=HOLD)
    assert (cpu(gone), gone.resources, gone.notes) == (0, {"cpu"}, ("w1 is away",))


def test_a_worker_never_seen_counts_nothing_and_is_not_settled_before_its_time() -> None:
    record = Record(NOW)
    record.missed(NOW)
    assert offered(record) == Offer(cluster="w1", is_settled=False, notes=("w1 is away",))
    assert offered(record, after=HOLD).is_settled


def test_a_worker_without_the_queue_is_named() -> None:
    found = offered(seen(worker(cluster_queue("theirs").quota("default", cpu=4), other="theirs")))
    assert (found.amounts, found.notes) == ({}, ("none of its LocalQueues leads to a ClusterQueue on w1",))


absences = st.lists(
    st.tuples(st.integers(1, 299), st.sampled_from([None, 0, 1, 2, 3]), st.integers(1, 1000)), max_size=8
)


@given(absences)
def test_whoever_is_less_for_shorter_than_the_hold_moves_nothing(steps: list[tuple[int, int | None, int]]) -> None:
    record, now = seen(having(4)), NOW
    for shortly, amount, later in steps:
        if amount is None:
            record.missed(now)
        else:
            record.saw(having(amount), now)
        assert cpu(offered(record, after=now - NOW)) == 4
        now += timedelta(seconds=shortly)
        assert cpu(offered(record, after=now - NOW)) == 4
        record.forget(HOLD, now)
        record.saw(having(4), now)
        assert cpu(offered(record, after=now - NOW)) == 4
        now += timedelta(seconds=later)


def test_time_in_which_nobody_looked_is_no_time_that_it_was_away() -> None:
    record = seen(having(4))
    late = timedelta(hours=3)
    record.missed(NOW + late)
    assert cpu(offered(record, after=late)) == 4


def test_a_worker_that_may_not_be_read_offers_nothing_that_is_known() -> None:
    record = seen(having(4))
    record.refused("may not be read")
    assert offered(record) == Offer(cluster="w1", problem="may not be read")
    record.saw(having(4), NOW)
    assert cpu(offered(record)) == 4


def test_a_resource_is_counted_no_more_when_a_worker_that_is_there_has_ceased_to() -> None:
    record = seen(worker(cluster_queue("theirs").quota("default", cpu=4, pods=10)))
    record.saw(having(4), NOW)
    assert offered(record).resources == {"cpu"}


def test_a_cluster_queue_that_is_gone_leaves_the_resources_that_it_counted() -> None:
    record = seen(having(4))
    record.saw(WorkerQueues({}, {}), NOW)
    gone = offered(record, after=HOLD)
    assert (cpu(gone), gone.resources) == (0, {"cpu"})
    record.forget(HOLD, NOW + HOLD)
    assert offered(record, after=HOLD) == gone


def test_nothing_is_kept_that_counts_no_more() -> None:
    record = seen(having(1))
    for minute in range(100):
        now = NOW + timedelta(minutes=minute)
        record.forget(HOLD, now)
        record.saw(having(minute), now)
    assert len(tuple(record.latest())) <= 7


looks = st.lists(st.tuples(st.integers(0, 400), st.one_of(st.none(), st.integers(0, 5))), min_size=1, max_size=12)


@given(looks)
def test_a_share_is_the_most_of_what_was_seen_within_the_hold(steps: list[tuple[int, int | None]]) -> None:
    record, now, history = Record(NOW), NOW, list[tuple[int, int]]()
    for seconds, amount in steps:
        now += timedelta(seconds=seconds)
        clock = int((now - NOW).total_seconds())
        record.forget(HOLD, now)
        if amount is None:
            record.missed(now)
        else:
            record.saw(having(amount), now)
        history.append((clock, amount or 0))
        # What was seen at one look stands until the next.
        ends = [when for when, _ in history[1:]] + [clock + 1]
        most = max(had for (_, had), end in zip(history, ends, strict=True) if clock - end < HOLD.total_seconds())
        assert cpu(offered(record, after=now - NOW)) == most
