"""Credentials that change, by Secret, file and ClusterProfile, in the middle of work: one file, one set of clusters."""

from __future__ import annotations

import json
import shutil
import stat
import sys
from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Any

import anyio
import pytest
from aiohttp import web

from testbed import objects
from testbed.bed import Testbed, unique
from testbed.client import ApiError, Kind, eventually
from testbed.hostile.liar import Liar
from testbed.kubeconfig import dump
from testbed.objects import KUEUE_NAMESPACE, MULTIKUEUE_CLUSTER, MULTIKUEUE_CONFIG, SECRET, WORKLOAD, Object
from testbed.plane import ControlPlane
from tests.mount import mount
from tests.real.harness import EVENT, Manager, Team, complaints, played, starts, wins

pytestmark = [pytest.mark.anyio, pytest.mark.real, pytest.mark.timeout(120)]

CLUSTER_PROFILE = Kind("multicluster.x-k8s.io/v1alpha1", "ClusterProfile")
SERVICE_ACCOUNT = Kind("v1", "ServiceAccount")
EXEC_API = "client.authentication.k8s.io/v1"

EVERYTHING = [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]

BURST = 40
LONGEST_GAP = 10.0
"""Seconds without another winner that a burst may have, whatever happens to credentials meanwhile: after so many a call is
given up, and none may have to be."""


@pytest.fixture(scope="module")
def plugin(tmp_path_factory: pytest.TempPathFactory) -> Plugin:
    return Plugin(tmp_path_factory.mktemp("plugin"))


@pytest.fixture(scope="module")
def manager_settings(plugin: Plugin) -> dict[str, str]:
    command = {
        "command": str(plugin.program),
        "args": ["--for", "multikueue"],
        "env": [{"name": "OWN", "value": "its own"}],
        "provide_cluster_info": True,
    }
    providers = [{"name": "secret-store", "exec": command}]
    return {
        "DISPATCH__CLUSTER_PROFILE__ACCESS_PROVIDERS": json.dumps(providers),
        "TIMINGS__RECONNECT_CAP": "2s",
    }


@pytest.fixture(scope="module")
def manager(bed: Testbed, manager_settings: dict[str, str]) -> Any:
    """The module's manager; its cluster has the kind ClusterProfile before it starts."""

    anyio.run(bed.install, bed.manager, ["clusterprofile"])
    process = Manager(bed, **manager_settings)  # type: ignore[arg-type]  # no setting is called `command`
    process.start()
    yield process
    process.kill()


# --- what the tests do ------------------------------------------------------------------------------------------------


@dataclass
class Plugin:
    """A credential plugin: prints the token in a file, good for a few seconds, and notes what it was told."""

    folder: Path
    seconds: float = 3600

    def __post_init__(self) -> None:
        self.token, self.notes, self.program = (self.folder / name for name in ("token", "notes", "plugin"))
        (self.folder / "seconds").write_text("3600")
        self.program.write_text(
            f"#!{sys.executable}\n"
            "import datetime, json, os, pathlib, sys\n"
            f"folder = pathlib.Path({str(self.folder)!r})\n"
            "with (folder / 'notes').open('a') as notes:\n"
            "    print(json.dumps({'args': sys.argv[1:], 'env': dict(os.environ)}), file=notes)\n"
            "seconds = float((folder / 'seconds').read_text())\n"
            "end = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=seconds)\n"
            "status = {'token': (folder / 'token').read_text(), 'expirationTimestamp': end.isoformat()}\n"
            f"print(json.dumps({{'apiVersion': {EXEC_API!r}, 'kind': 'ExecCredential', 'status': status}}))\n"
        )
        self.program.chmod(self.program.stat().st_mode | stat.S_IXUSR)

    def gives(self, token: str, *, seconds: float = 3600) -> None:
        self.token.write_text(token)
        (self.folder / "seconds").write_text(str(seconds))
        self.notes.unlink(missing_ok=True)

    def told(self) -> list[Object]:
        """Arguments and environment of each run since `gives`."""
        return [json.loads(line) for line in self.notes.read_text().splitlines()] if self.notes.exists() else []


@dataclass
class Mount:
    """A directory with one kubeconfig, changed as the kubelet changes a mounted Secret."""

    folder: Path

    @property
    def path(self) -> Path:
        return self.folder / "kubeconfig"

    def write(self, config: Object | bytes) -> None:
        mount(self.folder, self.path.name, config if isinstance(config, bytes) else dump(config))


@dataclass
class Actives:
    """Each distinct Active condition that the team's clusters had, in order: cluster to (status, reason, message)."""

    team: Team
    seen: defaultdict[str, list[tuple[str, str, str]]] = field(default_factory=lambda: defaultdict(list))

    async def follow(self) -> None:
        async for _, body in self.team.manager.watch(MULTIKUEUE_CLUSTER):
            name, active = body["metadata"]["name"], objects.condition(body, "Active")
            if name.startswith(self.team.namespace) and active is not None:
                state = (active["status"], active["reason"], active["message"])
                if state not in self.seen[name][-1:]:
                    self.seen[name].append(state)

    def ever_inactive(self) -> dict[str, list[tuple[str, str, str]]]:
        return {name: states for name, states in self.seen.items() if any(state[0] != "True" for state in states)}


@asynccontextmanager
async def actives(members: Team) -> AsyncIterator[Actives]:
    record = Actives(members)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(record.follow)
        await eventually(lambda: _all_in(record))
        yield record
        tasks.cancel_scope.cancel()


async def _all_in(record: Actives) -> bool:
    return len(record.seen) == len(record.team.clients)


async def says(members: Team, worker: str, status: str, reason: str, *parts: str, timeout: float = 30) -> Object:
    """The Active condition of a worker, once it has that status and reason, and all those words."""

    async def has() -> Object:
        body = await members.manager.get(MULTIKUEUE_CLUSTER, members.cluster(worker))
        active = objects.condition(body, "Active")
        assert active is not None, "nobody looked at it yet"
        assert (active["status"], active["reason"]) == (status, reason), active
        assert active["observedGeneration"] == body["metadata"]["generation"]
        for part in parts:
            assert part in active["message"], active
        return active

    return await eventually(has, timeout=timeout)


def config_of(members: Team, worker: str, *, token: str | None = None, server: str | None = None) -> Object:
    """A kubeconfig for a worker through the team's link, unless another server is given."""
    plane = members.bed.planes[worker]
    return plane.kubeconfig(server=server or members.links[worker].url, token=token)


async def forget(members: Team, worker: str) -> None:
    """Deletes a worker's MultiKueueCluster, once its copy of the job is gone: nobody could remove that any more."""

    async def has_no_copy() -> bool:
        return worker not in await members.copies()

    await eventually(has_no_copy)
    await members.manager.delete(MULTIKUEUE_CLUSTER, members.cluster(worker))


async def put(members: Team, worker: str, config: Object | bytes) -> None:
    """Change a worker's Secret."""
    data = config if isinstance(config, bytes) else dump(config)
    await members.manager.apply(objects.kubeconfig_secret(members.cluster(worker), data))


async def switched(members: Team, worker: str, token: str) -> None:
    """Change a worker's Secret to another token, and wait until that is in use: it leads over a link of its own."""
    link = members.bed.link(members.bed.planes[worker])
    await put(members, worker, config_of(members, worker, token=token, server=link.url))
    await eventually(lambda: _is_used(link))


async def by_path(members: Team, worker: str, path: Path) -> None:
    """From now on a worker's kubeconfig is in a file."""
    source = {"kubeConfig": {"location": str(path), "locationType": "Path"}}
    await members.manager.patch(MULTIKUEUE_CLUSTER, members.cluster(worker), {"spec": {"clusterSource": source}})


async def token_for(plane: ControlPlane, account: str) -> str:
    async with plane.client() as client:
        await client.apply(objects.namespace(KUEUE_NAMESPACE))
    return await plane.service_account_token(account, namespace=KUEUE_NAMESPACE, rules=EVERYTHING)


async def revoke(plane: ControlPlane, account: str) -> None:
    """Delete an account. The API server may trust its token for 10 s more."""
    async with plane.client() as client:
        await client.delete(SERVICE_ACCOUNT, account, KUEUE_NAMESPACE)


async def refused(plane: ControlPlane, token: str) -> None:
    """Waits until the API server does not trust a token any more."""

    async def is_refused() -> bool:
        async with type(plane.client())(plane.url, ca=plane.ca, token=token) as client:
            try:
                await client.request("GET", "/api")
            except ApiError as error:
                return error.status == 401
        return False

    await eventually(is_refused, timeout=30, interval=0.3)


async def burst(members: Team, change: Callable[[], Any]) -> None:
    """Forty jobs, a few at a time; `change` happens after a third of them. None is lost, none runs twice, no cluster is
    ever inactive, and from then on there is never a long time without another winner."""
    names = [f"b{number}" for number in range(BURST)]
    async with actives(members) as record, played(members) as runs, wins(members, "b") as won:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(members.submit_all, names)
            await won.reach(BURST // 3)
            began = monotonic()
            await change()
        await won.reach(BURST)
        assert set((await members.all_over()).values()) == {"Complete"}
        assert max(won.pauses(began)) < LONGEST_GAP
        assert not (await runs.settled()).twice()
        assert record.ever_inactive() == {}


# --- rotation in the middle of work -----------------------------------------------------------------------------------


@pytest.mark.usefixtures("calm", "history")
async def test_tokens_rotated_by_secret_in_the_middle_of_a_burst(crew: Team) -> None:
    tokens = {worker: await token_for(crew.bed.planes[worker], unique("two")) for worker in crew.clients}

    async def rotate() -> None:
        for worker, token in tokens.items():
            await put(crew, worker, config_of(crew, worker, token=token))

    await burst(crew, rotate)


@pytest.mark.usefixtures("calm", "history")
async def test_tokens_rotated_by_file_in_the_middle_of_a_burst(crew: Team, tmp_path: Path) -> None:
    tokens = {worker: await token_for(crew.bed.planes[worker], unique("two")) for worker in crew.clients}
    mounts = {worker: Mount(tmp_path / worker) for worker in crew.clients}
    for worker, place in mounts.items():
        place.write(config_of(crew, worker))
        await by_path(crew, worker, place.path)
        await says(crew, worker, "True", "Active", "Connected")

    async def rotate() -> None:
        for worker, place in mounts.items():
            place.write(config_of(crew, worker, token=tokens[worker]))

    await burst(crew, rotate)


@pytest.mark.usefixtures("calm", "history")
async def test_the_address_changes_in_the_middle_of_a_burst(crew: Team) -> None:
    moved = {worker: crew.bed.link(crew.bed.planes[worker]) for worker in crew.clients}

    async def move() -> None:
        for worker, link in moved.items():
            await put(crew, worker, config_of(crew, worker, server=link.url))
        for worker, link in moved.items():
            await eventually(lambda link=link: _is_used(link))  # type: ignore[misc]
            crew.links[worker].refuse()

    await burst(crew, move)


async def _is_used(link: Any) -> bool:
    return bool(link.traffic().open > 2)  # calls and two watches


@pytest.mark.usefixtures("history")
async def test_the_old_token_may_be_revoked_after_the_change(crew: Team) -> None:
    worker, *others = crew.clients
    await crew.stop(*others)
    plane, old = crew.bed.planes[worker], unique("old")
    one, two = await token_for(plane, old), await token_for(plane, unique("new"))
    async with starts(crew) as started:
        await switched(crew, worker, one)
        await crew.submit()
        assert await started.first() == worker
        async with actives(crew) as record:
            await switched(crew, worker, two)
            await revoke(plane, old)
            await refused(plane, one)
            await crew.complete(worker)
            await crew.finished()
            await crew.submit("next")
            assert await started.first("next") == worker
            await crew.complete(worker, "next")
            await crew.finished("next")
            assert record.ever_inactive() == {}


@pytest.mark.usefixtures("history")
async def test_a_token_revoked_too_early_isolates_the_worker_until_there_is_another(crew: Team) -> None:
    worker, *others = crew.clients
    await crew.stop(*others)
    plane, old = crew.bed.planes[worker], unique("old")
    one, two = await token_for(plane, old), await token_for(plane, unique("new"))
    async with starts(crew) as started:
        await switched(crew, worker, one)
        await crew.submit()
        assert await started.first() == worker
        await eventually(lambda: crew.is_true("Admitted"))
        await revoke(plane, old)
        await says(crew, worker, "False", "ClientConnectionFailed", "401", timeout=60)
        await put(crew, worker, config_of(crew, worker, token=two))
        await says(crew, worker, "True", "Active", "Connected")
        await crew.complete(worker)
        await crew.finished()
        assert not (await started.settled()).twice()


# --- new credentials that are no good ---------------------------------------------------------------------------------


async def warned(members: Team, worker: str, reason: str) -> list[str]:
    found = await members.manager.list(EVENT, "default")
    about = [e for e in found if e["involvedObject"]["name"] == members.cluster(worker)]
    return [e["message"] for e in about if (e["type"], e["reason"]) == ("Warning", reason)]


@pytest.mark.usefixtures("calm", "history")
async def test_wrong_new_credentials_leave_the_old_ones_in_use(crew: Team) -> None:
    worker, *others = crew.clients
    await crew.stop(*others)
    async with actives(crew) as record, starts(crew) as started:
        await put(crew, worker, config_of(crew, worker, token="nobody's"))
        await says(crew, worker, "True", "Active", "Connected; the new kubeconfig is not in use: ", "401")
        await eventually(lambda: warned(crew, worker, "ClientConnectionFailed"))
        await crew.submit()
        assert await started.first() == worker
        await put(crew, worker, config_of(crew, worker, token=await token_for(crew.bed.planes[worker], unique("new"))))
        active = await says(crew, worker, "True", "Active")
        await eventually(lambda: _message_is(crew, worker, "Connected"))
        await crew.complete(worker)
        await crew.finished()
        assert record.ever_inactive() == {}
        assert active["status"] == "True"


async def _message_is(members: Team, worker: str, message: str) -> bool:
    return bool((await members.active(worker))["message"] == message)


@pytest.mark.usefixtures("calm")
async def test_a_new_server_that_hangs_costs_the_old_connection_nothing(crew: Team) -> None:
    worker, *others = crew.clients
    await crew.stop(*others)
    hung = crew.bed.link(crew.bed.planes[worker])
    hung.hang()
    async with actives(crew) as record, starts(crew) as started:
        await put(crew, worker, config_of(crew, worker, server=hung.url))
        await says(crew, worker, "True", "Active", "the new kubeconfig is not in use")
        await crew.submit()
        assert await started.first() == worker
        hung.ok()
        await eventually(lambda: _message_is(crew, worker, "Connected"))
        crew.links[worker].refuse()
        await crew.complete(worker)
        await crew.finished()
        assert record.ever_inactive() == {}


async def test_when_the_old_credentials_end_too_the_condition_names_the_new_trouble(crew: Team) -> None:
    worker = next(iter(crew.clients))
    await put(crew, worker, config_of(crew, worker, token="nobody's", server=crew.bed.planes[worker].url))
    await says(crew, worker, "True", "Active", "the new kubeconfig is not in use")
    crew.links[worker].refuse()
    await says(crew, worker, "False", "ClientConnectionFailed", "the new kubeconfig is not in use: ", "401")
    await put(crew, worker, config_of(crew, worker, server=crew.bed.planes[worker].url))
    await says(crew, worker, "True", "Active", "Connected")


@pytest.mark.usefixtures("calm")
async def test_a_secret_that_becomes_insecure_isolates_the_worker_and_its_job_runs_on(crew: Team) -> None:
    worker, *others = crew.clients
    await crew.stop(*others)
    async with starts(crew) as started:
        await crew.submit()
        assert await started.first() == worker
        await eventually(lambda: crew.is_true("Admitted"))
        config = config_of(crew, worker)
        config["clusters"][0]["cluster"]["insecure-skip-tls-verify"] = True
        await put(crew, worker, config)
        await says(crew, worker, "False", "InsecureKubeConfig", "insecure TLS verification is not allowed")
        assert (await crew.check())["state"] == "Ready"
        await crew.complete(worker)
        await put(crew, worker, config_of(crew, worker))
        await crew.finished()
        assert not (await started.settled()).twice()


@pytest.mark.usefixtures("calm")
async def test_a_kubeconfig_of_another_cluster_does_not_make_running_work_disappear(crew: Team) -> None:
    worker, other, third = crew.clients
    await crew.stop(other, third)
    async with actives(crew) as record, starts(crew) as started:
        await crew.submit()
        assert await started.first() == worker
        await eventually(lambda: crew.is_true("Admitted"))
        await forget(crew, other)
        await put(crew, worker, config_of(crew, other))
        await says(crew, worker, "True", "Active", "another cluster")
        await crew.submit("next")
        await eventually(lambda: crew.is_true("QuotaReserved", "next"))
        await crew.complete(worker)
        await crew.finished()
        assert list(started.runs["job"].values()) == [worker]
        await eventually(lambda: _message_is(crew, worker, "Connected"))
        await crew.go(other)
        assert await started.first("next") == other
        assert record.ever_inactive() == {}


@pytest.mark.usefixtures("calm")
async def test_a_secret_that_comes_back_for_another_cluster_waits_until_it_is_put_right(crew: Team) -> None:
    worker, other, third = crew.clients
    await crew.stop(other, third)
    async with starts(crew) as started:
        await crew.submit()
        assert await started.first() == worker
        await eventually(lambda: crew.is_true("Admitted"))
        await crew.manager.delete(SECRET, crew.cluster(worker), KUEUE_NAMESPACE)
        await says(crew, worker, "False", "BadKubeConfig", "not found")
        await put(crew, worker, config_of(crew, other))
        await says(crew, worker, "False", "SameCluster", crew.cluster(other))
        await forget(crew, other)
        await says(crew, worker, "False", "BadKubeConfig", "another cluster")
        assert (await crew.check())["state"] == "Ready"
        await put(crew, worker, config_of(crew, worker))
        await says(crew, worker, "True", "Active", "Connected")
        await crew.complete(worker)
        await crew.finished()
        assert not (await started.settled()).twice()


# --- which cluster it is ----------------------------------------------------------------------------------------------


UID_ANNOTATION = "multikueue.dev/cluster-uid"


async def killed_in(crew: Team, manager: Manager, worker: str, config: Object) -> None:
    """The manager is down while a worker's Secret changes."""
    manager.kill()
    await put(crew, worker, config)
    manager.start()
    await manager.ready()


@pytest.mark.usefixtures("calm", "history")
async def test_a_kubeconfig_of_another_cluster_that_came_while_the_manager_was_down(
    crew: Team, manager: Manager
) -> None:
    worker, other, third = crew.clients
    await crew.stop(other, third)
    async with starts(crew) as started:
        await crew.submit()
        assert await started.first() == worker
        await eventually(lambda: crew.is_true("Admitted"))
        await forget(crew, other)
        await killed_in(crew, manager, worker, config_of(crew, other))
        await says(crew, worker, "False", "BadKubeConfig", "another cluster", UID_ANNOTATION)
        assert (await crew.check())["state"] == "Ready"
        await put(crew, worker, config_of(crew, worker))
        await says(crew, worker, "True", "Active", "Connected")
        await crew.complete(worker)
        await crew.finished()
        assert not (await started.settled()).twice()


@pytest.mark.usefixtures("calm")
async def test_another_cluster_that_is_meant_gets_the_name_without_its_annotation(crew: Team, manager: Manager) -> None:
    worker, other, third = crew.clients
    await crew.stop(other, third)
    await crew.submit()
    assert await crew.runs_on() == worker
    await eventually(lambda: crew.is_true("Admitted"))
    await forget(crew, other)
    await killed_in(crew, manager, worker, config_of(crew, other))
    await says(crew, worker, "False", "BadKubeConfig", "another cluster")
    forgotten = {"metadata": {"annotations": {UID_ANNOTATION: None}}}
    await crew.manager.patch(MULTIKUEUE_CLUSTER, crew.cluster(worker), forgotten)
    await says(crew, worker, "True", "Active", "Connected")
    await eventually(lambda: crew.is_true("QuotaReserved"))
    await crew.go(other)
    await eventually(lambda: _runs_there(crew, other), timeout=60)


async def _runs_there(crew: Team, worker: str) -> bool:
    found = (await crew.remote_jobs()).get(worker)
    return found is not None and not found["spec"].get("suspend")


@pytest.mark.usefixtures("calm", "history")
async def test_a_second_name_of_a_cluster_harms_nothing_that_runs_there(crew: Team, manager: Manager) -> None:
    worker, *others = crew.clients
    alias = f"{crew.namespace}-alias"
    await crew.stop(*others)
    async with starts(crew) as started:
        await crew.submit()
        assert await started.first() == worker
        await eventually(lambda: crew.is_true("Admitted"))
        await crew.manager.create(objects.kubeconfig_secret(alias, dump(config_of(crew, worker))))
        await crew.manager.create(objects.multikueue_cluster(alias, secret=alias))
        clusters = [alias, *(crew.cluster(each) for each in crew.clients)]
        try:
            await crew.manager.patch(MULTIKUEUE_CONFIG, crew.namespace, {"spec": {"clusters": clusters}})
            await says(crew, "alias", "False", "SameCluster", crew.cluster(worker))
            await eventually(lambda: proven(crew, worker, alias))
            manager.kill()
            manager.start()
            await manager.ready()
            await crew.all_active(manager)
            await says(crew, "alias", "False", "SameCluster", crew.cluster(worker))
            await crew.submit("next")
            assert await started.first("next") == worker
            for name in ("job", "next"):
                await crew.complete(worker, name)
                await crew.finished(name)
            assert not (await started.settled()).twice()
        finally:
            await crew.manager.delete(MULTIKUEUE_CLUSTER, alias)


async def proven(crew: Team, worker: str, name: str) -> bool:
    """Whether a nonce has told which cluster the name leads to, and is gone from the worker's kube-system."""
    left = await crew.clients[worker].list(WORKLOAD, "kube-system")
    (active,) = (await crew.manager.get(MULTIKUEUE_CLUSTER, name))["status"]["conditions"]
    return not left and "not proven" not in active["message"]


async def test_of_two_that_show_one_identity_and_are_two_clusters_both_are_used(crew: Team, tmp_path: Path) -> None:
    one, two, *_ = crew.clients
    name = f"{crew.namespace}-liar"
    theirs = await crew.clients[two].get(objects.NAMESPACE, "kube-system")

    async def lie(_liar: Liar, request: web.Request) -> web.StreamResponse | None:
        return web.json_response(theirs) if request.path.endswith("/namespaces/kube-system") else None

    async with Liar.before(crew.bed.planes[one], tmp_path) as liar:
        liar.tell(lie)
        config = config_of(crew, one, server=liar.url)
        await crew.manager.create(objects.kubeconfig_secret(name, dump(config)))
        await crew.manager.create(objects.multikueue_cluster(name, secret=name))
        try:
            await says(crew, "liar", "True", "Active", f'shows the identity of "{crew.cluster(two)}", and is another')
            await says(crew, two, "True", "Active", "Connected")
            await eventually(lambda: proven(crew, one, name))
        finally:
            await crew.manager.delete(MULTIKUEUE_CLUSTER, name)


# --- files ------------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("calm")
async def test_a_file_that_comes_and_goes_and_is_spoilt(crew: Team, tmp_path: Path) -> None:
    worker = next(iter(crew.clients))
    folder = tmp_path / "not" / "there"
    path = folder / "kubeconfig"
    await by_path(crew, worker, path)
    await says(crew, worker, "False", "BadKubeConfig", f"load client config failed: open {path}: no such file")
    folder.mkdir(parents=True)
    path.write_bytes(dump(config_of(crew, worker)))
    await says(crew, worker, "True", "Active", "Connected")
    path.write_bytes(b"{not yaml")
    await says(crew, worker, "False", "InsecureKubeConfig", "failed to parse")
    path.write_bytes(dump(config_of(crew, worker)))
    await says(crew, worker, "True", "Active", "Connected")
    shutil.rmtree(folder)
    await says(crew, worker, "False", "BadKubeConfig", str(path))
    folder.mkdir()
    path.write_bytes(dump(config_of(crew, worker)))
    await says(crew, worker, "True", "Active", "Connected")


@pytest.mark.usefixtures("calm")
async def test_of_clusters_that_share_a_file_one_stands_for_its_cluster(crew: Team, tmp_path: Path) -> None:
    one, two, *_ = crew.clients
    path = tmp_path / "kubeconfig"
    for worker in (one, two):
        await by_path(crew, worker, path)
        await says(crew, worker, "False", "BadKubeConfig", str(path))
    path.write_bytes(dump(config_of(crew, one)))
    await says(crew, one, "True", "Active", "Connected")
    await says(crew, two, "False", "SameCluster", crew.cluster(one))


@pytest.mark.parametrize(
    ("location", "message"),
    [
        pytest.param(
            "kubeconfig", "kubeconfig path is not under the allowed prefix: path must be absolute", id="relative"
        ),
        pytest.param(
            "/etc/../etc/kubeconfig",
            'kubeconfig path is not under the allowed prefix: path contains ".."',
            id="with a way up",
        ),
        pytest.param("/etc", "/etc: expected a file", id="a directory"),
    ],
)
async def test_a_path_that_cannot_be_meant_is_refused(crew: Team, location: str, message: str) -> None:
    worker = next(iter(crew.clients))
    await by_path(crew, worker, Path(location) if not location.startswith("/etc/..") else _as_is(location))
    await says(crew, worker, "False", "BadKubeConfig", f"load client config failed: {message}")


def _as_is(location: str) -> Any:
    return location


# --- the rules of a kubeconfig ----------------------------------------------------------------------------------------


def _cluster(**changes: Any) -> Callable[[Object], None]:
    return lambda config: config["clusters"][0]["cluster"].update(changes)


def _user(**changes: Any) -> Callable[[Object], None]:
    return lambda config: config["users"][0]["user"].update(changes)


RULES: dict[str, tuple[Callable[[Object], None], str, str]] = {
    "token-file": (_user(tokenFile="/t"), "InsecureKubeConfig", "tokenFile is not allowed"),
    "insecure": (
        _cluster(**{"insecure-skip-tls-verify": True}),
        "InsecureKubeConfig",
        "insecure TLS verification is not allowed for cluster worker1",
    ),
    "ca-path": (
        _cluster(**{"certificate-authority": "/ca"}),
        "InsecureKubeConfig",
        "certificate-authority file paths are not allowed, use certificate-authority-data for cluster worker1",
    ),
    "no-server": (_cluster(server=""), "InsecureKubeConfig", "server URL is required for cluster worker1"),
    "odd-host": (_cluster(server="https://bad_host"), "InsecureKubeConfig", "untrusted server endpoint"),
    "password": (_user(username="u", password="p"), "InsecureKubeConfig", "basic auth is not allowed"),
    "exec": (_user(exec={"command": "sh"}), "InsecureKubeConfig", "exec plugins are not allowed"),
    "provider": (_user(**{"auth-provider": {"name": "x"}}), "InsecureKubeConfig", "auth providers are not allowed"),
    "http": (
        _cluster(server="http://127.0.0.1"),
        "InsecureKubeConfig",
        "plain http is not allowed for cluster worker1",
    ),
    "certificate-path": (
        _user(**{"client-certificate": "/c"}),
        "InsecureKubeConfig",
        "client-certificate file paths are not allowed, use client-certificate-data for user worker1",
    ),
    "key-path": (
        _user(**{"client-key": "/k"}),
        "InsecureKubeConfig",
        "client-key file paths are not allowed, use client-key-data for user worker1",
    ),
    "proxy": (
        _cluster(**{"proxy-url": "socks5://p"}),
        "InsecureKubeConfig",
        "proxy-url must start with http:// or https:// for cluster worker1",
    ),
    "impersonation": (
        _user(**{"as": "admin"}),
        "InsecureKubeConfig",
        "impersonation is not allowed, use credentials of the user itself for user worker1",
    ),
    "no-context": (lambda config: config.update({"current-context": ""}), "BadKubeConfig", "current-context"),
    "bad-ca": (
        _cluster(**{"certificate-authority-data": "bm90IGEgY2VydA=="}),
        "BadKubeConfig",
        "certificate-authority: expected certificates in PEM",
    ),
}


async def test_each_rule_has_its_words_in_the_condition(bed: Testbed, manager: Manager) -> None:
    name = unique("rules")
    async with bed.manager.client() as client:
        await client.apply(objects.namespace(KUEUE_NAMESPACE))
        await manager.ready()
        try:
            for short, (spoil, _, _) in RULES.items():
                config = bed.workers[0].kubeconfig()
                spoil(config)
                await client.apply(objects.kubeconfig_secret(f"{name}-{short}", dump(config)))
                await client.create(objects.multikueue_cluster(f"{name}-{short}", secret=f"{name}-{short}"))

            async def is_told(short: str, reason: str, message: str) -> bool:
                active = objects.condition(await client.get(MULTIKUEUE_CLUSTER, f"{name}-{short}"), "Active")
                assert active is not None, "nobody looked at it yet"
                assert (active["status"], active["reason"]) == ("False", reason), active
                assert active["message"].startswith("load client config failed: "), active
                assert message in active["message"], active
                return True

            for short, (_, reason, message) in RULES.items():
                await eventually(partial(is_told, short, reason, message))  # its Secret may come to be known later
        finally:
            for short in RULES:
                await client.delete(MULTIKUEUE_CLUSTER, f"{name}-{short}")


# --- ClusterProfile ---------------------------------------------------------------------------------------------------


async def profile(members: Team, name: str, plane: ControlPlane, *, provider: str = "secret-store") -> None:
    """A ClusterProfile of a plane, as an inventory would write it."""
    body = {
        "apiVersion": CLUSTER_PROFILE.api_version,
        "kind": CLUSTER_PROFILE.kind,
        "metadata": {"name": name, "namespace": KUEUE_NAMESPACE},
        "spec": {"displayName": name, "clusterManager": {"name": "testbed"}},
    }
    config = plane.kubeconfig()["clusters"][0]["cluster"]
    extension = {"name": "client.authentication.k8s.io/exec", "extension": {"clusterName": name}}
    access = {"name": provider, "cluster": config | {"extensions": [extension]}}
    await members.manager.apply(body)
    status = {"status": {"accessProviders": [access]}}
    await members.manager.patch(CLUSTER_PROFILE, name, status, KUEUE_NAMESPACE, subresource="status")


async def by_profile(members: Team, worker: str, name: str) -> None:
    source = {"kubeConfig": None, "clusterProfileRef": {"name": name}}
    await members.manager.patch(MULTIKUEUE_CLUSTER, members.cluster(worker), {"spec": {"clusterSource": source}})


@pytest.mark.usefixtures("calm")
async def test_a_cluster_profile_with_a_plugin_that_prints_a_token(crew: Team, plugin: Plugin) -> None:
    worker, *others = crew.clients
    await crew.stop(*others)
    plane, name = crew.bed.planes[worker], unique("profile")
    plugin.gives(await token_for(plane, unique("one")))
    await by_profile(crew, worker, name)
    await says(crew, worker, "False", "BadClusterProfile", f'"{name}" not found')
    await profile(crew, name, plane)
    await says(crew, worker, "True", "Active", "Connected")
    run = plugin.told()[0]
    assert run["args"] == ["--for", "multikueue"]
    assert run["env"]["OWN"] == "its own"
    assert not [name for name in run["env"] if name.startswith("MULTIKUEUE_")]
    cluster = json.loads(run["env"]["KUBERNETES_EXEC_INFO"])["spec"]["cluster"]
    assert (cluster["server"], cluster["config"]) == (plane.url, {"clusterName": name})
    await crew.submit()
    assert await crew.runs_on() == worker
    await crew.complete(worker)
    await crew.finished()


@pytest.mark.usefixtures("calm")
async def test_a_token_of_a_plugin_is_renewed_without_a_new_connection(crew: Team, plugin: Plugin) -> None:
    worker = next(iter(crew.clients))
    plane, name = crew.bed.planes[worker], unique("profile")
    plugin.gives(await token_for(plane, unique("one")), seconds=3)
    await profile(crew, name, plane)
    await by_profile(crew, worker, name)
    await says(crew, worker, "True", "Active", "Connected")
    async with actives(crew) as record:
        await eventually(lambda: _ran(plugin, 2), timeout=40)
        await crew.submit()
        await crew.complete(await crew.runs_on())
        await crew.finished()
        assert record.ever_inactive() == {}


async def _ran(plugin: Plugin, times: int) -> bool:
    return len(plugin.told()) >= times


@pytest.mark.usefixtures("calm")
async def test_cluster_profiles_change_go_come_back_and_are_shared(crew: Team, plugin: Plugin) -> None:
    worker, second, _ = crew.clients
    plane, name = crew.bed.planes[worker], unique("profile")
    plugin.gives(await token_for(plane, unique("one")))
    await profile(crew, name, plane, provider="other-store")
    for each in (worker, second):
        await by_profile(crew, each, name)
        await says(crew, each, "False", "BadClusterProfile", "it has [other-store], configured are [secret-store]")
    await profile(crew, name, plane)
    await says(crew, worker, "True", "Active", "Connected")
    await says(crew, second, "False", "SameCluster", crew.cluster(worker))
    await by_profile(crew, second, f"{name}-2")
    await says(crew, second, "False", "BadClusterProfile", f'"{name}-2" not found')
    await crew.manager.delete(CLUSTER_PROFILE, name, KUEUE_NAMESPACE)
    await says(crew, worker, "False", "BadClusterProfile", "not found")
    await profile(crew, name, plane)
    await says(crew, worker, "True", "Active", "Connected")


async def test_no_error_was_logged_for_what_happened_to_credentials(manager: Manager) -> None:
    """The last of the module, so the log tells of all tests before."""
    assert complaints(manager) == []
