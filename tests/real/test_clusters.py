"""Clusters and checks: what their conditions say, which kubeconfigs are refused, and what a new Secret or object does."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from testbed import objects
from testbed.bed import Testbed, unique
from testbed.client import Client, eventually
from testbed.kubeconfig import dump
from testbed.objects import ADMISSION_CHECK, KUEUE_NAMESPACE, MULTIKUEUE_CLUSTER, MULTIKUEUE_CONFIG, SECRET, Object
from tests.real.harness import Manager, Team, complaints, logged, starts
from tests.real.lives_of_pods import POD

pytestmark = [pytest.mark.anyio, pytest.mark.real, pytest.mark.timeout(120)]


@dataclass(slots=True)
class Corner:
    """Clusters, a config and a check of one test's own, by short names."""

    bed: Testbed
    name: str
    client: Client
    clusters: list[str] = field(default_factory=list)

    def full(self, short: str) -> str:
        return f"{self.name}-{short}"

    async def cluster(self, short: str) -> None:
        self.clusters.append(short)
        await self.client.create(objects.multikueue_cluster(self.full(short), secret=self.full(short)))

    async def secret(self, short: str, config: Object | bytes | None = None) -> None:
        """A good kubeconfig of a worker of its own, unless another one is given."""
        data = self.bed.workers["ab".index(short)].kubeconfig() if config is None else config
        await self.client.apply(
            objects.kubeconfig_secret(self.full(short), data if isinstance(data, bytes) else dump(data))
        )

    def kubeconfig(self) -> Object:
        return self.bed.workers[0].kubeconfig()

    async def cluster_says(self, short: str, reason: str, message: str = "") -> None:
        await eventually(lambda: self._says(MULTIKUEUE_CLUSTER, self.full(short), reason, message))

    async def check_says(self, reason: str, message: str = "") -> None:
        await eventually(lambda: self._says(ADMISSION_CHECK, self.name, reason, message))

    async def _says(self, kind: Any, name: str, reason: str, message: str) -> bool:
        body = await self.client.get(kind, name)
        active = objects.condition(body, "Active")
        assert active is not None, "nobody looked at it yet"
        assert active["reason"] == reason, active
        assert active["status"] == ("True" if reason in ("Active", "SomeActiveClusters") else "False")
        assert active["observedGeneration"] == body["metadata"]["generation"]
        assert message in active["message"], active
        return True


@pytest.fixture
async def corner(bed: Testbed, manager: Manager) -> AsyncIterator[Corner]:
    async with bed.manager.client() as client:
        await client.apply(objects.namespace(KUEUE_NAMESPACE))
        place = Corner(bed, unique("corner"), client)
        await eventually(lambda: _is_ready(manager), timeout=60)
        try:
            yield place
        except BaseException as error:
            error.add_note(f"the manager's log ends with:\n{manager.tail()}")
            raise
        finally:
            for short in place.clusters:
                await client.delete(MULTIKUEUE_CLUSTER, place.full(short))


async def _is_ready(manager: Manager) -> bool:
    return any(entry["event"] == "manager.ready" for entry in logged(manager))


# --- conditions --------------------------------------------------------------------------------------------------------


async def test_a_check_tells_how_far_its_clusters_are(corner: Corner) -> None:
    a, b = corner.full("a"), corner.full("b")
    await corner.client.create(objects.admission_check(corner.name, config=corner.name))
    await corner.check_says("BadConfig", f'MultiKueueConfig.kueue.x-k8s.io "{corner.name}" not found')
    await corner.client.create(objects.multikueue_config(corner.name, clusters=[a, b]))
    await corner.check_says("NoUsableClusters", f"Missing clusters: [{a} {b}]")
    await corner.cluster("a")
    await corner.cluster_says("a", "BadKubeConfig", f'Secret "{a}" not found')
    await corner.check_says("NoUsableClusters", f"Missing clusters: [{b}], Inactive clusters: [{a}]")
    await corner.secret("a")
    await corner.cluster_says("a", "Active", "Connected")
    await corner.check_says("SomeActiveClusters", f"Missing clusters: [{b}]")
    await corner.cluster("b")
    await corner.secret("b")
    await corner.check_says("Active", "The admission check is active")
    await corner.client.delete(SECRET, b, KUEUE_NAMESPACE)
    await corner.cluster_says("b", "BadKubeConfig", f'load client config failed: Secret "{b}" not found')
    await corner.check_says("SomeActiveClusters", f"Inactive clusters: [{b}]")
    await corner.client.delete(MULTIKUEUE_CONFIG, corner.name)
    await corner.check_says("BadConfig", "not found")


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        pytest.param(None, "missing parameters reference", id="none"),
        pytest.param({"apiGroup": "example.com", "kind": "MultiKueueConfig"}, "bad parameters reference", id="group"),
        pytest.param({"apiGroup": "kueue.x-k8s.io", "kind": "Other"}, "bad parameters reference", id="kind"),
    ],
)
async def test_a_check_with_wrong_parameters_says_so(corner: Corner, parameters: Object | None, message: str) -> None:
    body = objects.admission_check(corner.name, config=corner.name)
    del body["spec"]["parameters"]
    if parameters is not None:
        body["spec"]["parameters"] = parameters | {"name": corner.name}
    await corner.client.create(body)
    await corner.check_says("BadConfig", f"Cannot load the AdmissionChecks parameters: {message}")


async def test_a_check_of_another_controller_gets_its_finalizer_as_in_kueue_and_is_left_alone(corner: Corner) -> None:
    other = objects.admission_check(f"{corner.name}-other", config=corner.name, controller="example.com/other")
    before = await corner.client.create(other)
    await corner.client.create(objects.admission_check(corner.name, config=corner.name))
    await corner.check_says("BadConfig")

    async def kept() -> Object | None:
        body = await corner.client.get(ADMISSION_CHECK, f"{corner.name}-other")
        return body if body["metadata"].get("finalizers") == ["kueue.x-k8s.io/resource-in-use"] else None

    after = await eventually(kept)
    assert (after["spec"], after.get("status")) == (before["spec"], before.get("status"))


# --- kubeconfigs -------------------------------------------------------------------------------------------------------


def _of_cluster(**changes: Any) -> Callable[[Object], None]:
    return lambda config: config["clusters"][0]["cluster"].update(changes)


def _of_user(**changes: Any) -> Callable[[Object], None]:
    return lambda config: config["users"][0]["user"].update(changes)


def _authority_by_path(config: Object) -> None:
    del config["clusters"][0]["cluster"]["certificate-authority-data"]
    config["clusters"][0]["cluster"]["certificate-authority"] = "/etc/ca.crt"


def _second_user(config: Object) -> None:
    """Not the user of the current context: the rules are for the whole file."""
    config["users"].append({"name": "second", "user": {"tokenFile": "/etc/token"}})


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        pytest.param(_of_user(tokenFile="/etc/token"), "tokenFile is not allowed", id="token file"),
        pytest.param(_second_user, "tokenFile is not allowed", id="a second user"),
        pytest.param(
            _of_cluster(**{"insecure-skip-tls-verify": True}),
            "insecure TLS verification is not allowed",
            id="insecure TLS",
        ),
        pytest.param(_authority_by_path, "certificate-authority file paths are not allowed", id="CA by path"),
        pytest.param(_of_cluster(server=""), "server URL is required", id="no server"),
        pytest.param(_of_cluster(server="http://127.0.0.1:1"), "plain http is not allowed", id="plain http"),
        pytest.param(_of_cluster(server="https://bad_host:1"), "untrusted server endpoint", id="odd host"),
        pytest.param(_of_user(username="me", password="secret"), "basic auth is not allowed", id="password"),
        pytest.param(_of_user(exec={"command": "steal"}), "exec plugins are not allowed", id="exec"),
        pytest.param(
            _of_user(**{"auth-provider": {"name": "gcp"}}), "auth providers are not allowed", id="auth provider"
        ),
    ],
)
async def test_an_insecure_kubeconfig_is_refused_until_it_is_corrected(
    corner: Corner, spoil: Callable[[Object], None], message: str
) -> None:
    config = corner.kubeconfig()
    spoil(config)
    await corner.secret("a", config)
    await corner.cluster("a")
    await corner.cluster_says("a", "InsecureKubeConfig", f"load client config failed: {message}")
    await corner.secret("a")
    await corner.cluster_says("a", "Active")


async def test_an_active_cluster_whose_secret_becomes_insecure_is_left(corner: Corner) -> None:
    for short in ("a", "b"):
        await corner.secret(short)
        await corner.cluster(short)
    both = [corner.full("a"), corner.full("b")]
    await corner.client.create(objects.multikueue_config(corner.name, clusters=both))
    await corner.client.create(objects.admission_check(corner.name, config=corner.name))
    await corner.check_says("Active")
    config = corner.kubeconfig()
    _authority_by_path(config)
    await corner.secret("a", config)
    await corner.cluster_says("a", "InsecureKubeConfig")
    await corner.check_says("SomeActiveClusters", f"Inactive clusters: [{both[0]}]")


async def test_a_secret_without_a_kubeconfig_is_named_and_waited_for(corner: Corner) -> None:
    await corner.cluster("a")
    await corner.cluster_says("a", "BadKubeConfig", "not found")
    body = objects.kubeconfig_secret(corner.full("a"), b"")
    body["data"] = {"other": b64encode(b"x").decode()}
    await corner.client.create(body)
    await corner.cluster_says("a", "BadKubeConfig", f'key "kubeconfig" not found in secret "{corner.full("a")}"')
    await corner.secret("a", b"{not yaml")
    await corner.cluster_says("a", "InsecureKubeConfig", "failed to parse")
    await corner.secret("a")
    await corner.cluster_says("a", "Active")


async def test_a_kubeconfig_that_nobody_answers_is_no_connection(corner: Corner) -> None:
    link = corner.bed.link(corner.bed.workers[0])
    link.refuse()
    await corner.secret("a", corner.bed.workers[0].kubeconfig(server=link.url))
    await corner.cluster("a")
    await corner.cluster_says("a", "ClientConnectionFailed")
    link.ok()
    await corner.cluster_says("a", "Active", "Connected")


async def test_a_token_that_is_not_valid_is_no_connection(corner: Corner) -> None:
    await corner.secret("a", corner.bed.workers[0].kubeconfig(token="nobody's"))
    await corner.cluster("a")
    await corner.cluster_says("a", "ClientConnectionFailed")
    await corner.secret("a")
    await corner.cluster_says("a", "Active", "Connected")


# --- under a running job -----------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("history")
async def test_a_new_secret_takes_over_the_connection_and_the_running_job_does_not_notice(crew: Team) -> None:
    async with starts(crew) as started:
        await crew.submit()
        worker = await started.first()
        await eventually(lambda: crew.is_true("Admitted"))
        plane = crew.bed.planes[worker]
        link = crew.bed.link(plane)
        config = dump(plane.kubeconfig(server=link.url))
        await crew.manager.apply(objects.kubeconfig_secret(crew.cluster(worker), config))
        await eventually(lambda: _is_used(link))
        await eventually(lambda: _is_connected(crew, worker))
        crew.links[worker].refuse()
        before = await crew.active(worker)
        await crew.complete(worker)
        await crew.finished()
        assert not (await started.settled()).twice()
        assert await crew.active(worker) == before


async def _is_connected(crew: Team, worker: str) -> bool:
    """Whether there is nothing else to say, of new credentials for instance."""
    return bool((await crew.active(worker))["message"] == "Connected")


async def _is_used(link: Any) -> bool:
    """By watches too, which credentials on trial do not have."""
    return bool(link.traffic().open > 2)


@pytest.mark.usefixtures("history")
async def test_a_cluster_deleted_and_recreated_finds_its_running_job_again(crew: Team) -> None:
    async with starts(crew) as started:
        await crew.submit()
        worker = await started.first()
        await eventually(lambda: crew.is_true("Admitted"))
        cluster = crew.cluster(worker)
        await crew.manager.delete(MULTIKUEUE_CLUSTER, cluster)
        await eventually(lambda: _is_missed(crew, cluster))
        await crew.submit("next")
        assert await crew.runs_on("next") != worker
        assert (await crew.check())["state"] == "Ready"
        await crew.manager.create(objects.multikueue_cluster(cluster, secret=cluster))
        await crew.active(worker)
        await crew.complete(worker)
        await crew.finished()
        assert not (await started.settled()).twice()


async def _is_missed(crew: Team, cluster: str) -> bool:
    """Whether the manager knows that it is gone."""
    active = objects.condition(await crew.manager.get(ADMISSION_CHECK, crew.namespace), "Active")
    return active is not None and active["message"] == f"Missing clusters: [{cluster}]"


@pytest.mark.usefixtures("history")
async def test_a_cluster_recreated_gets_a_copy_of_what_waits(crew: Team) -> None:
    worker, *others = crew.clients
    await crew.manager.delete(MULTIKUEUE_CLUSTER, crew.cluster(worker))
    await eventually(lambda: _is_missed(crew, crew.cluster(worker)))
    await crew.stop(*others)
    await crew.submit()
    assert sorted(await crew.waiting(2)) == sorted(others)
    await crew.manager.create(objects.multikueue_cluster(crew.cluster(worker), secret=crew.cluster(worker)))
    assert await crew.runs_on() == worker
    await crew.complete(worker)
    await crew.finished()


async def test_a_worker_that_is_drained_by_signal_tells_pods_their_time_and_then_has_the_job_go_elsewhere(
    crew: Team,
) -> None:
    await crew.submit()
    worker = await crew.runs_on()
    await eventually(lambda: crew.is_true("Admitted"))
    local = (await crew.workload())["metadata"]["name"]
    meta = {"name": "of-job", "namespace": crew.namespace, "annotations": {"kueue.x-k8s.io/workload": local}}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": meta}
    await crew.clients[worker].create(pod | {"spec": {"containers": [{"name": "main", "image": "trainer"}]}})
    drain = {"metadata": {"annotations": {"multikueue.dev/drain": "signal=5s"}}}
    await crew.manager.patch(MULTIKUEUE_CLUSTER, crew.cluster(worker), drain)

    async def told() -> str | None:
        found = await crew.clients[worker].get(POD, "of-job", crew.namespace)
        time: str | None = found["metadata"]["annotations"].get("multikueue.dev/drain-at")
        return time

    assert (await eventually(told)).endswith("Z")

    async def elsewhere() -> str | None:
        jobs = await crew.remote_jobs()
        running = [name for name, body in jobs.items() if not body["spec"].get("suspend") and name != worker]
        return running[0] if running else None

    other = await eventually(elsewhere, timeout=60)
    await crew.complete(other)
    await crew.finished()


async def test_no_error_was_logged_for_what_users_and_workers_did(manager: Manager) -> None:
    """The last of the module, so the log tells of all tests before."""
    assert complaints(manager) == []
