"""What a worker that joins lets us do is what the manager does there: each verb of the role is used in some life, nothing
beside it is asked for, and without any one of them something is refused.

The workers mind roles here, those of `registration.plan`, and the manager is the account that they are for.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

import anyio
import pytest
from anyio.abc import TaskGroup
from msgspec.structs import replace

from multikueue.api import kinds
from multikueue.api.jobs.pod import GROUP_COUNT_ANNOTATION, GROUP_LABEL, POD_FINALIZER
from multikueue.api.kind import Kind
from multikueue.api.kinds import PODS, STATEFUL_SETS
from multikueue.api.kueue.workload import ELASTIC_ANNOTATION, ORIGIN_LABEL
from multikueue.api.meta import ObjectKey
from multikueue.registration.plan import (
    CLUSTER_ROLES,
    IDENTITY,
    QUEUE_RIGHTS,
    ROLES,
    RUN_PODS,
    Registration,
    Right,
    copy_rights,
    manager_objects,
    role_rules,
    worker_objects,
)
from multikueue.settings import CapacityFollow, Cluster, InForce, Integrations, Settings
from multikueue.store.workers.known_objects import CONFLICT_MEMORY
from multikueue.store.workers.watch_scope import NAMESPACES_ANNOTATION
from multikueue_simulator.world import objects
from multikueue_simulator.world.world import NAMESPACE, Layout, Share, Worker, World, token
from tests.jobs.all_kinds import body as body_of
from tests.jobs.kinds.pods.builders import body as pod_body
from tests.jobs.kinds.stateful_set.test_adapter import body as stateful_set_body
from tests.simulator.rights import Asked, Verb, account, guard, verbs, without
from tests.simulator.stage import perform
from tests.simulator.test_job_kinds import adapter_of, definition, until

LAYOUT = Layout(queues=(Share("main", 8),), workers=(Share("w1", 8), Share("w2", 8)))
EVERYWHERE = Registration(cluster="any", may_run_pods=True)
LIMITED = replace(EVERYWHERE, run_in=(NAMESPACE, "another"))
ACCOUNT = account(*EVERYWHERE.account)
LONG = 3600.0
JOBSET = adapter_of("jobset.x-k8s.io/jobset")
JOB = ObjectKey(NAMESPACE, "job")
Object = dict[str, Any]
Life = Callable[[World], Coroutine[Any, Any, None]]


def register(world: World, worker: Worker, asked: Asked, registration: Registration, *, taken: Verb | None) -> None:
    """As `clusters register` does, but for one verb; and mind that from now on."""
    for name in registration.run_in:
        if worker.site.stored(kinds.NAMESPACES, ObjectKey("", name)) is None:
            worker.site.create(kinds.NAMESPACES, {"metadata": {"name": name}})
    for one in worker_objects(registration):
        rules = {"rules": [*without(one.body["rules"], taken)]} if one.kind in (CLUSTER_ROLES, ROLES) else {}
        worker.site.create(one.kind, one.manifest | rules)
    offered = manager_objects(registration)[-1].body["metadata"]["annotations"]
    world.manager.patch(kinds.MULTIKUEUE_CLUSTERS, ObjectKey("", worker.name), {"metadata": {"annotations": offered}})
    host = worker.runner.network.hosts[worker.name]
    others = (worker.kueue, worker.runner)
    guard(host, worker.site.cluster, token(worker.name), ACCOUNT, asked, others=others)


def settings() -> Settings:
    return Settings(
        cluster=Cluster(namespace=LAYOUT.secrets),
        capacity_follow=CapacityFollow(enabled=True),
        integrations=Integrations(
            frameworks=("batch/job", "pod", "statefulset", JOBSET.declared.framework), elastic_jobs=True
        ),
    )


def asked_in(life: Life, registration: Registration = EVERYWHERE, *, taken: Verb | None = None) -> Asked:
    """What a manager asks of the workers in such a life; without a verb, until it is refused something."""
    asked = Asked()

    async def scenario(world: World, tasks: TaskGroup) -> None:
        for site in world.sites:
            site.cluster.install([definition(kind) for kind in (STATEFUL_SETS, JOBSET.kind)])
        for worker in world.workers.values():
            register(world, worker, asked, registration, taken=taken)
        await world.add_manager("manager-0", InForce(settings())).begin(tasks).wait()
        if taken is None:
            await life(world)
        else:
            tasks.start_soon(life, world)
            await until(lambda: asked.refused, within=LONG)

    perform(LAYOUT, scenario)
    return asked


# --- the lives -------------------------------------------------------------------------------------------------------


def copies(world: World, kind: Kind[Any]) -> list[Object]:
    """What there is of ours on the workers."""
    found = (each for worker in world.workers.values() for each in worker.site.all(kind))
    return [each for each in found if ORIGIN_LABEL in each["metadata"].get("labels", {})]


async def elastic_job(world: World) -> None:
    """A Job runs, shrinks, and is stopped from home."""
    body = objects.job("job", NAMESPACE, queue="main", parallelism=3, seconds=600.0)
    body["spec"]["completions"] = 100
    body["metadata"]["annotations"][ELASTIC_ANNOTATION] = "true"
    await submitted(world, kinds.JOBS, body)
    await until(lambda: copies(world, kinds.JOBS))
    await until(lambda: (world.manager.stored(kinds.JOBS, JOB) or {})["status"].get("active") == 3)
    world.manager.patch(kinds.JOBS, JOB, {"spec": {"parallelism": 2}})
    await until(lambda: [job["spec"]["parallelism"] for job in copies(world, kinds.JOBS)] == [2])
    (local,) = world.manager.all(kinds.WORKLOADS)
    key = ObjectKey(NAMESPACE, local["metadata"]["name"])
    world.manager.patch(kinds.WORKLOADS, key, {"spec": {"active": False}})
    await until(lambda: not copies(world, kinds.JOBS))


async def job_set(world: World) -> None:
    await comes_and_goes(world, JOBSET.kind, body_of(JOBSET))


async def stateful_set(world: World) -> None:
    await comes_and_goes(world, STATEFUL_SETS, stateful_set_body())


async def pod_group(world: World) -> None:
    """Two Pods, which Kueue's finalizer keeps on the worker: its webhook there puts it on them."""
    pods = [pod_body(name, labels={GROUP_LABEL: "group"}) for name in (JOB.name, "other")]
    for pod in pods:
        pod["metadata"]["annotations"] = {GROUP_COUNT_ANNOTATION: "2"}
    await submitted(world, PODS, *(fresh(PODS, pod) for pod in pods))
    await until(lambda: len(copies(world, PODS)) == 2)
    finalizers = {"metadata": {"finalizers": [POD_FINALIZER]}}
    for worker in world.workers.values():
        for pod in worker.site.all(PODS):
            worker.site.patch(PODS, key_of(pod), finalizers)
    for pod in pods:
        world.manager.delete(PODS, key_of(pod))
    await until(lambda: not copies(world, PODS))


async def comes_and_goes(world: World, kind: Kind[Any], body: Object) -> None:
    await submitted(world, kind, fresh(kind, body | {"metadata": body["metadata"] | {"name": JOB.name}}))
    await until(lambda: copies(world, kind))
    world.manager.delete(kind, JOB)
    await until(lambda: not copies(world, kind))


async def submitted(world: World, kind: Kind[Any], *bodies: Object) -> None:
    """The job comes, and all its names are taken by a stranger for a while: by a Workload here, and there by a job."""
    here, there = (worker.site for worker in world.workers.values())
    hold(world, "Hold")
    for body in bodies:
        world.manager.create(kind, body)
    await until(lambda: world.manager.all(kinds.WORKLOADS))
    (local,) = world.manager.all(kinds.WORKLOADS)
    strange = {"name": local["metadata"]["name"], "namespace": NAMESPACE}
    workload = here.create(kinds.WORKLOADS, {**local, "metadata": strange, "status": {}})
    job = there.create(kind, {**bodies[0], "metadata": {"name": JOB.name, "namespace": NAMESPACE}})
    hold(world, "None")
    await anyio.sleep(30)
    assert not copies(world, kind)
    here.delete(kinds.WORKLOADS, key_of(workload))
    there.delete(kind, key_of(job))
    await anyio.sleep(CONFLICT_MEMORY.total_seconds())


def hold(world: World, policy: str) -> None:
    world.manager.patch(kinds.CLUSTER_QUEUES, ObjectKey("", "main"), {"spec": {"stopPolicy": policy}})


def fresh(kind: Kind[Any], body: Object) -> Object:
    """As somebody would apply it."""
    kept = {part: value for part, value in body["metadata"].items() if part in ("name", "labels", "annotations")}
    metadata = {**kept, "namespace": NAMESPACE}
    return {"apiVersion": kind.api_version, "kind": kind.kind, **body, "metadata": metadata}


def key_of(body: Object) -> ObjectKey:
    return ObjectKey(NAMESPACE, body["metadata"]["name"])


# --- what is asked ---------------------------------------------------------------------------------------------------

LIVES: dict[Life, tuple[Right, ...]] = {
    elastic_job: (IDENTITY, *QUEUE_RIGHTS, *copy_rights([("batch", "jobs")])),
    job_set: copy_rights([(JOBSET.kind.group, JOBSET.kind.plural)]),
    stateful_set: copy_rights([("apps", "statefulsets")]),
    pod_group: RUN_PODS,
}
"""And the rights that each of them shows to be used."""


BOTH = pytest.mark.parametrize("registration", [EVERYWHERE, LIMITED], ids=["everywhere", "in some namespaces"])


@BOTH
@pytest.mark.parametrize("life", LIVES, ids=lambda life: life.__name__)
def test_what_is_granted_is_used_and_nothing_else_is_asked_for(life: Life, registration: Registration) -> None:
    asked = asked_in(life, registration)

    assert asked.refused == set()
    assert asked.used >= verbs(role_rules(LIVES[life]))


@BOTH
@pytest.mark.parametrize(
    ("life", "verb"),
    [(life, verb) for life, rights in LIVES.items() for verb in sorted(verbs(role_rules(rights)))],
    ids=lambda value: " ".join(value[1:]) if isinstance(value, Verb) else "",
)
def test_without_any_one_of_them_something_is_refused(life: Life, verb: Verb, registration: Registration) -> None:
    assert asked_in(life, registration, taken=verb).refused == {verb}


def test_a_role_in_one_namespace_holds_nowhere_else() -> None:
    elsewhere = replace(EVERYWHERE, run_in=("another",))
    asked = Asked()

    async def scenario(world: World, tasks: TaskGroup) -> None:
        for worker in world.workers.values():
            register(world, worker, asked, elsewhere, taken=None)
        offered = {NAMESPACES_ANNOTATION: f"another,{NAMESPACE}"}
        for name in world.workers:
            world.manager.patch(kinds.MULTIKUEUE_CLUSTERS, ObjectKey("", name), {"metadata": {"annotations": offered}})
        await world.add_manager("manager-0", InForce(settings())).begin(tasks).wait()
        world.manager.create(kinds.JOBS, objects.job("job", NAMESPACE, queue="main"))
        await until(lambda: "nothing is seen in" in message(world, "w1"))
        assert message(world, "w1").startswith(f"Connected; nothing is seen in {NAMESPACE}: ")
        await anyio.sleep(30)
        assert not copies(world, kinds.WORKLOADS)

    perform(LAYOUT, scenario)
    assert {verb.verb for verb in asked.refused} == {"list"}, "and nothing was tried to be made"


def message(world: World, cluster: str) -> str:
    found = world.manager.stored(kinds.MULTIKUEUE_CLUSTERS, ObjectKey("", cluster)) or {}
    return " ".join(each["message"] for each in found.get("status", {}).get("conditions", ()))
