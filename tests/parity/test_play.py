"""A story is played to a whole manager; whatever breaks is told and no more."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, NoReturn

import pytest

from multikueue.quota.scheduler.scheduler import Scheduler
from multikueue.workload.life import rules
from tests.parity import play as playing
from tests.parity.builders import (
    PENDING,
    READY,
    RESERVED,
    a_story,
    a_workload,
    admitted,
    an_object,
    bad,
    expected,
    furnished,
    good,
    waiting,
)
from tests.parity.play import Outcome, play, settings
from tests.parity.story import Object, parsed


def played(story: Object) -> Outcome:
    return play(parsed(story))


def lines(story: Object) -> list[str]:
    outcome = played(story)
    assert not outcome.error
    return [str(each) for each in outcome.disagreements]


def stopped(policy: str) -> Object:
    return {"kind": "ClusterQueue", "name": "q", "patch": {"spec": {"stopPolicy": policy}}}


def test_a_story_that_agrees() -> None:
    outcome = played(good())
    assert outcome.agrees
    assert (outcome.steps, outcome.disagreements, outcome.hints) == (3, [], [])


def test_a_story_that_differs_says_where() -> None:
    outcome = played(bad())
    assert not outcome.agrees
    assert list(map(str, outcome.disagreements)) == [
        "bad, step 3 (finish), ClusterQueue q, admitted: expected 2, got 1"
    ]


def test_a_text_that_differs_is_a_hint_and_counts_for_nothing() -> None:
    story = good()
    story["steps"][1]["messages"] = {"two": "another text"}
    outcome = played(story)
    assert outcome.agrees
    assert [(each.object, each.field) for each in outcome.hints] == [("workload two", "message")]


def test_an_evicted_workload_keeps_its_quota_until_the_story_says_that_its_pods_are_gone() -> None:
    evicted = RESERVED | {"Evicted": ["True", "ClusterQueueStopped"]}
    gone = {
        "QuotaReserved": ["False", "Inadmissible"],
        "Admitted": ["False", "NoReservation"],
        "Evicted": ["True", "ClusterQueueStopped"],
        "Requeued": ["False", "ClusterQueueStopped"],
    }
    halted = expected({"w": admitted(3, conditions=evicted)}, used=3, running=1)
    over = expected({"w": waiting(conditions=gone)}, waiting=1)
    for each in (halted, over):
        each["clusterQueues"]["q"]["active"] = ["False", "Stopped"]
        each["localQueues"]["l"]["active"] = ["False", "ClusterQueueIsInactive"]
    story = a_story(
        furnished(),
        {"create": [a_workload("w", 3)], "expect": expected({"w": admitted(3)}, used=3, running=1)},
        {"patch": [stopped("HoldAndDrain")], "expect": halted},
        {"wait": 3600, "expect": halted},
        {"complete_evictions": "all", "completed": ["w"], "expect": over},
        {"complete_evictions": "all", "completed": [], "expect": over},
    )
    assert lines(story) == []


def test_a_workload_that_is_switched_off_and_on() -> None:
    evicted = RESERVED | {"Evicted": ["True", "Deactivated"]}
    off = admitted(3, conditions=evicted, active=False)
    again = admitted(
        3, conditions=RESERVED | {"Evicted": ["False", "QuotaReserved"], "Requeued": ["True", "Reactivated"]}
    )
    released = {
        "QuotaReserved": ["False", "Pending"],
        "Admitted": ["False", "NoReservation"],
        "Evicted": ["True", "Deactivated"],
        "Requeued": ["False", "Deactivated"],
    }
    story = a_story(
        furnished(),
        {"create": [a_workload("w", 3)], "expect": expected({"w": admitted(3)}, used=3, running=1)},
        {"deactivate": ["w"], "expect": expected({"w": off})},
        {
            "complete_evictions": "all",
            "completed": ["w"],
            "expect": expected({"w": waiting(conditions=released, active=False)}),
        },
        {"activate": ["w"], "expect": expected({"w": again}, used=3, running=1)},
    )
    assert lines(story) == []


def test_a_check_is_answered_by_its_owner() -> None:
    check = an_object("AdmissionCheck", "c", spec={"controllerName": "example.com/judge"})
    rules = {"admissionChecks": [{"name": "c"}]}
    first = furnished(admissionChecksStrategy=rules)
    first["apply"].append(check)
    first["expect"]["clusterQueues"]["q"]["active"] = ["False", "AdmissionCheckInactive"]
    first["expect"]["localQueues"]["l"]["active"] = ["False", "ClusterQueueIsInactive"]
    reserved = expected(
        {"w": admitted(3, conditions={"QuotaReserved": ["True", "QuotaReserved"]}, checks={"c": "Pending"})}, used=3
    )
    reserved["clusterQueues"]["q"] |= {"reserving": 1, "usage": {}}
    reserved["localQueues"]["l"]["reserving"] = 1
    story = a_story(
        first,
        {"check_active": [{"name": "c", "active": True}], "expect": expected({})},
        {"create": [a_workload("w", 3)], "expect": reserved},
        {
            "set_check": [{"workload": "w", "check": "c", "state": "Ready"}],
            "expect": expected({"w": admitted(3, checks={"c": "Ready"})}, used=3, running=1),
        },
    )
    assert lines(story) == []


def test_pods_that_are_reclaimed_make_room_and_what_is_deleted_is_gone() -> None:
    less = admitted(4, count=4, reclaimable={"main": 2})
    story = a_story(
        furnished(),
        {
            "create": [a_workload("w", 1, count=4), a_workload("v", 2)],
            "expect": expected({"w": admitted(4, count=4), "v": waiting()}, used=4, running=1, waiting=1),
        },
        {
            "reclaim": [{"workload": "w", "podSet": "main", "count": 2}],
            "expect": expected({"w": less, "v": admitted(2)}, used=4, running=2),
        },
        {
            "delete": [{"kind": "Workload", "name": "w"}],
            "expect": expected({"v": admitted(2)}, used=2, running=1),
        },
    )
    assert lines(story) == []


def test_an_object_that_is_applied_again_is_replaced_by_the_new_spec() -> None:
    more = furnished(cpu=8)["apply"][2]
    story = a_story(
        furnished(),
        {"create": [a_workload("w", 6)], "expect": expected({"w": waiting()}, waiting=1)},
        {"apply": [more], "expect": expected({"w": admitted(6)}, used=6, running=1)},
    )
    assert lines(story) == []


def test_a_step_that_cannot_be_done_ends_the_story_with_its_error() -> None:
    outcome = played(a_story(furnished(), {"finish": ["nobody"], "expect": {}}, name="lost"))
    assert not outcome.agrees
    assert (outcome.steps, outcome.error) == (1, "KeyError: 'nobody'")


def test_a_refusal_of_the_api_server_ends_the_story() -> None:
    outcome = played(a_story({"apply": [an_object("ClusterQueue", "q", spec={"stopPolicy": "Maybe"})], "expect": {}}))
    assert outcome.error.startswith("Refused: ")
    assert "stopPolicy" in outcome.error


def test_a_manager_that_breaks_down_ends_the_story(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: Scheduler, now: datetime) -> NoReturn:
        raise RuntimeError("out of order")

    monkeypatch.setattr(Scheduler, "cycle", broken)
    outcome = played(good())
    assert not outcome.agrees
    assert outcome.error == "Crash: the manager ended: RuntimeError: out of order"


def test_an_error_that_the_manager_reports_ends_the_story(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_arguments: Any) -> NoReturn:
        raise RuntimeError("no next step")

    monkeypatch.setattr(rules, "step", broken)
    outcome = played(good())
    assert outcome.error.startswith("Crash: the manager reports: ")
    assert "no next step" in outcome.error


def test_a_story_that_takes_too_long_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    def endless(self: Scheduler, now: datetime) -> NoReturn:
        while True:
            pass

    monkeypatch.setattr(Scheduler, "cycle", endless)
    monkeypatch.setattr(playing, "PATIENCE", 0.5)
    assert played(good()).error == "TooLong: more than 0.5 seconds"


def test_the_configuration_of_a_story_is_read_as_kueue_s() -> None:
    ours = settings({"resources": {"excludeResourcePrefixes": ["example.com/"]}}, "0.18")
    assert ours.quota.exclude_resource_prefixes == ("example.com/",)
    assert ours.quota.requeue_first == timedelta()


def test_a_story_is_played_with_its_configuration() -> None:
    rule = {"input": "example.com/gpu", "strategy": "Replace", "outputs": {"cpu": "2"}}
    pods = a_workload("w", 1)
    requests = pods["spec"]["podSets"][0]["template"]["spec"]["containers"][0]["resources"]["requests"]
    requests |= {"example.com/gpu": "1", "example.org/ignored": "1"}
    story = a_story(
        furnished(),
        {"create": [pods], "expect": expected({"w": admitted(3)}, used=3, running=1)},
        config={"resources": {"excludeResourcePrefixes": ["example.org/"], "transformations": [rule]}},
    )
    assert lines(story) == []


def test_what_is_expected_of_a_story_is_what_kueue_writes() -> None:
    """The builders above say nothing that a comparison could not refuse."""
    story = good()
    for step in story["steps"][1:]:
        step["expect"]["workloads"]["two"] = waiting(conditions=PENDING | {"Evicted": ["True", "Preempted"]})
        step["expect"]["localQueues"]["l"]["active"] = READY[::-1]
    fields = [(each.step, each.field) for each in played(story).disagreements]
    assert (2, "conditions.Evicted") in fields
    assert (3, "active") in fields
    assert (3, "conditions.QuotaReserved") in fields
