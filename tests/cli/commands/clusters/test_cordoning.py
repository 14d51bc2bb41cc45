"""A worker is cordoned, and drained: what runs there, and nothing else, queues again."""

from __future__ import annotations

import io
from datetime import timedelta

import pytest

from multikueue.api.kinds import MULTIKUEUE_CLUSTERS
from multikueue.api.multikueue.clusters import CORDON_ANNOTATION
from multikueue.cli.terminal.output import CLEAR_LINE
from testbed.client import eventually
from testbed.objects import MULTIKUEUE_CLUSTER, WORKLOAD
from tests.builders import multikueue_cluster
from tests.cli.conftest import Run, World
from tests.cli.field import Field

NO_QUOTA = {
    "clusterName": None,
    "admission": None,
    "conditions": [
        {
            "type": "Evicted",
            "status": "True",
            "reason": "Deactivated",
            "message": "",
            "lastTransitionTime": "2026-01-01T12:00:00Z",
        }
    ],
}


@pytest.fixture
async def connected(field: Field) -> Field:
    """Two workers of which worker1 is connected, and runs `train`; `other` runs on worker2, `done` is over."""
    active = {
        "type": "Active",
        "status": "True",
        "reason": "Active",
        "message": "",
        "lastTransitionTime": "2026-01-01T12:00:00Z",
    }
    await field.manager.patch_status(MULTIKUEUE_CLUSTER, "worker1", {"conditions": [active]})
    for job, worker in (("train", "worker1"), ("other", "worker2")):
        await field.submit(job)
        await field.runs_on(job, worker)
    await field.submit("done")
    await field.becomes("done", lambda made: made.cluster_name("worker1").finished())
    return field


async def is_cordoned(field: Field, worker: str = "worker1") -> bool:
    meta = (await field.manager.get(MULTIKUEUE_CLUSTER, worker))["metadata"]
    return bool(meta.get("annotations", {}).get(CORDON_ANNOTATION) == "true")


async def is_held(field: Field, job: str) -> bool:
    return (await field.manager.get(WORKLOAD, f"job-{job}", "default"))["spec"].get("active") is False


@pytest.mark.anyio
async def test_cordon_and_uncordon(field: Field) -> None:
    done = await field.run("clusters", "cordon", "worker1")
    assert await is_cordoned(field)
    undone = await field.run("clusters", "uncordon", "worker1")
    assert not await is_cordoned(field)
    unknown = await field.run("clusters", "cordon", "worker3")

    assert (done.out, undone.out) == ("worker1 cordoned\n", "worker1 uncordoned\n")
    assert unknown.code == 1
    assert "there is no MultiKueueCluster 'worker3'" in unknown.err


@pytest.mark.anyio
async def test_a_drain_queues_what_runs_there_again(connected: Field) -> None:
    dry = await connected.run("clusters", "drain", "worker1", "--dry-run")
    assert not await is_cordoned(connected)

    program = connected.start("clusters", "drain", "worker1", "--yes")
    await eventually(lambda: is_held(connected, "train"))
    assert await is_cordoned(connected)
    assert not await is_held(connected, "other")
    await connected.manager.patch_status(WORKLOAD, "job-train", NO_QUOTA, "default")
    ended = await program.result()

    assert dry.err == "Cordons worker1, and stops what runs there and queues it again: default/job-train. (dry run)\n"
    assert ended.out.splitlines()[-3:] == ["worker1 cordoned", "default/job-train requeued", "worker1 drained"]
    assert not await is_held(connected, "train")


@pytest.mark.anyio
@pytest.mark.usefixtures("terminal")
async def test_a_drain_shows_that_it_is_at_work_and_leaves_whole_lines(connected: Field) -> None:
    program = connected.start("clusters", "drain", "worker1", "--yes")
    await program.said("draining worker1")
    await connected.manager.patch_status(WORKLOAD, "job-train", NO_QUOTA, "default")
    ended = await program.result()

    assert ended.out.splitlines()[-2:] == ["default/job-train requeued", "worker1 drained"]
    assert ended.err.endswith(CLEAR_LINE)


@pytest.mark.anyio
async def test_a_drain_says_what_stays(connected: Field, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("multikueue.cli.workload.activation.GIVE_BACK_TIMEOUT", timedelta(milliseconds=200))

    ended = await connected.run("clusters", "drain", "worker1", "--yes")

    assert ended.code == 1
    assert "default/job-train did not give its quota back" in ended.err
    assert "1 of 1 workloads are still on worker1" in ended.err
    assert not await is_held(connected, "train")


@pytest.mark.anyio
async def test_a_drain_without_a_yes_changes_nothing(connected: Field, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("n\n"))

    assert (await connected.run("clusters", "drain", "worker1")).code == 1
    assert not await is_cordoned(connected)


@pytest.mark.anyio
async def test_a_worker_that_is_not_connected_cannot_be_drained(connected: Field) -> None:
    ended = await connected.run("clusters", "drain", "worker2", "--yes")

    assert ended.code == 1
    assert "worker2 is not connected: `multikueue clusters cordon worker2` keeps new work away" in ended.err
    assert not await is_cordoned(connected, "worker2")


@pytest.fixture
def fleet(world: World) -> World:
    """Four workers, of which two have a label; one is connected."""
    for name in ("w10", "w2", "w1", "other"):
        made = multikueue_cluster(name).labels({"zone": "eu"} if name in ("w2", "w10") else {})
        world.manager.add(MULTIKUEUE_CLUSTERS, (made.active() if name == "w1" else made).build())
    return world


def cordoned(world: World) -> set[str]:
    return {
        each["metadata"]["name"]
        for each in world.manager.all(MULTIKUEUE_CLUSTERS)
        if CORDON_ANNOTATION in each["metadata"].get("annotations", {})
    }


@pytest.mark.parametrize(
    ("words", "marked"),
    [
        (("w2", "w1"), {"w1", "w2"}),
        (("-l", "zone=eu"), {"w2", "w10"}),
        (("--all",), {"w1", "w2", "w10", "other"}),
        (("-l", "zone=none"), set()),
    ],
    ids=["by their names", "by a label", "all of them", "none with that label"],
)
def test_several_workers_are_cordoned_at_once(fleet: World, cli: Run, words: tuple[str, ...], marked: set[str]) -> None:
    done = cli("clusters", "cordon", *words)

    assert (done.code, cordoned(fleet)) == (0, marked)
    assert sorted(done.lines) == sorted(f"{name} cordoned" for name in marked)
    assert done.err == (f"{len(marked)} of {len(marked)} workers cordoned.\n" if marked else "No clusters found.\n")


def test_an_unknown_name_keeps_no_other_from_its_cordon(fleet: World, cli: Run) -> None:
    done = cli("clusters", "cordon", "w1", "w3", "w2")

    assert (done.code, cordoned(fleet)) == (1, {"w1", "w2"})
    assert done.err.splitlines() == [
        "2 of 3 workers cordoned.",
        "error: there is no MultiKueueCluster 'w3'; there are: other, w1, w2, w10",
    ]


@pytest.mark.parametrize("words", [(), ("w1", "--all"), ("w1", "-l", "zone=eu")], ids=["none", "both", "a label too"])
@pytest.mark.parametrize("command", ["cordon", "uncordon", "drain", "show", "remove"])
def test_which_workers_are_meant_must_be_clear(fleet: World, cli: Run, command: str, words: tuple[str, ...]) -> None:
    refused = cli("clusters", command, *words)

    assert refused.code == 2
    assert "names of clusters" in " ".join(refused.err.replace("│", " ").split())
    assert cordoned(fleet) == set()


def test_a_drain_of_several_leaves_those_that_are_not_connected(fleet: World, cli: Run) -> None:
    done = cli("clusters", "drain", "w1", "w2", "--yes")

    assert (done.code, cordoned(fleet)) == (1, {"w1"})
    assert done.lines == ["w1 cordoned", "w1 drained"]
    assert "1 of 2 workers drained." in done.err
    assert "w2 is not connected" in done.err
