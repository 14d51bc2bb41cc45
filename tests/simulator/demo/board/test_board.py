"""The board: what is counted and told, from changes of objects alone."""

from __future__ import annotations

from typing import Any

import pytest

from fakekube.model.wire import Object
from multikueue.api.kueue.workload import SLICE_REPLACED
from multikueue_simulator.demo.board.board import Board
from multikueue_simulator.world.world import MANAGER

QUEUE, ORIGIN = "kueue.x-k8s.io/queue-name", "kueue.x-k8s.io/multikueue-origin"


def board() -> Board:
    return Board(["research", "nightly"], {"small": 4, "large": 16})


def condition(type_: str, status: str = "True", message: str = "") -> Object:
    return {"type": type_, "status": status, "message": message}


def job(name: str = "a", *, queue: str = "research", conditions: tuple[Object, ...] = ()) -> Object:
    metadata = {"name": name, "labels": {QUEUE: queue}}
    return {"kind": "Job", "metadata": metadata, "status": {"conditions": [*conditions]}}


def local(name: str = "a", *, conditions: tuple[Object, ...] = (), **status: Any) -> Object:
    metadata = {"name": f"job-{name}", "ownerReferences": [{"name": name}]}
    return {"kind": "Workload", "metadata": metadata, "status": {"conditions": [*conditions], **status}}


def copy(name: str = "a", *, ours: bool = True, cpu: str = "", finished: bool = False) -> Object:
    labels = {ORIGIN: "multikueue"} if ours else {}
    status: Object = {"conditions": []}
    if cpu:
        status = {
            "conditions": [condition("QuotaReserved"), *([condition("Finished")] if finished else [])],
            "admission": {"podSetAssignments": [{"resourceUsage": {"cpu": cpu}}, {"resourceUsage": {"cpu": "500m"}}]},
        }
    return {"kind": "Workload", "metadata": {"name": f"job-{name}", "labels": labels}, "status": status}


def remote_job(name: str = "a", *, uid: str = "1", started: bool = True) -> Object:
    metadata = {"name": name, "uid": uid, "labels": {ORIGIN: "multikueue"}}
    return {"kind": "Job", "metadata": metadata, "status": {"startTime": "2030-01-01T00:00:00Z"} if started else {}}


RESERVED = (condition("QuotaReserved"),)


def dispatched(to: str = "large") -> Board:
    """A board on which job `a` raced on both workers, and one won."""
    one = board()
    one.see(MANAGER, "ADDED", job(), 1.0)
    one.see(MANAGER, "MODIFIED", local(conditions=RESERVED), 1.1)
    one.see("small", "ADDED", copy(), 1.2)
    one.see("large", "ADDED", copy(), 1.2)
    one.see("small", "DELETED", copy(), 1.3)
    one.see(MANAGER, "MODIFIED", local(conditions=RESERVED, clusterName=to), 1.5)
    return one


def test_a_job_waits_races_runs_and_finishes() -> None:
    one = board()
    one.see(MANAGER, "ADDED", job(), 1.0)
    assert one.counts("research") == {"waiting": 1}
    one.see(MANAGER, "MODIFIED", local(conditions=RESERVED), 1.1)
    one.see("small", "ADDED", copy(), 1.2)
    assert one.counts("research") == {"racing": 1}
    assert (one.racing("small"), one.racing("large")) == (1, 0)
    one.see(MANAGER, "MODIFIED", local(conditions=RESERVED, clusterName="small"), 1.5)
    assert one.counts("research") == {"small": 1}
    assert one.running("small") == 1
    one.see(MANAGER, "MODIFIED", job(conditions=(condition("Complete"),)), 3.0)
    assert one.counts("research") == {"finished": 1}
    assert one.is_over(1)
    assert not one.is_over(2)


def test_a_race_is_told_with_its_losers_though_their_copies_are_gone() -> None:
    one = dispatched()
    assert (one.stands["large"].won, one.stands["small"].lost, one.stands["large"].lost) == (1, 1, 0)
    assert one.moments[-1].text == "a runs on large, 0.50 s after its submission against small"


def test_the_same_winner_again_is_no_news() -> None:
    one = dispatched()
    told = len(one.moments)
    one.see(MANAGER, "MODIFIED", local(conditions=RESERVED, clusterName="large"), 2.0)
    assert (len(one.moments), one.stands["large"].won) == (told, 1)


def test_a_workload_that_loses_its_place_goes_back_and_races_again() -> None:
    one = dispatched()
    evicted = (condition("QuotaReserved", "False"), condition("Evicted", message="the worker is lost"))
    one.see(MANAGER, "MODIFIED", local(conditions=evicted), 9.0)
    course = one.courses["a"]
    assert (course.evictions, course.winner, course.raced) == (1, "", set())
    assert one.moments[-1].text == "a goes back to its queue: the worker is lost"


def test_each_start_is_counted_once() -> None:
    one = dispatched()
    one.see("large", "ADDED", remote_job(started=False), 1.6)
    assert one.waits() == []
    for at in (1.7, 1.8):
        one.see("large", "MODIFIED", remote_job(), at)
    assert one.courses["a"].starts == 1
    assert one.waits() == [pytest.approx(0.7)]
    one.see("small", "ADDED", remote_job(uid="2"), 5.0)
    assert one.courses["a"].starts == 2
    assert one.waits() == [pytest.approx(0.7)]


def test_cpus_of_ours_and_of_others_are_in_use_while_their_workloads_hold_quota() -> None:
    one = dispatched()
    one.see("large", "MODIFIED", copy(cpu="2"), 2.0)
    one.see("large", "ADDED", copy("theirs", ours=False, cpu="4"), 2.0)
    stand = one.stands["large"]
    assert (sum(stand.used.values()), sum(stand.others.values()), stand.busy) == (2.5, 4.5, 7.0)
    one.see("large", "MODIFIED", copy(cpu="2", finished=True), 3.0)
    one.see("large", "DELETED", copy("theirs", ours=False, cpu="4"), 3.0)
    assert stand.busy == 0


def test_workers_that_cannot_be_reached_are_told_once() -> None:
    one = board()

    def cluster(status: str) -> Object:
        conditions = [condition("Active", status, "no answer")]
        return {"kind": "MultiKueueCluster", "metadata": {"name": "small"}, "status": {"conditions": conditions}}

    for status in ("False", "False", "True"):
        one.see(MANAGER, "MODIFIED", cluster(status), 1.0)
    told = [moment.text for moment in one.moments]
    assert told == ["the manager cannot reach small: no answer", "the manager reaches small again"]
    assert one.stands["small"].reachable


def test_what_is_not_of_the_play_is_not_counted() -> None:
    one = board()
    one.see("small", "ADDED", remote_job("unknown"), 1.0)
    one.see(MANAGER, "ADDED", local("unknown"), 1.0)
    assert one.courses == {}


def test_the_rate_is_that_of_the_last_seconds() -> None:
    one = dispatched()
    assert one.rate(2.0) == pytest.approx(0.5)
    assert one.rate(60.0) == 0
    assert board().rate(0.0) == 0


def retried(message: str) -> Object:
    return local(conditions=RESERVED, clusterName="large", admissionChecks=[{"state": "Retry", "message": message}])


def test_a_lost_worker_is_named_and_where_the_job_went() -> None:
    one = dispatched()
    one.see(MANAGER, "MODIFIED", retried('Admitting remote lost: worker cluster "large" is out of reach'), 5.0)
    one.see(MANAGER, "MODIFIED", local(conditions=(condition("QuotaReserved", "False"), condition("Evicted"))), 6.0)
    one.see(MANAGER, "MODIFIED", local(conditions=RESERVED, clusterName="small"), 8.5)
    assert [moment.text for moment in one.moments][-2:] == [
        "large is lost: a queues again",
        "a runs elsewhere: on small, 2.5 s after it had to leave large",
    ]


def test_a_replaced_slice_of_a_job_is_no_loss() -> None:
    one = dispatched()
    second = local(conditions=RESERVED, clusterName="large") | {
        "metadata": {"name": "s2", "ownerReferences": [{"name": "a"}]}
    }
    one.see(MANAGER, "MODIFIED", second, 3.0)
    replaced = condition("Finished") | {"reason": SLICE_REPLACED}
    one.see(MANAGER, "MODIFIED", local(conditions=(replaced,)), 3.1)
    course = one.courses["a"]
    assert (course.evictions, course.winner, course.holding) == (0, "large", {"s2"})


def test_a_job_that_somebody_deletes_is_over() -> None:
    one = dispatched()
    one.see(MANAGER, "DELETED", job(), 4.0)
    assert one.is_over(1)
    assert one.moments[-1].text == "somebody deletes a"
    assert (one.failed, one.repeated) == (0, 0)


def test_the_headline_is_the_latest_act_while_it_is_news() -> None:
    told = board()
    told.announce(8.0, "small dies: in 4 s its jobs are lost")
    told.note(12.0, "small is lost")
    assert told.headline(13.0) == "small dies: in 4 s its jobs are lost"
    assert told.headline(16.0) == ""
    told.announce(19.0, "small comes back")
    assert told.headline(19.0) == "small comes back"
