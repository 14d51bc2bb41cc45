from __future__ import annotations

from datetime import timedelta

import pytest

from multikueue.api.kueue.workload import UNDISPATCHABLE_ANNOTATION
from multikueue.cli.workload import description
from tests.builders import NOW, workload
from tests.builders.workloads import WorkloadBuilder

WL = workload("wl", namespace="team-a").queue("main").priority(7, workload_class="high").request(cpu=2)
RESERVED = WL.reserved("cq").check("mk", "Pending", message="")
WON = RESERVED.admitted().check("mk", "Ready", message='The workload was admitted on "w2"').cluster_name("w2")

STATES: list[tuple[str, WorkloadBuilder, str, str]] = [
    ("just made", WL, "Pending", "Waits for quota in queue main: nobody has looked at it yet"),
    (
        "no quota",
        WL.unreserved(message="insufficient quota for cpu"),
        "Pending",
        "Waits for quota in queue main: insufficient quota for cpu",
    ),
    (
        "held by another check",
        RESERVED.check("budget", "Pending", message="ask for money"),
        "QuotaReserved",
        "Has quota; waits for admission check mk, budget: mk: Pending; budget: ask for money",
    ),
    (
        "nominated",
        RESERVED.nominated("w1", "w2"),
        "QuotaReserved",
        "Has quota; its copies wait for admission on w1, w2.",
    ),
    ("all checks ready", WL.reserved("cq"), "QuotaReserved", "Has quota; admission is about to follow."),
    ("won", WON, "Admitted", "Runs on w2."),
    ("admitted without a worker", WL.reserved("cq").admitted(), "Admitted", "Admitted, without a worker cluster."),
    (
        "preempted, still there",
        WON.evicted(message="a better one came"),
        "Evicting",
        "Leaves on w2: a better one came",
    ),
    (
        "evicted",
        WON.evicted(message="a better one came").unreserved().requeue_state(1, at=NOW),
        "Evicted",
        "Waits to be queued again not before 2026-01-01T12:00:00Z: a better one came",
    ),
    (
        "deactivated",
        WL.inactive(),
        "Inactive",
        "Held: spec.active is false. To queue it again: `multikueue workloads release -n team-a wl`.",
    ),
    (
        "never to be dispatched",
        WL.inactive().evicted("Deactivated").annotations({UNDISPATCHABLE_ANNOTATION: "No managedBy: recreate the job"}),
        "Inactive",
        "Held: No managedBy: recreate the job."
        " `multikueue workloads cancel -n team-a wl`, then create the job again as it says.",
    ),
    (
        "being deleted",
        WL.finalizers("kueue.x-k8s.io/resource-in-use").deleted(),
        "Terminating",
        "Being deleted; deletion waits for kueue.x-k8s.io/resource-in-use.",
    ),
    ("succeeded", WON.finished(message="Job finished"), "Finished", "Done on w2: Job finished."),
    ("failed", WON.finished("Failed", message="pod died"), "Failed", "Failed on w2: pod died."),
]


@pytest.mark.parametrize(("built", "status", "now"), [case[1:] for case in STATES], ids=[case[0] for case in STATES])
def test_what_it_is_and_what_it_waits_for(built: WorkloadBuilder, status: str, now: str) -> None:
    assert description.status(built.build()) == status
    assert description.now(built.build()) == f"{now.removesuffix('.')}."  # what follows it begins a sentence


def test_the_story_is_told_in_order() -> None:
    later, last = NOW + timedelta(seconds=3), NOW + timedelta(seconds=9)
    told = (
        WL.created(NOW).reserved("cq", at=later).admitted(at=last).check("mk", "Ready", message="won\nby w2", at=later)
    )

    assert [str(event) for event in description.events(told.build())] == [
        "2026-01-01T12:00:00Z  created",
        "2026-01-01T12:00:03Z  QuotaReserved (QuotaReserved): Quota reserved in ClusterQueue cq",
        "2026-01-01T12:00:03Z  admission check mk is Ready: won by w2",
        "2026-01-01T12:00:09Z  Admitted (Admitted): The workload is admitted",
    ]


def test_what_is_no_longer_true_is_told_as_such() -> None:
    lost = WL.reserved("cq").unreserved(reason="Pending", message="waits again", at=NOW)

    assert "QuotaReserved is False (Pending): waits again" in [event.what for event in description.events(lost.build())]


def test_a_story_has_nothing_a_terminal_obeys() -> None:
    told = WL.created(NOW).reserved("cq").check("\x1b[1m", "Pending", message="\x1b[2Jwait\nhere", at=NOW).build()

    assert r"admission check \x1b[1m is Pending: \x1b[2Jwait here" in "".join(map(str, description.events(told)))
    assert description.now(told) == r"Has quota; waits for admission check \x1b[1m: \x1b[1m: \x1b[2Jwait here."


def test_facts() -> None:
    facts = dict(description.facts(RESERVED.owner_job("train").nominated("w1", "w2").build()))

    assert facts == {
        "Job": "Job/train",
        "Queue": "main (ClusterQueue cq)",
        "Priority": "7 (high)",
        "Pods": "1 main",
        "Quota": "1 main: cpu 2 (default)",
        "Status": "QuotaReserved",
        "Nominated": "w1, w2",
    }
    assert dict(description.facts(WON.build()))["Cluster"] == "w2"


def test_the_attempt_is_the_time_of_the_reservation() -> None:
    assert description.attempt(RESERVED.build()) == "2026-01-01T12:00:00Z"
    assert description.attempt(WL.build()) == ""
    assert description.attempt(RESERVED.unreserved().build()) == ""
