"""What each worker is to a workload that has none yet."""

from __future__ import annotations

import dataclasses
from datetime import timedelta

import pytest
from msgspec.structs import replace

from multikueue.api.kueue.workload import FITS_NO_WORKER
from multikueue.dispatch.remote import Remote
from multikueue.testing import NOW
from multikueue.workload.nomination.prospects import prospects
from tests.workload.builders import BOTH, admitted_copy, away, but, case_of, copy, pending, reserved, won, worker

PROSPECTS = {
    "nobody has asked it": (worker("w1"), "was not asked yet", ""),
    "its copy waits": (worker("w1", copy().unreserved(message="no room")), "waits there", "no room"),
    "its copy is of an earlier attempt": (worker("w1", copy("earlier")), "was not asked yet", ""),
    "it can never hold it": (but(worker("w1", copy()), never="cpu 6 of 4"), "can never hold it", "cpu 6 of 4"),
    "it is away": (
        away(worker("w1", admitted_copy()), since=NOW - timedelta(hours=1)),
        "cannot be reached",
        "not connected",
    ),
    "it cannot take this one": (but(worker("w1"), unfit="the name is taken"), "cannot take it", "the name is taken"),
}


@pytest.mark.parametrize(("remote", "state", "message"), PROSPECTS.values(), ids=PROSPECTS)
def test_a_worker(remote: Remote, state: str, message: str) -> None:
    (found,) = prospects(case_of(reserved().nominated("w1"), remote))
    assert (found.cluster, found.state, found.message) == ("w1", state, message)


@pytest.mark.parametrize(
    ("remote", "why", "state"),
    [
        pytest.param(worker("w1"), "LocalQueue main doesn't exist", "lacks the LocalQueue", id="it lacks the queue"),
        pytest.param(
            worker("w1"), "ClusterQueue theirs is inactive", "admits nothing from the queue", id="it is inactive"
        ),
        pytest.param(
            worker("w1", copy().unreserved(message="no room")),
            "ClusterQueue theirs is inactive",
            "waits there",
            id="it has a copy",
        ),
        pytest.param(
            worker("w1", copy("earlier")),
            "ClusterQueue theirs is inactive",
            "admits nothing from the queue",
            id="an old copy",
        ),
    ],
)
def test_a_queue_that_admits_nothing_is_told_where_nothing_is_there(remote: Remote, why: str, state: str) -> None:
    (found,) = prospects(case_of(reserved(), remote, closed={"w1": why}))
    assert found.state == state


def test_the_cell_of_a_worker_that_is_left_out_has_queue_kind_and_repair() -> None:
    left_out, asked = prospects(case_of(reserved(), *BOTH, closed={"w1": "LocalQueue main doesn't exist"}))
    assert (left_out.queue, left_out.kind) == ("default/main", "Job")
    assert left_out.message == "LocalQueue main doesn't exist"
    assert left_out.repair == "multikueue queues sync w1 -n default"
    assert (asked.queue, asked.kind, asked.repair) == ("", "", "")


def test_what_is_true_of_a_worker_for_everybody_is_told_where_nothing_is_there() -> None:
    seen = case_of(reserved(), worker("w1"), worker("w2"))
    cordoned, off = (
        dataclasses.replace(each, usable=False, why=why)
        for each, why in zip(seen.fleet.workers, ("cordoned", "not connected"), strict=True)
    )
    fleet = replace(seen.fleet, workers=(cordoned, off))
    told = [each.state for each in prospects(replace(seen, fleet=fleet, remotes=()))]
    assert told == ["is cordoned", "cannot be reached"]


def test_those_that_have_no_such_jobs_are_told() -> None:
    seen = case_of(reserved(), worker("w1"))
    fleet = replace(seen.fleet, missing={"w1": "no JobSet is there"})
    (found,) = prospects(replace(seen, fleet=fleet, remotes=()))
    assert (found.state, found.message) == ("lacks the kind", "no JobSet is there")


def test_a_worker_that_can_never_hold_it_is_told_after_its_copy_is_gone() -> None:
    local = pending().condition(FITS_NO_WORKER, message="cpu 9 of 4 at most in flavor any: w1, w2; memory 2 of 1: w3")
    found = prospects(case_of(local, worker("w1"), worker("w3"), worker("w4")))
    assert [(each.state, each.message) for each in found] == [
        ("can never hold it", "cpu 9 of 4 at most in flavor any"),
        ("can never hold it", "memory 2 of 1"),
        ("was not asked yet", ""),
    ]


def test_the_worker_that_has_it_is_told_after_it_has_left_the_fleet() -> None:
    gone = away(worker("w2", admitted_copy()), since=NOW - timedelta(hours=1))
    seen = case_of(won("w2").admitted(), worker("w1"), gone)
    fleet = replace(seen.fleet, workers=seen.fleet.workers[:1])
    found = prospects(replace(seen, fleet=fleet))
    assert [(each.cluster, each.state) for each in found] == [("w1", "was not asked yet"), ("w2", "cannot be reached")]
    assert found[1].since == NOW - timedelta(hours=1)
