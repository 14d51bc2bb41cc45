"""Labels that a Workload gets from its job: by the keys that are asked for, and only where a group agrees on them."""

from __future__ import annotations

from typing import Any

import pytest

from multikueue.api.jobs.job import AnyJob
from multikueue.api.kueue.workload import JOB_UID_LABEL
from multikueue.jobs.reconciler.labels import copied, disagreement, labelled
from tests.builders import job
from tests.jobs.builders import ours
from tests.jobs.kinds.pods.builders import FRESH, group, member

KEYS = ("team", "example.com/cost")
LABELLED = ours().labels(team="a", other="b").build()
FAILED = FRESH | {"phase": "Failed"}
CASES: dict[str, tuple[AnyJob, dict[str, str], str]] = {
    "a job without them": (ours().build(), {}, ""),
    "a job with one of them": (LABELLED, {"team": "a"}, ""),
    "a job with an empty one": (ours().labels(team="").build(), {"team": ""}, ""),
    "a group that agrees": (group(*(member(n, labels={"team": "a"}) for n in "ab")), {"team": "a"}, ""),
    "a group of which one says it": (group(member("a"), member("b", labels={"team": "b"})), {"team": "b"}, ""),
    "a group that differs in what nobody asks for": (
        group(*(member(n, labels={"team": "a", "other": n}) for n in "ab")),
        {"team": "a"},
        "",
    ),
    "a group that differs": (
        group(*(member(n, labels={"team": n}) for n in "ab")),
        {"team": "a"},
        "the pods of group 'g' have different values of team",
    ),
    "a group that differs from one that has failed": (
        group(member("a", labels={"team": "a"}), member("b", labels={"team": "b"}, status=FAILED)),
        {"team": "a"},
        "the pods of group 'g' have different values of team",
    ),
}


@pytest.mark.parametrize(("seen", "labels", "problem"), CASES.values(), ids=CASES)
def test_what_is_copied_and_what_is_in_the_way(seen: AnyJob, labels: dict[str, str], problem: str) -> None:
    assert (copied(seen, KEYS), disagreement(seen, KEYS)) == (labels, problem)


def test_the_labels_that_a_workload_has_anyhow_are_its_own() -> None:
    body: dict[str, Any] = {"metadata": {"name": "w", "labels": {JOB_UID_LABEL: "uid"}}, "spec": {}}
    seen = ours().labels({"team": "a", JOB_UID_LABEL: "another"}).build()

    made = labelled(body, seen, ("team", JOB_UID_LABEL))

    assert made["metadata"] == {"name": "w", "labels": {"team": "a", JOB_UID_LABEL: "uid"}}


@pytest.mark.parametrize("keys", [(), KEYS], ids=["no key is asked for", "the job has none of them"])
def test_a_workload_without_labels_gets_no_empty_field(keys: tuple[str, ...]) -> None:
    body: dict[str, Any] = {"metadata": {"name": "w"}}
    assert labelled(body, job("j").build(), keys) == body
