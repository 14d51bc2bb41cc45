"""`doctor`: what keeps workers from their work, by cause."""

from __future__ import annotations

import json

import pytest

from multikueue.api.kinds import LOCAL_QUEUES, MULTIKUEUE_CLUSTERS
from multikueue.cli.commands.clusters.inspection import Report, diagnoses, summary
from multikueue.registration.preflight import Finding
from tests.builders import local_queue, multikueue_cluster
from tests.cli.conftest import Run, World

AGAIN = "register the cluster again"
FINE = Finding("ok", "API server", "reached")
GONE = Finding("unreachable", "API server", "no route", repair="see whether it runs")


def lacks(what: str) -> Finding:
    return Finding("failed", f"rights on {what}", "lacks create", repair=AGAIN)


REPORTS = [
    Report("w1", (FINE, lacks("jobs.batch"), lacks("jobsets.jobset.x-k8s.io"))),
    Report("w2", (FINE, lacks("jobs.batch"), Finding("failed", "credential", "ended 3d ago", repair=AGAIN))),
    Report("w3", (GONE,)),
    Report("w4", (FINE, Finding("warning", "identity", "cannot be read", repair=AGAIN))),
    Report("w5", (FINE,)),
    Report("(manager)", (Finding("failed", "ClusterQueue a", "spec.x is lost"),)),
]


def test_one_repair_is_one_problem_on_however_many_workers() -> None:
    found = [(each.finding.cause[1], each.clusters) for each in diagnoses(REPORTS)]

    assert found == [
        ("rights", ("w1", "w2")),
        ("credential", ("w2",)),
        ("API server", ("w3",)),
        ("ClusterQueue a", ("(manager)",)),
        ("identity", ("w4",)),
    ]


@pytest.mark.parametrize(
    ("reports", "said"),
    [
        (REPORTS, "2 of 5 workers are ready; 4 problems."),
        (REPORTS[2:3], "0 of 1 workers are ready; 1 problem."),
        (REPORTS[3:5], "2 of 2 workers are ready; 0 problems."),
    ],
    ids=["several", "one", "a warning is none"],
)
def test_the_summary_counts_workers_and_causes(reports: list[Report], said: str) -> None:
    assert summary(reports) == said


def test_a_fleet_that_is_well_is_one_line_and_warnings_are_asked_for(joined: World, cli: Run) -> None:
    joined.worker.add(LOCAL_QUEUES, local_queue("main", "cq", namespace="team-a").build())

    told, everything = cli("doctor"), cli("doctor", "--all")

    assert (told.code, told.lines) == (0, ["1 of 1 workers are ready; 0 problems."])
    assert "warnings are not shown: --all" in told.err
    assert everything.lines[0] == told.lines[0]
    assert {line.split()[0] for line in everything.lines[3:]} == {"warning"}


def test_what_is_wrong_on_several_is_told_once_with_its_repair(joined: World, cli: Run) -> None:
    for number in range(2, 9):
        joined.manager.add(MULTIKUEUE_CLUSTERS, multikueue_cluster(f"w{number}").secret("gone").build())
    joined.worker.denied = {("jobs", "delete"), ("workloads", "create")}

    told = cli("doctor")
    document = json.loads(cli("doctor", "-o", "json").out)

    assert told.code == 1
    assert told.lines[0].startswith("0 of 8 workers are ready; ")
    (missing,) = [line for line in told.lines if "Secret kueue-system/gone is missing" in line]
    assert "w2, w3, w4, w5, w6 and 2 more" in missing
    rights = next(each for each in document["problems"] if each["subject"].startswith("rights"))
    assert (rights["workers"], rights["repair"]) == (["w1"], AGAIN)
    assert document["summary"] == told.lines[0]


def test_an_unknown_name_is_an_error(joined: World, cli: Run) -> None:
    assert "there is no MultiKueueCluster 'w9'" in cli("doctor", "w9").err
