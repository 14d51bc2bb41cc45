"""The end of a job is waited for, and becomes an exit code."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from multikueue.api.kubernetes.printed import PrintedPod
from multikueue.api.meta import decoder
from multikueue.cli.workload.end import exit_code
from testbed.objects import JOB
from tests.cli.field import Field, head

pytestmark = pytest.mark.anyio


def pod(created: str, *codes: int) -> PrintedPod:
    statuses = [{"name": f"c{code}", "state": {"terminated": {"exitCode": code}}} for code in codes]
    meta = {"name": "p", "creationTimestamp": created}
    body: dict[str, Any] = {"metadata": meta, "spec": {"containers": []}, "status": {"containerStatuses": statuses}}
    return decoder(PrintedPod)(msgspec.json.encode(body))


EARLY, LATE = "2026-01-01T12:00:00Z", "2026-01-01T12:05:00Z"


@pytest.mark.parametrize(
    ("pods", "code"),
    [
        ([pod(EARLY, 7)], 7),
        ([pod(LATE, 3), pod(EARLY, 7)], 3),
        ([pod(LATE, 0), pod(EARLY, 7)], 7),
        ([pod(EARLY, 0, 137)], 137),
        ([], 1),
    ],
    ids=[
        "that of the pod",
        "of several that failed, the newest",
        "one that did well says nothing",
        "of containers, that which failed",
        "no pod is seen",
    ],
)
def test_the_exit_code_is_that_of_what_failed_last(pods: list[PrintedPod], code: int) -> None:
    assert exit_code(pods) == code


async def submitted(field: Field) -> Any:
    """A job submitted by the command, which waits; and its workload as the manager would make it."""
    spec = {"clusterQueue": "cq"}
    await field.manager.create(
        {
            **head("kueue.x-k8s.io/v1beta2", "LocalQueue"),
            "metadata": {"name": "main", "namespace": "default"},
            "spec": spec,
        }
    )
    words = ("submit", "-q", "main", "--name", "train", "--image", "x", "--wait", "--", "python", "train.py")
    program = field.start(*words)
    await program.said("job/train submitted to queue default/main")
    made = await field.manager.get(JOB, "train", "default")
    await field.adopt(made)
    return program


async def test_a_job_that_does_well_ends_the_command_with_0(field: Field) -> None:
    program = await submitted(field)
    await field.becomes("train", lambda made: made.cluster_name("worker1").finished(message="all went well"))

    done = await program.result()

    assert done.code == 0, done.err
    assert done.lines[-1] == "job/train: Finished on worker1: all went well."


async def test_a_job_that_fails_ends_it_with_its_exit_code(field: Field) -> None:
    program = await submitted(field)
    await field.runs_on("train", "worker1")
    await field.pod("worker1", "train-1", await field.copy("worker1"), state={"terminated": {"exitCode": 42}})
    await field.becomes("train", lambda made: made.cluster_name("worker1").finished("Failed", message="it broke"))

    done = await program.result()

    assert done.code == 42, done.err
    assert "job/train: Failed on worker1: it broke." in done.out


async def test_a_job_that_is_deleted_ends_it_with_1(field: Field) -> None:
    program = await submitted(field)
    await field.runs_on("train", "worker1")
    for path in (
        "batch/v1/namespaces/default/jobs/train",
        "kueue.x-k8s.io/v1beta2/namespaces/default/workloads/job-train",
    ):
        await field.manager.request("DELETE", f"/apis/{path}")

    done = await program.result()

    assert done.code == 1
    assert "has been deleted" in done.err or "there is no workload" in done.err
