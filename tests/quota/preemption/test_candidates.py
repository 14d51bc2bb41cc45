"""Who may be asked to go, in which order, and what they are told (quota-engine 3.5, 3.7)."""

from __future__ import annotations

from functools import partial

import pytest

from multikueue.quota.cache.tree import UndoLog
from multikueue.quota.preemption.candidates import Target, candidate_order, eviction, fill_back, of_queue
from multikueue.quota.workload.outcome import Cause, Eviction
from tests.builders import ClusterQueueBuilder, CohortBuilder, cluster_queue, cohort, workload
from tests.quota.scenes import Held, Scene, held, needs

NODES: list[ClusterQueueBuilder | CohortBuilder] = [
    cohort("c").parent("r"),
    cluster_queue("q").cohort("c").quota("default", cpu=9),
    cluster_queue("borrower").cohort("r").quota("default", cpu=0),
]

EVERYBODY = [
    Held("leaving", "q", needs(cpu=1), 9, evicted=True),
    Held("weak", "q", needs(cpu=1), -1),
    Held("older", "q", needs(cpu=1), 0, young=-1),
    Held("newer", "q", needs(cpu=1), 0, young=1),
    Held("strong", "q", needs(cpu=1), 1),
    Held("elsewhere", "q", needs(on="spot", cpu=1), -9),
]

POLICIES = {
    "Never": [],
    "LowerPriority": ["weak"],
    "LowerOrNewerEqualPriority": ["weak", "newer"],
    "Any": ["leaving", "weak", "newer", "older", "strong"],
}


@pytest.mark.parametrize(("policy", "expected"), POLICIES.items(), ids=POLICIES.keys())
def test_whom_a_policy_gives_up_to_a_head_of_priority_0(policy: str, expected: list[str]) -> None:
    scene = Scene(NODES, EVERYBODY)
    request = scene.request("q", needs(cpu=1))
    found = of_queue(scene.node("q"), policy, request, scene.preemption.holders)
    assert [reservation.key.name for reservation in found] == expected


def test_qe_188_the_order_to_go() -> None:
    ordered = [
        (Held("leaving", "q", needs(cpu=1), 9, evicted=True), True),
        (Held("other", "borrower", needs(cpu=1), 1), False),
        (Held("weak", "q", needs(cpu=1), -1), True),
        (Held("late", "q", needs(cpu=1), 0, late=1), True),
        (Held("a", "q", needs(cpu=1)), True),
        (Held("b", "q", needs(cpu=1)), True),
    ]
    ranks = [candidate_order(each.build(), is_own=own) for each, own in ordered]
    assert ranks == sorted(ranks)
    assert len(set(ranks)) == len(ranks)


def test_those_who_are_not_needed_after_all_come_back_the_last_in_their_place() -> None:
    scene = Scene(NODES, [held("one", "q", 2), held("two", "q", 1), held("three", "q", 1), held("four", "q", 5)])
    request, log = scene.request("q", needs(cpu=5)), UndoLog()
    targets = [Target(each, scene.node("q"), Cause.IN_QUEUE) for each in reversed(scene.reservations["q"])]
    targets.sort(key=lambda each: ["one", "two", "three", "four"].index(each.reservation.key.name))
    for target in targets:
        target.simulate_removal(log)

    fill_back(targets, partial(request.can_fit, may_borrow=True), log)

    assert [each.reservation.key.name for each in targets] == ["four"]
    log.roll_back()
    assert scene.usage() == Scene(NODES, [held("all", "q", 9)]).usage()


# What they are told.


MESSAGES = {
    "all known": ("u", "j", "UID: u, JobUID: j"),
    "the workload has no job": ("u", "", "UID: u, JobUID: UNKNOWN"),
    "nothing known": ("", "", "UID: UNKNOWN, JobUID: UNKNOWN"),
}


@pytest.mark.parametrize(("uid", "job", "who"), MESSAGES.values(), ids=MESSAGES.keys())
def test_the_victim_is_told_who_and_why_and_where(uid: str, job: str, who: str) -> None:
    scene = Scene(NODES, [held("out", "borrower", 2)])
    (reservation,) = scene.reservations["borrower"]
    preemptor = workload("in").uid(uid)
    preemptor = preemptor.labels({"kueue.x-k8s.io/job-uid": job}) if job else preemptor

    told = eviction(Target(reservation, scene.node("borrower"), Cause.RECLAIM), preemptor.build(), scene.node("q"))

    assert told == Eviction(
        reservation.key,
        Cause.RECLAIM,
        f"Preempted to accommodate a workload ({who}) due to reclamation within the cohort; "
        "preemptor path: /r/c/q; preemptee path: /r/borrower",
        by="q",
    )
