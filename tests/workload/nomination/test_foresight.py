"""What a worker could make of a workload, by its own queues."""

from __future__ import annotations

from itertools import starmap

import pytest

from multikueue.api.values.foreign import LONGEST_EXCERPT
from multikueue.workload.nomination.foresight import QueuesThere, excess, foresee
from multikueue.workload.nomination.prospects import Prospect, State
from tests.builders import ClusterQueueBuilder, cluster_queue, limits, local_queue, workload


def queue() -> ClusterQueueBuilder:
    return cluster_queue("theirs")


@pytest.mark.parametrize(
    ("made", "text"),
    [
        pytest.param(queue().quota("default", cpu=6), "", id="just enough"),
        pytest.param(queue().quota("default", cpu=4), "cpu 6 of 4 at most in flavor default", id="too little"),
        pytest.param(queue().quota("default", cpu=4).quota("spot", cpu=6), "", id="enough in another flavor"),
        pytest.param(
            queue().quota("default", cpu=4).quota("spot", cpu=5),
            "cpu 6 of 4 at most in flavor default, cpu 6 of 5 at most in flavor spot",
            id="too little in each, though enough together",
        ),
        pytest.param(queue().cohort("all").quota("default", cpu=4), "", id="who knows what a cohort lends"),
        pytest.param(
            queue().cohort("all").quota("default", cpu=limits(4, borrowing=1)),
            "cpu 6 of 5 at most in flavor default",
            id="too little with all that it may borrow",
        ),
        pytest.param(
            queue().quota("default", cpu=4).effective(queue().quota("default", cpu=6)), "", id="enough, as written"
        ),
        pytest.param(
            queue().quota("default", cpu=6).effective(queue().quota("default", cpu=4)),
            "cpu 6 of 4 at most in flavor default",
            id="too little, as an orchestrator wrote",
        ),
        pytest.param(queue().quota("default", memory=1), "", id="a resource without a flavor, which Kueue may ignore"),
    ],
)
def test_only_what_no_queue_could_ever_use_is_too_much(made: ClusterQueueBuilder, text: str) -> None:
    assert excess([{"cpu": 2000}, {"cpu": 6000}], made.build()) == text


@pytest.mark.parametrize(
    ("name", "state", "message"),
    [
        pytest.param("lq", State.NOT_ASKED, "", id="it may fit"),
        pytest.param("small", State.NEVER, "cpu 2 of 1 at most in flavor default", id="the queue there is too small"),
        pytest.param("gone", State.LACKS_QUEUE, "LocalQueue gone doesn't exist", id="the queue is not there"),
        pytest.param("lost", State.CLOSED_QUEUE, "ClusterQueue nowhere doesn't exist", id="it leads nowhere there"),
        pytest.param("off", State.NOT_ASKED, "", id="it is stopped there, and workloads wait in it"),
        pytest.param("held", State.NOT_ASKED, "", id="where it leads is stopped"),
        pytest.param(
            "going",
            State.CLOSED_QUEUE,
            "ClusterQueue going is inactive (it is being deleted)",
            id="where it leads goes",
        ),
        pytest.param(
            "broken",
            State.CLOSED_QUEUE,
            "ClusterQueue broken is inactive (Can't admit new workloads: references missing ResourceFlavor(s): a100)",
            id="where it leads lacks a flavor",
        ),
        pytest.param("new", State.NOT_ASKED, "", id="nobody has looked at where it leads"),
    ],
)
def test_the_prospect_is_that_of_the_queue_there(name: str, state: State, message: str) -> None:
    lacking = "Can't admit new workloads: references missing ResourceFlavor(s): a100."
    routes = {"lq": "theirs", "small": "tiny", "lost": "nowhere", "new": "new"}
    routes |= {name: name for name in ("held", "going", "broken")}
    shared = (
        queue().quota("default", cpu=2).active(),
        cluster_queue("tiny").quota("default", cpu=1),
        cluster_queue("held").stopped().active(False, reason="Stopped", message="is stopped"),
        cluster_queue("going").deleted(),
        cluster_queue("broken").active(False, reason="FlavorNotFound", message=lacking),
        cluster_queue("new"),
    )
    local = (*starmap(local_queue, routes.items()), local_queue("off", "theirs").stopped())
    there = QueuesThere.of((each.build() for each in local), (each.build() for each in shared))

    found = foresee("w1", workload("w").queue(name).build(), [{"cpu": 2000}], there)

    assert found == Prospect(cluster="w1", state=state.value, message=message)


@pytest.mark.parametrize(
    ("made", "state"),
    [
        pytest.param(queue().quota("f" * 40_000, cpu=1), State.NEVER, id="a name without an end"),
        pytest.param(queue().quota("default", cpu="much"), State.NOT_ASKED, id="an amount that makes no sense"),
    ],
)
def test_what_a_hostile_worker_has_breaks_and_floods_no_answer(made: ClusterQueueBuilder, state: State) -> None:
    there = QueuesThere.of([local_queue("lq", "theirs").build()], [made.build()])

    found = foresee("w1", workload("w").queue("lq").build(), [{"cpu": 2000}], there)

    assert found.state == state.value
    assert len(found.message) <= LONGEST_EXCERPT
