from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from multikueue.api.kubernetes.printed import PrintedPod
from multikueue.api.kueue.workload import LOGS_UNTIL
from multikueue.api.meta import decoder, render_time
from multikueue.cli.commands.workloads.pods import no_pods, row, status
from testbed.objects import WORKLOAD
from tests.builders import workload
from tests.cli.cluster import NOW
from tests.cli.field import Field

pytestmark = pytest.mark.anyio


# A pod in words.


def pod(**status: Any) -> PrintedPod:
    spec = {"containers": [{"name": "a"}, {"name": "b"}]}
    return decoder(PrintedPod)(msgspec.json.encode({"metadata": {"name": "p"}, "spec": spec, "status": status}))


def container(name: str = "a", *, ready: bool = False, restarts: int = 0, **state: Any) -> dict[str, Any]:
    return {"name": name, "ready": ready, "restartCount": restarts, "state": state}


AGES_AHEAD = datetime(2100, 1, 1, tzinfo=UTC)
RUNS: dict[str, Any] = {"running": {"startedAt": "2026-01-01T12:00:00Z"}}
DONE: dict[str, Any] = {"terminated": {"exitCode": 0, "reason": "Completed"}}


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        (pod(phase="Pending"), "Pending"),
        (pod(), "Unknown"),
        (pod(phase="Failed", reason="Evicted"), "Evicted"),
        (pod(phase="Running", containerStatuses=[container(ready=True, **RUNS)]), "Running"),
        (
            pod(phase="Pending", containerStatuses=[container(waiting={"reason": "ImagePullBackOff"})]),
            "ImagePullBackOff",
        ),
        (pod(phase="Running", containerStatuses=[container(**DONE), container("b", **RUNS)]), "Running"),
        (pod(phase="Succeeded", containerStatuses=[container(**DONE)]), "Completed"),
        (pod(phase="Failed", containerStatuses=[container(terminated={"exitCode": 3})]), "ExitCode:3"),
        (pod(phase="Failed", containerStatuses=[container(terminated={"exitCode": 0, "signal": 9})]), "Signal:9"),
        (
            pod(phase="Pending", initContainerStatuses=[container(waiting={"reason": "PodInitializing"})]),
            "Init:PodInitializing",
        ),
        (pod(phase="Pending", initContainerStatuses=[container(**RUNS)]), "Init"),
        (
            pod(phase="Running", initContainerStatuses=[container(**DONE)], containerStatuses=[container(**RUNS)]),
            "Running",
        ),
    ],
    ids=[
        "nothing but a phase",
        "nothing at all",
        "a reason of the pod",
        "it runs",
        "a container waits",
        "one of two is done",
        "all are done",
        "an end without words",
        "an end by a signal",
        "the first container waits",
        "the first container runs",
        "the first container is done",
    ],
)
def test_the_state_of_a_pod_is_one_word(shown: PrintedPod, expected: str) -> None:
    assert status(shown) == expected


def test_a_row_counts_containers_and_restarts() -> None:
    shown = pod(
        phase="Running", containerStatuses=[container(ready=True, restarts=2, **RUNS), container("b", restarts=1)]
    )
    assert row(shown, "w1", NOW)[:6] == ("p", "1/2", "Running", "3", "<unknown>", "w1")
    assert row(shown, "w1", NOW, is_gone=True)[2] == "Gone"


# The command.


async def test_the_pods_of_a_job_are_listed_with_their_cluster(field: Field) -> None:
    await field.submit()
    await field.runs_on("train", "worker2")
    copy = await field.copy("worker2")
    await field.pod("worker2", "train-1", copy)
    await field.pod("worker2", "marked", None, annotations={"kueue.x-k8s.io/workload": "job-train"})
    await field.pod("worker2", "stranger", None)
    await field.pod("worker1", "elsewhere", None, annotations={"kueue.x-k8s.io/workload": "job-train"})

    shown = await field.run("workloads", "pods", "job/train", "-o", "wide")

    assert shown.code == 0, shown.err
    assert [line.split()[:4] for line in shown.lines] == [
        ["NAME", "READY", "STATUS", "RESTARTS"],
        ["marked", "1/1", "Running", "0"],
        ["train-1", "1/1", "Running", "0"],
    ]
    assert all(line.split()[5:7] == ["worker2", "10.0.0.1"] for line in shown.lines[1:])
    items = json.loads((await field.run("workloads", "pods", "train", "-o", "json")).out)["items"]
    assert [item["metadata"]["name"] for item in items] == ["marked", "train-1"]
    assert (await field.run("workloads", "pods", "job-train", "-o", "name")).lines == ["pod/marked", "pod/train-1"]


async def test_without_a_cluster_it_says_why(field: Field) -> None:
    await field.submit()

    shown = await field.run("workloads", "pods", "train")

    assert shown.code == 1
    assert shown.err == (
        "error: workload default/job-train is on no cluster: Pending: there is no LocalQueue main in namespace default; "
        "there are none. What helps: `multikueue workloads cancel -n default job/train`, then "
        "`multikueue submit -n default -f FILE --queue QUEUE` (anyone who may change the job).\n"
    )


async def test_a_finished_job_has_no_pods_any_more(field: Field) -> None:
    await field.submit()
    await field.becomes("train", lambda made: made.cluster_name("worker1").finished(message="all went well"))

    shown = await field.run("workloads", "pods", "train")

    conditions = (await field.manager.get(WORKLOAD, "job-train", "default"))["status"]["conditions"]
    (ended,) = [each["lastTransitionTime"] for each in conditions if each["type"] == "Finished"]
    assert (shown.code, shown.out) == (0, "")
    assert shown.err == (
        f"Finished on worker1: all went well. It ended at {ended}. Its pods are gone from the cluster since then, and their "
        "logs with them. To keep them for longer next time, before it ends: kubectl annotate -n default job/train "
        "multikueue.dev/copy-retention=12h\n"
    )


@pytest.mark.parametrize(
    ("until", "said"),
    [
        (NOW, f"Its pods are gone from the cluster since {render_time(NOW)}, and their logs with them."),
        (AGES_AHEAD, f"Its pods were to stay until {render_time(AGES_AHEAD)}, and are gone, with their logs: "),
    ],
    ids=["their time is over", "before their time"],
)
def test_of_a_finished_job_it_says_since_when_its_pods_are_gone(until: datetime, said: str) -> None:
    made = workload("wl").owner_job("job").cluster_name("w1").finished()
    told = no_pods(made.condition(LOGS_UNTIL, "True", reason="Finished", message=render_time(until)).build())
    assert said in told
    assert told.endswith("multikueue.dev/copy-retention=12h")


async def test_each_change_is_shown_also_on_the_next_cluster(field: Field) -> None:
    await field.submit()
    watch = field.start("workloads", "pods", "train", "-w")
    await watch.said("Waiting for a cluster.")
    await field.runs_on("train", "worker1")
    copy = await field.copy("worker1")
    await field.pod("worker1", "first", copy)
    await watch.said("first", "worker1")
    await field.leaves("train")
    await field.runs_on("train", "worker2")
    there = await field.copy("worker2")
    await field.pod("worker2", "second", there)
    await watch.said("second", "worker2")
    await field.clients["worker2"].request(
        "DELETE", "/api/v1/namespaces/default/pods/second", body={"gracePeriodSeconds": 0}
    )
    await watch.said("Gone")
    await field.becomes("train", lambda made: made.cluster_name("worker2").finished(message="all went well"))

    done = await watch.result()

    assert done.code == 0
    assert done.lines[0].split()[0] == "NAME"
    assert {line.split()[0] for line in done.lines[1:]} == {"first", "second"}
    assert "Finished on worker2" in done.err


async def test_watching_is_for_people(field: Field) -> None:
    assert (await field.run("workloads", "pods", "train", "-w", "-o", "json")).code == 2
