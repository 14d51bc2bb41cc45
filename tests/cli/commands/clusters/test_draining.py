"""A worker is drained: what runs there, and nothing else, queues again, goes on to its end, or is told to end."""

from __future__ import annotations

import io
import json
from datetime import timedelta

import pytest

from multikueue.cli.terminal.output import CLEAR_LINE
from multikueue.kube.relatives import DRAIN_AT_ANNOTATION
from testbed.client import eventually
from testbed.objects import MULTIKUEUE_CLUSTER, WORKLOAD
from tests.cli.commands.clusters.cordons import cordoned, is_cordoned
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


async def is_held(field: Field, job: str) -> bool:
    return (await field.manager.get(WORKLOAD, f"job-{job}", "default"))["spec"].get("active") is False


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


def test_a_drain_of_several_leaves_those_that_are_not_connected(fleet: World, cli: Run) -> None:
    done = cli("clusters", "drain", "w1", "w2", "--yes")

    assert (done.code, cordoned(fleet)) == (1, {"w1"})
    assert done.lines == ["w1 cordoned", "w1 drained"]
    assert "1 of 2 workers drained." in done.err
    assert "w2 is not connected" in done.err


@pytest.fixture
def _looks_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("multikueue.cli.commands.clusters.draining.LOOK_EVERY", timedelta(milliseconds=50))
    monkeypatch.setattr("multikueue.cli.commands.clusters.draining.WITHDRAWN_WITHIN", timedelta(milliseconds=200))


@pytest.mark.anyio
@pytest.mark.usefixtures("_looks_often")
async def test_what_runs_may_go_on_to_its_end(connected: Field) -> None:
    program = connected.start("clusters", "drain", "worker1", "--running", "wait")
    await eventually(lambda: is_cordoned(connected))
    assert not await is_held(connected, "train")
    await connected.becomes("train", lambda made: made.cluster_name("worker1").finished())
    ended = await program.result()

    assert ended.code == 0
    assert ended.out.splitlines()[-2:] == ["default/job-train is not on worker1 any more", "worker1 drained"]
    assert not await is_held(connected, "train")


@pytest.mark.anyio
@pytest.mark.usefixtures("_looks_often")
async def test_the_command_does_not_wait_beyond_its_time(connected: Field) -> None:
    ended = await connected.run("clusters", "drain", "worker1", "--running", "wait", "--timeout", "100ms")

    assert ended.code == 1
    assert "waits 0s at most for the end of what runs there: default/job-train" in ended.err
    assert "1 of 1 workloads are still on worker1" in ended.err
    assert await is_cordoned(connected)
    assert not await is_held(connected, "train")


@pytest.mark.anyio
@pytest.mark.usefixtures("_looks_often")
async def test_pods_are_told_and_what_is_left_queues_again(connected: Field) -> None:
    await connected.pod("worker1", "train-0", await connected.copy("worker1"))
    await connected.pod("worker1", "other-0", None)

    program = connected.start("clusters", "drain", "worker1", "--running", "signal", "--timeout", "1s", "--yes")
    await eventually(lambda: is_told(connected, "train-0"))
    assert not await is_held(connected, "train")
    await eventually(lambda: is_held(connected, "train"))
    await connected.manager.patch_status(WORKLOAD, "job-train", NO_QUOTA, "default")
    ended = await program.result()

    assert ended.code == 0
    assert ended.out.splitlines()[-2:] == ["default/job-train requeued", "worker1 drained"]
    assert "default/job-train: 1 pods told" in ended.out
    assert not await is_told(connected, "other-0")


async def is_told(field: Field, pod: str) -> bool:
    found = json.loads(await field.clients["worker1"].request("GET", f"/api/v1/namespaces/default/pods/{pod}"))
    return DRAIN_AT_ANNOTATION in found["metadata"].get("annotations", {})


@pytest.mark.anyio
@pytest.mark.usefixtures("_looks_often")
async def test_what_waits_there_is_withdrawn(connected: Field) -> None:
    await connected.manager.patch_status(WORKLOAD, "job-train", NO_QUOTA, "default")
    await connected.submit("waits")
    await connected.manager.patch_status(WORKLOAD, "job-waits", {"nominatedClusterNames": ["worker1"]}, "default")

    program = connected.start("clusters", "drain", "worker1", "--yes")
    await eventually(lambda: is_held(connected, "waits"))
    gone = {**NO_QUOTA, "nominatedClusterNames": None}
    await connected.manager.patch_status(WORKLOAD, "job-waits", gone, "default")
    ended = await program.result()

    assert ended.code == 0
    assert ended.out.splitlines()[-2:] == ["default/job-waits withdrawn", "worker1 drained"]
    assert "Withdraws 1 that wait there." in ended.err


@pytest.mark.anyio
@pytest.mark.usefixtures("_looks_often")
async def test_what_the_manager_takes_back_is_not_queued_again(connected: Field) -> None:
    await connected.manager.patch_status(WORKLOAD, "job-train", NO_QUOTA, "default")

    assert (await connected.run("clusters", "drain", "worker1", "--yes")).out.splitlines()[-1] == "worker1 drained"
    assert not await is_held(connected, "train")


def test_a_signal_without_a_time_is_none(fleet: World, cli: Run) -> None:
    refused = cli("clusters", "drain", "w1", "--running", "signal", "--yes")

    assert refused.code == 2
    assert "--timeout" in refused.err
