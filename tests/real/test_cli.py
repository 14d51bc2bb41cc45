"""The command line against real API servers, one file, one worker: it joins with the least rights, works, and leaves."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from base64 import b64decode
from collections.abc import AsyncIterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import anyio.to_thread
import pytest
import yaml

from multikueue_simulator.serving.serve import merged
from testbed import objects, queues
from testbed.bed import Testbed, unique
from testbed.client import ApiError, Client, Kind, eventually
from testbed.contexts import Unsupported
from testbed.jobs import complete_job
from testbed.kubeconfig import dump
from testbed.objects import JOB, MULTIKUEUE_CLUSTER, MULTIKUEUE_CONFIG, SECRET, WORKLOAD
from testbed.plane import ControlPlane
from tests.project.files import ROOT
from tests.real.harness import Manager
from tests.real.skipping import SIMULATED, needs_nodes, needs_testbed

pytestmark = [pytest.mark.anyio, pytest.mark.real, pytest.mark.timeout(180)]

SERVICE_ACCOUNT = Kind("v1", "ServiceAccount")
CLUSTER_ROLE = Kind("rbac.authorization.k8s.io/v1", "ClusterRole")
CLUSTER_ROLE_BINDING = Kind("rbac.authorization.k8s.io/v1", "ClusterRoleBinding")
ROLE = Kind("rbac.authorization.k8s.io/v1", "Role")
ROLE_BINDING = Kind("rbac.authorization.k8s.io/v1", "RoleBinding")
NODE = Kind("v1", "Node")
PRIORITY_CLASS = Kind("scheduling.k8s.io/v1", "PriorityClass")
RUNTIME_CLASS = Kind("node.k8s.io/v1", "RuntimeClass")


@dataclass(frozen=True)
class Desk:
    """An administrator of the manager and of worker1 at a command line. What is made is called `name`; the account on the
    worker is one of its own, so that whoever else is registered there keeps theirs."""

    manager: Client
    worker: Client
    plane: ControlPlane
    name: str
    kubeconfig: Path

    @property
    def account(self) -> str:
        return f"multikueue-{self.name}"

    async def run(self, *words: str, code: int = 0) -> str:
        """Run the program; its output, and a failure unless it ends with that code."""
        environment = {**os.environ, "KUBECONFIG": str(self.kubeconfig)}
        done = await anyio.to_thread.run_sync(
            partial(
                subprocess.run,
                [sys.executable, "-m", "multikueue", *words],
                env=environment,
                capture_output=True,
                text=True,
                timeout=100,
                check=False,
            )
        )
        assert done.returncode == code, f"{words} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}"
        return f"{done.stdout}{done.stderr}"

    async def register(self, *more: str, code: int = 0) -> str:
        joins = ("register", self.name, "--context", "worker1", "--origin", self.name)
        return await self.run("clusters", *joins, *more, code=code)

    async def leave(self) -> None:
        """Take the worker out, and the account there."""
        await self.run("clusters", "remove", self.name, "--context", "worker1", "--origin", self.name)

    async def token(self) -> str:
        """The token the manager got."""
        secret = await self.manager.get(SECRET, f"multikueue-{self.name}", objects.KUEUE_NAMESPACE)
        (user,) = yaml.safe_load(b64decode(secret["data"]["kubeconfig"]))["users"]
        token: str = user["user"]["token"]
        return token

    def as_manager(self, token: str) -> Client:
        """The worker as the manager may see it."""
        return Client(self.plane.url, ca=self.plane.ca, token=token)


@pytest.fixture
async def desk(bed: Testbed, tmp_path: Path) -> AsyncIterator[Desk]:
    plane, name = bed.planes["worker1"], unique("cli")
    path = tmp_path / "kubeconfig"
    path.write_text(yaml.safe_dump(merged([bed.manager.kubeconfig(), plane.kubeconfig()])))
    async with bed.manager.client() as manager, plane.client() as worker:
        desk = Desk(manager, worker, plane, name, path)
        yield desk
        await manager.delete(MULTIKUEUE_CLUSTER, name)
        await manager.delete(MULTIKUEUE_CONFIG, name)
        for kind in (CLUSTER_ROLE_BINDING, CLUSTER_ROLE):
            await worker.delete(kind, desk.account)
        await worker.delete(SERVICE_ACCOUNT, desk.account, objects.KUEUE_NAMESPACE)


async def lead_there(desk: Desk) -> None:
    """Queues on both sides: the manager's leads to the config `name`."""
    await queues.workers_setup([desk.plane], namespace=desk.name)
    await desk.manager.apply(objects.admission_check(desk.name, config=desk.name))
    await queues.setup_queue(
        desk.manager,
        namespace=desk.name,
        queue="main",
        cluster_queue=objects.cluster_queue(desk.name, checks=[desk.name]),
    )


async def test_a_worker_joins_twice_is_looked_at_and_leaves(desk: Desk) -> None:
    first = await desk.register("--config-name", desk.name)
    token = await desk.token()
    again = await desk.register("--config-name", desk.name)

    assert f"MultiKueueCluster {desk.name} on the manager created" in first
    assert "created" not in again
    assert "updated" not in again
    assert await desk.token() == token
    assert f"{desk.name} rotated" in await desk.run("clusters", "rotate", desk.name)
    assert await desk.token() != token
    config = await desk.manager.get(MULTIKUEUE_CONFIG, desk.name)
    assert config["spec"]["clusters"] == [desk.name]

    names = await desk.run("clusters", "list", "-o", "name")
    assert f"multikueuecluster.kueue.x-k8s.io/{desk.name}\n" in names
    shown = await desk.run("clusters", "show", desk.name)
    assert desk.plane.url in shown
    found = json.loads((await desk.run("clusters", "check", desk.name, "-o", "json")).partition("\nchecking")[0])
    levels = {each["subject"]: each["level"] for each in found["items"]}
    assert set(levels.values()) <= {"ok", "warning"}
    assert levels["rights on workloads.kueue.x-k8s.io"] == "ok"

    token = await desk.token()
    await desk.leave()
    assert await desk.manager.find(MULTIKUEUE_CLUSTER, desk.name) is None
    assert await desk.manager.find(SECRET, f"multikueue-{desk.name}", objects.KUEUE_NAMESPACE) is None
    assert await desk.worker.find(CLUSTER_ROLE, desk.account) is None
    async with desk.as_manager(token) as outsider:
        await eventually(lambda: refuses(outsider, WORKLOAD, status=401))


async def refuses(client: Client, kind: Kind, *, status: int, namespace: str | None = None) -> bool:
    try:
        await client.list(kind, namespace)
    except ApiError as error:
        return error.status == status
    return False


async def test_the_rights_are_the_least(desk: Desk) -> None:
    await desk.register()

    async with desk.as_manager(await desk.token()) as manager:
        assert await manager.list(WORKLOAD) is not None
        assert await refuses(manager, SECRET, status=403, namespace=objects.KUEUE_NAMESPACE)
        assert await refuses(manager, Kind("v1", "Pod"), status=403)
        with pytest.raises(ApiError, match="forbidden"):
            await manager.create(objects.namespace(unique("escape")))


async def test_a_check_names_the_queue_that_is_missing(desk: Desk) -> None:
    await desk.register("--config-name", desk.name)
    await desk.manager.apply(objects.admission_check(desk.name, config=desk.name))
    cluster_queue = objects.cluster_queue(desk.name, checks=[desk.name])
    await queues.setup_queue(desk.manager, namespace=desk.name, queue="main", cluster_queue=cluster_queue)

    said = await desk.run("clusters", "check", desk.name, code=1)

    assert f"LocalQueue {desk.name}/main" in said
    assert f"create namespace {desk.name}" in said


async def test_a_check_tells_what_changes_amounts_on_the_worker(desk: Desk) -> None:
    """Read with the rights that `register` gives, of LimitRanges as a real API server completes them."""
    await lead_there(desk)
    await desk.register("--config-name", desk.name)
    value = {"apiVersion": PRIORITY_CLASS.api_version, "kind": PRIORITY_CLASS.kind, "metadata": {"name": desk.name}}
    handler = {"handler": "runc", "overhead": {"podFixed": {"cpu": "250m"}}}
    runtime = {"apiVersion": RUNTIME_CLASS.api_version, "kind": RUNTIME_CLASS.kind, "metadata": {"name": desk.name}}
    try:
        await desk.manager.create({**value, "value": 100})
        await desk.worker.create({**value, "value": 50})
        await desk.manager.create({**runtime, **handler})
        for client, most in ((desk.manager, "4000m"), (desk.worker, "2")):
            limits = [{"type": "Container", "max": {"cpu": most}}, {"type": "Pod", "max": {"cpu": "40"}}]
            meta = {"name": "limits", "namespace": desk.name}
            await client.create(
                {"apiVersion": "v1", "kind": "LimitRange", "metadata": meta, "spec": {"limits": limits}}
            )

        found = json.loads((await desk.run("clusters", "check", desk.name, "-o", "json")).partition("\nchecking")[0])
    finally:
        for client in (desk.manager, desk.worker):
            await client.delete(PRIORITY_CLASS, desk.name)
        await desk.manager.delete(RUNTIME_CLASS, desk.name)

    told = [each["difference"] for each in found["items"] if "difference" in each]
    ours = [each for each in told if desk.name in each["subject"]]
    assert "not compared" not in {each["subject"] for each in found["items"]}
    limits_there = f"LimitRange {desk.name}/limits"
    assert [(each["subject"], each["field"], each["manager"], each["worker"]) for each in ours] == [
        *((limits_there, f"{field}.cpu of type Container", "4", "2") for field in ("defaultRequest", "default", "max")),
        (f"RuntimeClass {desk.name}", "object", "there", "missing"),
        (f"PriorityClass {desk.name}", "value", "100", "50"),
    ]


async def test_a_stranger_of_the_same_name_is_not_touched(desk: Desk) -> None:
    theirs = {
        "apiVersion": CLUSTER_ROLE.api_version,
        "kind": CLUSTER_ROLE.kind,
        "metadata": {"name": desk.account},
        "rules": [],
    }
    await desk.worker.create(theirs)

    said = await desk.register(code=1)

    assert f"error: ClusterRole {desk.account} on {desk.name}: metadata.labels" in said
    assert (await desk.worker.get(CLUSTER_ROLE, desk.account)).get("rules") in (None, [])
    assert await desk.manager.find(MULTIKUEUE_CLUSTER, desk.name) is None


async def runs(desk: Desk) -> bool:
    """Whether the job `train` runs on the worker, and the manager knows. A job starts before its win is recorded."""
    job = await desk.worker.get(JOB, "train", desk.name)
    (workload,) = await desk.manager.list(WORKLOAD, desk.name)
    admitted = objects.condition(workload, "Admitted")
    return job["spec"]["suspend"] is False and admitted is not None and admitted["status"] == "True"


async def is_over(desk: Desk) -> bool:
    """Whether the manager knows that the job `train` is finished, and has removed what was on the worker."""
    (workload,) = await desk.manager.list(WORKLOAD, desk.name)
    left = [kind.kind for kind in (JOB, WORKLOAD) if await desk.worker.list(kind, desk.name)]
    return objects.condition(workload, "Finished") is not None and not left


@needs_testbed("the test plays its pods, and no Job controller may")
async def test_the_pods_of_a_job_are_found_and_their_logs_are_asked_for(desk: Desk, manager: Manager) -> None:
    """Nobody runs pods here, so what the log says is the API server's own refusal: the way there is the real one."""
    await lead_there(desk)
    await desk.register("--config-name", desk.name)
    await desk.manager.create(objects.job("train", desk.name, managed_by=objects.MULTIKUEUE_CONTROLLER))
    named = ("job/train", "-n", desk.name)

    await eventually(lambda: runs(desk), timeout=60)
    job = await desk.worker.get(JOB, "train", desk.name)
    for pod in ("train-0", "train-1"):
        await desk.worker.create(pod_of(job, pod))
    refused = await desk.run("workloads", "pods", *named, code=1)
    assert f"{desk.name} refuses (Secret kueue-system/multikueue-{desk.name}): pods is forbidden" in refused
    assert "--view-pods" in refused

    own = await desk.run("workloads", "pods", *named, "--worker-context", "worker1")
    await desk.register("--config-name", desk.name, "--view-pods")
    granted = await desk.run("workloads", "pods", *named)
    for shown in (own, granted):
        rows = [line.split() for line in shown.splitlines()[1:]]
        assert [(row[0], row[1], row[-1]) for row in rows] == [(f"train-{n}", "0/1", desk.name) for n in (0, 1)]
    said = await desk.run("workloads", "logs", *named, "--tail", "5", code=0 if SIMULATED else 1)
    assert said.count("pod train-") == 2, said
    assert SIMULATED or "none of the logs" in said
    screen = await desk.run("workloads", "show", *named)
    assert f"Starting on {desk.name}: none of its 2 pods is ready" in screen
    assert "job/train" in screen
    assert "train-0" in screen
    for client, about in ((desk.worker, job), (desk.manager, await desk.manager.get(JOB, "train", desk.name))):
        await client.create(event_of(about))
    told = await desk.run("workloads", "events", *named)
    (at_home, there) = [line for line in told.splitlines() if "Spoken" in line]
    assert ("(manager)" in at_home, desk.name in there) == (True, True)

    await complete_job(desk.worker, desk.name, "train")
    await eventually(lambda: is_over(desk), timeout=60)
    followed = await desk.run("workloads", "logs", *named, "-f", code=1)
    assert "Finished on" in followed
    await desk.run("clusters", "remove", desk.name, "--force")


@needs_nodes
async def test_the_logs_of_the_readmes_job_are_followed_to_its_end(desk: Desk, manager: Manager) -> None:
    if not await desk.worker.list(NODE):
        raise Unsupported("nodes that run pods")
    await lead_there(desk)
    await desk.register("--config-name", desk.name, "--view-pods")
    job = yaml.safe_load((ROOT / "kind-configs" / "queues" / "job.yaml").read_text())
    job["metadata"] = {"name": "hello", "namespace": desk.name, "labels": {objects.QUEUE_LABEL: "main"}}
    job["spec"] |= {"suspend": True, "managedBy": objects.MULTIKUEUE_CONTROLLER}
    await desk.manager.create(job)
    named = ("job/hello", "-n", desk.name)

    await eventually(lambda: has_started(desk, "hello"), timeout=60)
    followed = await desk.run("workloads", "logs", *named, "-f")

    assert "hello" in followed.splitlines()
    await eventually(lambda: is_over(desk), timeout=60)
    await desk.run("clusters", "remove", desk.name)


async def has_started(desk: Desk, name: str) -> bool:
    job = await desk.worker.find(JOB, name, desk.name)
    return job is not None and bool(job.get("status", {}).get("ready"))


def pod_of(job: dict[str, Any], name: str) -> dict[str, Any]:
    """A pod as the job's controller makes it."""
    meta = job["metadata"]
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": meta["name"], "uid": meta["uid"], "controller": True}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": meta["namespace"], "ownerReferences": [owner]},
        "spec": {"containers": [{"name": "main", "image": "x"}]},
    }


def event_of(job: dict[str, Any]) -> dict[str, Any]:
    about = {key: job["metadata"][key] for key in ("name", "namespace", "uid")}
    at = {"firstTimestamp": "2026-01-01T12:00:00Z", "lastTimestamp": "2026-01-01T12:00:00Z"}
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": unique("event"), "namespace": about["namespace"]},
        "involvedObject": {"apiVersion": "batch/v1", "kind": "Job", **about},
        "reason": "Spoken",
        "message": "so it is",
        "type": "Normal",
        **at,
    }


async def test_a_job_runs_with_nothing_but_the_rights_of_a_registration(desk: Desk, manager: Manager) -> None:
    await lead_there(desk)
    await desk.register("--config-name", desk.name)

    async def is_connected() -> bool:
        rows = await desk.run("clusters", "list")
        return any(row.split()[:2] == [desk.name, "True"] for row in rows.splitlines())

    await eventually(is_connected, timeout=60, interval=0.5)
    await desk.manager.create(objects.job("train", desk.name, managed_by=objects.MULTIKUEUE_CONTROLLER))

    await eventually(lambda: runs(desk), timeout=60)
    story = await desk.run("workloads", "show", "train", "-n", desk.name)
    assert f" on {desk.name}" in story.splitlines()[0]
    refused = await desk.run("clusters", "remove", desk.name, code=1)
    assert f"{desk.name}/job-train-" in refused

    await complete_job(desk.worker, desk.name, "train")
    await eventually(lambda: is_over(desk), timeout=60)
    assert "Finished" in await desk.run("workloads", "list", "-n", desk.name)
    await desk.run("clusters", "remove", desk.name)


@dataclass(frozen=True)
class Fenced:
    """worker1 joined for the namespaces a and b, worker2 for all; jobs of a, b and c may go to both."""

    desk: Desk
    other: Client

    def named(self, part: str) -> str:
        return f"{self.desk.name}-{part}"

    async def submit(self, part: str) -> None:
        await self.desk.manager.create(objects.job("train", self.named(part), managed_by=objects.MULTIKUEUE_CONTROLLER))

    async def status(self, part: str) -> dict[str, Any]:
        """That of the workload; empty before there is one."""
        found = await self.desk.manager.list(WORKLOAD, self.named(part))
        return found[0].get("status", {}) if found else {}

    async def check_says(self, part: str, message: str) -> bool:
        checks = (await self.status(part)).get("admissionChecks") or []
        assert [check["message"] for check in checks] == [message]
        return True

    async def runs_on(self, part: str) -> str | None:
        """The cluster that has won, once its job runs."""
        winner: str | None = (await self.status(part)).get("clusterName")
        client = self.desk.worker if winner == self.desk.name else self.other
        job = await client.get(JOB, "train", self.named(part)) if winner else None
        return winner if job is not None and not job["spec"]["suspend"] else None

    async def is_over(self, part: str) -> bool:
        return objects.condition({"status": await self.status(part)}, "Finished") is not None


@pytest.fixture
async def fenced(bed: Testbed, desk: Desk, manager: Manager) -> AsyncIterator[Fenced]:
    plane, other, names = bed.planes["worker2"], f"{desk.name}-all", [f"{desk.name}-{part}" for part in "abc"]
    cluster_queue = objects.cluster_queue(desk.name, checks=[desk.name])
    await desk.manager.apply(objects.admission_check(desk.name, config=desk.name))
    for name in names:
        await queues.workers_setup([desk.plane, plane], namespace=name)
        await queues.setup_queue(desk.manager, namespace=name, queue="main", cluster_queue=cluster_queue)
    await desk.register("--run-in", names[0], "--run-in", names[1])
    await desk.manager.apply(objects.kubeconfig_secret(other, dump(plane.kubeconfig())))
    await desk.manager.apply(objects.multikueue_cluster(other, secret=other))
    await desk.manager.apply(objects.multikueue_config(desk.name, clusters=[desk.name, other]))
    async with plane.client() as client:
        yield Fenced(desk, client)
        await desk.manager.delete(MULTIKUEUE_CLUSTER, other)
        for name in names:
            for kind in (ROLE_BINDING, ROLE):
                await desk.worker.delete(kind, desk.account, name)


async def test_a_worker_of_two_namespaces_runs_their_jobs_and_no_others(fenced: Fenced, manager: Manager) -> None:
    desk, other = fenced.desk, fenced.named("all")
    cordon = {"metadata": {"annotations": {"multikueue.dev/cordon": "true"}}}
    await desk.manager.patch(MULTIKUEUE_CLUSTER, other, cordon)
    for part in "abc":
        await fenced.submit(part)
    for part in "ab":
        assert await eventually(lambda part=part: fenced.runs_on(part), timeout=60) == desk.name  # type: ignore[misc]
    said = (
        f"No worker can be nominated: {desk.name}: it does not offer namespace {fenced.named('c')}, {other}: cordoned"
    )
    await eventually(lambda: fenced.check_says("c", said), timeout=60)
    assert "it does not offer namespace" in await desk.run("workloads", "show", "train", "-n", fenced.named("c"))

    manager.kill()
    manager.start()
    await manager.ready()
    await desk.manager.patch(MULTIKUEUE_CLUSTER, other, {"metadata": {"annotations": {"multikueue.dev/cordon": None}}})
    assert await eventually(lambda: fenced.runs_on("c"), timeout=60) == other
    for part, client in (("a", desk.worker), ("b", desk.worker), ("c", fenced.other)):
        await complete_job(client, fenced.named(part), "train")
        await eventually(lambda part=part: fenced.is_over(part), timeout=60)  # type: ignore[misc]

    async with desk.as_manager(await desk.token()) as account:
        await eventually(lambda: _has_no_workloads(account, fenced.named("a")))
        for namespace in (fenced.named("c"), None):
            assert await refuses(account, WORKLOAD, status=403, namespace=namespace)
    shown = await desk.run("clusters", "show", desk.name)
    assert f"{fenced.named('a')}, {fenced.named('b')}" in shown
    checked = await desk.run("clusters", "check", desk.name)
    assert f"rights on jobs.batch in {fenced.named('b')}" in checked
    await desk.leave()
    for part in "ab":
        assert await desk.worker.find(ROLE, desk.account, fenced.named(part)) is None
        assert await desk.worker.find(ROLE_BINDING, desk.account, fenced.named(part)) is None


async def _has_no_workloads(client: Client, namespace: str) -> bool:
    return not await client.list(WORKLOAD, namespace)
