from __future__ import annotations

from datetime import timedelta

from multikueue.cli.workload.history import attempt, facts, history
from tests.builders import NOW, workload

WL = workload("wl", namespace="team-a").queue("main").priority(7, workload_class="high").request(cpu=2)
RESERVED = WL.reserved("cq").check("mk", "Pending", message="")
WON = RESERVED.admitted().check("mk", "Ready", message='The workload was admitted on "w2"').cluster_name("w2")


def test_the_story_is_told_in_order() -> None:
    later, last = NOW + timedelta(seconds=3), NOW + timedelta(seconds=9)
    told = (
        WL.created(NOW).reserved("cq", at=later).admitted(at=last).check("mk", "Ready", message="won\nby w2", at=later)
    )

    assert [str(event) for event in history(told.build())] == [
        "2026-01-01T12:00:00Z  created",
        "2026-01-01T12:00:03Z  QuotaReserved (QuotaReserved): Quota reserved in ClusterQueue cq",
        "2026-01-01T12:00:03Z  admission check mk is Ready: won by w2",
        "2026-01-01T12:00:09Z  Admitted (Admitted): The workload is admitted",
    ]


def test_what_is_no_longer_true_is_told_as_such() -> None:
    lost = WL.reserved("cq").unreserved(reason="Pending", message="waits again", at=NOW)

    assert "QuotaReserved is False (Pending): waits again" in [event.what for event in history(lost.build())]


def test_a_story_has_nothing_a_terminal_obeys() -> None:
    told = WL.created(NOW).reserved("cq").check("\x1b[1m", "Pending", message="\x1b[2Jwait\nhere", at=NOW).build()

    assert r"admission check \x1b[1m is Pending: \x1b[2Jwait here" in "".join(map(str, history(told)))


def test_facts() -> None:
    found = dict(facts(RESERVED.owner_job("train").nominated("w1", "w2").build()))

    assert found == {
        "Job": "job/train",
        "Queue": "main (ClusterQueue cq)",
        "Priority": "7 (high)",
        "Pods": "1 main",
        "Quota": "1 main: cpu 2 (default)",
        "Nominated": "w1, w2",
    }
    assert dict(facts(WON.build()))["Cluster"] == "w2"


def test_the_attempt_is_the_time_of_the_reservation() -> None:
    assert attempt(RESERVED.build()) == "2026-01-01T12:00:00Z"
    assert attempt(WL.build()) == ""
    assert attempt(RESERVED.unreserved().build()) == ""
