"""What an operator sees: /metrics beside real Kueue's, readiness, the visibility API; one file, one pair of managers."""

from __future__ import annotations

import json
import re
import ssl
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp
import anyio
import pytest
from prometheus_client.parser import text_string_to_metric_families

from testbed import objects, queues
from testbed.audit import Mark
from testbed.bed import Testbed, unique
from testbed.client import ApiError, Client, Kind, eventually
from testbed.jobs import complete_job
from testbed.kubeconfig import dump
from testbed.kueue import Kueue
from testbed.objects import JOB, KUEUE_NAMESPACE, WORKLOAD, Object
from testbed.plane import ControlPlane
from testbed.ports import free_port
from testbed.programs import Release
from tests.real.harness import Manager, Team, logged, team
from tests.real.skipping import needs_programs, needs_testbed

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.real,
    pytest.mark.timeout(150),
    needs_testbed("it reads audit logs, and the API server must reach our loopback"),
]

DOCUMENT = Path(__file__).parent.parent.parent / "docs" / "metrics.md"
GROUP = "visibility.kueue.x-k8s.io"
EXPLANATIONS = "visibility.multikueue.dev"
API_SERVICE = Kind("apiregistration.k8s.io/v1", "APIService")
SERVICE = "multikueue-visibility"
LONG_AGO = "2026-01-01T00:00:00Z"
SIX_TENTHS = {"cpu": "600m", "memory": "10Mi"}

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


through_an_api_server = needs_programs("an API server that asks others for what it does not serve")


@pytest.fixture(scope="module")
def visibility_port() -> int:
    return free_port()


@pytest.fixture(scope="module")
def manager_settings(visibility_port: int) -> dict[str, str]:
    return {
        "METRICS__HOST": "127.0.0.1",
        "METRICS__PORT": "0",
        "METRICS__ENABLE_CLUSTER_QUEUE_RESOURCES": "true",
        "METRICS__ENABLE_LOCAL_QUEUES": "true",
        "PROBES__HOST": "127.0.0.1",
        "PROBES__PORT": "0",
        "VISIBILITY__ENABLED": "true",
        "VISIBILITY__HOST": "127.0.0.1",
        "VISIBILITY__PORT": str(visibility_port),
        "VISIBILITY__SERVICE_PORT": str(visibility_port),
    }


@pytest.fixture(scope="module")
def began(bed: Testbed) -> Mark:
    """The end of the audit log before our manager began."""
    anyio.run(_prepare, bed)
    return anyio.run(bed.manager.audit.settled)


@pytest.fixture(scope="module")
def manager(bed: Testbed, manager_settings: dict[str, str], began: Mark) -> Iterator[Manager]:
    process = Manager(bed, **manager_settings)  # type: ignore[arg-type]  # no setting is called `command`
    process.start()
    yield process
    process.kill()
    anyio.run(_withdraw, bed)


async def _prepare(bed: Testbed) -> None:
    """The Service by which the API server finds us: one that leads to this machine."""
    async with bed.manager.client() as client:
        await client.apply(objects.namespace(KUEUE_NAMESPACE))
        await client.apply(loopback_service(SERVICE))


async def _withdraw(bed: Testbed) -> None:
    async with bed.manager.client() as client:
        for version in ("v1beta1", "v1beta2"):
            await client.delete(API_SERVICE, f"{version}.{GROUP}")


def loopback_service(name: str) -> Object:
    spec = {"type": "ExternalName", "externalName": "localhost"}
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "namespace": KUEUE_NAMESPACE},
        "spec": spec,
    }


async def port_of(manager: Manager, event: str) -> int:
    async def told() -> int | None:
        return next((int(entry["port"]) for entry in logged(manager) if entry["event"] == event), None)

    try:
        return await eventually(told, timeout=30)
    except AssertionError as error:
        error.add_note(manager.log.read_text()[:3000])
        raise


async def fetch(url: str) -> tuple[int, str]:
    async with aiohttp.ClientSession() as session, session.get(url) as answer:
        return answer.status, await answer.text()


def samples(text: str) -> Samples:
    """All samples of an exposition, as Prometheus reads them; a name with labels appears once."""
    found: Samples = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            key = sample.name, frozenset(sample.labels.items())
            assert key not in found, f"{key} is exposed twice"
            found[key] = sample.value
    return found


class Scrapes:
    """What the manager exposes; `value` sums over the samples of that name which have these labels."""

    def __init__(self, manager: Manager) -> None:
        self.manager = manager

    async def text(self) -> str:
        port = await port_of(self.manager, "metrics.serving")
        status, text = await fetch(f"http://127.0.0.1:{port}/metrics")
        assert status == 200
        return text

    async def samples(self) -> Samples:
        return samples(await self.text())


def value(found: Samples, name: str, **labels: str) -> float:
    wanted = frozenset(labels.items())
    return sum(number for (each, having), number in found.items() if each == name and wanted <= having)


@pytest.fixture
def scrapes(manager: Manager) -> Scrapes:
    return Scrapes(manager)


async def test_the_metrics_move_as_a_job_goes_its_way(crew: Team, scrapes: Scrapes) -> None:
    queue = {"cluster_queue": crew.namespace}
    before = await scrapes.samples()
    await crew.stop()
    await crew.submit(requests=SIX_TENTHS)
    await crew.waiting()
    await crew.go()
    winner = await crew.winner()

    taken, removed = "multikueue_dispatch_phase_duration_seconds_count", "multikueue_copies_removed_total"
    losers = [crew.cluster(name) for name in crew.links if name != winner]

    async def running() -> bool:
        during = await scrapes.samples()
        assert value(during, "kueue_admitted_active_workloads", **queue) == 1
        assert value(during, "kueue_quota_reserved_workloads_total", **queue) == 1
        assert value(during, "kueue_admitted_workloads_total", **queue) == 1
        assert value(during, "kueue_admission_wait_time_seconds_count", **queue) == 1
        assert value(during, "kueue_reserving_active_workloads", **queue) == 1
        assert value(during, "kueue_pending_workloads", **queue) == 0
        assert value(during, "kueue_cluster_queue_resource_usage", resource="cpu", flavor="default", **queue) == 0.6
        assert value(during, "kueue_cluster_queue_nominal_quota", resource="cpu", **queue) == 100
        assert value(during, "kueue_local_queue_resource_usage", resource="cpu", namespace=crew.namespace) == 0.6
        assert value(during, "kueue_cluster_queue_status", status="active", **queue) == 1
        assert value(during, "multikueue_workloads_dispatched_total", **queue) == 3
        won = {
            name: value(during, "multikueue_workloads_admitted_total", cluster=crew.cluster(name))
            for name in crew.links
        }
        assert won == {name: float(name == winner) for name in crew.links}
        assert [value(during, removed, cluster=name, reason="lost") for name in losers] == [1, 1]
        for phase in ("workload_created", "quota_reserved", "first_copy", "admitted_remotely", "job_created", "ready"):
            assert value(during, taken, phase=phase) == value(before, taken, phase=phase) + 1, phase
        return True

    await eventually(running)

    await crew.complete(winner)
    await crew.finished()

    async def over() -> bool:
        """The API server shows a change before we hear of it."""
        after = await scrapes.samples()
        assert value(after, removed, cluster=crew.cluster(winner), reason="finished") == 1
        assert value(after, "kueue_reserving_active_workloads", **queue) == 0
        assert value(after, "kueue_finished_workloads_total", **queue) == 1
        assert value(after, "kueue_finished_workloads", **queue) == 1
        assert value(after, "kueue_cluster_queue_resource_usage", **queue) == 0
        assert value(after, taken, phase="finished") == value(before, taken, phase="finished") + 1
        return True

    await eventually(over)


async def test_the_log_tells_each_decision_once(crew: Team, manager: Manager) -> None:
    offset = manager.log.stat().st_size
    await crew.submit()
    winner = await crew.winner()
    await crew.complete(winner)
    await crew.finished()
    key = f"{crew.namespace}/{(await crew.workload())['metadata']['name']}"

    async def told() -> list[Object] | None:
        mine = [e for e in logged(manager, offset=offset) if e.get("workload") == key and e["level"] == "info"]
        return mine if mine and mine[-1]["event"] == "workload.finished" else None

    story = await eventually(told)
    names = ["workload.created", "workload.reserved", "workload.admitted", "workload.finished"]
    assert [entry["event"] for entry in story] == names
    assert {entry["cluster"] for entry in story if "cluster" in entry} == {crew.cluster(winner)}
    assert len({entry["attempt"] for entry in story[1:]}) == 1


async def test_api_calls_are_counted_as_the_audit_log_counts_them(
    bed: Testbed, crew: Team, scrapes: Scrapes, began: Mark
) -> None:
    await crew.submit()
    await crew.complete(await crew.winner())
    await crew.finished()

    async def agree() -> Counter[tuple[str, str]] | None:
        ours = counted(await scrapes.samples())
        theirs = Counter(
            {
                (call.verb, call.resource): count
                for call, count in bed.manager.audit.since(began, await bed.manager.audit.settled()).items()
                if call.agent == "multikueue" and not call.is_watch
            }
        )
        assert ours == theirs, f"ours - theirs: {ours - theirs}, theirs - ours: {theirs - ours}"
        return ours

    ours = await eventually(agree, timeout=30, interval=0.5)
    assert ours["create", "workloads"] >= 1
    assert ours["patch", "workloads/status"] >= 3


def counted(found: Samples) -> Counter[tuple[str, str]]:
    """Our calls to the manager cluster, with the verbs of an audit log; heartbeats ask for no resource."""
    counts: Counter[tuple[str, str]] = Counter()
    for (name, pairs), number in found.items():
        labels = dict(pairs)
        if name == "multikueue_api_requests_total" and labels["cluster"] == "(manager)":
            verb = {"apply": "patch"}.get(labels["verb"], labels["verb"])
            if verb != "watch" and labels["resource"] != "api":
                counts[verb, labels["resource"]] += int(number)
    return counts


async def test_a_worker_that_is_cut_off_shows_in_the_gauge(crew: Team, scrapes: Scrapes) -> None:
    name, link = crew.cluster("worker2"), crew.links["worker2"]

    def states(found: Samples) -> dict[str, float]:
        each = ("connected", "suspect", "isolated")
        return {state: value(found, "multikueue_cluster_reachability", cluster=name, status=state) for state in each}

    async def shows(state: str) -> Samples | None:
        found = await scrapes.samples()
        return found if states(found) == {each: float(each == state) for each in states(found)} else None

    await eventually(lambda: shows("connected"))
    link.refuse()
    away = await eventually(lambda: shows("isolated"), timeout=30)
    assert value(away, "multikueue_cluster_unreachable_seconds", cluster=name) > 0
    assert value(away, "multikueue_cluster_status_changes_total", cluster=name, status="isolated") == 1
    assert value(away, "multikueue_api_requests_total", cluster=name, code="ClusterUnreachable") >= 1
    others = [crew.cluster(worker) for worker in crew.links if worker != "worker2"]
    assert all(value(away, "multikueue_cluster_reachability", cluster=each, status="isolated") == 0 for each in others)
    link.ok()
    back = await eventually(lambda: shows("connected"), timeout=60)
    assert value(back, "multikueue_cluster_unreachable_seconds", cluster=name) == 0


async def test_readiness_says_what_it_is_made_of(crew: Team, manager: Manager) -> None:
    port = await port_of(manager, "probes.serving")
    assert await fetch(f"http://127.0.0.1:{port}/readyz") == (200, "ok\n")
    status, text = await fetch(f"http://127.0.0.1:{port}/readyz?verbose")
    assert status == 200
    assert "[+]cache-workloads ok" in text.splitlines()
    assert text.splitlines()[-1] == "readyz check passed"
    assert (await fetch(f"http://127.0.0.1:{port}/readyz/cache-jobs"))[0] == 200


# Visibility.


def pending_in(namespace: str, *, version: str = "v1beta2", local: bool = False, query: str = "") -> str:
    queue = f"namespaces/{namespace}/localqueues/main" if local else f"clusterqueues/{namespace}"
    return f"/apis/{GROUP}/{version}/{queue}/pendingworkloads{query}"


async def summary(client: Client, path: str) -> Object:
    found: Object = json.loads(await client.request("GET", path))
    return found


def order(found: Object) -> list[str]:
    """The jobs behind the workloads of a summary, in its order."""
    return [item["metadata"]["ownerReferences"][0]["name"] for item in found["items"]]


@pytest.fixture
async def stuck(bed: Testbed, manager: Manager) -> AsyncIterator[Team]:
    """A team without any quota on the manager, and five jobs with priorities, some older than others."""
    await manager.ready()
    async with team(bed, workers=1, quota={"cpu": "0", "memory": "0"}) as members:
        await members.all_active(manager)
        await priorities(members.manager)
        await submit_in_turn(members.manager, members.namespace, objects.MULTIKUEUE_CONTROLLER)
        yield members


PRIORITIES = {"a": None, "b": "high", "c": None, "d": "low", "e": "high"}
OLDER = ("a", "b", "d")
IN_ORDER = ["b", "e", "a", "c", "d"]


async def priorities(client: Client) -> None:
    for name, number in (("high", 100), ("low", -100)):
        kind = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "WorkloadPriorityClass"}
        await client.apply({**kind, "metadata": {"name": f"metrics-{name}"}, "value": number})


async def submit_in_turn(client: Client, namespace: str, managed_by: str | None = None) -> None:
    """The older ones first, by more than a second: creation times have whole seconds."""
    for names in (OLDER, PRIORITIES.keys() - set(OLDER)):
        for name in names:
            more = {"priority_class": f"metrics-{PRIORITIES[name]}"} if PRIORITIES[name] else {}
            await client.create(objects.job(name, namespace, managed_by=managed_by, **more))  # type: ignore[arg-type]
        for name in names:
            await eventually(lambda name=name: _workload(client, namespace, name))  # type: ignore[misc]
        await anyio.sleep(1.1)


async def all_pending(client: Client, path: str, *, not_yet: tuple[int, ...] = (503,)) -> Object:
    """A summary, once all jobs are in it; the API server may not have found the extension, or a role, yet."""

    async def there() -> Object:
        found = await summary(client, path)
        assert len(found["items"]) == len(PRIORITIES), found
        return found

    with anyio.fail_after(60):
        while True:
            try:
                return await eventually(there, timeout=40, interval=0.2)
            except ApiError as error:
                if error.status not in not_yet:
                    raise
            await anyio.sleep(0.2)


@through_an_api_server
async def test_kubectl_sees_who_waits_through_the_api_server(bed: Testbed, stuck: Team) -> None:
    found = await all_pending(stuck.manager, pending_in(stuck.namespace))
    config = bed.folder / "visibility.kubeconfig"
    config.write_bytes(dump(bed.manager.kubeconfig()))
    command = [str(bed.programs.kubectl), "--kubeconfig", str(config), "get", "--raw", pending_in(stuck.namespace)]
    said = await anyio.run_process(command)
    assert json.loads(said.stdout) == found
    assert (found["kind"], found["apiVersion"]) == ("PendingWorkloadsSummary", f"{GROUP}/v1beta2")
    assert order(found) == IN_ORDER
    assert [item["positionInClusterQueue"] for item in found["items"]] == [0, 1, 2, 3, 4]
    assert [item["positionInLocalQueue"] for item in found["items"]] == [0, 1, 2, 3, 4]
    assert [item["priority"] for item in found["items"]] == [100, 100, 0, 0, -100]
    assert {item["localQueueName"] for item in found["items"]} == {"main"}

    part = await summary(stuck.manager, pending_in(stuck.namespace, local=True, query="?offset=1&limit=2"))
    assert order(part) == IN_ORDER[1:3]
    assert [item["positionInLocalQueue"] for item in part["items"]] == [1, 2]
    older = await summary(stuck.manager, pending_in(stuck.namespace, version="v1beta1"))
    assert older["apiVersion"] == f"{GROUP}/v1beta1"
    assert older["items"] == found["items"]
    with pytest.raises(ApiError) as refused:
        await summary(stuck.manager, pending_in("nowhere"))
    assert refused.value.status == 404


@through_an_api_server
async def test_the_api_server_finds_the_resources_by_discovery(crew: Team) -> None:
    async def found() -> bool:
        try:
            resources = (await summary(crew.manager, f"/apis/{GROUP}/v1beta2"))["resources"]
        except ApiError as error:
            if error.status == 503:  # it is registered, and nobody has found out yet that it answers
                return False
            raise
        assert {"clusterqueues/pendingworkloads", "localqueues/pendingworkloads"} <= {r["name"] for r in resources}
        groups = (await summary(crew.manager, "/apis"))["groups"]
        assert GROUP in {group["name"] for group in groups}
        service = await crew.manager.get(API_SERVICE, f"v1beta2.{GROUP}")
        available = objects.condition(service, "Available")
        assert available is not None
        assert available["status"] == "True", available
        return True

    await eventually(found, timeout=40)


@through_an_api_server
async def test_who_may_not_see_a_queue_is_refused_and_who_may_is_not(bed: Testbed, stuck: Team) -> None:
    path = pending_in(stuck.namespace)
    await all_pending(stuck.manager, path)
    rule = {"apiGroups": [GROUP], "resources": ["clusterqueues/pendingworkloads"], "verbs": ["get"]}
    async with bed.manager.client("manager") as nobody:
        with pytest.raises(ApiError) as refused:
            await summary(nobody, path)
        assert refused.value.status == 403
        await bed.manager.grant("manager", [rule])
        assert order(await all_pending(nobody, path, not_yet=(503, 403))) == IN_ORDER
        with pytest.raises(ApiError) as other:
            await summary(nobody, pending_in(stuck.namespace, local=True))
        assert other.value.status == 403


@through_an_api_server
async def test_whose_right_is_for_one_namespace_is_told_there_why_a_workload_waits(bed: Testbed, stuck: Team) -> None:
    await all_pending(stuck.manager, pending_in(stuck.namespace))
    name = (await stuck.workload(IN_ORDER[-1]))["metadata"]["name"]
    path = f"/apis/{EXPLANATIONS}/v1alpha1/namespaces/{{}}/workloads/{name}/explanation"
    right = {"apiGroups": [EXPLANATIONS], "resources": ["workloads/explanation"], "verbs": ["get"]}
    await bed.manager.grant("manager", [right])
    async with bed.manager.client("manager") as reader:

        async def told() -> Object | None:
            try:
                return await summary(reader, path.format(stuck.namespace))
            except ApiError as error:
                if error.status in (403, 503):  # the right, or the registration, is not known everywhere yet
                    return None
                raise

        found = await eventually(told, timeout=40)
        assert found["kind"] == "WorkloadExplanation"
        assert found["metadata"] == {"name": name, "namespace": stuck.namespace}
        assert found["quota"]["place"] == len(PRIORITIES)
        assert found["quota"]["lacks"]
        with pytest.raises(ApiError) as refused:
            await summary(reader, path.format("nowhere"))
        assert refused.value.status == 404


def pod_of(job: Object, name: str) -> Object:
    """A pod as the job's controller makes it."""
    meta = job["metadata"]
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": meta["name"], "uid": meta["uid"], "controller": True}
    made = {"name": name, "namespace": meta["namespace"], "ownerReferences": [owner]}
    spec = {"containers": [{"name": "main", "image": "x", "env": [{"name": "TOKEN", "value": "dear"}]}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": made, "spec": spec}


async def grant_in(client: Client, namespace: str, rules: list[Object]) -> None:
    """Lets the account `looks` of a namespace do something there and nowhere else."""
    group = "rbac.authorization.k8s.io"
    head = {"apiVersion": f"{group}/v1", "metadata": {"name": "looks", "namespace": namespace}}
    subject = {"kind": "ServiceAccount", "name": "looks", "namespace": namespace}
    await client.apply({**head, "kind": "Role", "rules": rules})
    role = {"apiGroup": group, "kind": "Role", "name": "looks"}
    await client.apply({**head, "kind": "RoleBinding", "roleRef": role, "subjects": [subject]})


LOOKS = [
    {
        "apiGroups": [EXPLANATIONS],
        "resources": ["workloads/pods", "workloads/events", "workloads/log"],
        "verbs": ["get"],
    },
    {"apiGroups": [""], "resources": ["pods", "events"], "verbs": ["list"]},
    {"apiGroups": [""], "resources": ["pods/log"], "verbs": ["get"]},
]


@through_an_api_server
async def test_whose_rights_are_for_one_namespace_sees_what_runs_of_its_workloads_on_workers(
    bed: Testbed, crew: Team
) -> None:
    await crew.submit()
    winner = await crew.winner()
    worker = crew.clients[winner]
    job = await eventually(lambda: worker.get(JOB, "job", crew.namespace))
    await worker.create(pod_of(job, "job-0"))
    await worker.create({**pod_of(job, "stranger"), "metadata": {"name": "stranger", "namespace": crew.namespace}})
    about = {"kind": "Job", "apiVersion": "batch/v1", "name": "job", "uid": job["metadata"]["uid"]}
    told = {"apiVersion": "v1", "kind": "Event", "metadata": {"name": "spoken", "namespace": crew.namespace}}
    about |= {"namespace": crew.namespace}
    await worker.create({**told, "involvedObject": about, "type": "Normal", "reason": "Spoken", "message": "so it is"})
    name = (await crew.workload())["metadata"]["name"]
    path = f"/apis/{EXPLANATIONS}/v1alpha1/namespaces/{{}}/workloads/{name}/{{}}"

    token = await bed.manager.service_account_token("looks", namespace=crew.namespace)
    async with Client(bed.manager.url, ca=bed.manager.ca, token=token) as viewer:

        async def refused(namespace: str, subresource: str) -> str:
            with pytest.raises(ApiError) as error:
                await summary(viewer, path.format(namespace, subresource))
            assert error.value.status == 403
            return str(error.value)

        await grant_in(crew.manager, crew.namespace, LOOKS[:1])

        async def may_ask() -> bool:
            return 'cannot list resource "pods" in API group ""' in await refused(crew.namespace, "pods")

        await eventually(may_ask, timeout=40)
        await grant_in(crew.manager, crew.namespace, LOOKS)

        async def seen() -> Object | None:
            try:
                return await summary(viewer, path.format(crew.namespace, "pods"))
            except ApiError as error:
                if error.status in (403, 503):  # the right is not known yet, or a refusal is remembered
                    return None
                raise

        found = await eventually(seen, timeout=40)
        assert (found["kind"], found["cluster"]) == ("WorkloadPods", crew.cluster(winner))
        assert [pod["metadata"]["name"] for pod in found["items"]] == ["job-0"]
        assert "dear" not in json.dumps(found)
        events = await summary(viewer, path.format(crew.namespace, "events"))
        assert "Spoken" in [event["reason"] for event in events["items"]]
        for pod, code, said in (("job-0", 400, "is on no node"), ("stranger", 404, "not found among")):
            with pytest.raises(ApiError, match=said) as error:
                await viewer.request("GET", path.format(crew.namespace, f"log?pod={pod}&tailLines=5"))
            assert error.value.status == code
        # Nobody runs pods here, so what the log says is the worker's own complaint about the node.
        bind = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "job-0"}, "target": {"name": "nowhere"}}
        await worker.request("POST", f"/api/v1/namespaces/{crew.namespace}/pods/job-0/binding", body=bind)
        with pytest.raises(ApiError, match="nowhere"):
            await viewer.request("GET", path.format(crew.namespace, "log?pod=job-0"))
        for subresource in ("pods", "events", "log?pod=job-0"):
            await refused("default", subresource)


@through_an_api_server
async def test_only_the_api_server_may_speak_for_others(
    bed: Testbed, stuck: Team, visibility_port: int, tmp_path: Path
) -> None:
    path = pending_in(stuck.namespace)
    await all_pending(stuck.manager, path)
    authorities = bed.manager.identity
    proxy = authorities.front_proxy.issue("front-proxy-client").write(tmp_path / "proxy")
    other = authorities.front_proxy.issue("somebody").write(tmp_path / "other")
    stranger = authorities.authority.issue("front-proxy-client").write(tmp_path / "stranger")
    url = f"https://127.0.0.1:{visibility_port}{path}"

    assert await ask(url, None, user="admin", group="system:masters") == 401
    assert await ask(url, other, user="admin", group="system:masters") == 401
    with pytest.raises(aiohttp.ClientError):
        await ask(url, stranger, user="admin", group="system:masters")
    assert await ask(url, proxy, user="", group="") == 401
    assert await ask(url, proxy, user="jane", group="system:authenticated") == 403
    assert await ask(url, proxy, user="admin", group="system:masters") == 200


async def ask(url: str, certificate: tuple[Path, Path] | None, *, user: str, group: str) -> int:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if certificate is not None:
        context.load_cert_chain(*certificate)
    headers = {"X-Remote-User": user, "X-Remote-Group": group} if user else {}
    connector = aiohttp.TCPConnector(ssl=context)
    async with aiohttp.ClientSession(connector=connector) as session, session.get(url, headers=headers) as answer:
        await answer.read()
        return answer.status


# Beside Kueue.


@asynccontextmanager
async def kueue_alone(bed: Testbed) -> AsyncIterator[tuple[ControlPlane, Kueue]]:
    """A cluster of its own with a Kueue that exposes all it has."""
    plane = await bed.start_plane(unique("alone"))
    try:
        kueue = await bed.start_kueue(
            plane,
            configuration={"metrics": {"enableClusterQueueResources": True}},
            feature_gates={"LocalQueueMetrics": True},
        )
        yield plane, kueue
    finally:
        with anyio.CancelScope(shield=True):
            await bed.stop_kueue(plane)
            await plane.stop()


async def test_names_labels_and_places_are_kueues(bed: Testbed, crew: Team, scrapes: Scrapes) -> None:
    """The same scene on a Kueue of its own: a job that finishes, one that is evicted, and some that wait."""
    async with kueue_alone(bed) as (plane, kueue), plane.client() as client:
        namespace = unique("scene")
        await _scene(client, namespace)
        await _play(crew)

        async def alike() -> bool:
            ours, theirs = await _families(scrapes.text), await _families(kueue.metrics)
            assert differences(ours, theirs) == documented()
            return True

        await eventually(alike, timeout=30, interval=0.3)
        await _same_order(client, kueue, crew.manager)


async def _scene(client: Client, namespace: str) -> None:
    """The check is one that nobody looks after but this test."""
    await client.apply(objects.admission_check(namespace, config=namespace, controller="testbed/by-hand"))
    active = {"type": "Active", "status": "True", "reason": "Active", "message": "", "lastTransitionTime": LONG_AGO}
    await client.patch_status(objects.ADMISSION_CHECK, namespace, {"conditions": [active]})
    body = objects.cluster_queue(namespace, quota={"cpu": "1", "memory": "1Gi"}, checks=[namespace])
    await queues.setup_queue(client, namespace=namespace, queue="main", cluster_queue=body)
    await client.create(objects.job("done", namespace, requests=SIX_TENTHS))
    await _pass_check(client, namespace, "done")
    await eventually(lambda: _admitted(client, namespace, "done"), timeout=20)
    await complete_job(client, namespace, "done")
    await client.create(objects.job("evicted", namespace, requests=SIX_TENTHS))
    await _pass_check(client, namespace, "evicted")
    await _evict(client, namespace, "evicted")


async def _pass_check(client: Client, namespace: str, job: str) -> None:
    async def pending() -> Object | None:
        body = await _workload(client, namespace, job)
        return body if body is not None and body.get("status", {}).get("admissionChecks") else None

    body = await eventually(pending, timeout=20)
    ready = {"name": namespace, "state": "Ready", "message": "", "lastTransitionTime": LONG_AGO}
    await client.patch_status(WORKLOAD, body["metadata"]["name"], {"admissionChecks": [ready]}, namespace)


async def _play(crew: Team) -> None:
    await crew.submit("done", requests=SIX_TENTHS)
    await crew.complete(await crew.winner("done"), "done")
    await crew.submit("evicted", requests=SIX_TENTHS)
    await crew.winner("evicted")
    await _evict(crew.manager, crew.namespace, "evicted")


async def _workload(client: Client, namespace: str, job: str) -> Object | None:
    found = await client.list(WORKLOAD, namespace)
    return next((body for body in found if body["metadata"]["name"].startswith(f"job-{job}-")), None)


async def _admitted(client: Client, namespace: str, job: str) -> bool:
    body = await _workload(client, namespace, job)
    condition = objects.condition(body, "Admitted") if body else None
    return condition is not None and condition["status"] == "True"


async def _evict(client: Client, namespace: str, job: str) -> None:
    """As `kubectl kueue stop workload` does it."""
    await eventually(lambda: _admitted(client, namespace, job), timeout=20)
    body = await _workload(client, namespace, job)
    assert body is not None
    await client.patch(WORKLOAD, body["metadata"]["name"], {"spec": {"active": False}}, namespace)


async def _families(text: Callable[[], Any]) -> dict[str, frozenset[str]]:
    """Kueue's metrics and their labels, of which an eviction's must be there: the last to come."""
    found: dict[str, frozenset[str]] = {}
    for family in text_string_to_metric_families(await text()):
        for sample in family.samples:
            if sample.name.startswith("kueue_"):
                name = re.sub(r"_(bucket|sum|count)$", "", sample.name) if family.type == "histogram" else sample.name
                found[name] = found.get(name, frozenset()) | (frozenset(sample.labels) - {"le"})
    assert {"kueue_evicted_workloads_total", "kueue_finished_workloads_total"} <= found.keys()
    return found


def differences(ours: dict[str, frozenset[str]], theirs: dict[str, frozenset[str]]) -> dict[str, str]:
    found = dict.fromkeys(theirs.keys() - ours.keys(), "Kueue only")
    found |= dict.fromkeys(ours.keys() - theirs.keys(), "here only")
    for name in ours.keys() & theirs.keys():
        if ours[name] != theirs[name]:
            found[name] = f"labels differ: {', '.join(sorted(ours[name] ^ theirs[name]))}"
    return found


def documented() -> dict[str, str]:
    """The table of differences in the docs, but for those of later releases than the one that runs."""
    text = DOCUMENT.read_text().partition("## Differences from Kueue")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `(kueue_\w+)` \| ([^|]+) \| ([\d.]+) \|", text, flags=re.MULTILINE)
    return {name: what for name, what, since in rows if Release(since).version <= Release.chosen().version}


async def _same_order(theirs: Client, kueue: Kueue, ours: Client) -> None:
    """The same waiting jobs: the places we show are the order in which Kueue lets them in, when quota grows bit by bit.

    Kueue's own visibility API cannot be asked here: it starts in a pod only. Each time it has to have looked at all of them:
    who was not looked at yet comes before those that did not fit when they were.
    """
    namespace = unique("places")
    for client in (theirs, ours):
        body = objects.cluster_queue(namespace, quota={"cpu": "0", "memory": "10Gi"})
        await queues.setup_queue(client, namespace=namespace, queue="main", cluster_queue=body)
        await priorities(client)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(submit_in_turn, theirs, namespace)
        tasks.start_soon(submit_in_turn, ours, namespace)
    shown = order(await all_pending(ours, pending_in(namespace)))
    assert shown == [name async for name in _let_in(theirs, kueue, namespace)] == IN_ORDER
    for name in PRIORITIES:
        await ours.delete(JOB, name, namespace)


async def _let_in(client: Client, kueue: Kueue, namespace: str) -> AsyncIterator[str]:
    """The jobs of a namespace in the order in which they are admitted, one after the other."""
    seen: set[str] = set()
    for number in range(1, len(PRIORITIES) + 1):
        await eventually(partial(_fits_none, kueue, namespace, len(PRIORITIES) + 1 - number))
        body = objects.cluster_queue(namespace, quota={"cpu": f"{number}00m", "memory": "10Gi"})
        await client.apply(body)
        [name] = await eventually(lambda: _newly_admitted(client, namespace, seen), timeout=20)
        seen.add(name)
        yield name


async def _fits_none(kueue: Kueue, queue: str, count: int) -> bool:
    """Whether Kueue has looked at so many that wait, and none fits."""
    found: Counter[str] = Counter()
    for (name, labels), value in samples(await kueue.metrics()).items():
        if name == "kueue_pending_workloads" and ("cluster_queue", queue) in labels:
            found[dict(labels)["status"]] += int(value)
    return found["active"] == 0 and found["inadmissible"] == count


async def _newly_admitted(client: Client, namespace: str, seen: set[str]) -> set[str]:
    admitted = {name for name in PRIORITIES if await _admitted(client, namespace, name)}
    return admitted - seen
