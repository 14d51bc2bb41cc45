"""The tutorials of the docs, one file: each command of a page is run, and says what the page says.

`make tutorials` rewrites the pages. People act with our command line alone; what happens around them (a pod fails, a
worker is lost) is played here.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Collection, Iterator, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from shutil import copytree

import anyio
import pytest
import yaml

from multikueue_simulator.serving.serve import merged
from testbed import objects, queues
from testbed.bed import MANAGER, Plan, Testbed
from testbed.client import ApiError, Client, Kind, eventually
from testbed.controllers import GARBAGE
from testbed.crds import CRD, definitions
from testbed.jobs import complete_job, fail_job, start_job
from testbed.kubeconfig import dump, kubeconfig
from testbed.kubelet import kubelet
from testbed.objects import (
    ADMISSION_CHECK,
    CLUSTER_QUEUE,
    JOB,
    LOCAL_QUEUE,
    MULTIKUEUE_CLUSTER,
    MULTIKUEUE_CONFIG,
    RESOURCE_FLAVOR,
    SECRET,
    WORKLOAD,
    Object,
)
from testbed.programs import DEFAULT_KUEUE, Release
from testbed.proxy import Link
from tests.project.files import ROOT
from tests.real.harness import Manager
from tests.real.skipping import needs_programs
from tests.real.test_cli import CLUSTER_ROLE, CLUSTER_ROLE_BINDING, SERVICE_ACCOUNT, pod_of
from tests.real.webhooking import SETTINGS, lead_to_us, visibility_settings, with_webhook
from tests.transcripts import Command, lost, replayed

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.real,
    pytest.mark.timeout(300),
    needs_programs("users ask the manager through the API server"),
]

DOCS = ROOT / "docs"
WRITE = "MULTIKUEUE_TEST_WRITES_TUTORIALS"
"""Set: the pages are written, not judged."""

NAMESPACE, QUEUE, FLAVOR, CHECK, USER = "team-a", "batch", "any", "everywhere", "alice"
WORKERS = ("worker-1", "worker-2", "worker-3")
POD = Kind("v1", "Pod")


@pytest.fixture(scope="module")
def bed() -> Iterator[Testbed]:
    """Clusters of its own: the pages show all queues there are, and other tests leave some."""
    bed = Testbed(Plan(workers=len(WORKERS), controllers={MANAGER: [GARBAGE]}))
    anyio.run(bed.open)
    yield bed
    anyio.run(bed.close)


@pytest.fixture(scope="module")
def manager_settings() -> dict[str, str]:
    patient = {"QUOTA__REQUEUE_FIRST": "1m"}  # what fits nowhere is looked at between two attempts
    return {**SETTINGS, **patient, **visibility_settings()}


@pytest.fixture(scope="module")
def manager(bed: Testbed, manager_settings: dict[str, str]) -> Iterator[Manager]:
    anyio.run(_serve_one_version, bed)
    anyio.run(lead_to_us, bed)
    yield from with_webhook(bed, manager_settings)


async def _serve_one_version(bed: Testbed) -> None:
    """The manager cluster has Kueue's definitions as kind-configs/crds makes them: v1beta2 alone."""
    async with bed.manager.client() as client:
        for definition in definitions("kueue"):
            versions = [each | {"served": each["name"] == "v1beta2"} for each in definition["spec"]["versions"]]
            assert any(each["served"] for each in versions)
            await client.patch(CRD, definition["metadata"]["name"], {"spec": {"versions": versions}})


@dataclass
class Stage:
    """Three workers, the shell of a person, and what happens around that person.

    Words between commands of a page name a method, with `-` for `_`, and its arguments.
    """

    bed: Testbed
    folder: Path
    manager: Client
    workers: Mapping[str, Client]
    links: Mapping[str, Link]
    nodes: Mapping[str, str]
    logs: dict[str, str]

    async def run(self, words: str) -> str:
        """The output of a command, errors included, with addresses of workers such as a page may show."""
        path = f"{self.folder}{os.pathsep}{os.environ['PATH']}"
        environment = {**os.environ, "PATH": path, "KUBECONFIG": str(self.folder / "kubeconfig")}
        done = await anyio.run_process(
            ["bash", "-c", words], cwd=self.folder / "tutorial", env=environment, stderr=subprocess.STDOUT, check=False
        )
        text = done.stdout.decode()
        for number, link in enumerate(self.links.values(), 1):
            text = text.replace(f"127.0.0.1:{link.port}", f"10.0.0.10{number}:6443")
            text = text.replace(f"'127.0.0.1', {link.port}", f"'10.0.0.10{number}', 6443")
        return text

    async def play(self, words: str) -> None:
        verb, *rest = words.split()
        await getattr(self, verb.replace("-", "_"))(*rest)

    async def workload(self, job: str) -> Object:
        """The Workload of a job; its status is empty before there is one."""
        found = await self.manager.list(WORKLOAD, NAMESPACE)
        named = [each for each in found if each["metadata"]["ownerReferences"][0]["name"] == job]
        return {"status": {}, **(named[0] if named else {})}

    async def has(self, job: str, condition: str) -> bool:
        found = objects.condition(await self.workload(job), condition)
        return found is not None and found["status"] == "True"

    async def _where(self, job: str) -> tuple[Client, str]:
        """The worker where a job runs, and its node."""
        name = (await self.workload(job))["status"]["clusterName"]
        return self.workers[name], self.nodes[name]

    async def admitted(self, job: str) -> None:
        await eventually(lambda: self.has(job, "Admitted"), timeout=40)

    async def runs(self, job: str) -> None:
        """The job runs on a worker, with a pod that writes its log."""
        await self.admitted(job)
        client, node = await self._where(job)
        pod = _pod(await start_job(client, NAMESPACE, job), node)
        await client.create(pod)
        self.logs[f"{job}-0"] = "epoch 1 loss 0.71\nepoch 2 loss 0.52\n"
        await client.patch_status(
            POD, f"{job}-0", _pod_status("Running", {"running": {"startedAt": _now()}}), NAMESPACE
        )
        await eventually(lambda: self._shows_active(job), timeout=40)

    async def _shows_active(self, job: str) -> bool:
        return bool((await self.manager.get(JOB, job, NAMESPACE))["status"].get("active"))

    async def fails(self, job: str) -> None:
        """The pod of a job that runs fails, and so does the job."""
        client, _ = await self._where(job)
        self.logs[f"{job}-0"] += "RuntimeError: CUDA out of memory\n"
        end = {"exitCode": 1, "reason": "Error", "startedAt": _now(), "finishedAt": _now()}
        await client.patch_status(POD, f"{job}-0", _pod_status("Failed", {"terminated": end}), NAMESPACE)
        await fail_job(client, NAMESPACE, job)
        await eventually(lambda: self.has(job, "Finished"), timeout=40)

    async def ends(self, job: str) -> None:
        """The job succeeds, and its copy goes."""
        client, _ = await self._where(job)
        await complete_job(client, NAMESPACE, job)
        await eventually(lambda: self.has(job, "Finished"), timeout=40)

    async def gone(self, job: str) -> None:
        """The job was deleted, and its Workload goes after it."""

        async def none_left() -> bool:
            return "metadata" not in await self.workload(job)

        await eventually(none_left, timeout=40)

    async def waits(self, job: str) -> None:
        """The job has been looked at, and has no quota."""

        async def looked_at() -> bool:
            found = objects.condition(await self.workload(job), "QuotaReserved")
            return found is not None and found["status"] == "False"

        await eventually(looked_at, timeout=40)

    async def connected(self, *workers: str) -> None:
        for name in workers:
            await eventually(lambda name=name: _is_active(self.manager, MULTIKUEUE_CLUSTER, name), timeout=40)  # type: ignore[misc]

    async def counted(self, waiting: str) -> None:
        """The status of the queue says that so many wait, and all else has been admitted."""

        async def counts() -> bool:
            status = (await self.manager.get(LOCAL_QUEUE, QUEUE, NAMESPACE)).get("status", {})
            all_in = status.get("admittedWorkloads") == status.get("reservingWorkloads")
            return bool(all_in and status.get("pendingWorkloads") == int(waiting))

        await eventually(counts, timeout=40)

    async def dies(self, worker: str) -> None:
        self.links[worker].refuse()

        async def is_lost() -> bool:
            return not await _is_active(self.manager, MULTIKUEUE_CLUSTER, worker)

        await eventually(is_lost, timeout=40)

    async def recovers(self, worker: str) -> None:
        self.links[worker].ok()
        await self.connected(worker)

    async def fits_nowhere(self, job: str) -> None:
        """The manager knows that no worker can hold the job, and waits with the next attempt."""

        async def known() -> bool:
            retried = "requeueState" in (await self.workload(job))["status"]
            return retried and await self.has(job, "multikueue.dev/FitsNoWorker")

        await eventually(known, timeout=40)


def _pod(job: Object, node: str) -> Object:
    """The pod of a Job as its controller makes it, on a node."""
    body = pod_of(job, f"{job['metadata']['name']}-0")
    return {**body, "spec": {**body["spec"], "nodeName": node}}


def _pod_status(phase: str, state: Object) -> Object:
    ready = phase == "Running"
    shown = {"name": "main", "image": "x", "imageID": "", "ready": ready, "restartCount": 0, "state": state}
    condition = {"type": "Ready", "status": str(ready), "lastTransitionTime": _now()}
    return {"phase": phase, "conditions": [condition], "containerStatuses": [shown]}


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


@pytest.fixture
async def stage(bed: Testbed, manager: Manager, tmp_path: Path) -> AsyncIterator[Stage]:
    """The clusters with nothing but the namespace; the person is to be given a kubeconfig."""
    await manager.ready()
    copytree(DOCS / "tutorial", tmp_path / "tutorial")
    for name, words in (("multikueue", f'exec {sys.executable} -m multikueue "$@"'), ("kubectl", _kubectl(bed))):
        (tmp_path / name).write_text(f"#!/bin/sh\n{words}\n")
        (tmp_path / name).chmod(0o755)
    logs: dict[str, str] = {}
    planes = dict(zip(WORKERS, bed.workers, strict=True))
    async with AsyncExitStack() as stack:
        clients = {name: await stack.enter_async_context(plane.client()) for name, plane in planes.items()}
        nodes = {name: await stack.enter_async_context(kubelet(plane, logs)) for name, plane in planes.items()}
        here = await stack.enter_async_context(bed.manager.client())
        links = {name: bed.link(plane) for name, plane in planes.items()}
        for client in (here, *clients.values()):
            await client.apply(objects.namespace(NAMESPACE))
        try:
            yield Stage(bed, tmp_path, here, clients, links, nodes, logs)
        except BaseException as error:
            error.add_note(f"the manager's log ends with:\n{manager.tail()}")
            raise
        finally:
            with anyio.CancelScope(shield=True):
                await _cleared(here, [*clients.values()])


def _kubectl(bed: Testbed) -> str:
    return f'exec {bed.programs.kubectl} "$@"'


async def _cleared(manager: Client, workers: Collection[Client]) -> None:
    """Take everything of the page away, for the tests that follow; first the jobs, which keep the queues."""
    for body in await manager.list(JOB, NAMESPACE):
        await manager.delete(JOB, body["metadata"]["name"], NAMESPACE)
    await eventually(lambda: _none_of(WORKLOAD, manager, *workers), timeout=40)
    for client in (manager, *workers):
        for name in (QUEUE, "bacth"):
            await client.delete(LOCAL_QUEUE, name, NAMESPACE)
        await client.delete(CLUSTER_QUEUE, QUEUE)
        await client.delete(RESOURCE_FLAVOR, FLAVOR)
        for body in await client.list(POD, NAMESPACE):
            path = f"/api/v1/namespaces/{NAMESPACE}/pods/{body['metadata']['name']}"
            await client.request("DELETE", path, body={"gracePeriodSeconds": 0})  # no kubelet ends it
        for kind in (CLUSTER_ROLE_BINDING, CLUSTER_ROLE):
            await client.delete(kind, "multikueue")
        await client.delete(SERVICE_ACCOUNT, "multikueue", objects.KUEUE_NAMESPACE)
        await eventually(lambda client=client: _has_no_queue(client), timeout=40)  # type: ignore[misc]
    for name in WORKERS:
        await manager.delete(MULTIKUEUE_CLUSTER, name)
        await manager.delete(SECRET, f"multikueue-{name}", objects.KUEUE_NAMESPACE)
    await manager.delete(ADMISSION_CHECK, CHECK)
    await manager.delete(MULTIKUEUE_CONFIG, CHECK)


async def _none_of(kind: Kind, *clients: Client) -> bool:
    return not any([await client.list(kind, NAMESPACE) for client in clients])


async def _has_no_queue(client: Client) -> bool:
    found = [await client.find(CLUSTER_QUEUE, QUEUE), await client.find(RESOURCE_FLAVOR, FLAVOR)]
    return found == [None, None]


async def judged(stage: Stage, page: str) -> None:
    """Run the page; with `WRITE` set, write it with the answers of now."""
    path = DOCS / page
    written, differences = await replayed(path.read_text(), stage.run, stage.play)
    differences = [each for each in differences if not _lacks_one_event(*each)]
    if os.environ.get(WRITE):
        path.write_text(written)
        return
    told = "\n".join(
        f"$ {command.words}\n--- the page\n{command.output}--- now\n{answer}" for command, answer in differences
    )
    assert not differences, f"{page} is not true any more; `make tutorials` rewrites it:\n{told}"


def _lacks_one_event(command: Command, answer: str) -> bool:
    """An Event is best effort: a Kueue drops one that its API server refuses at that moment."""
    lines = lost(answer, command.output)
    return len(lines) == 1 and re.match(r"AGE  worker-\d  Normal  ", lines[0]) is not None


# --- the user ----------------------------------------------------------------------------------------------------------


@pytest.fixture
async def fleet(stage: Stage) -> Stage:
    """A queue over three workers, of which worker-2 is the largest, and a kubeconfig of a batch user of the namespace."""
    bed = stage.bed
    for name, client in stage.workers.items():
        quota = {"cpu": "8" if name == "worker-2" else "4", "memory": "8Gi"}
        body = objects.cluster_queue(QUEUE, flavor=FLAVOR, quota=quota)
        await queues.setup_queue(client, namespace=NAMESPACE, queue=QUEUE, cluster_queue=body)
        config = dict(zip(WORKERS, bed.workers, strict=True))[name].kubeconfig(server=stage.links[name].url)
        await stage.manager.apply(objects.kubeconfig_secret(name, dump(config)))
        await stage.manager.apply(objects.multikueue_cluster(name, secret=name))
    await stage.manager.apply(objects.multikueue_config(CHECK, clusters=WORKERS))
    await stage.manager.apply(objects.admission_check(CHECK, config=CHECK))
    body = objects.cluster_queue(QUEUE, flavor=FLAVOR, quota={"cpu": "16", "memory": "24Gi"}, checks=[CHECK])
    await queues.setup_queue(stage.manager, namespace=NAMESPACE, queue=QUEUE, cluster_queue=body)
    token = await bed.manager.service_account_token(USER, namespace=NAMESPACE)
    await _bind(stage.manager)
    config = bed.manager.kubeconfig(token=token)
    config["contexts"][0]["context"]["namespace"] = NAMESPACE
    (stage.folder / "kubeconfig").write_bytes(dump(config))
    await stage.connected(*WORKERS)
    for client in (stage.manager, *stage.workers.values()):
        await eventually(lambda client=client: _is_active(client, CLUSTER_QUEUE, QUEUE), timeout=40)  # type: ignore[misc]
    async with Client(bed.manager.url, ca=bed.manager.ca, token=token) as user:
        await eventually(lambda: _is_served(user), timeout=40)
    return stage


async def _bind(manager: Client) -> None:
    """The role `multikueue-batch-user` in the namespace. Kubernetes makes it of its parts (`test_people`), here the test."""
    parts = yaml.safe_load_all((ROOT / "deploy/components/users/rights.yaml").read_text())
    mine = [part for part in parts if "rbac.kueue.x-k8s.io/batch-user" in part["metadata"].get("labels", ())]
    group = "rbac.authorization.k8s.io"
    role = {"apiGroup": group, "kind": "ClusterRole", "name": "multikueue-batch-user"}
    version = {"apiVersion": f"{group}/v1"}
    rules = [rule for part in mine for rule in part["rules"]]
    await manager.apply({**version, "kind": role["kind"], "metadata": {"name": role["name"]}, "rules": rules})
    subject = {"kind": "ServiceAccount", "name": USER, "namespace": NAMESPACE}
    meta = {"name": role["name"], "namespace": NAMESPACE}
    binding = {**version, "kind": "RoleBinding", "metadata": meta, "roleRef": role, "subjects": [subject]}
    await manager.apply(binding)


async def _is_active(client: Client, kind: Kind, name: str) -> bool:
    found = objects.condition(await client.get(kind, name), "Active")
    return found is not None and found["status"] == "True"


async def _is_served(user: Client) -> bool:
    """Whether the API server knows the user's rights, and passes their questions on to the manager."""
    path = f"/apis/visibility.multikueue.dev/v1alpha1/namespaces/{NAMESPACE}/workloads/none/explanation"
    try:
        await user.request("GET", path)
    except ApiError as error:
        return error.status == 404 and "none" in error.message
    return False


async def test_a_user_with_one_namespace_gets_from_a_job_to_the_logs_of_its_end(fleet: Stage) -> None:
    await judged(fleet, "tutorial-user.md")


# --- the administrator -------------------------------------------------------------------------------------------------


@pytest.fixture
async def office(stage: Stage) -> Stage:
    """A kubeconfig of an administrator of all clusters, with a context for each."""
    home = stage.bed.manager
    configs = [kubeconfig(home.url, ca=home.ca, token=home.tokens["admin"], name="manager")]
    for name, plane in zip(WORKERS, stage.bed.workers, strict=True):
        configs.append(kubeconfig(stage.links[name].url, ca=plane.ca, token=plane.tokens["admin"], name=name))
    (stage.folder / "kubeconfig").write_bytes(dump(merged(configs)))
    return stage


@pytest.mark.skipif(Release.chosen().kueue != DEFAULT_KUEUE, reason=f"the page shows Kueue {DEFAULT_KUEUE}")
async def test_an_administrator_brings_up_a_fleet_and_finds_what_is_wrong_with_it(office: Stage) -> None:
    await judged(office, "tutorial-admin.md")
