"""A user with rights in one namespace asks why, on simulated clusters with a manager: made by ordinary means, each situation
gets its answer, which is that of an administrator."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import anyio
import pytest
import yaml
from structlog.testing import capture_logs

from multikueue.kube.auth.credentials import from_kubeconfig
from multikueue.manager.process import manage
from multikueue.settings import InForce, Settings, VisibilityApi, Webhook
from multikueue_simulator.serving.serve import MANAGER, USERS, Plan, Sandbox
from testbed import objects
from testbed.client import Client, Kind, eventually
from testbed.ports import free_port
from tests.cli.field import Field, register

pytestmark = pytest.mark.anyio

Tree = dict[str, Any]

ROLES = Path(__file__).parents[2] / "deploy" / "components" / "users" / "rights.yaml"
TEAM, USER = "team-a", "alice"
RBAC = "rbac.authorization.k8s.io"
BINDING, POD = Kind(f"{RBAC}/v1", "RoleBinding"), Kind("v1", "Pod")


@dataclass(frozen=True)
class Situation:
    """A job as a user submits it. `repaired`: the same job as the repair has it; None where there is none to carry out."""

    how: str
    state: str
    code: str
    job: dict[str, Any]
    repaired: dict[str, Any] | None = None
    is_held: bool = False


def asks(cpu: str = "1", **more: Any) -> dict[str, Any]:
    return {"queue": "mine", "requests": {"cpu": cpu}, "suspend": False, **more}


SITUATIONS = (
    Situation("no queue label", "Pending", "NoQueueLabel", asks(queue=None), asks()),
    Situation("a misspelt queue", "Pending", "QueueNotFound", asks(queue="min"), asks()),
    Situation("an unknown priority class", "Pending", "PriorityClassNotFound", asks(priority_class="gone"), asks()),
    Situation("more than the ClusterQueue has", "Pending", "MoreThanQueueHas", asks("25"), asks()),
    Situation("a resource that no flavor has", "Pending", "NoFlavorHasResource", asks(requests={"gpu.example/x": "1"})),
    Situation("more than any worker has", "Pending", "NoWorkerCanHold", asks("18"), asks()),
    Situation("held by an administrator", "Held", "Held", asks(), is_held=True),
)


@dataclass
class Stage:
    """The clusters, and what the two of them say."""

    sandbox: Sandbox
    clients: dict[str, Client]
    people: Field
    folder: Path

    async def submit(self, name: str, job: dict[str, Any]) -> None:
        await self.clients[MANAGER].create(objects.job(name, TEAM, **job))

    async def says(self, who: str, *words: str) -> str:
        ended = await self.people.run(*words, "--kubeconfig", str(self.folder / MANAGER / f"{who}.kubeconfig"))
        assert ended.code == 0, ended.err
        return ended.out

    async def why(self, who: str, name: str) -> tuple[str, str, Tree]:
        """State, code of the first obstacle, and the whole answer."""
        told: Tree = json.loads(await self.says(who, "why", "-n", TEAM, f"job/{name}", "-o", "json"))
        return told["state"], next((each["code"] for each in told["obstacles"]), ""), told

    async def comes_to(self, name: str, state: str, code: str = "") -> Tree:
        """Both say so in the end; the user's answer."""

        async def yet() -> Tree:
            found = await self.why(USER, name)
            assert found[:2] == (state, code), found
            return found[2]

        told = await eventually(yet)
        assert (await self.why("admin", name))[:2] == (state, code)
        return told


@pytest.fixture
async def stage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> AsyncIterator[Stage]:
    """A manager as docs/quickstart.md runs it, outside of the clusters, and a user with the role of a batch user."""
    plan = Plan(workers=2, rbac=True, kueue=True, jobs=True, job_lasts=timedelta(hours=1), users={**USERS, USER: ()})
    stop = anyio.Event()
    async with AsyncExitStack() as stack:
        stack.enter_context(capture_logs())  # what the manager says is not what the commands say
        sandbox = await stack.enter_async_context(Sandbox(plan, folder=tmp_path))
        clients = {}
        for name, served in sandbox.items():
            client = Client(served.front_end.url, ca=served.front_end.ca, token=served.cluster.users.token("admin"))
            clients[name] = await stack.enter_async_context(client)
        await register(
            clients[MANAGER], {name: each.kubeconfig("admin").read_bytes() for name, each in sandbox.items()}
        )
        await _set_up(clients)
        tasks = await stack.enter_async_context(anyio.create_task_group())
        tasks.start_soon(_manage, sandbox[MANAGER].kubeconfig(), stop)
        yield Stage(sandbox, clients, Field(clients, tmp_path / "kubeconfig", tasks, capsys), tmp_path)
        stop.set()
        tasks.cancel_scope.cancel()


async def _set_up(clients: dict[str, Client]) -> None:
    manager = clients[MANAGER]
    for name, client in clients.items():
        await client.create(objects.namespace(TEAM))
        await client.create(objects.resource_flavor())
        quota, checks = ({"cpu": "20"}, ("everywhere",)) if name == MANAGER else ({"cpu": "16"}, ())
        await client.create(objects.cluster_queue("mine-cq", quota=quota, checks=checks))
        await client.create(objects.local_queue("mine", TEAM, cluster_queue="mine-cq"))
    await manager.create(objects.multikueue_config("everywhere", clusters=("worker1", "worker2")))
    await manager.create(objects.admission_check("everywhere", config="everywhere"))
    for role in yaml.safe_load_all(ROLES.read_text()):
        await manager.create(role)
    whom = [{"kind": "User", "apiGroup": RBAC, "name": USER}]
    role = {"kind": "ClusterRole", "apiGroup": RBAC, "name": "multikueue-batch-user"}
    meta = {"name": USER, "namespace": TEAM}
    await manager.create(
        {"apiVersion": BINDING.api_version, "kind": BINDING.kind, "metadata": meta, "roleRef": role, "subjects": whom}
    )


async def _manage(kubeconfig: Path, stop: anyio.Event) -> None:
    settings = Settings(
        webhook=Webhook(enabled=True, host="127.0.0.1", port=0, url="https://127.0.0.1"),
        visibility=VisibilityApi(enabled=True, host="127.0.0.1", port=free_port()),
    )
    credentials = await from_kubeconfig(yaml.safe_load(await anyio.Path(kubeconfig).read_text()))
    await manage(InForce(settings), credentials, stop=stop, begun=lambda _mandate, _metrics: None)


async def _serving(stage: Stage) -> None:
    """Returns once the webhook is registered and the API server finds the visibility API."""

    async def yet() -> bool:
        for path in (
            "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/multikueue-manager",
            "/apis/visibility.multikueue.dev/v1alpha1",
        ):
            await stage.clients[MANAGER].request("GET", path)
        return True

    await eventually(yet)


async def test_what_keeps_a_job_from_running_is_told_to_whoever_submitted_it(stage: Stage) -> None:
    await _serving(stage)
    names = {f"job-{number}": each for number, each in enumerate(SITUATIONS)}
    for name, each in names.items():
        await stage.submit(name, each.job)

    for name, each in names.items():
        if each.is_held:
            await stage.comes_to(name, "Running")
            await stage.says("admin", "jobs", "hold", "-n", TEAM, name, "--yes")
        await stage.comes_to(name, each.state, each.code)

    for name, each in names.items():
        if each.repaired is not None:
            await stage.says(USER, "jobs", "cancel", "-n", TEAM, f"job/{name}", "--yes")
            await stage.submit(f"{name}-repaired", each.repaired)
    for name, each in names.items():
        if each.repaired is not None:
            await stage.comes_to(f"{name}-repaired", "Running")


def queue(name: str, cluster_queue: str = "mine-cq", **spec: Any) -> Tree:
    made: Tree = objects.local_queue(name, TEAM, cluster_queue=cluster_queue)
    return {**made, "spec": {**made["spec"], **spec}}


STOPPED = {**objects.cluster_queue("stopped-cq", quota={"cpu": "1"})}
STOPPED["spec"]["stopPolicy"] = "Hold"

REPAIRS = (
    ("a LocalQueue that is stopped", "LocalQueueStopped", [queue("q-0", stopPolicy="Hold")]),
    ("a LocalQueue that leads nowhere", "ClusterQueueNotFound", [queue("q-1", "lost")]),
    ("a ClusterQueue that is stopped", "ClusterQueueStopped", [STOPPED, queue("q-2", "stopped-cq")]),
    ("a LocalQueue that the workers do not have", "LocalQueueMissingOnWorkers", [queue("q-3")]),
    (
        "an admission check of somebody else",
        "CheckNotReady",
        [
            objects.admission_check("budget", config="none", controller="example.com/budget"),
            objects.cluster_queue("checked-cq", quota={"cpu": "1"}, checks=("everywhere", "budget")),
            queue("q-4", "checked-cq"),
        ],
    ),
)
"""What an administrator has to repair, its code, and the objects that make it so, for the queue `q-NUMBER`."""


async def test_what_an_administrator_has_to_repair_is_told_to_whoever_waits(stage: Stage) -> None:
    await _serving(stage)
    for number, (_, code, made) in enumerate(REPAIRS):
        for worker in ("worker1", "worker2") if code != "LocalQueueMissingOnWorkers" else ():
            await stage.clients[worker].create(queue(f"q-{number}"))
        for each in made:
            await stage.clients[MANAGER].create(each)
            if each["kind"] == objects.ADMISSION_CHECK.kind:
                active = {"type": "Active", "status": "True", "reason": "Active", "message": ""}
                conditions = [{**active, "lastTransitionTime": "2026-01-01T12:00:00Z"}]
                await stage.clients[MANAGER].patch_status(
                    objects.ADMISSION_CHECK, each["metadata"]["name"], {"conditions": conditions}
                )
        await stage.submit(f"job-{number}", asks(queue=f"q-{number}"))
    for number, (_, code, _) in enumerate(REPAIRS):
        await stage.comes_to(f"job-{number}", "Pending", code)

    for worker in ("worker1", "worker2"):
        await stage.says("admin", "clusters", "cordon", worker)
    await stage.submit("last", asks())
    await stage.comes_to("last", "Pending", "WorkersCordoned")


async def test_a_pod_that_does_not_start_is_told_to_whoever_submitted_its_job(stage: Stage) -> None:
    await _serving(stage)
    await stage.submit("first", asks())
    cluster = (await stage.comes_to("first", "Running"))["cluster"]
    (pod,) = await stage.clients[cluster].list(POD, TEAM)
    waits = {"waiting": {"reason": "ImagePullBackOff", "message": "not found"}}
    container = {"name": "main", "image": "x", "imageID": "", "ready": False, "restartCount": 0, "state": waits}
    status: Tree = {"phase": "Pending", "conditions": [], "containerStatuses": [container]}

    await stage.clients[cluster].patch_status(POD, pod["metadata"]["name"], status, TEAM)

    await stage.comes_to("first", "Starting", "ImageNotPulled")


async def test_who_has_no_right_on_workers_is_told_what_happens_there(stage: Stage) -> None:
    await _serving(stage)
    await stage.submit("first", asks("16"))
    told = await stage.comes_to("first", "Running")
    await stage.submit("second", asks("5"))

    lacks = await stage.comes_to("second", "Pending", "QuotaTaken")
    pods = await stage.says(USER, "pods", "-n", TEAM, "job/first")
    logs = await stage.says(USER, "logs", "-n", TEAM, "job/first")
    await stage.sandbox[told["cluster"]].front_end.stop()
    away = await stage.comes_to("first", "Unknown", "WorkerAway")

    assert "it fits once job/first ends" in lacks["summary"]
    assert told["cluster"] in pods
    assert "has nothing to say" in logs
    assert f"its worker {told['cluster']} does not answer" in away["summary"]
    assert "since" in away
