"""What is known of the workers' queues, and what a copy lacks there."""

from __future__ import annotations

from multikueue.quota.capacity.offers import WorkerQueues
from multikueue.store.caches.ceilings import Ceilings
from multikueue.testing import cluster_queue, local_queue, workload

TOO_MUCH = (
    "couldn't assign flavors to pod set main: insufficient quota for cpu in flavor default, previously considered podsets "
    "requests (0) + current podset request (6) > maximum capacity (4)"
)
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
