"""The chart's Deployment on a testbed, which has no nodes: its Pods are played by processes of installed wheels.

Deployment and ReplicaSet controllers are Kubernetes' own, so Pods come and go in the order of a real rollout, with the
arguments, settings and rights of the chart. Not played are the image, and the webhook behind its Service.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
import anyio
from anyio.abc import TaskGroup
from uv import find_uv_bin

from release.chart import archive
from release.source import exported
from testbed.bed import Testbed
from testbed.client import ApiError, Client, Kind, eventually
from testbed.kubeconfig import dump
from testbed.objects import Object
from testbed.ports import free_ports
from tests.project.files import ROOT
from tests.real.deployment import ACCOUNT, NAMESPACE

__all__ = ["DEPLOYMENT", "POD", "Node", "Version", "built", "node", "previous", "rolled_out", "today"]

POD, CONFIG_MAP, DEPLOYMENT = Kind("v1", "Pod"), Kind("v1", "ConfigMap"), Kind("apps/v1", "Deployment")
CONTROLLERS = ("deployment-controller", "replicaset-controller")
MANAGER = "multikueue-manager"
BEFORE_RELEASES = "14d65ce94ce5ddbc687f1f20333f3be1a5f9c95c"
BUILD = ("build", "--wheel", "--offline", "--no-build-isolation", "--package", "multikueue")


@dataclass(frozen=True, slots=True)
class Version:
    """The wheel of a commit, installed in a folder of its own, and the chart of that commit."""

    commit: str
    folder: Path
    chart: Path


def git(*words: str) -> str:
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip()


def previous() -> str:
    """The last release; before the first one a commit that all tests passed on; without history the newest commit."""
    known = git("rev-parse", "--verify", "--quiet", f"{BEFORE_RELEASES}^{{commit}}")
    return git("describe", "--tags", "--abbrev=0") or known or git("rev-parse", "HEAD")


def today() -> str:
    """What is in the tree, committed or not."""
    return git("stash", "create") or git("rev-parse", "HEAD")


def built(revision: str, folder: Path) -> Version:
    source, site, chart = exported(ROOT, folder / "source", revision), folder / "site", folder / "multikueue.tgz"
    uv = [find_uv_bin(), "--quiet"]
    environment = {**os.environ, "VIRTUAL_ENV": sys.prefix}
    build = [*uv, *BUILD, "--python", sys.executable, "--out-dir", str(folder / "wheels")]
    subprocess.run(build, cwd=source.folder, env=environment, check=True, capture_output=True)
    (wheel,) = (folder / "wheels").glob("*.whl")
    install = [*uv, "pip", "install", "--offline", "--no-deps", "--python", sys.executable, "--target", str(site)]
    subprocess.run([*install, str(wheel)], check=True, capture_output=True)
    chart.write_bytes(archive(source.folder / "deploy/chart", epoch=source.epoch))
    return Version(source.commit, site, chart)


@dataclass(slots=True)
class Node:
    """A kubelet for the manager's Pods. `versions` are those of the images, by tag; `ran` are the tags in order of start."""

    bed: Testbed
    client: Client
    folder: Path
    versions: Mapping[str, Version]
    ran: list[str] = field(default_factory=list)
    codes: list[int] = field(default_factory=list)
    _deleted: dict[str, anyio.Event] = field(default_factory=dict)

    async def run(self, tasks: TaskGroup) -> None:
        async for event, body in self.client.watch(POD, NAMESPACE):
            uid = body["metadata"]["uid"]
            if uid not in self._deleted and event != "DELETED":
                self._deleted[uid] = anyio.Event()
                tasks.start_soon(self._live, body, self._deleted[uid])
            if uid in self._deleted and (event == "DELETED" or body["metadata"].get("deletionTimestamp")):
                self._deleted[uid].set()

    async def _live(self, pod: Object, deleted: anyio.Event) -> None:
        name = pod["metadata"]["name"]
        path = f"/api/v1/namespaces/{NAMESPACE}/pods/{name}"
        target = {"apiVersion": "v1", "kind": "Node", "name": "node"}
        binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target}
        await self.client.request("POST", f"{path}/binding", body=binding)
        process, probes = await self._start(pod)
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._report, name, probes)
                await deleted.wait()
                tasks.cancel_scope.cancel()
            process.send_signal(signal.SIGTERM)
            self.codes.append(await anyio.to_thread.run_sync(process.wait, 30))
            with suppress(ApiError):
                await self.client.request("DELETE", path, body={"gracePeriodSeconds": 0})
        finally:
            process.kill()
            process.wait()

    async def _start(self, pod: Object) -> tuple[subprocess.Popen[bytes], int]:
        """The process of a Pod's container, and the port of its probes, which all have on a node of one address."""
        (container,) = pod["spec"]["containers"]
        tag, ports = container["image"].rpartition(":")[2], free_ports(2)
        here = self.folder / pod["metadata"]["name"]
        here.mkdir()
        found = await self.client.get(CONFIG_MAP, MANAGER, NAMESPACE)
        (here / "multikueue.yaml").write_text(found["data"]["multikueue.yaml"])
        (here / "kubeconfig").write_bytes(dump(self.bed.manager.kubeconfig(token=await self._token())))
        words = [word.replace("/etc/multikueue", str(here)) for word in container["args"]]
        variables = {each["name"]: each["value"] for each in container.get("env", ())}
        variables |= {
            f"MULTIKUEUE_{name}__PORT": str(port) for name, port in zip(("PROBES", "METRICS"), ports, strict=True)
        }
        command = [sys.executable, "-P", "-m", "multikueue", *words, "--kubeconfig", str(here / "kubeconfig")]
        self.ran.append(tag)
        return _spawn(command, variables | {"PYTHONPATH": str(self.versions[tag].folder)}, here / "log"), ports[0]

    async def _token(self) -> str:
        path = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{ACCOUNT}/token"
        answer = await self.client.request("POST", path, body={"spec": {"expirationSeconds": 3600}})
        return str(json.loads(answer)["status"]["token"])

    async def _report(self, name: str, port: int) -> None:
        """Tell that the Pod is ready once its probe says so."""
        async with aiohttp.ClientSession() as session:
            while True:
                with suppress(aiohttp.ClientError):
                    async with session.get(f"http://127.0.0.1:{port}/readyz") as answer:
                        if answer.status == 200:
                            break
                await anyio.sleep(0.1)
        ready = {"type": "Ready", "status": "True"}
        await self.client.patch_status(POD, name, {"phase": "Running", "conditions": [ready]}, NAMESPACE)

    def complaints(self) -> list[str]:
        """What the processes logged as errors."""
        lines = (line for log in sorted(self.folder.glob("*/log")) for line in log.read_text().splitlines())
        return [line for line in lines if '"level":"error"' in line.replace(" ", "") or line.startswith("Traceback")]


def _spawn(command: list[str], variables: Mapping[str, str], log: Path) -> subprocess.Popen[bytes]:
    with log.open("wb") as file:
        return subprocess.Popen(command, env={**os.environ, **variables}, stdout=file, stderr=file)


@asynccontextmanager
async def node(bed: Testbed, folder: Path, versions: Mapping[str, Version]) -> AsyncIterator[Node]:
    """Rollouts and Pods work on the manager cluster as long as the block lasts."""
    controllers = await bed.start_controllers(bed.manager, CONTROLLERS)
    try:
        async with bed.manager.client() as client, anyio.create_task_group() as tasks:
            one = Node(bed, client, folder, versions)
            tasks.start_soon(one.run, tasks)
            try:
                yield one
            finally:
                tasks.cancel_scope.cancel()
    finally:
        with anyio.CancelScope(shield=True):
            await controllers.kill()


async def rolled_out(client: Client, *, tag: str, timeout: float = 60) -> None:
    """Waits until all replicas are ready and of that image, as `kubectl rollout status` does."""

    async def done() -> bool:
        body = await client.get(DEPLOYMENT, MANAGER, NAMESPACE)
        (container,) = body["spec"]["template"]["spec"]["containers"]
        status, wanted = body.get("status", {}), body["spec"]["replicas"]
        assert container["image"].endswith(f":{tag}")
        assert status.get("observedGeneration") == body["metadata"]["generation"]
        counts = [status.get(name, 0) for name in ("replicas", "updatedReplicas", "readyReplicas")]
        assert counts == [wanted] * 3, f"replicas, updated, ready: {counts}"
        return True

    await eventually(done, timeout=timeout)
