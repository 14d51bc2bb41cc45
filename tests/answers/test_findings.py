"""What the objects of workers tell of them, and what is told once for many."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from multikueue.answers.findings import Finding, Report, diagnoses, of_object
from multikueue.api.multikueue.clusters import CORDON_ANNOTATION
from tests.builders.clusters import MultiKueueClusterBuilder, multikueue_cluster

NOBODY = "no manager has looked at the cluster yet: does it run?"
NOWHERE = "no MultiKueueConfig names it, so nothing is sent to it: register it with --config-name"
SOUND = multikueue_cluster("w1").active(message="Connected")


@pytest.mark.parametrize(
    ("seen", "configs", "expected"),
    [
        (SOUND, ["all"], []),
        (
            multikueue_cluster("w1"),
            ["all"],
            [("manager's connection", NOBODY)],
        ),
        (SOUND.active(False, message="refused"), ["all"], [("manager's connection", "Active: refused")]),
        (SOUND.annotations({CORDON_ANNOTATION: "true"}), ["all"], [("cordoned", "yes")]),
        (SOUND.annotations({CORDON_ANNOTATION: "yes"}), ["all"], [("cordoned", "no ('yes' is not 'true')")]),
        (
            SOUND,
            [],
            [("configs", NOWHERE)],
        ),
    ],
    ids=[
        "nothing is wrong",
        "nobody looked",
        "it is away",
        "it is cordoned",
        "it was meant to be",
        "it is in no config",
    ],
)
def test_what_its_object_tells_of_a_worker(
    seen: MultiKueueClusterBuilder, configs: Sequence[str], expected: list[tuple[str, str]]
) -> None:
    found = [each for each in of_object(seen.build(), configs) if each.level != "ok"]
    assert [(each.subject, str(each)) for each in found] == expected


def test_one_cause_is_told_once_with_all_that_have_it_and_warnings_come_last() -> None:
    warned, failed = Finding("warning", "cordoned", "yes"), Finding("failed", "credential", "ended")
    reports = [
        Report("w1", (warned,)),
        Report("w2", (warned, failed)),
        Report("w3", (Finding("ok", "configs", "all"),)),
    ]
    assert [(each.finding, each.clusters) for each in diagnoses(reports)] == [(failed, ("w2",)), (warned, ("w1", "w2"))]
