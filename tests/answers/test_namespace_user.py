"""A user with rights in one namespace asks why, on simulated clusters with a manager: made by ordinary means, each situation
gets its answer, which is that of an administrator."""

from __future__ import annotations

import json
import sys
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
from tests.answers.made import MADE, USER, Ground, all_are_true, come_about
from tests.answers.situations import SITUATIONS
from tests.cli.field import Field, joined

pytestmark = pytest.mark.anyio

Tree = dict[str, Any]

ROLES = Path(__file__).parents[2] / "deploy" / "components" / "users" / "rights.yaml"
TEAM = "team-a"
RBAC = "rbac.authorization.k8s.io"
BINDING = Kind(f"{RBAC}/v1", "RoleBinding")


def asks(cpu: str = "1") -> dict[str, Any]:
    return {"queue": "main", "requests": {"cpu": cpu}, "suspend": False}


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
            told, full = [await self.why(who, name) for who in (USER, "admin")]
            for found in (told, full):
                assert found[:2] == (state, code), found
            return told[2]

        return await eventually(yet, timeout=60)


@pytest.fixture
async def stage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> AsyncIterator[Stage]:
    """A manager as docs/quickstart.md runs it, outside of the clusters, and a user with the role of a batch user."""
    plan = Plan(workers=2, rbac=True, kueue=True, jobs=True, job_lasts=timedelta(hours=1), users={**USERS, USER: ()})
    stop = anyio.Event()
    async with AsyncExitStack() as stack:
        stack.enter_context(capture_logs())  # what the manager says is not what the commands say
        sandbox, clients = await stack.enter_async_context(joined(plan, tmp_path))
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
        await client.create(objects.local_queue("main", TEAM, cluster_queue="mine-cq"))
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


@pytest.mark.timeout(600)
async def test_each_situation_is_told_to_whoever_submitted_the_job_and_its_repair_helps(stage: Stage) -> None:
    await _serving(stage)
    workers = {name: client for name, client in stage.clients.items() if name != MANAGER}
    ground = Ground(stage.clients[MANAGER], workers, TEAM, "everywhere", "mine-cq", stage.says, stage.folder)
    await all_are_true(ground, await come_about(ground))


async def test_all_workers_are_cordoned(stage: Stage) -> None:
    await _serving(stage)
    for worker in ("worker1", "worker2"):
        await stage.says("admin", "clusters", "cordon", worker)
    await stage.submit("last", asks())
    told = await stage.comes_to("last", "Pending", "WorkersCordoned")
    assert told["obstacles"][0]["repair"]["by"] == "an administrator of the manager cluster"
    await stage.says("admin", "clusters", "uncordon", "worker1")
    await stage.comes_to("last", "Running")


async def test_an_answer_takes_no_settings_where_none_are_given(stage: Stage) -> None:
    """They are a quarter of what the command costs."""
    await _serving(stage)
    await stage.submit("first", asks("17"))
    await stage.comes_to("first", "Pending", "NoWorkerCanHold")
    kubeconfig = str(stage.folder / MANAGER / "admin.kubeconfig")
    words = ["why", "-n", TEAM, "job/first", "--kubeconfig", kubeconfig]

    done = await anyio.run_process([sys.executable, "-c", LOADED, json.dumps(words)])

    assert b"can ever hold it" in done.stdout
    loaded = set(done.stderr.decode().split())
    assert "multikueue.quota.visibility.differences" in loaded, "its pods are compared"
    assert loaded & {"multikueue.settings", "pydantic_settings", "multikueue.store.state"} == set()


LOADED = """
import json, sys
from multikueue.cli import main
try:
    main(json.loads(sys.argv[1]))
except SystemExit:
    print(*sys.modules, file=sys.stderr)
"""


def test_they_are_situations_of_the_table_and_forty_at_least() -> None:
    known = {each.how: (each.state, each.code) for each in SITUATIONS}
    assert {each.how: (each.state, each.code) for each in MADE}.items() <= known.items()
    assert len({each.how for each in MADE}) >= 40


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
    assert f"begins on {told['cluster']}" in logs
    assert f"its worker {told['cluster']} does not answer" in away["summary"]
    assert "since" in away


async def test_no_worker_answers_and_then_all_do(stage: Stage) -> None:
    await _serving(stage)
    servers = [served.front_end for name, served in stage.sandbox.items() if name != MANAGER]
    for each in servers:
        await each.stop()

    async def is_known() -> bool:
        listed = await stage.says("admin", "clusters", "list")
        assert listed.count("False") == 2, listed
        return True

    await eventually(is_known, timeout=60)
    await stage.submit("first", asks())
    told = await stage.comes_to("first", "Pending", "WorkersAway")
    assert told["obstacles"][0]["repair"]["by"] == "an administrator of the manager cluster"
    for each in servers:
        await each.start()
    await stage.comes_to("first", "Running")
