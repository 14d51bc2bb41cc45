from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from multikueue.api.kinds import JOBS, WORKLOADS
from tests.builders import job, workload
from tests.cli.cluster import ADMIN_TOKEN
from tests.cli.conftest import Run, World
from tests.cli.field import a_field


@pytest.mark.parametrize(
    "words",
    [("workloads", "list"), ("workloads", "show", "waiting"), ("workloads", "events", "waiting"), ("why", "waiting")],
    ids=" ".join,
)
def test_without_a_namespace_that_of_the_context_is_meant(full: World, cli: Run, words: tuple[str, ...]) -> None:
    config = yaml.safe_load(full.kubeconfig.read_text())
    for each in config["contexts"]:
        each["context"]["namespace"] = "a"
    full.kubeconfig.write_text(yaml.safe_dump(config))

    assert cli(*words, "-o", "json") == cli(*words, "-n", "a", "-o", "json")
    assert cli(*words, "-o", "json").code == 0


def test_show_tells_a_story(full: World, cli: Run) -> None:
    result = cli("workloads", "show", "offered", "-n", "a")

    assert result.code == 0
    assert result.lines[0] == (
        "Pending: w1, w2 do not answer (there is no MultiKueueCluster of its name), and no other worker takes it."
    )
    assert "Workload a/offered" in result.lines
    assert "  Nominated:  w1, w2" in result.lines
    assert "Story" in result.lines
    assert [line.split()[:3] for line in result.lines[-2:]] == [["w1", "nominated", "?"], ["w2", "nominated", "?"]]
    assert "there is no MultiKueueCluster w1, and your kubeconfig has no context 'w1'" in result.lines[-2]


def test_show_finds_a_workload_by_its_job(full: World, cli: Run) -> None:
    assert cli("workloads", "show", "train", "-n", "a").lines[2] == "Workload a/waiting"


def test_show_for_programs(full: World, cli: Run) -> None:
    tree = yaml.safe_load(cli("workloads", "show", "waiting", "-n", "a", "-o", "yaml").out)

    assert (tree["kind"], tree["metadata"]["name"]) == ("Workload", "waiting")
    assert cli("workloads", "show", "waiting", "-n", "a", "-o", "name").out == "workload.kueue.x-k8s.io/waiting\n"


def test_show_of_an_unknown_name_lists_the_known_ones(full: World, cli: Run) -> None:
    result = cli("workloads", "show", "nothing", "-n", "a")

    assert result.code == 1
    assert result.err.endswith("there are: job/train, offered\n")
    assert "another namespace: -n" in cli("workloads", "show", "nothing").err


def test_show_does_not_guess_between_two(full: World, cli: Run) -> None:
    full.manager.add(WORKLOADS, workload("second", namespace="a").owner_job("train").build())

    result = cli("workloads", "show", "train", "-n", "a")

    assert result.code == 1
    assert "choose one of second, waiting" in result.err


def test_a_workload_nobody_has_looked_at_raises_the_question(full: World, cli: Run) -> None:
    full.manager.add(WORKLOADS, workload("fresh", namespace="a").queue("main").build())

    assert (
        "no manager has looked at its Workload since it was created"
        in cli("workloads", "show", "fresh", "-n", "a").lines[0]
    )


def test_show_names_the_job_that_preempted_it(full: World, cli: Run) -> None:
    by = "Preempted to accommodate a workload (UID: x, JobUID: big-uid) due to prioritization in the ClusterQueue"
    full.manager.add(
        WORKLOADS, workload("stopped", namespace="a").queue("main").evicted("Preempted", message=by).build()
    )
    full.manager.add(WORKLOADS, workload("first", namespace="a").queue("main").owner_job("big", uid="big-uid").build())

    told = cli("workloads", "show", "stopped", "-n", "a").out

    assert "Evicted (Preempted): Preempted to accommodate job/big due to prioritization" in told
    assert "UID" not in told


def test_show_of_a_job_without_a_workload_says_why_it_has_none(full: World, cli: Run) -> None:
    full.manager.add(JOBS, job("lost", namespace="a").queue("mian").build())

    result = cli("workloads", "show", "job/lost", "-n", "a")

    assert (result.code, result.lines[0]) == (
        0,
        "Pending: there is no LocalQueue mian in namespace a; did you mean main?",
    )
    assert result.lines == cli("why", "job/lost", "-n", "a").lines
    tree = yaml.safe_load(cli("workloads", "show", "job/lost", "-n", "a", "-o", "yaml").out)
    assert tree["answer"]["obstacles"][0]["code"] == "QueueNotFound"
    for command in ("pods", "logs", "events"):
        told = cli("workloads", command, "job/lost", "-n", "a")
        assert (told.code, told.err.count(result.lines[0])) == (1, 1)


def test_what_is_wrong_is_told_in_one_line(world: World, cli: Run) -> None:
    assert cli("workloads", "list", "--context", "gone").code == 3
    assert cli("workloads", "list", "--context", "nowhere").code == 2
    world.manager.revoke(ADMIN_TOKEN)
    refused = cli("workloads", "list")
    assert refused.code == 1
    assert refused.err.startswith("error: list workloads") or "401" in refused.err


@pytest.mark.anyio
async def test_show_has_it_all_on_one_screen(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with a_field(tmp_path, capsys, monkeypatch) as field:
        local = await field.submit()
        await field.becomes("train", lambda made: made.nominated("worker1", "worker2"))
        offered = await field.run("workloads", "show", "job/train")
        await field.runs_on("train", "worker2")
        await field.clients["worker2"].create({**local, "metadata": {"name": "job-train", "namespace": "default"}})
        copy = await field.copy("worker2")
        pod = await field.pod("worker2", "one", copy)
        await field.tell("worker2", pod, "Pulled", "2026-01-01T12:00:00Z")
        await field.tell("manager", local, "Dispatched", "2026-01-01T11:00:00Z")
        running = await field.run("workloads", "show", "job/train")

    def block(title: str) -> list[list[str]]:
        rows = [*running.lines[running.lines.index(title) + 2 :], ""]
        return [row.split() for row in rows[: rows.index("")]]

    assert (offered.code, running.code) == (0, 0), running.err
    assert [line.split() for line in offered.lines[-2:]] == [
        [name, "nominated", "none", "-", "-", "-"] for name in ("worker1", "worker2")
    ]
    assert "  Cluster:   worker2" in running.lines
    assert running.lines[0].startswith("Running on worker2 since ")
    assert block("Clusters") == [["worker2", "winner", "waits", "job/train", "1", "Running", "-"]]
    assert [row[:3] for row in block("Pods")] == [["one", "1/1", "Running"]]
    assert [row[1:4] for row in block("Events")] == [
        ["(manager)", "Normal", "Dispatched"],
        ["worker2", "Normal", "Pulled"],
    ]
