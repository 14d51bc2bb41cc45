"""The pages to start with: each line of their code is run on simulated clusters, or has its reason why not.

What kubectl would do there, a client does. The tutorials are run on real clusters, by tests/real/test_tutorials.py.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import anyio
import pytest
import yaml
from structlog.testing import capture_logs

from multikueue.kube.auth.credentials import from_kubeconfig
from multikueue.manager.process import manage
from multikueue.settings import InForce, Settings, VisibilityApi, Webhook
from multikueue_simulator.definitions import managed_service_accounts
from multikueue_simulator.serving.serve import MANAGER, USERS, Plan, Sandbox
from testbed import ocm
from testbed.client import Client, eventually
from testbed.objects import JOB, MULTIKUEUE_CLUSTER, MULTIKUEUE_CONFIG
from testbed.ports import free_port
from tests.cli.field import Field, as_one
from tests.project.files import ROOT, blocks, read

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(300)]

NOT_RUN = {
    "pip install": "the tests have it installed, and tests/release installs what is built",
    "make ": "targets of the Makefile, which CI calls; tests/project/test_makefile.py sees that they are there",
    "multikueue demo": "tests/simulator/commands/test_demo.py plays it",
    "mkdir -p kubeconfigs": "tests/project/test_kubeconfigs.py has its example",
    "export KUBECONFIG": "the test has its own clusters",
    "kubectl --context manager apply --server-side -k kind-configs/crds": "simulated clusters have the definitions",
    "export MULTIKUEUE_": "the manager of the test has the same settings, on loopback",
    "multikueue convert -f queues.yaml |": "tests/real/test_conversion.py converts and applies",
    "kubectl annotate multikueueclusters worker-7": "tests/controllers/fleet lets workers leave by that annotation",
    "kubectl annotate multikueuecluster worker-1 multikueue.dev/cluster-uid-": "no cluster takes the place of another one",
}
"""How a line begins, and why it is not run."""

USER, MADE = "alice", "hello-x2k4p"
APPLY = re.compile(r"kubectl --context (\S+) apply -f (\S+)")
ASKS = re.compile(r"multikueue (clusters register --from|queues sync|doctor --fix)(?!.*--dry-run)")
FINDS = "multikueue doctor"
"""What it ends with depends on what it finds."""
FOR = re.compile(r"for worker in ([\w -]+); do (.*\$worker.*); done")


@pytest.fixture
async def reader(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Reader]:
    plan = Plan(rbac=True, kueue=True, jobs=True, job_lasts=timedelta(seconds=1), users={**USERS, USER: ()})
    async with AsyncExitStack() as stack:
        stack.enter_context(capture_logs())
        sandbox = await stack.enter_async_context(Sandbox(plan, folder=tmp_path / "clusters"))
        clients = {}
        for name, served in sandbox.items():
            client = Client(served.front_end.url, ca=served.front_end.ca, token=served.cluster.users.token("admin"))
            clients[_shown(name)] = await stack.enter_async_context(client)
        known = {_shown(name): yaml.safe_load(served.kubeconfig().read_text()) for name, served in sandbox.items()}
        kubeconfig = tmp_path / "kubeconfig"
        kubeconfig.write_text(yaml.safe_dump(as_one(known)))
        monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
        tasks = await stack.enter_async_context(anyio.create_task_group())
        stop = anyio.Event()
        yield Reader(sandbox, Field(clients, kubeconfig, tasks, capsys), tasks, stop)
        stop.set()
        tasks.cancel_scope.cancel()


def _shown(name: str) -> str:
    """The name of a simulated cluster as the page has it."""
    return re.sub(r"(\d)", r"-\1", name)


class Reader:
    """Who does what the page says."""

    def __init__(self, sandbox: Sandbox, field: Field, tasks: Any, stop: anyio.Event) -> None:
        self.sandbox, self.field, self.tasks, self.stop = sandbox, field, tasks, stop
        self.job = ""
        self.done: list[str] = []

    async def do(self, line: str) -> None:
        if any(line.startswith(each) for each in NOT_RUN):
            return
        if every := FOR.fullmatch(line):
            for worker in every[1].split():
                await self.do(every[2].replace("$worker", worker))
        elif apply := APPLY.fullmatch(line):
            for body in yaml.safe_load_all((ROOT / apply[2]).read_text()):
                await self.field.clients[apply[1]].apply(body)
        elif line.startswith("kubectl --context manager create -f "):
            (body,) = yaml.safe_load_all((ROOT / line.split()[-1]).read_text())
            self.job = (await self.field.manager.create(body))["metadata"]["name"]
        elif line.startswith("kubectl --context manager create rolebinding "):
            await self.field.manager.create(_binding(shlex.split(line)))
        elif line == "multikueue run --context manager":
            self.tasks.start_soon(self._manage)
            await eventually(self._is_serving)
        elif line.startswith("multikueue "):
            await self._call(line)
        else:
            raise AssertionError(f"nobody runs: {line}")

    async def _call(self, line: str) -> None:
        words = shlex.split(line.replace(MADE, self.job), comments=True)[1:]
        if f"as {USER}" in line:
            words += ["--kubeconfig", str(self.sandbox[MANAGER].kubeconfig(USER))]
        words += ["--yes"] if ASKS.match(line) else []

        async def yet() -> str:
            ended = await self.field.run(*words)
            assert ended.code == 0 or line.startswith(FINDS), f"{line}\n{ended.out}{ended.err}"
            return ended.out

        self.done.append(await (eventually(yet) if self.job else yet()))

    async def _manage(self) -> None:
        settings = Settings(
            webhook=Webhook(enabled=True, host="127.0.0.1", port=0, url="https://127.0.0.1"),
            visibility=VisibilityApi(enabled=True, host="127.0.0.1", port=free_port()),
        )
        text = await anyio.Path(self.sandbox[MANAGER].kubeconfig()).read_text()
        credentials = await from_kubeconfig(yaml.safe_load(text))
        await manage(InForce(settings), credentials, stop=self.stop, begun=lambda _mandate, _metrics: None)

    async def _is_serving(self) -> bool:
        for path in (
            "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/multikueue-manager",
            "/apis/visibility.multikueue.dev/v1alpha1",
        ):
            await self.field.manager.request("GET", path)
        return True


def _binding(words: list[str]) -> dict[str, Any]:
    """What `kubectl create rolebinding NAME -n NAMESPACE --clusterrole ROLE --user USER` makes."""
    options = dict(pairwise(words))
    group = "rbac.authorization.k8s.io"
    return {
        "apiVersion": f"{group}/v1",
        "kind": "RoleBinding",
        "metadata": {"name": options["rolebinding"], "namespace": options["-n"]},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": options["--clusterrole"]},
        "subjects": [{"apiGroup": group, "kind": "User", "name": options["--user"]}],
    }


def commands(page: str) -> list[str]:
    """The lines of its blocks of commands: those in no language, but for a picture and a part of an object."""
    shown = [block for block in blocks(read(page), "") if "┌" not in block and not block.startswith("spec:")]
    return [line for block in shown for line in block.splitlines() if line]


async def test_the_first_job_runs_after_what_the_quickstart_says_and_its_user_is_told(reader: Reader) -> None:
    for line in commands("docs/quickstart.md"):
        await reader.do(line)

    async def is_over() -> bool:
        found = await reader.field.manager.get(JOB, reader.job, "default")
        assert found.get("status", {}).get("succeeded") == 1, json.dumps(found.get("status"))
        return True

    assert await eventually(is_over)
    assert "worker-" in reader.done[-1]


async def test_a_worker_comes_and_goes_as_the_page_of_installation_says(reader: Reader) -> None:
    for client in reader.field.clients.values():
        for name in ("team-a", "team-b"):
            await client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    for line in commands("docs/install.md"):
        await reader.do(line)

    assert await reader.field.manager.list(MULTIKUEUE_CLUSTER) == []


async def test_a_fleet_is_registered_from_an_empty_hub_as_its_page_says_and_runs_a_job(reader: Reader) -> None:
    """The hub has two clusters and a ClusterProfile. After the page comes the quickstart, which finds them registered."""
    served, manager = reader.sandbox[MANAGER], reader.field.manager
    served.define("ocm", "cluster-profiles")
    served.cluster.install(managed_service_accounts())
    for name in ("worker-1", "worker-2"):
        await manager.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        await ocm.register_cluster(manager, name, labels={"region": "eu-west"})
    await manager.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team-a"}})
    for line in commands("docs/clusters.md"):
        await reader.do(line)
    for config in ("everywhere", "eu"):
        body = await manager.get(MULTIKUEUE_CONFIG, config)
        assert sorted(body["spec"]["clusters"]) == ["worker-1", "worker-2"]
    for line in commands("docs/quickstart.md"):
        await reader.do(line)
    assert "worker-" in reader.done[-1]


async def test_what_the_readme_shows_has_its_reason(reader: Reader) -> None:
    for line in commands("README.md"):
        await reader.do(line)

    assert reader.done == []


@pytest.mark.parametrize("page", ["docs/tutorial-user.md", "docs/tutorial-admin.md"])
def test_a_tutorial_shows_nothing_but_what_is_replayed(page: str) -> None:
    assert set(re.findall(r"^```(\w+)$", read(page), re.MULTILINE)) == {"console"}
    assert commands(page) == []
