"""What each worker answers to a workload that has none, and the one sentence of it all."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest

from fakekube.model.wire import Refused
from multikueue.api import kinds
from multikueue.api.kueue.admission_checks import CONTROLLER_NAME
from multikueue.api.kueue.workload import FITS_NO_WORKER, Workload
from multikueue.cli.workload.prospects import sentence
from multikueue.workload.nomination.prospects import Prospect, State
from tests.builders import NOW, cluster_queue, local_queue, workload
from tests.builders.workloads import WorkloadBuilder
from tests.cli.cluster import ADMIN_TOKEN
from tests.cli.conftest import Run, World

TOO_MUCH = (
    "couldn't assign flavors to pod set main: insufficient quota for cpu in flavor default, previously considered podsets "
    "requests (0) + current podset request (6) > maximum capacity (4)"
)
LACK = "cpu 6 of 4 at most in flavor default"


def answers(state: State, *clusters: str, place: int = 0, message: str = "") -> list[Prospect]:
    return [Prospect(cluster=name, state=state.value, place=place, message=message) for name in clusters]


BUSY = answers(State.WAITS, "w1", place=2)
NEVER = answers(State.NEVER, "w2", "w3", message=LACK)

SENTENCES: dict[str, tuple[list[Prospect], str]] = {
    "nobody is known": ([], ""),
    "one waits": (BUSY, "Waits for admission on w1 (number 2 there)."),
    "one waits, whose place is not known": (answers(State.WAITS, "w1"), "Waits for admission on w1."),
    "none ever": (NEVER, f"No worker can ever hold it: {LACK}: w2, w3."),
    "none ever, for several reasons": (
        [*NEVER, *answers(State.NEVER, "w4", message="gpu is in no resource group")],
        f"No worker can ever hold it: {LACK}: w2, w3; gpu is in no resource group: w4.",
    ),
    "most hope first": (
        [
            *answers(State.FORBIDDEN, "w7"),
            *NEVER,
            *answers(State.LACKS_KIND, "w6"),
            *answers(State.CORDONED, "w5"),
            *answers(State.UNREACHABLE, "w4"),
            *BUSY,
            *answers(State.NOT_ASKED, "w8"),
        ],
        "Waits for admission on w1 (number 2 there); w8 was not asked yet; w4 cannot be reached; w5 is cordoned; "
        f"w6 lacks the kind; w2, w3 can never hold it ({LACK}); w7 does not let you look.",
    ),
    "many": (
        answers(State.UNREACHABLE, *(f"w{n}" for n in range(9))),
        "w0, w1, w2, w3, w4 and 4 more cannot be reached.",
    ),
}


@pytest.mark.parametrize(("found", "wanted"), SENTENCES.values(), ids=SENTENCES.keys())
def test_sentence(found: list[Prospect], wanted: str) -> None:
    assert sentence(found, offered("worker")) == wanted


def test_the_sentence_says_when_it_is_tried_again() -> None:
    waits = parked().requeue_state(1, at=NOW + timedelta(minutes=1)).build()
    assert sentence(NEVER, waits) == (
        f"No worker can ever hold it: {LACK}: w2, w3. It is tried again at 2026-01-01T12:01:00Z, or as soon as a worker "
        "has something else."
    )


def offered(*clusters: str) -> Workload:
    return (
        workload("big", namespace="a").queue("main").request(cpu=6).reserved("cq").check().nominated(*clusters).build()
    )


def parked() -> WorkloadBuilder:
    known = workload("big", namespace="a").queue("main").request(cpu=6).check().evicted("AdmissionCheck")
    return known.condition(FITS_NO_WORKER, message=f"{LACK}: worker")


@pytest.fixture
def fleet(world: World) -> World:
    """A configuration of one worker that is there, one that is gone, and one that is cordoned."""
    manager, worker = world.manager, world.worker
    parameters = {"apiGroup": "kueue.x-k8s.io", "kind": "MultiKueueConfig", "name": "all"}
    check = {"metadata": {"name": "mk"}, "spec": {"controllerName": CONTROLLER_NAME, "parameters": parameters}}
    manager.add(kinds.ADMISSION_CHECKS, check)
    clusters = ["worker", "gone", "resting"]
    manager.add(kinds.MULTIKUEUE_CONFIGS, {"metadata": {"name": "all"}, "spec": {"clusters": clusters}})
    for name in clusters:
        away = {"type": "Active", "status": "False", "reason": "ClientConnectionFailed", "message": "no answer"}
        status = {"conditions": [away]} if name == "gone" else {}
        metadata = {"name": name, "annotations": {"multikueue.dev/cordon": "true"} if name == "resting" else {}}
        source = {"clusterSource": {"kubeConfig": {"location": name}}}
        manager.add(kinds.MULTIKUEUE_CLUSTERS, {"metadata": metadata, "spec": source, "status": status})
    worker.add(kinds.CLUSTER_QUEUES, cluster_queue("theirs").quota("default", cpu=4).build())
    worker.add(kinds.LOCAL_QUEUES, local_queue("main", "theirs", namespace="a").build())
    manager.add(kinds.WORKLOADS, offered("worker", "gone"))
    return world


def rows(lines: list[str]) -> list[str]:
    return [" ".join(line.split()) for line in lines if line]


def test_one_that_is_busy_and_its_place_there(fleet: World, cli: Run) -> None:
    first = workload("first", namespace="a").queue("main").priority(5).request(cpu=4).unreserved(message="busy")
    for each in (
        first,
        workload("big", namespace="a").queue("main").request(cpu=3).unreserved(message="1 more needed"),
    ):
        fleet.worker.add(kinds.WORKLOADS, each.build())

    result = cli("why", "-n", "a", "big")

    assert result.code == 0, result.err
    assert rows(result.lines) == [
        "Waits for admission on worker (number 2 there); gone cannot be reached; resting is cordoned.",
        "Workload a/big",
        "Now: Has quota; its copies wait for admission on worker, gone.",
        "Workers",
        "CLUSTER ANSWER PLACE MESSAGE",
        "worker waits there 2 1 more needed",
        "gone cannot be reached - no answer",
        "resting is cordoned - -",
    ]
    assert fleet.manager.sent == fleet.worker.sent == []


def test_one_that_can_never_hold_it(fleet: World, cli: Run) -> None:
    fleet.worker.add(kinds.WORKLOADS, workload("big", namespace="a").queue("main").unreserved(message=TOO_MUCH).build())
    found = json.loads(cli("why", "-n", "a", "big", "-o", "json").out)
    assert found["workers"][0] == {"cluster": "worker", "state": "can never hold it", "message": LACK}
    assert found["summary"] == f"gone cannot be reached; resting is cordoned; worker can never hold it ({LACK})."


def test_what_fitted_nowhere_needs_no_look_at_a_worker(fleet: World, cli: Run) -> None:
    fleet.manager.add(kinds.WORKLOADS, parked().requeue_state(1, at=NOW + timedelta(minutes=1)).build())
    fleet.worker.revoke(ADMIN_TOKEN)
    lines = cli("why", "-n", "a", "big").lines
    assert lines[0].startswith(f"gone cannot be reached; resting is cordoned; worker can never hold it ({LACK}).")
    assert "or as soon as a worker has something else." in lines[0]


def test_a_worker_that_was_not_asked_and_one_without_the_kind(fleet: World, cli: Run) -> None:
    fleet.manager.add(kinds.WORKLOADS, offered())
    assert cli("why", "-n", "a", "big").lines[0].startswith("worker was not asked yet; gone cannot be reached;")
    owned = workload("big", namespace="a").queue("main").reserved("cq").check().nominated("worker").owner_job("train")
    fleet.manager.add(kinds.WORKLOADS, owned.build())
    fleet.worker.served = {}
    assert "worker lacks the kind" in cli("why", "-n", "a", "big").lines[0]


def test_without_rights_on_a_worker_the_rest_is_told(fleet: World, cli: Run) -> None:
    fleet.worker.revoke(ADMIN_TOKEN)
    result = cli("why", "-n", "a", "big")
    assert result.code == 0
    assert result.lines[0] == "Waits for admission on worker; gone cannot be reached; resting is cordoned."
    assert "Not seen: worker: worker does not know you" in result.err


def test_who_may_see_no_worker_is_told_what_the_workload_says(fleet: World, cli: Run) -> None:
    hidden = {"admissionchecks", "multikueueclusters"}
    fleet.manager.fault = lambda _, plural: Refused(403, "Forbidden", "no") if plural in hidden else None
    fleet.manager.add(kinds.WORKLOADS, parked().build())

    result = cli("why", "-n", "a", "big")

    assert result.lines[0].startswith(f"No worker can ever hold it: {LACK}: worker.")
    assert "Not seen" not in result.err
