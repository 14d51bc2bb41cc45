"""`doctor`: what keeps workers from their work, by cause."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
import yaml

from multikueue.answers.findings import Diagnosis, Finding, Report, diagnoses
from multikueue.api.kinds import ADMISSION_CHECKS, CLUSTER_QUEUES, LOCAL_QUEUES, MULTIKUEUE_CLUSTERS, WORKLOADS
from multikueue.cli.access.worker_repairs import make
from multikueue.cli.commands.clusters.doctor import fixable, repairs
from multikueue.cli.commands.clusters.inspection import summary
from testbed.objects import MULTIKUEUE_CLUSTER, SECRET
from tests.builders import admission_check, cluster_queue, local_queue, multikueue_cluster
from tests.cli.cluster import Fake
from tests.cli.commands.clusters.misconfigurations import WORKERS, WRONG, Fleet, Wrong
from tests.cli.conftest import Run, World
from tests.cli.field import MERGE, Field

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


@pytest.fixture
def reachable(joined: World) -> World:
    """The user's kubeconfig has a context of the name of the worker, which lacks a LocalQueue and its namespace."""
    config = yaml.safe_load(joined.kubeconfig.read_text())
    config["contexts"].append({"name": "w1", "context": {"cluster": "worker", "user": "admin"}})
    joined.kubeconfig.write_text(yaml.safe_dump(config))
    joined.worker.add(CLUSTER_QUEUES, cluster_queue("cq").build())
    joined.worker.sent.clear()
    return joined


def test_a_fix_is_shown_first(reachable: World, cli: Run) -> None:
    shown = cli("doctor", "--fix", "--dry-run")

    assert (shown.code, reachable.worker.sent) == (1, [])
    assert [" ".join(line.split()) for line in shown.lines[1:3]] == [
        "w1 Namespace team-a create -",
        "w1 LocalQueue team-a/main create leads to ClusterQueue cq",
    ]
    assert "Nothing is changed." in shown.err


def test_a_fix_is_made_and_looked_at_again(reachable: World, cli: Run) -> None:
    done, again = cli("doctor", "--fix", "--yes"), cli("doctor", "--fix", "--yes")

    assert (done.code, again.code, len(reachable.worker.sent)) == (0, 0, 2)
    assert "w1: LocalQueue team-a/main created" in done.lines
    assert "1 of 1 workers are ready; 0 problems." in done.lines
    assert "There is nothing to fix here." in again.err


DRAWS = 40


def test_a_fix_for_programs_prints_one_document(reachable: World, cli: Run) -> None:
    done = cli("doctor", "--fix", "--yes", "-o", "json")

    assert json.loads(done.out)["summary"] == "1 of 1 workers are ready; 0 problems."
    assert "w1: LocalQueue team-a/main created" in done.err


def of(reports: Sequence[Report], cluster: str) -> list[Diagnosis]:
    return [each for each in diagnoses(reports) if cluster in each.clusters]


def first(reports: Sequence[Report], cluster: str) -> tuple[str, str]:
    finding = next(iter(of(reports, cluster))).finding
    return finding.subject, str(finding)


def draws() -> list[tuple[str, ...]]:
    """Three at a time, nearly each of them twice."""
    rng, drawn = random.Random(39), list[tuple[str, ...]]()
    while len(drawn) < DRAWS:
        names = [*WRONG]
        rng.shuffle(names)
        drawn += [tuple(names[at : at + 3]) for at in range(0, len(names) - 2, 3)]
    return drawn[:DRAWS]


@pytest.mark.anyio
async def test_a_fleet_that_is_well_has_no_finding() -> None:
    reports = await Fleet().examined()

    assert [each.finding for each in diagnoses(reports)] == []
    assert summary(reports) == "4 of 4 workers are ready; 0 problems."


def test_there_are_more_than_forty() -> None:
    assert len(WRONG) >= 40


@pytest.mark.anyio
@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG)
async def test_its_cause_is_named_first(wrong: Wrong) -> None:
    fleet = Fleet()
    wrong.does(fleet, "w1")

    reports = await fleet.examined()

    subject, detail = first(reports, wrong.where("w1"))
    assert subject == wrong.subject
    assert wrong.words in detail
    assert of(reports, "w0") == []


@pytest.mark.anyio
@pytest.mark.parametrize("names", draws(), ids=" + ".join)
async def test_of_three_each_ones_cause_is_named_first(names: tuple[str, ...]) -> None:
    fleet = Fleet()
    placed = list(zip((WRONG[name] for name in names), WORKERS[1:], strict=True))
    for wrong, worker in placed:
        wrong.does(fleet, worker)

    reports = await fleet.examined()

    for wrong, worker in placed:
        where = wrong.where(worker)
        told = [each.finding.cause for each in of(reports, where)]
        by_itself = [each for report in reports if report.cluster == where for each in report.findings]
        (named, *_) = [each for each in by_itself if each.subject == wrong.subject and wrong.words in str(each)]
        others = sum(other.is_at_manager for other, _ in placed if other is not wrong) if wrong.is_at_manager else 0
        assert named.cause in told[: 1 + 2 * others]


@pytest.mark.anyio
async def test_the_name_that_was_recorded_for_a_cluster_stands_for_it() -> None:
    fleet = Fleet()
    fleet.workers["w1"] = fleet.workers["w2"]

    reports = await fleet.examined()

    assert [(each.finding.subject, each.clusters) for each in diagnoses(reports)] == [("identity", ("w1",))]


@pytest.mark.anyio
async def test_a_workload_that_nobody_can_read_keeps_no_one_from_a_look() -> None:
    fleet = Fleet()
    hostile = {
        "podSets": [{"name": "main", "count": 1, "template": {"spec": {"containers": "none"}}}],
        "queueName": "main",
    }
    fleet.manager.add(WORKLOADS, {"metadata": {"name": "hostile", "namespace": "team-a"}, "spec": hostile})

    assert [each.finding for each in diagnoses(await fleet.examined())] == []


async def fix(fleet: Fleet) -> list[str]:
    """What could not be made."""
    client, members = Fake(fleet.manager), await fleet.members()
    chosen = fixable(members, await fleet.examined())
    plans, failures = await repairs(client, chosen, fleet.reach, fleet.connect, "multikueue", "kueue-system")
    _, refused = await make([plan for plan in plans if plan.wanted], fleet.reach)
    return [str(each) for each in [*failures, *refused, *(one for plan in plans for one in plan.problems)]]


def changed(before: dict[Any, Any], after: dict[Any, Any]) -> set[tuple[str, str, str]]:
    return {key for key in before.keys() | after.keys() if before.get(key) != after.get(key)}


@pytest.mark.anyio
@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG)
async def test_a_fix_makes_what_it_says_and_nothing_else(wrong: Wrong) -> None:
    fleet = Fleet()
    wrong.does(fleet, "w1")
    before = fleet.snapshot()

    await fix(fleet)
    after = fleet.snapshot()
    await fix(fleet)

    assert changed(before, after) == {("w1", *made) for made in wrong.makes}
    assert fleet.snapshot() == after


@pytest.mark.anyio
async def test_what_cannot_be_fixed_is_told() -> None:
    fleet = Fleet()
    WRONG["the role is somebody else's"].does(fleet, "w1")
    WRONG["the ClusterQueue is missing too"].does(fleet, "w2")
    WRONG["the namespace is missing"].does(fleet, "w3")

    told = await fix(fleet)

    assert len(told) == 2
    assert any("w1: ClusterRole multikueue: it belongs to somebody else" in each for each in told)
    assert any("w2: LocalQueue team-a/main: there is no ClusterQueue cq" in each for each in told)
    assert ("w3", "LocalQueue", "team-a/main") in fleet.snapshot()


@pytest.mark.anyio
async def test_rights_and_queues_are_given_back_on_clusters_that_ask_for_them(field: Field) -> None:
    """The same on API servers with RBAC: the account that `register` made, and an administrator's context."""
    for kind, name, namespace in ((MULTIKUEUE_CLUSTER, "worker1", ""), (SECRET, "multikueue-worker1", "kueue-system")):
        await field.manager.delete(kind, name, namespace)
    registered = await field.run("clusters", "register", "worker1", "--context", "worker1", "--config-name", "all")
    assert registered.code == 0, registered.err
    await field.manager.create(_tree(ADMISSION_CHECKS, admission_check("mk").config("all").build()))
    await field.manager.create(_tree(CLUSTER_QUEUES, cluster_queue("own").checks("mk").build()))
    await field.manager.create(_tree(LOCAL_QUEUES, local_queue("own", "own", namespace="default").build()))
    await field.clients["worker1"].create(_tree(CLUSTER_QUEUES, cluster_queue("own").build()))
    path = "/apis/rbac.authorization.k8s.io/v1/clusterroles/multikueue"
    role = json.loads(await field.clients["worker1"].request("GET", path))
    rules = [rule for rule in role["rules"] if "jobs" not in rule["resources"]]
    await field.clients["worker1"].request("PATCH", path, body={"rules": rules}, content_type=MERGE)

    told = await field.run("doctor", "worker1")
    fixed = await field.run("doctor", "worker1", "--fix", "--yes")
    synced = await field.run("queues", "sync", "worker1", "--yes")

    assert (told.code, "rights" in told.out, "LocalQueue default/own" in told.out) == (1, True, True)
    assert "worker1: ClusterRole multikueue updated" in fixed.out
    assert "worker1: LocalQueue default/own created" in fixed.out
    assert (fixed.code, fixed.out.splitlines()[-1]) == (0, "1 of 1 workers are ready; 0 problems.")
    assert (synced.code, synced.out) == (0, "")


def _tree(kind: Any, value: Any) -> dict[str, Any]:
    tree: dict[str, Any] = json.loads(msgspec.json.encode(value))
    meta = {key: each for key, each in tree["metadata"].items() if key in ("name", "namespace")}
    return {"apiVersion": kind.api_version, "kind": kind.kind, **tree, "metadata": meta}
