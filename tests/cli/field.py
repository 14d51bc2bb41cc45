"""A manager and workers of the sandbox over HTTPS, and the program in a thread beside the test that changes them."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import anyio.to_thread
import msgspec
import pytest
import yaml
from anyio.abc import TaskGroup

from multikueue.api.kinds import MULTIKUEUE_CLUSTERS, SECRETS
from multikueue.api.kueue.workload import PREBUILT_LABEL, Workload
from multikueue.cli import main
from multikueue_simulator.serving.serve import MANAGER, Plan, Sandbox
from testbed.client import ApiError, Client, eventually
from testbed.objects import JOB, WORKLOAD
from tests.builders import WorkloadBuilder, multikueue_cluster, secret, workload
from tests.cli.conftest import Result

Tree = dict[str, Any]


RUNS = {"running": {"startedAt": "2026-01-01T12:00:00Z"}}
POD: Tree = {"containers": [{"name": "main", "image": "x"}]}
MERGE = "application/merge-patch+json"


def head(api_version: str, kind: str) -> Tree:
    return {"apiVersion": api_version, "kind": kind}


JOB_BODY = {
    **head(JOB.api_version, JOB.kind),
    "spec": {"suspend": True, "template": {"spec": {**POD, "restartPolicy": "Never"}}},
}


class Program:
    """The program at work. Use it once."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys, self._out, self._err = capsys, "", ""
        self._code: int | None = None

    def run(self, *words: str) -> None:
        with pytest.raises(SystemExit) as end:
            main(words)
        assert isinstance(end.value.code, int)
        self._code = end.value.code

    @property
    def out(self) -> str:
        return self._read()[0]

    @property
    def err(self) -> str:
        return self._read()[1]

    def _read(self) -> tuple[str, str]:
        captured = self._capsys.readouterr()
        self._out, self._err = self._out + captured.out, self._err + captured.err
        return self._out, self._err

    async def said(self, *texts: str) -> None:
        """Waits until all of them were printed, wherever."""

        async def yet() -> bool:
            everything = "\n".join(self._read())
            assert all(text in everything for text in texts), everything
            return True

        await eventually(yet)

    async def result(self) -> Result:
        async def ended() -> bool:
            return self._code is not None

        await eventually(ended)
        out, err = self._read()
        assert "Traceback" not in err
        assert self._code is not None
        return Result(self._code, out, err)


class Field:
    """What a test does: changes the clusters, and has the program look at them."""

    def __init__(
        self, clients: dict[str, Client], kubeconfig: Path, tasks: TaskGroup, capsys: pytest.CaptureFixture[str]
    ) -> None:
        self.clients, self.kubeconfig, self._tasks, self._capsys = clients, kubeconfig, tasks, capsys

    @property
    def manager(self) -> Client:
        return self.clients[MANAGER]

    def start(self, *words: str) -> Program:
        program = Program(self._capsys)
        self._tasks.start_soon(partial(anyio.to_thread.run_sync, program.run, *words, abandon_on_cancel=True))
        return program

    async def run(self, *words: str) -> Result:
        return await self.start(*words).result()

    async def submit(self, name: str = "train", *, job: Tree | None = None) -> Tree:
        """A job on the manager, a batch Job if nothing else is said, and its workload `job-NAME`."""
        meta = {"name": name, "namespace": "default"}
        return await self.adopt(await self.manager.create({**(job or JOB_BODY), "metadata": meta}))

    async def adopt(self, made: Tree) -> Tree:
        """The workload `job-NAME` of a job on the manager."""
        name = made["metadata"]["name"]
        own = {"api_version": made["apiVersion"], "kind": made["kind"], "name": name, "uid": made["metadata"]["uid"]}
        return await self.manager.create(_tree(workload(f"job-{name}").queue("main").owned_by(**own).build()))

    async def becomes(self, name: str, change: Any) -> None:
        """The status of the workload becomes what the builder makes of it."""
        built: WorkloadBuilder = change(workload(f"job-{name}").queue("main").reserved("cq").admitted())
        status: Tree = {"nominatedClusterNames": None} | _tree(built.build())["status"]
        await self.manager.patch_status(WORKLOAD, f"job-{name}", status, "default")

    async def runs_on(self, name: str, cluster: str) -> None:
        await self.becomes(name, lambda made: made.cluster_name(cluster))

    async def leaves(self, name: str) -> None:
        """The workload is on no cluster any more."""
        status: Tree = {"clusterName": None, "admission": None, "conditions": []}
        await self.manager.patch_status(WORKLOAD, f"job-{name}", status, "default")

    async def copy(self, cluster: str, name: str = "train", *, job: Tree | None = None) -> Tree:
        """The job on a worker, with the mark of its workload."""
        meta = {"name": name, "namespace": "default", "labels": {PREBUILT_LABEL: f"job-{name}"}}
        return await self.clients[cluster].create({**(job or JOB_BODY), "metadata": meta})

    async def pod(
        self, cluster: str, name: str, owner: Tree | None, *, spec: Tree | None = None, state: Tree = RUNS, **meta: Any
    ) -> Tree:
        """A pod there whose containers are in that state: they run."""
        owners = {"ownerReferences": [reference(owner)]} if owner else {}
        made = {**head("v1", "Pod"), "metadata": {"name": name, "namespace": "default", **owners, **meta}}
        created = await self.clients[cluster].create({**made, "spec": spec or POD})
        blank = {"image": "x", "imageID": "", "ready": True, "restartCount": 0, "state": state}
        statuses = [{"name": each["name"], **blank} for each in (spec or POD)["containers"]]
        running = {"phase": "Running", "podIP": "10.0.0.1", "containerStatuses": statuses}
        await self.clients[cluster].request(
            "PATCH", f"/api/v1/namespaces/default/pods/{name}/status", body={"status": running}, content_type=MERGE
        )
        return created

    async def define(self, kind: str) -> None:
        """Bring a kind of objects, `KIND.example.com`, to all clusters."""
        free = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": free}}}
        version = {"name": "v1", "served": True, "storage": True, "schema": schema}
        plural = f"{kind.lower()}s"
        names = {"plural": plural, "kind": kind, "singular": kind.lower(), "listKind": f"{kind}List"}
        spec = {"group": "example.com", "names": names, "scope": "Namespaced", "versions": [version]}
        meta = {"name": f"{plural}.example.com"}
        for client in self.clients.values():
            await client.create(
                {**head("apiextensions.k8s.io/v1", "CustomResourceDefinition"), "metadata": meta, "spec": spec}
            )
            await eventually(lambda client=client: _is_served(client, plural))  # type: ignore[misc]

    async def tell(self, cluster: str, about: Tree, reason: str, at: str) -> None:
        meta = about["metadata"]
        named = {key: about[key] for key in ("apiVersion", "kind")}
        named |= {key: meta[key] for key in ("name", "namespace", "uid")}
        event = {**head("v1", "Event"), "metadata": {"name": f"e-{reason.lower()}", "namespace": "default"}}
        event |= {"involvedObject": named, "type": "Normal", "reason": reason, "message": "so it is"}
        await self.clients[cluster].create(event | {"lastTimestamp": at, "firstTimestamp": at})


def reference(owner: Tree) -> Tree:
    meta = owner["metadata"]
    return {**head(owner["apiVersion"], owner["kind"]), "name": meta["name"], "uid": meta["uid"], "controller": True}


def _tree(value: Workload) -> Tree:
    tree: Tree = json.loads(msgspec.json.encode(value))
    meta = {key: each for key, each in tree["metadata"].items() if key not in ("uid", "resourceVersion", "generation")}
    return {**head(WORKLOAD.api_version, "Workload"), **tree, "metadata": meta}


async def _is_served(client: Client, plural: str) -> bool:
    try:
        await client.request("GET", f"/apis/example.com/v1/{plural}")
    except ApiError:
        return False
    return True


@asynccontextmanager
async def a_field(
    folder: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    *,
    contexts: bool = True,
    registered: str = "admin",
) -> AsyncIterator[Field]:
    """A manager that knows worker1 and worker2 by their Secrets, as that user; with `contexts` the user's own kubeconfig
    has them too, as administrator."""
    monkeypatch.setattr("multikueue.cli.workload.session.POLL_INTERVAL", timedelta(milliseconds=50))
    async with AsyncExitStack() as stack:
        plan = Plan(workers=2, rbac=True)
        sandbox, clients = await stack.enter_async_context(joined(plan, folder, user=registered))
        known = {name: yaml.safe_load(served.kubeconfig().read_text()) for name, served in sandbox.items()}
        kubeconfig = folder / "kubeconfig"
        kubeconfig.write_text(yaml.safe_dump(as_one(known if contexts else {MANAGER: known[MANAGER]})))
        monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
        tasks = await stack.enter_async_context(anyio.create_task_group())
        yield Field(clients, kubeconfig, tasks, capsys)
        tasks.cancel_scope.cancel()


@asynccontextmanager
async def joined(plan: Plan, folder: Path, *, user: str = "admin") -> AsyncIterator[tuple[Sandbox, dict[str, Client]]]:
    """The clusters of a plan, an administrator's client of each, and its two workers registered as that user."""
    async with AsyncExitStack() as stack:
        sandbox = await stack.enter_async_context(Sandbox(plan, folder=folder))
        clients = {}
        for name, served in sandbox.items():
            client = Client(served.front_end.url, ca=served.front_end.ca, token=served.cluster.users.token("admin"))
            clients[name] = await stack.enter_async_context(client)
        await register(clients[MANAGER], {name: each.kubeconfig(user).read_bytes() for name, each in sandbox.items()})
        yield sandbox, clients


async def register(manager: Client, kubeconfigs: dict[str, bytes]) -> None:
    await manager.create({**head("v1", "Namespace"), "metadata": {"name": "kueue-system"}})
    for name in ("worker1", "worker2"):
        held = secret(f"multikueue-{name}").kubeconfig(kubeconfigs[name]).build()
        cluster = multikueue_cluster(name).secret(f"multikueue-{name}").build()
        for kind, value in ((SECRETS, held), (MULTIKUEUE_CLUSTERS, cluster)):
            tree = json.loads(msgspec.json.encode(value))
            meta = {key: tree["metadata"][key] for key in ("name", "namespace") if key in tree["metadata"]}
            await manager.create({**head(kind.api_version, kind.kind), **tree, "metadata": meta})


def as_one(configs: dict[str, Tree]) -> Tree:
    """One kubeconfig of several, whose contexts are called like the clusters."""
    merged: Tree = {**head("v1", "Config"), "current-context": MANAGER, "clusters": [], "users": [], "contexts": []}
    for name, config in configs.items():
        merged["clusters"].append({"name": name, "cluster": config["clusters"][0]["cluster"]})
        merged["users"].append({"name": name, "user": config["users"][0]["user"]})
        merged["contexts"].append({"name": name, "context": {"cluster": name, "user": name}})
    return merged
