"""Each kind of job on real clusters, from its submission to its end, as its own project's documentation shows it: by a manager
alone on its cluster, and beside a real Kueue. All kinds of one manager live at the same time; a test looks at one of them.

The accounts have the rights that `deploy/` grants and those that `multikueue clusters register` gives, and no others.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterator, Mapping
from copy import deepcopy
from functools import partial
from typing import NamedTuple

import anyio
import pytest

from multikueue.jobs.integrations.frameworks import FRAMEWORKS
from multikueue.jobs.kinds.declared.adapter import DeclaredJob
from multikueue.registration.plan import Registration, worker_objects
from testbed import objects
from testbed.bed import MANAGER, Plan, Testbed
from testbed.client import Client, Kind
from testbed.controllers import GARBAGE
from testbed.jobs import complete_job, start_job
from testbed.objects import Object
from testbed.plane import ControlPlane
from tests.jobs.all_kinds import running, succeeded
from tests.jobs.published import MANIFESTS, RUNTIME, RUNTIME_NAME, group
from tests.project.test_job_kinds import documented
from tests.real.deployment import component, granted
from tests.real.dialect import spoken
from tests.real.harness import Manager, Team, complaints, logged, team
from tests.real.lives import AWAY, HOME, Play, Shown, as_stored, copied, refused
from tests.real.lives_of_pods import deployment, grouped, stateful_set
from tests.real.neighbours import CORE, Neighbourhood, held_pods, neighbourhood
from tests.real.skipping import needs_programs
from tests.real.webhooking import SETTINGS, registered

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.real,
    pytest.mark.timeout(400),
    needs_programs("other clusters have neither these kinds nor a Kueue that integrates them"),
]

SPARK = "SparkApplication"
SPARKS, SPARK_GROUP = "sparkapplications", "sparkoperator.k8s.io"
LATE = ("RayService", "TrainJob", SPARK, "elastic RayCluster")
"""Rows that Kueue 0.16, or what goes with it, does not have."""
LACKING = () if spoken("every kind") else LATE
KNOWN = tuple(name for name in (*FRAMEWORKS, "deployment") if spoken("every kind") or name != "ray.io/rayservice")
CONTROLLERS = (GARBAGE, "statefulset-controller", "deployment-controller", "replicaset-controller")
CRDS = (
    *("kueue", "jobset", "kubeflow", "mpi", "ray", "trainer", "appwrapper"),
    *(("spark",) if spoken("every kind") else ()),
)
QUOTA = {"cpu": "200", "memory": "500Gi"}
ELASTIC = "kueue.x-k8s.io/elastic-job"

Life = Callable[[Team], Awaitable[None]]
Told = Mapping[str, Exception | None]


# --- the table -----------------------------------------------------------------------------------------------------------


def _published(kind: str, **metadata: object) -> Object:
    """As its project shows it, in our queue."""
    body = deepcopy(MANIFESTS[kind])
    body["metadata"] |= {"labels": {"kueue.x-k8s.io/queue-name": "main"}} | metadata
    return body


def _status(kind: Kind, status: Object) -> Play:
    async def write(client: Client, namespace: str, name: str) -> Object:
        return await client.patch_status(kind, name, as_stored(status), namespace)

    return write


def _job(name: str = "job", **spec: object) -> Shown:
    body = _published("batch Job", name=name)
    body["spec"] |= spec
    return Shown(body, "spec.suspend", running=start_job, over=complete_job)


def _declared(adapter: DeclaredJob) -> Shown:
    body = _published(adapter.kind.kind)
    kind, ends = Kind(body["apiVersion"], body["kind"]), adapter.declared.succeeded is not None
    over = _status(kind, succeeded(adapter)) if ends else None
    return Shown(body, adapter.declared.suspend, running=_status(kind, running(adapter)), over=over)


def _elastic() -> Shown:
    """A RayCluster that grows by two workers, and shrinks by one."""
    body = _published("RayCluster", name="elastic", annotations={ELASTIC: "true"})
    of_any_size = _declared(FRAMEWORKS["ray.io/raycluster"])  # type: ignore[arg-type]
    return Shown(body, "spec.suspend", running=of_any_size.running, over=None, sizes=(3, 2))


def _spark() -> Shown:
    body = _published(SPARK)
    kind = Kind(body["apiVersion"], body["kind"])

    async def start(client: Client, namespace: str, name: str) -> Object:
        return await client.patch(kind, name, {"spec": {"suspend": False}}, namespace)

    def says(state: str) -> Object:
        return {"applicationState": {"state": state}, "driverInfo": {}}

    running, over = (_status(kind, says(state)) for state in ("RUNNING", "COMPLETED"))
    return Shown(body, "spec.suspend", running=running, over=over, start=start)


ADAPTERS = {each.kind.kind: each for each in FRAMEWORKS.values() if isinstance(each, DeclaredJob)}
REFUSED = "JAXJob"
"""What no worker's Kueue takes with a Workload made elsewhere."""

SUSPENDED: Mapping[str, Shown] = {
    "batch Job": _job(),
    "indexed Job": _job("indexed", completionMode="Indexed"),
    **{kind: _declared(adapter) for kind, adapter in ADAPTERS.items() if kind != REFUSED},
    SPARK: _spark(),
    "elastic RayCluster": _elastic(),
}
UNTAKEN: Mapping[str, Life] = {
    f"{REFUSED}, which no worker takes": partial(refused, _published(REFUSED), words="Is not supported")
}
PODS: Mapping[str, Life] = {
    "Pod": partial(grouped, [_published("Pod")]),
    "group of Pods": partial(grouped, group("")),
    "Deployment": partial(deployment, _published("Deployment")),
    "StatefulSet": partial(stateful_set, _published("StatefulSet")),
}
UNHELD: Mapping[str, Life] = {
    f"{kind}, which is not taken": partial(refused, _published(kind), words="No multikueue adapter found")
    for kind in ("Pod", "StatefulSet")
}


def _lives(*, is_sliced: bool) -> dict[str, Life]:
    return {kind: partial(copied, row, is_sliced=is_sliced) for kind, row in SUSPENDED.items()}


ALONE: Mapping[str, Life] = {**_lives(is_sliced=False), **UNTAKEN, **PODS}
BESIDE: Mapping[str, Life] = {
    **_lives(is_sliced=True),
    **UNTAKEN,
    **UNHELD,
}
HELD: Mapping[str, Life] = PODS
"""Beside a Kueue whose gate is on, so that it holds Pods."""


def test_each_kind_has_its_row() -> None:
    assert {*MANIFESTS} - {row.partition(",")[0] for row in ALONE} == set()


# --- the scenes ----------------------------------------------------------------------------------------------------------


class Scene(NamedTuple):
    """How each kind fared, and what the manager was refused, or complained about."""

    told: Told
    refused: list[Object]


def wanted(request: pytest.FixtureRequest, test: str, lives: Mapping[str, Life]) -> dict[str, Life]:
    """The rows whose tests are run: one may be chosen by `-k`."""
    items = (item for item in request.session.items if isinstance(item, pytest.Function) and item.originalname == test)
    rows = {item.callspec.params["row"] for item in items}
    return {row: life for row, life in lives.items() if row in rows and row not in LACKING}


async def played(crew: Team, lives: Mapping[str, Life], manager: Manager) -> Scene:
    """All of them at the same time."""
    told: dict[str, Exception | None] = {}

    async def one(name: str, life: Life) -> None:
        try:
            await life(crew)
        except Exception as error:  # noqa: BLE001  # the test of that kind raises it
            told[name] = error
        else:
            told[name] = None

    async with anyio.create_task_group() as tasks:
        for name, life in lives.items():
            tasks.start_soon(one, name, life)
    forbidden = [entry for entry in logged(manager) if "is forbidden: user" in str(entry).lower()]
    return Scene(told, [*forbidden, *complaints(manager)])


@pytest.fixture(scope="module")
def bed() -> Iterator[Testbed]:
    """Two workers whose Kueue integrates all kinds we know but Spark's, whose integration refuses copies."""
    planes = (MANAGER, "worker1", "worker2")
    plan = Plan(workers=2, crds=CRDS, frameworks=KNOWN, controllers=dict.fromkeys(planes, CONTROLLERS))
    bed = Testbed(plan)
    anyio.run(bed.open)
    yield bed
    anyio.run(bed.close)


async def prepared(plane: ControlPlane, pool: str) -> None:
    """With the runtime that the TrainJob names, which is nobody's to copy, and a flavor that leads somewhere."""
    runtime = {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "ClusterTrainingRuntime"}
    async with plane.client() as client:
        await client.apply({**runtime, "metadata": {"name": RUNTIME_NAME}, "spec": RUNTIME})
        labels = {"spec": {"nodeLabels": {"example.com/pool": pool}}}
        await client.patch(objects.RESOURCE_FLAVOR, "default", labels)


async def joined(plane: ControlPlane) -> str:
    """A token of the account that a worker makes for its manager when it is registered."""
    registration = Registration(cluster=plane.name, may_run_pods=True, run_kinds=(f"{SPARKS}.{SPARK_GROUP}",))
    async with plane.client() as client:
        for each in worker_objects(registration):
            await client.apply(each.manifest)
    return await plane.service_account_token(registration.account.name, namespace=registration.namespace)


async def employed(bed: Testbed, overlay: str) -> Object:
    """A kubeconfig of the manager's account, with all that it needs for these kinds."""
    token = await granted(bed, overlay)
    spark = [
        {"apiGroups": [SPARK_GROUP], "resources": [SPARKS], "verbs": ["list", "watch", "patch"]},
        {"apiGroups": [SPARK_GROUP], "resources": [f"{SPARKS}/status"], "verbs": ["patch"]},
        {"apiGroups": [SPARK_GROUP], "resources": [f"{SPARKS}/finalizers"], "verbs": ["update"]},
    ]
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "spark"}}
    binding = next(deepcopy(body) for body in component("pods") if body["kind"] == "ClusterRoleBinding")
    binding["metadata"]["name"] = binding["roleRef"]["name"] = "spark"
    async with bed.manager.client() as client:
        for body in (*component("job-kinds"), *component("pods"), {**role, "rules": spark}, binding):
            await client.apply(body)
    return bed.manager.kubeconfig(token=token)


def settings() -> dict[str, str]:
    declared, _ = documented(SPARK)
    return {
        "INTEGRATIONS__FRAMEWORKS": ",".join(KNOWN),
        "INTEGRATIONS__DECLARED": json.dumps([each.model_dump(mode="json") for each in declared.declared]),
        "INTEGRATIONS__ELASTIC_JOBS": "true",
    }


async def scene(home: Testbed | Neighbourhood, lives: Mapping[str, Life], manager: Manager) -> Scene:
    tokens = {plane.name: await joined(plane) for plane in home.workers}
    async with team(home, quota=QUOTA, tokens=tokens) as crew:  # type: ignore[arg-type]  # all that a team needs
        await crew.all_active(manager)
        await prepared(home.manager, HOME)
        for plane in home.workers:
            await prepared(plane, AWAY)
        return await played(await registered(crew), lives, manager)


@pytest.fixture(scope="module")
def alone(bed: Testbed, request: pytest.FixtureRequest) -> Scene:
    lives = wanted(request, test_it_lives_by_a_manager_alone.__name__, ALONE)

    async def stand() -> Scene:
        access = await employed(bed, "standalone")
        manager = Manager(bed, access=access, **SETTINGS, **settings())  # type: ignore[arg-type]  # none is called `command`
        async with manager.running():
            await manager.ready()
            return await scene(bed, lives, manager)

    return anyio.run(stand)


@pytest.fixture(scope="module")
def both_beside(bed: Testbed, request: pytest.FixtureRequest) -> tuple[Scene, Scene]:
    """Beside a Kueue with its MultiKueue off, and then beside one that holds Pods by it, without its controllers."""
    lives = wanted(request, test_it_lives_beside_kueue.__name__, BESIDE)
    more = wanted(request, test_it_lives_beside_a_kueue_that_holds_pods.__name__, HELD)

    async def stand() -> tuple[Scene, Scene]:
        async with neighbourhood(bed) as home:
            home.access = await employed(home, "beside-kueue")  # type: ignore[arg-type]  # all that is asked of it
            await bed.start_controllers(home.manager, [each for each in CONTROLLERS if each != GARBAGE])
            queue = {**CORE, "frameworks": KNOWN}
            if spoken("every kind"):
                gates = CORE["feature_gates"] | {"SparkApplicationIntegration": True}
                queue |= {"feature_gates": gates, "frameworks": (*KNOWN, "sparkoperator.k8s.io/sparkapplication")}
            manager = await home.arrange(queue, "dispatch", **settings())
            assert manager is not None
            first = await scene(home, lives, manager)
            held = held_pods(home.manager, ("batch/job", "pod", "deployment", "statefulset"))
            manager = await home.arrange(held, "dispatch", **settings(), INTEGRATIONS__KUEUE_HOLDS_PODS="true")
            assert manager is not None
            return first, await scene(home, more, manager)

    return anyio.run(stand)


# --- what is said of each ------------------------------------------------------------------------------------------------


def lived(told: Scene, row: str) -> None:
    error = told.told[row]
    if error is not None:
        raise error


def rows_of(lives: Mapping[str, Life]) -> pytest.MarkDecorator:
    late = pytest.mark.skip(reason="needs Kueue 0.18 and what goes with it")
    return pytest.mark.parametrize("row", [pytest.param(row, marks=late if row in LACKING else ()) for row in lives])


@rows_of(ALONE)
def test_it_lives_by_a_manager_alone(alone: Scene, row: str) -> None:
    lived(alone, row)


@rows_of(BESIDE)
def test_it_lives_beside_kueue(both_beside: tuple[Scene, Scene], row: str) -> None:
    lived(both_beside[0], row)


@rows_of(HELD)
def test_it_lives_beside_a_kueue_that_holds_pods(both_beside: tuple[Scene, Scene], row: str) -> None:
    lived(both_beside[1], row)


def test_the_rights_suffice_and_nothing_is_wrong(alone: Scene, both_beside: tuple[Scene, Scene]) -> None:
    assert [each.refused for each in (alone, *both_beside)] == [[], [], []]
