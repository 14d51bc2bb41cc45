"""What losers cost, from lines of watches."""

from __future__ import annotations

import json
from typing import Any

from benchmarks.losers import Losers


def line(name: str, *conditions: str, change: str = "MODIFIED", message: str = "", **status: Any) -> bytes:
    """A workload whose UID is `uid-NAME`; each condition is true, with the message."""
    found = [{"type": each, "status": "True", "message": message} for each in conditions]
    about = {"name": name, "uid": f"uid-{name}", "resourceVersion": "7"}
    return json.dumps(
        {"type": change, "object": {"metadata": about, "status": {"conditions": found, **status}}}
    ).encode()


def preempted(victim: str, *, by: str) -> bytes:
    words = f"Preempted to accommodate a workload (UID: uid-{by}, JobUID: UNKNOWN) due to prioritization in the ClusterQueue"
    return line(victim, "Preempted", message=words)


def test_losers_hold_quota_until_they_are_gone_or_evicted() -> None:
    losers = Losers()
    for cluster in ("w1", "w2", "w3"):
        losers.on_copy(cluster, line("a", "QuotaReserved"), at=10.0)
        losers.on_copy(cluster, line("a", "QuotaReserved", "Admitted"), at=10.5)
    losers.on_workload(line("a", clusterName="w1"))
    losers.on_copy("w2", line("a", "QuotaReserved", change="DELETED"), at=12.0)
    losers.on_copy("w3", line("a"), at=13.0)
    losers.on_copy("w1", line("a", "QuotaReserved", change="DELETED"), at=99.0)
    assert losers.seconds() == 5.0


def test_quota_that_others_hold_does_not_count() -> None:
    losers = Losers()
    losers.on_copy("w1", line("local", "QuotaReserved"), at=1.0)
    losers.on_copy("w1", line("local", change="DELETED"), at=9.0)
    assert losers.seconds() == 0.0


def test_whom_a_loser_puts_out_counts_once() -> None:
    losers = Losers()
    for cluster in ("w1", "w2"):
        losers.on_copy(cluster, line("a", "QuotaReserved"), at=1.0)
        for _ in range(2):
            losers.on_copy(cluster, preempted("local", by="a"), at=2.0)
        losers.on_copy(cluster, preempted("another", by="a"), at=2.0)
        losers.on_copy(cluster, preempted("third", by="somebody"), at=2.0)
    losers.on_workload(line("a", clusterName="w1"))
    assert losers.preemptions() == 2


def test_a_listener_answers_the_version_to_go_on_from() -> None:
    assert Losers().on_copy("w1", line("a"), at=1.0) == Losers().on_workload(line("a")) == "7"
