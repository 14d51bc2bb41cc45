"""Why a workload has no quota, in one sentence."""

from __future__ import annotations

from typing import Any

import pytest

from multikueue.cli.workload.quota import in_words
from multikueue.quota.visibility.explain import Explanation, Shortage


def lack(*, problem: str = "", flavor: str = "default") -> Shortage:
    return Shortage(pod_set="main", flavor=flavor, resource="cpu", needed="4", missing="2", problem=problem)


@pytest.mark.parametrize(
    ("found", "words"),
    [
        pytest.param({"problem": "it is stopped"}, ": it is stopped.", id="a problem of its queue"),
        pytest.param(
            {"place": 2, "behind": "job-a"}, ", number 2 there: job-a has to go first.", id="a head before it"
        ),
        pytest.param({}, ": nothing is lacking, it is about to be looked at.", id="no lack"),
        pytest.param({"lacks": (lack(),)}, ": 2 cpu of flavor default more is needed than there is.", id="one lack"),
        pytest.param(
            {"lacks": (lack(problem="has a taint"), lack(flavor="spot"))},
            ": 2 cpu of flavor spot more is needed than there is.",
            id="what others hold goes before what can never be",
        ),
        pytest.param(
            {"lacks": (lack(problem="has a taint", flavor=""), lack(problem="has a taint"))},
            ": cpu: has a taint, and 1 more.",
            id="only what can never be",
        ),
    ],
)
def test_the_nearest_reason_is_told(found: dict[str, Any], words: str) -> None:
    assert (
        in_words(Explanation(workload="wl", cluster_queue="cq", **found))
        == f"Waits for quota in ClusterQueue cq{words}"
    )
