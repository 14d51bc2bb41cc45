"""What is known of the workers' queues, and what a copy lacks there."""

from __future__ import annotations

import msgspec
import pytest

from multikueue.quota.capacity.offers import WorkerQueues
from multikueue.store.caches.ceilings import Ceilings
from tests.builders import WorkloadBuilder, cluster_queue, local_queue, workload

TOO_MUCH = (
    "couldn't assign flavors to pod set main: insufficient quota for cpu in flavor default, previously considered podsets "
    "requests (0) + current podset request (6) > maximum capacity (4)"
)
UNSEEN = workload("twin").queue("main").request(cpu=6).build()
COPY = workload("wl").queue("main").request(cpu=6).unreserved(message=TOO_MUCH).build()


def queues(*flavors: str, cpu: int = 4, queue: str = "main") -> WorkerQueues:
    theirs = cluster_queue("theirs")
    for name in flavors:
        theirs = theirs.quota(name, cpu=cpu)
    return WorkerQueues.of([local_queue(queue, "theirs").build()], [theirs.build()])


def test_a_worker_s_word_counts_once_its_queue_is_known() -> None:
    known = Ceilings()
    assert known.lack("w1", COPY) == ""
    assert known.put("w1", queues("default")) is None
    assert known.lack("w1", COPY) == "cpu 6 of 4 at most in flavor default"
    assert (known.lack("w2", COPY), known.lack("w1", None)) == ("", "")


def test_a_flavor_that_its_kueue_has_not_spoken_of() -> None:
    known = Ceilings()
    known.put("w1", queues("default", "spot"))
    assert known.lack("w1", COPY) == ""


def test_a_queue_that_leads_nowhere_there() -> None:
    known = Ceilings()
    known.put("w1", queues("default", queue="other"))
    assert known.lack("w1", COPY) == ""


def test_what_is_news() -> None:
    known = Ceilings()
    said = [known.put("w1", queues("default", cpu=cpu)) for cpu in (4, 4, 8)]
    assert said == [None, False, True]
    known.forget("w1")
    assert (known.lack("w1", COPY), known.put("w1", queues("default"))) == ("", None)


def test_what_is_said_of_one_copy_counts_for_those_that_ask_for_the_same() -> None:
    known = Ceilings()
    known.put("w1", queues("default"))
    assert known.lack("w1", UNSEEN) == ""

    assert [known.heard("w1", COPY), known.heard("w1", COPY)] == [True, False]

    assert known.lack("w1", UNSEEN) == "cpu 6 of 4 at most in flavor default"
    assert known.lack("w2", UNSEEN) == ""
    assert known.is_judged("w1", UNSEEN)


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(workload("w").queue("main").request(cpu=2), id="it asks for less"),
        pytest.param(workload("w").queue("other").request(cpu=6), id="it is in another queue"),
        pytest.param(workload("w", namespace="b").queue("main").request(cpu=6), id="it is in another namespace"),
        pytest.param(
            workload("w").queue("main").request(cpu=6).unreserved(message="wait"), id="it has a word of its own"
        ),
        pytest.param(workload("w").queue("main").request(cpu=6).reserved("theirs"), id="it has quota"),
    ],
)
def test_it_does_not_count_for_others(other: WorkloadBuilder) -> None:
    known = Ceilings()
    known.put("w1", queues("default"))
    known.heard("w1", COPY)
    assert known.lack("w1", other.build()) == ""


def test_it_counts_until_the_queues_of_the_worker_change() -> None:
    known = Ceilings()
    known.put("w1", queues("default"))
    known.heard("w1", COPY)
    known.put("w1", queues("default"))
    assert known.lack("w1", UNSEEN) != ""
    known.put("w1", queues("default", cpu=8))
    assert known.lack("w1", UNSEEN) == ""

    assert known.heard("w1", COPY)
    known.forget("w1")
    known.put("w1", queues("default"))
    assert known.lack("w1", UNSEEN) == ""


def test_who_asks_for_ever_more_pushes_out_only_their_own() -> None:
    known = Ceilings()
    known.put("w1", queues("default"))
    known.heard("w1", COPY)
    for cpu in range(7, 120):
        known.heard(
            "w1", workload("w", namespace="b").queue("main").request(cpu=cpu).unreserved(message=TOO_MUCH).build()
        )
    assert known.lack("w1", UNSEEN) != ""
    for cpu in range(7, 120):
        known.heard("w1", workload("w").queue("main").request(cpu=cpu).unreserved(message=TOO_MUCH).build())
    assert known.lack("w1", UNSEEN) == ""


def test_a_copy_that_cannot_be_read_is_like_no_other() -> None:
    known = Ceilings()
    known.put("w1", queues("default"))
    odd = msgspec.structs.replace(COPY, spec=msgspec.Raw(b'{"podSets": 1}'))
    assert not known.heard("w1", odd)
    known.heard("w1", COPY)
    assert known.lack("w1", msgspec.structs.replace(UNSEEN, spec=odd.spec)) == ""
