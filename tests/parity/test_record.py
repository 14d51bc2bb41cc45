"""How stories are recorded: what is heard, when Kueue rests, whom something happens to, and what is written for others."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from multikueue.api import kinds
from tests.parity import record as recording
from tests.parity.builders import a_workload, an_object, queue
from tests.parity.draw import IfIdle, Some
from tests.parity.record import STATES, Recording, Unfit, View, released
from tests.parity.story import Object

pytestmark = pytest.mark.anyio


def condition(type_: str, value: str = "True", reason: str = "R", message: str = "M") -> Object:
    return {"type": type_, "status": value, "reason": reason, "message": message}


def workload(name: str = "r1-w", *conditions: Object, active: bool = True, count: int = 1, **status: Any) -> Object:
    body = a_workload(name, 1, count=count)
    body["spec"]["active"] = active
    assigned = [{"name": "main", "count": count}]
    admission = {"admission": {"clusterQueue": "q", "podSetAssignments": assigned}}
    return {**body, "status": {"conditions": list(conditions), **admission, **status}}


ADMITTED = (condition("QuotaReserved"), condition("Admitted"))
WAITING = (condition("QuotaReserved", "False"),)


def heard(*bodies: Object) -> Recording:
    """A recording that knows of these workloads."""
    view = View()
    made = Recording(view, None, {"name": "r1-story", "config": {}, "steps": []})  # type: ignore[arg-type]  # nothing is asked
    for body in bodies:
        view.objects["Workload"][("ns", body["metadata"]["name"])] = body
        made.namespaces[body["metadata"]["name"]] = "ns"
    return made


# --- what is heard, and when it rests ---


async def test_only_what_was_decided_counts_as_a_change() -> None:
    view = View()
    first = an_object("LocalQueue", "r1-l", namespace="ns", status={"admittedWorkloads": 0, "pendingWorkloads": 1})
    view.hear("LocalQueue", "ADDED", first)
    view.changed.clear()
    view.hear("LocalQueue", "MODIFIED", {**first, "status": {"admittedWorkloads": 0, "pendingWorkloads": 0}})
    assert not view.changed
    view.hear("LocalQueue", "MODIFIED", {**first, "status": {"admittedWorkloads": 1, "pendingWorkloads": 0}})
    assert set(view.changed) == {"r1"}
    view.changed.clear()
    view.hear("LocalQueue", "DELETED", first)
    assert set(view.changed) == {"r1"}
    assert not view.objects["LocalQueue"]


async def test_a_story_sees_its_own_objects_only() -> None:
    view = View()
    for name in ("r1-q", "r10-q"):
        view.hear("ClusterQueue", "ADDED", {**queue(), "metadata": {"name": name}})
    assert [each["metadata"]["name"] for each in view.of("r1").all(kinds.CLUSTER_QUEUES)] == ["r1-q"]


async def test_it_has_not_come_to_rest_before_a_whole_heartbeat(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording, "LOOK", 0)
    monkeypatch.setattr(recording, "RESTLESS", 0.05)
    one = heard()
    with pytest.raises(Unfit):
        await one._settle(0)
    one.view.beat = anyio.current_time() + 1
    await one._settle(0)


async def test_what_was_created_needs_no_heartbeat_once_it_is_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording, "LOOK", 0)
    monkeypatch.setattr(recording, "RESTLESS", 0.05)
    unseen = condition("QuotaReserved", "False", reason="PendingEvaluation")
    one = heard(workload("r1-a", *WAITING), workload("r1-b"), workload("r1-c", unseen))
    await one._settle(0, judged="r1-a")
    for name in ("r1-b", "r1-c"):
        with pytest.raises(Unfit):
            await one._settle(0, judged=name)


# --- whom it happens to ---


@pytest.mark.parametrize(
    ("state", "body", "fits"),
    [
        ("admitted", workload("w", *ADMITTED), True),
        ("admitted", workload("w", *ADMITTED, condition("Evicted")), False),
        ("admitted", workload("w", *ADMITTED, condition("Finished")), False),
        ("waiting", workload("w", *WAITING), True),
        ("waiting", workload("w"), True),
        ("waiting", workload("w", *WAITING, active=False), False),
        ("waiting", workload("w", *ADMITTED), False),
        ("unfinished", workload("w", *ADMITTED), True),
        ("unfinished", workload("w", condition("Finished")), False),
        ("inactive", workload("w", *WAITING, active=False), True),
        ("inactive", workload("w", *ADMITTED, active=False), False),
        ("inactive", workload("w", *WAITING, condition("Evicted", reason="Deactivated"), active=False), True),
        ("inactive", workload("w", *WAITING, condition("Evicted", reason="DeactivatedDueToX"), active=False), False),
        ("scalable", workload("w", *ADMITTED, count=3), True),
        ("scalable", workload("w", *ADMITTED, count=1), False),
        ("scalable", workload("w", *ADMITTED, count=3, reclaimablePods=[{"name": "main", "count": 2}]), False),
        ("checked", workload("w", *ADMITTED[:1], admissionChecks=[{"name": "c", "state": "Pending"}]), True),
        ("checked", workload("w", *WAITING, admissionChecks=[{"name": "c", "state": "Pending"}]), False),
        ("checked", workload("w", *ADMITTED), False),
        ("any", workload("w", condition("Finished")), True),
    ],
)
async def test_who_is_in_a_state(state: str, body: Object, fits: bool) -> None:
    assert STATES[state](body) is fits


async def test_one_of_those_in_the_state_is_taken_and_the_same_one_each_time() -> None:
    one = heard(workload("r1-a", *ADMITTED), workload("r1-b", *WAITING), workload("r1-c", *ADMITTED))
    taken = {one._with_names("finish", Some("admitted", pick)) for pick in range(20)}
    assert taken == {"r1-a", "r1-c"}
    assert len({one._with_names("finish", Some("admitted", 5)) for _ in range(3)}) == 1
    assert one._with_names("finish", Some("inactive", 5)) is None


async def test_reclaimed_pods_are_counted_on() -> None:
    one = heard(workload("r1-a", *ADMITTED, count=4, reclaimablePods=[{"name": "main", "count": 1}]))
    element = {"workload": Some("scalable", 1), "podSet": "", "count": 1}
    assert one._with_names("reclaim", element) == {"workload": "r1-a", "podSet": "main", "count": 2}


async def test_a_queue_in_which_work_waits_is_not_stopped() -> None:
    element = {"kind": "ClusterQueue", "name": IfIdle("l"), "patch": {}}
    assert heard(workload("r1-a", *WAITING))._with_names("patch", element) is None
    assert heard(workload("r1-a", *ADMITTED))._with_names("patch", element) == {**element, "name": "l"}


# --- what is written for others ---


@pytest.mark.parametrize(("reason", "again"), [("Preempted", "True"), ("ClusterQueueStopped", "False")])
async def test_whoever_ran_an_evicted_workload_gives_its_quota_back(reason: str, again: str) -> None:
    evicted = workload("w", *ADMITTED, condition("Evicted", reason=reason, message="why"))
    patch = released(evicted["status"])
    found = {each["type"]: (each["status"], each["reason"], each["message"]) for each in patch["conditions"]}
    assert patch["admission"] is None
    assert found["Requeued"] == (again, reason, "why")
    assert found["QuotaReserved"] == ("False", "Pending", "why")
    assert found["Admitted"][:2] == ("False", "NoReservation")


@pytest.mark.parametrize(
    ("before", "after", "touched"),
    [
        ("None", "Hold", ["q", "r1-l"]),
        ("Hold", "None", ["q", "r1-l"]),
        ("None", "None", ["r1-l"]),
    ],
    ids=["stopped", "let go", "neither"],
)
async def test_a_cluster_queue_is_counted_when_its_local_queue_is(before: str, after: str, touched: list[str]) -> None:
    one, patched = heard(), []

    class Writer:
        async def patch(self, _kind: Any, name: str, *_rest: Any) -> None:
            patched.append(name)

    one.client = Writer()  # type: ignore[assignment]  # nothing else is asked
    spec = {"clusterQueue": "q", "stopPolicy": before}
    one.view.hear("LocalQueue", "ADDED", an_object("LocalQueue", "r1-l", namespace="ns", spec=spec))
    patch = {"spec": {"stopPolicy": after}}
    await one._patch({"kind": "LocalQueue", "name": "r1-l", "namespace": "ns", "patch": patch})
    assert patched == touched


async def test_an_unanswered_check_is_told_when_quota_goes_back() -> None:
    checks = [{"name": "c", "state": "Pending"}]
    evicted = workload("w", *ADMITTED, condition("Evicted"), admissionChecks=checks)
    found = {each["type"]: each["reason"] for each in released(evicted["status"])["conditions"]}
    assert found["Admitted"] == "NoReservationUnsatisfiedChecks"
    granular = {each["type"]: each["reason"] for each in released(evicted["status"], is_granular=True)["conditions"]}
    assert (granular["QuotaReserved"], granular["Admitted"]) == ("PendingEvaluation", "NoReservation")
    never = workload("w", ADMITTED[0], condition("Evicted"))
    assert "Admitted" not in {each["type"] for each in released(never["status"])["conditions"]}
