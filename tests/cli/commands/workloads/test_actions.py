"""What is done to a job, on clusters that remember it; what is said before; and that nothing is done in a dry run."""

from __future__ import annotations

import io
from datetime import timedelta
from typing import Any

import pytest

from multikueue.cli.terminal.output import CLEAR_LINE
from testbed.client import ApiError
from testbed.objects import JOB, WORKLOAD, admission_check, cluster_queue, local_queue
from tests.cli.conftest import Run, World
from tests.cli.field import JOB_BODY, Field

pytestmark = pytest.mark.anyio

Tree = dict[str, Any]


async def of(field: Field) -> Tree:
    tree: Tree = await field.manager.get(WORKLOAD, "job-train", "default")
    return tree


async def has_job(field: Field) -> bool:
    try:
        await field.manager.get(JOB, "train", "default")
    except ApiError:
        return False
    return True


async def test_cancel_deletes_the_job_and_says_so_before(field: Field) -> None:
    await field.submit()
    await field.runs_on("train", "worker1")

    dry = await field.run("workloads", "cancel", "job/train", "--dry-run")
    assert await has_job(field)
    done = await field.run("jobs", "cancel", "job/train", "--yes")

    assert dry.err == "Deletes job/train in namespace default and its copy on worker1. (dry run)\n"
    assert (done.code, done.out) == (0, "job/train deleted\n")
    assert not await has_job(field)


async def test_without_a_yes_nothing_is_ended(field: Field, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("n\n"))
    await field.submit()
    await field.runs_on("train", "worker1")

    for action in ("cancel", "hold", "requeue"):
        monkeypatch.setattr("sys.stdin", io.StringIO("n\n"))
        ended = await field.run("workloads", action, "train")
        assert ended.code == 1
        assert "Go on?" in ended.err

    assert await has_job(field)
    assert (await of(field))["spec"].get("active", True) is True


async def test_hold_and_release(field: Field) -> None:
    await field.submit()

    held = await field.run("workloads", "hold", "train")
    assert (await of(field))["spec"]["active"] is False
    again = await field.run("workloads", "hold", "train")
    released = await field.run("workloads", "release", "train")
    assert (await of(field))["spec"]["active"] is True
    not_held = await field.run("workloads", "release", "train")

    assert (held.out, released.out) == ("default/job-train held\n", "default/job-train released\n")
    assert again.err == "default/job-train is held already.\n"
    assert not_held.err == "default/job-train is not held.\n"


async def test_requeue_waits_until_the_quota_is_given_back(field: Field) -> None:
    await field.submit()
    await field.runs_on("train", "worker1")
    program = field.start("workloads", "requeue", "train", "--yes")
    await program.said("Stops default/job-train on worker1 and queues it again.")
    await held(field)
    assert program.out == ""

    await field.manager.patch_status(WORKLOAD, "job-train", EVICTED, "default")

    assert (await program.result()).out == "default/job-train requeued\n"
    assert (await of(field))["spec"]["active"] is True


@pytest.mark.usefixtures("terminal")
async def test_what_takes_its_time_shows_that_it_is_at_work(field: Field) -> None:
    await field.submit()
    await field.runs_on("train", "worker1")
    program = field.start("workloads", "requeue", "train", "--yes")
    await program.said("looking for train", "requeuing default/job-train")
    await held(field)
    await field.manager.patch_status(WORKLOAD, "job-train", EVICTED, "default")
    assert (await program.result()).err.endswith(CLEAR_LINE)

    ended = await field.run("workloads", "cancel", "job/train", "--yes")
    assert "deleting job/train" in ended.err


async def test_requeue_without_a_manager_lets_it_be_as_it_was(field: Field, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("multikueue.cli.workload.activation.GIVE_BACK_TIMEOUT", timedelta(milliseconds=200))
    await field.submit()

    ended = await field.run("workloads", "requeue", "train")

    assert ended.code == 1
    assert "did not give its quota back in 0.2 s: does a manager run?" in ended.err
    assert (await of(field))["spec"]["active"] is True


async def test_move_is_for_one_that_waits(field: Field) -> None:
    await field.submit()
    for name in ("main", "night"):
        meta = {"name": name, "namespace": "default"}
        queue = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "LocalQueue", "metadata": meta}
        await field.manager.create({**queue, "spec": {"clusterQueue": "cq"}})

    moved = await field.run("workloads", "move", "train", "--to", "night")
    unknown = await field.run("workloads", "move", "train", "--to", "nihgt")
    await field.runs_on("train", "worker1")
    late = await field.run("workloads", "move", "train", "--to", "main")

    assert moved.out == "default/job-train moved to night\n"
    job = await field.manager.get(JOB, "train", "default")
    assert job["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "night"
    assert "did you mean 'night'?" in unknown.err
    assert "has quota by now: `multikueue workloads hold` it first" in late.err
    assert (unknown.code, late.code) == (1, 1)


@pytest.mark.parametrize(
    ("is_marked", "is_dispatched", "problem"),
    [
        pytest.param(True, True, "", id="a job for workers to a queue for workers"),
        pytest.param(False, False, "", id="a job of the manager cluster to a queue of its own"),
        pytest.param(False, True, 'Expecting spec.managedBy to be "kueue.x-k8s.io/multikueue" not ""', id="no mark"),
        pytest.param(True, False, "whose jobs run on the manager cluster", id="a mark that nobody reads"),
    ],
)
async def test_move_is_refused_where_nobody_would_run_the_job(
    field: Field, is_marked: bool, is_dispatched: bool, problem: str
) -> None:
    spec = {**JOB_BODY["spec"], **({"managedBy": "kueue.x-k8s.io/multikueue"} if is_marked else {})}
    await field.submit(job={**JOB_BODY, "spec": spec})
    for each in (
        admission_check("everywhere", config="all"),
        cluster_queue("cq", checks=("everywhere",) if is_dispatched else ()),
        local_queue("night", "default", cluster_queue="cq"),
    ):
        await field.manager.create(each)

    moved = await field.run("workloads", "move", "train", "--to", "night")

    job = await field.manager.get(JOB, "train", "default")
    queue = job["metadata"].get("labels", {}).get("kueue.x-k8s.io/queue-name")
    if not problem:
        assert (moved.code, queue) == (0, "night"), moved.err
        return
    assert (moved.code, queue) == (1, None)
    assert problem in moved.err
    again = "multikueue submit -n default -f FILE --queue night"
    assert f"What helps: `multikueue workloads cancel -n default job/train`, then `{again}`" in moved.err


def of_kind(kind: str, name: str, **labels: str) -> Tree:
    pod = {"containers": [{"name": "main", "image": "x"}], "restartPolicy": "Never"}
    version, spec = ("v1", pod) if kind == "Pod" else ("batch/v1", {"template": {"spec": pod}})
    meta = {"name": name, "namespace": "default", "labels": {f"kueue.x-k8s.io/{key}": it for key, it in labels.items()}}
    return {"apiVersion": version, "kind": kind, "metadata": meta, "spec": spec}


@pytest.mark.parametrize(
    ("body", "name"),
    [
        pytest.param(of_kind("Job", "train"), "train", id="a Job without a queue label"),
        pytest.param(
            of_kind("Job", "train", **{"queue-name": "main", "priority-class": "gone"}),
            "job/train",
            id="a Job whose priority class nobody made",
        ),
        pytest.param(of_kind("Pod", "train", **{"queue-name": "main"}), "train", id="a Pod that nobody looked at"),
        pytest.param(of_kind("Pod", "train"), "pod/train", id="a Pod of no queue that is named with its kind"),
    ],
)
async def test_a_job_without_a_workload_is_cancelled_like_any_other(field: Field, body: Tree, name: str) -> None:
    await field.manager.create(body)
    what = f"{body['kind'].lower()}/train"

    dry = await field.run("workloads", "cancel", name, "--dry-run")
    done = await field.run("workloads", "cancel", name, "--yes")
    again = await field.run("workloads", "cancel", name, "--yes")

    assert dry.err == f"Deletes {what} in namespace default, which has no workload. (dry run)\n"
    assert (done.code, done.out) == (0, f"{what} deleted\n"), done.err
    assert "there is no workload" in again.err


async def test_what_may_be_nobody_s_job_is_not_deleted_by_its_name_alone(field: Field) -> None:
    await field.manager.create(of_kind("Pod", "web"))
    part = of_kind("Pod", "train-0")
    uid = (await field.manager.create(of_kind("Job", "train")))["metadata"]["uid"]
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": uid, "controller": True}
    await field.manager.create({**part, "metadata": {**part["metadata"], "ownerReferences": [owner]}})

    unnamed = await field.run("workloads", "cancel", "web", "--yes")
    of_another = await field.run("workloads", "cancel", "pod/train-0", "--yes")

    assert (unnamed.code, of_another.code) == (1, 1)
    assert unnamed.err == "error: pod/web names no queue: to delete it all the same, name it pod/web\n"
    assert "pod/train-0 has no workload: Pending: it is a part of job/train" in of_another.err


@pytest.mark.parametrize(
    "words", [("hold",), ("release",), ("requeue",), ("move", "--to", "main")], ids=lambda it: it[0]
)
async def test_what_needs_a_workload_says_what_the_job_lacks_and_what_helps(
    field: Field, words: tuple[str, ...]
) -> None:
    await field.manager.create(of_kind("Job", "train", **{"queue-name": "main", "priority-class": "gone"}))
    await field.manager.create(local_queue("main", "default", cluster_queue="cq"))

    ended = await field.run("workloads", words[0], "train", *words[1:])

    label = "kubectl label -n default job/train kueue.x-k8s.io/priority-class=CLASS --overwrite"
    assert ended.code == 1
    assert "job/train has no workload: Pending: there is no WorkloadPriorityClass gone" in ended.err
    assert f"What helps: `{label}`" in ended.err


async def test_several_are_announced_together_and_one_that_fails_stops_no_other(field: Field) -> None:
    for name in ("train", "other"):
        await field.submit(name)

    ended = await field.run("workloads", "cancel", "job/train", "job/tarin", "job/other", "--yes")

    assert (ended.code, ended.out) == (1, "job/train deleted\njob/other deleted\n")
    announced, second, failed = ended.err.splitlines()
    assert announced == "Deletes job/train in namespace default."
    assert second == "Deletes job/other in namespace default."
    assert failed.startswith("error: there is no workload 'job/tarin' in namespace default")


async def test_each_that_fails_is_told(field: Field, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("multikueue.cli.workload.activation.GIVE_BACK_TIMEOUT", timedelta(milliseconds=200))
    for name in ("train", "other"):
        await field.submit(name)

    ended = await field.run("workloads", "requeue", "train", "other")

    assert (ended.code, ended.out) == (1, "")
    errors = [line.split()[:2] for line in ended.err.splitlines() if line.startswith("error: ")]
    assert errors == [["error:", "default/job-train"], ["error:", "default/job-other"]]


async def test_all_with_a_label_are_meant(field: Field) -> None:
    for name in ("train", "other"):
        await field.submit(name)
    await field.manager.patch(WORKLOAD, "job-train", {"metadata": {"labels": {"team": "vision"}}}, "default")

    held = await field.run("workloads", "hold", "-l", "team=vision")
    none = await field.run("workloads", "hold", "-l", "team=sound")

    assert (held.code, held.out) == (0, "default/job-train held\n")
    assert (none.code, none.err) == (0, "No workloads found in namespace default.\n")


async def test_labels_of_jobs_mean_them_with_and_without_a_workload(field: Field) -> None:
    labels = {"labels": {"team": "vision"}}
    await field.submit()
    await field.manager.patch(JOB, "train", {"metadata": labels}, "default")
    for name, queue in (("waits", {"queue-name": "main"}), ("other", {})):
        body = of_kind("Job", name, **queue)
        made = {**body["metadata"], "labels": {**body["metadata"]["labels"], **labels["labels"]}}
        await field.manager.create({**body, "metadata": made})

    done = await field.run("workloads", "cancel", "-l", "team=vision", "--yes")

    assert done.out == "job/train deleted\njob/waits deleted\n"


@pytest.mark.parametrize("words", [(), ("train", "-l", "team=vision")], ids=["neither", "both"])
def test_names_or_a_selector_say_what_is_meant(world: World, cli: Run, words: tuple[str, ...]) -> None:
    ended = cli("workloads", "cancel", *words)

    assert ended.code == 2
    assert "expected the names of jobs, or a selector (-l) in place of them" in " ".join(ended.err.split())


async def test_what_is_finished_is_let_be(field: Field) -> None:
    await field.submit()
    await field.becomes("train", lambda made: made.finished())

    for words in (("hold",), ("release",), ("requeue",), ("move", "--to", "main")):
        ended = await field.run("workloads", words[0], "train", *words[1:])
        assert (ended.code, ended.err) == (1, "error: default/job-train is finished\n")


def test_one_that_is_not_there_has_the_nearest(world: World, cli: Run) -> None:
    ended = cli("workloads", "cancel", "train")

    assert ended.code == 1
    assert "there is no workload 'train'" in ended.err


EVICTED: Tree = {
    "admission": None,
    "conditions": [
        {
            "type": "Evicted",
            "status": "True",
            "reason": "Deactivated",
            "message": "The workload is deactivated",
            "lastTransitionTime": "2026-01-01T12:00:00Z",
        }
    ],
}


async def held(field: Field) -> None:
    from testbed.client import eventually

    async def yet() -> bool:
        return (await of(field))["spec"].get("active") is False

    await eventually(yet)
