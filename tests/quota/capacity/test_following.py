"""Nominal quotas that follow: the annotation, the reserve, what changes and what keeps it, and the patch."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakekube.server.patching.patches import json_patch as patched
from multikueue.api.kueue.queues import FOLLOW_ANNOTATION, ClusterQueue
from multikueue.quota.capacity.following import (
    Figure,
    FollowedQuota,
    Kept,
    Rules,
    WorkerReserve,
    follow,
    follow_problem,
    json_patch,
    reserve_of,
)
from multikueue.quota.capacity.offers import Offer
from tests.builders import cluster_queue
from tests.builders.queues import ClusterQueueBuilder, flavor_quotas, limits

ALL, NONE = WorkerReserve(), None
ON, OFF = Rules(is_enabled=True), Rules()
TENTH = WorkerReserve(Kept(percent=10))


def queue(cpu: Any = 10) -> ClusterQueueBuilder:
    return cluster_queue("main").quota("default", cpu=cpu)


def has(cpu: int, cluster: str = "w1", **more: Any) -> Offer:
    """A worker with so many cores."""
    return Offer(cluster=cluster, amounts={("default", "cpu"): cpu * 1000}, resources=frozenset({"cpu"}), **more)


def cpu_of(decision: FollowedQuota) -> tuple[int, str]:
    (figure,) = decision.figures
    return figure.wanted // 1000, figure.why


# --- who follows -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "rules", "reserve", "good"),
    [
        pytest.param(None, OFF, NONE, True, id="off unless told"),
        pytest.param(None, ON, ALL, True, id="on by the setting"),
        pytest.param("true", OFF, ALL, True, id="on by the annotation"),
        pytest.param("true", Rules(reserve=TENTH), TENTH, True, id="with the reserve of the settings"),
        pytest.param("false", ON, NONE, True, id="off by the annotation"),
        pytest.param("10%", OFF, TENTH, True, id="a reserve turns it on"),
        pytest.param(
            "10%", Rules(is_enabled=True, reserve=WorkerReserve(Kept(percent=50))), TENTH, True, id="its own reserve"
        ),
        pytest.param("yes", OFF, NONE, False, id="nonsense is as nothing, off"),
        pytest.param("yes", ON, ALL, False, id="nonsense is as nothing, on"),
        pytest.param("", ON, ALL, False, id="an empty one is nonsense"),
        pytest.param("-1%", OFF, NONE, False, id="less than nothing is nonsense"),
        pytest.param("101%", OFF, NONE, False, id="more than all is nonsense"),
        pytest.param("4", OFF, NONE, False, id="an amount of what"),
        pytest.param("cpu=-4", OFF, NONE, False, id="an amount below nothing"),
        pytest.param("cpu=4,cpu=5", OFF, NONE, False, id="twice the same"),
        pytest.param("=4", OFF, NONE, False, id="no name"),
    ],
)
def test_the_annotation_says_who_follows(
    text: str | None, rules: Rules, reserve: WorkerReserve | None, good: bool
) -> None:
    built = queue() if text is None else queue().annotations({FOLLOW_ANNOTATION: text})
    assert reserve_of(built.build(), rules) == reserve
    problem = follow_problem(built.build())
    assert (problem == "") is good
    if problem:
        assert problem.startswith(f'ClusterQueue main: annotation {FOLLOW_ANNOTATION}: expected "true", "false" or')
        assert problem.endswith(f'got "{text}"')


@pytest.mark.parametrize(
    ("text", "resource", "total", "kept"),
    [
        pytest.param("0%", "cpu", 1000, 0, id="nothing"),
        pytest.param("100%", "cpu", 1000, 1000, id="all"),
        pytest.param("33%", "gpu", 10, 4, id="rounded up"),
        pytest.param("cpu=4", "cpu", 9000, 4000, id="an amount"),
        pytest.param("cpu=4", "memory", 9000, 0, id="of another resource"),
        pytest.param("10%, cpu=500m", "cpu", 9000, 500, id="one of its own goes first"),
        pytest.param("10%,cpu=500m", "memory", 9000, 900, id="the rest"),
        pytest.param("memory=1Gi", "memory", 2**31, 2**30, id="memory"),
        pytest.param("nvidia.com/gpu=50%", "nvidia.com/gpu", 9, 5, id="a percentage of one"),
        pytest.param("cpu=4", "cpu", 3000, 3000, id="no more than there is"),
    ],
)
def test_a_reserve_is_by_resource(text: str, resource: str, total: int, kept: int) -> None:
    assert WorkerReserve.parse(text).of(resource, total) == kept


# --- how much ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("offers", "reserve", "cpu", "why"),
    [
        pytest.param([has(4), has(8, "w2")], ALL, 12, "", id="grows to the sum"),
        pytest.param([has(4), has(3, "w2")], ALL, 7, "", id="shrinks to the sum"),
        pytest.param([has(10), has(10, "w2")], TENTH, 18, "", id="less the reserve"),
        pytest.param([has(10)], ALL, 10, "", id="stays"),
        pytest.param([has(4), has(3, "w2", is_settled=False)], ALL, 10, "shrinks only after a while", id="not yet"),
        pytest.param([has(14), has(3, "w2", is_settled=False)], ALL, 17, "", id="grows all the same"),
        pytest.param([has(0)], ALL, 0, "", id="to nothing"),
        pytest.param([Offer(cluster="w1")], ALL, 10, "no worker counts it", id="what nobody counts stays"),
        pytest.param(
            [has(4), Offer(cluster="w2", problem="no")], ALL, 10, "not all of its workers are known", id="unknown"
        ),
        pytest.param([], ALL, 10, "not all of its workers are known", id="no workers"),
    ],
)
def test_quota_is_what_the_workers_have(offers: list[Offer], reserve: WorkerReserve, cpu: int, why: str) -> None:
    assert cpu_of(follow(queue().build(), offers, reserve=reserve)) == (cpu, why)


def test_what_keeps_it_is_named_by_worker() -> None:
    offers = [has(4), Offer(cluster="w2", problem="may not be read"), Offer(cluster="w3", problem="is broken")]
    decision = follow(queue().build(), offers, reserve=ALL)
    assert decision.problem == "w2: may not be read; w3: is broken"
    assert decision.changes == ()
    assert follow(queue().build(), [], reserve=ALL).problem == "no worker is configured"


@pytest.mark.parametrize(
    ("nominal", "has_now"),
    [
        pytest.param(100, 99, id="less"),
        pytest.param(100, 101, id="more"),
        pytest.param(0, 1, id="from nothing"),
        pytest.param(1, 0, id="to nothing"),
    ],
)
def test_the_smallest_change_is_followed(nominal: int, has_now: int) -> None:
    assert cpu_of(follow(queue(nominal).build(), [has(has_now)], reserve=ALL))[0] == has_now


def test_quota_is_never_less_than_may_be_lent() -> None:
    built = cluster_queue("main").quota("default", cpu=limits(10, lending=6)).cohort("all")
    assert cpu_of(follow(built.build(), [has(4)], reserve=ALL)) == (6, "not less than its lendingLimit")


def test_a_figure_says_what_it_comes_from() -> None:
    decision = follow(queue().build(), [has(4), has(16, "w2")], reserve=TENTH)
    assert str(decision.changes[0]) == "cpu in flavor default: 10 -> 18 (w1 4, w2 16, reserve 2)"


# --- invariants --------------------------------------------------------------------------------------------------------

FLAVORS, RESOURCES = ("a", "b"), ("cpu", "memory", "pods")
amounts = st.integers(0, 2**50)
cells = st.dictionaries(st.tuples(st.sampled_from(FLAVORS), st.sampled_from(RESOURCES)), amounts)


@st.composite
def offerings(draw: st.DrawFn) -> list[Offer]:
    found = draw(st.lists(st.tuples(cells, st.booleans()), max_size=4))
    return [
        Offer(cluster=f"w{n}", amounts=each, resources=frozenset(r for _, r in each), is_settled=settled)
        for n, (each, settled) in enumerate(found)
    ]


@st.composite
def queues(draw: st.DrawFn) -> ClusterQueue:
    nominal = {f: {r: draw(amounts) for r in RESOURCES} for f in FLAVORS}
    return cluster_queue("main").resource_group(*(flavor_quotas(f, nominal[f]) for f in FLAVORS)).build()


reserves = st.builds(lambda percent: WorkerReserve(Kept(percent=percent)), st.integers(0, 100))


def with_quotas(before: ClusterQueue, changes: Iterable[Figure]) -> ClusterQueue:
    """As the API server would have it after the patch."""
    tree = msgspec.json.decode(msgspec.json.encode(before))
    return msgspec.json.decode(msgspec.json.encode(patched(tree, json_patch(before, changes))), type=ClusterQueue)


@given(queues(), offerings(), reserves)
def test_what_was_brought_about_stays(built: ClusterQueue, offers: list[Offer], reserve: WorkerReserve) -> None:
    first = follow(built, offers, reserve=reserve)
    after = with_quotas(built, first.changes)
    assert follow(after, offers, reserve=reserve).changes == ()


@given(queues(), offerings(), reserves)
def test_nobody_is_promised_more_than_there_is_unless_it_may_not_shrink_yet(
    built: ClusterQueue, offers: list[Offer], reserve: WorkerReserve
) -> None:
    counted = {resource for each in offers for resource in each.resources}
    for figure in follow(built, offers, reserve=reserve).figures:
        there = sum(each.amounts.get((figure.flavor, figure.resource), 0) for each in offers)
        if figure.resource in counted and all(each.is_settled for each in offers):
            assert figure.wanted == there - figure.reserve <= there
        else:
            assert figure.wanted <= max(there, figure.nominal)


# --- the patch ---------------------------------------------------------------------------------------------------------


def test_the_patch_changes_single_quotas_and_proves_that_they_are_those() -> None:
    built = (
        cluster_queue("main")
        .quota("x", pods=5)
        .resource_group(flavor_quotas("a", cpu="1500m", memory="1Gi"), flavor_quotas("b", cpu=2, memory="2Gi"))
    )
    change = Figure(flavor="b", resource="cpu", nominal=2000, workers={}, wanted=2500)
    at = "/spec/resourceGroups/1/flavors/1"
    assert json_patch(built.build(), [change]) == [
        {"op": "test", "path": "/metadata/uid", "value": built.build().metadata.uid},
        {"op": "test", "path": f"{at}/name", "value": "b"},
        {"op": "test", "path": f"{at}/resources/0/name", "value": "cpu"},
        {"op": "test", "path": f"{at}/resources/0/nominalQuota", "value": 2},
        {"op": "replace", "path": f"{at}/resources/0/nominalQuota", "value": "2500m"},
    ]


def test_no_change_is_no_patch_but_a_test() -> None:
    assert [each["op"] for each in json_patch(queue().build(), [])] == ["test"]
