"""Kinds of jobs that their definitions declare, through a whole manager: they come, change and go while it runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anyio
from anyio.abc import TaskGroup
from structlog.testing import capture_logs

from multikueue.api import kinds
from multikueue.api.jobs.job import job_type
from multikueue.api.kind import Kind
from multikueue.api.kinds import DEFINITIONS
from multikueue.api.meta import ObjectKey
from multikueue.jobs.kinds.declared.declaration import KIND_ANNOTATION
from multikueue.settings import Cluster, InForce, Integrations, Settings
from multikueue_simulator.world.world import NAMESPACE, Layout, Share, World
from tests.simulator.stage import perform
from tests.simulator.test_job_kinds import definition, until

LAYOUT = Layout(queues=(Share("main", 64),), workers=(Share("w1", 64), Share("w2", 64)))
SIMULATIONS: Kind[Any] = Kind("example.com", "v1", "simulations", "Simulation", True, job_type("Simulation"))
DEFINITION = ObjectKey("", "simulations.example.com")
DECLARATION = """
pods: [{at: "spec.groups[*]", name_at: name}]
succeeded: Done
failed: status.phase=Lost
active_counts: ["status.groups[*].active"]
"""
STARTED = "2026-01-01T12:00:00Z"
DONE = {"conditions": [{"type": "Done", "status": "True", "reason": "", "message": "", "lastTransitionTime": STARTED}]}
Object = dict[str, Any]


def declare(world: World, text: str | None) -> None:
    """What the definition on the manager cluster says of its kind from now on; nothing, if it is None."""
    world.manager.patch(DEFINITIONS, DEFINITION, {"metadata": {"annotations": {KIND_ANNOTATION: text}}})


async def begun(world: World, tasks: TaskGroup) -> None:
    for site in world.sites:
        site.create(DEFINITIONS, definition(SIMULATIONS))
    settings = Settings(cluster=Cluster(namespace=LAYOUT.secrets), integrations=Integrations(annotated=True))
    await world.add_manager("manager-0", InForce(settings)).begin(tasks).wait()


def submitted(world: World, name: str) -> None:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
    group = {"name": "a", "replicas": 2, "template": {"spec": {"containers": [container], "restartPolicy": "Never"}}}
    labels = {"kueue.x-k8s.io/queue-name": "main"}
    spec = {"suspend": True, "managedBy": "kueue.x-k8s.io/multikueue", "groups": [group]}
    own = {"apiVersion": SIMULATIONS.api_version, "kind": SIMULATIONS.kind, "spec": spec}
    world.manager.create(SIMULATIONS, own | {"metadata": {"name": name, "namespace": NAMESPACE, "labels": labels}})


def copies(world: World, name: str) -> list[str]:
    key = ObjectKey(NAMESPACE, name)
    return [worker for worker, at in world.workers.items() if at.site.stored(SIMULATIONS, key) is not None]


def phase(world: World, name: str) -> object:
    return ((world.manager.stored(SIMULATIONS, ObjectKey(NAMESPACE, name)) or {}).get("status") or {}).get("phase")


async def _is_taken_in(world: World, tasks: TaskGroup) -> None:
    await begun(world, tasks)
    submitted(world, "job")
    await anyio.sleep(60)
    assert not world.manager.all(kinds.WORKLOADS), "nobody declared the kind"
    declare(world, DECLARATION)
    await until(lambda: copies(world, "job"))
    (workload,) = world.manager.all(kinds.WORKLOADS)
    assert [(each["name"], each["count"]) for each in workload["spec"]["podSets"]] == [("a", 2)]

    (winner,) = copies(world, "job")
    site, key = world.workers[winner].site, ObjectKey(NAMESPACE, "job")
    site.patch(SIMULATIONS, key, {"status": {"phase": "Running", "groups": [{"active": 2}]}}, subresource="status")
    await until(lambda: phase(world, "job") == "Running")
    site.patch(SIMULATIONS, key, {"status": DONE | {"phase": "Over"}}, subresource="status")
    (copy,) = site.all(kinds.WORKLOADS)
    ended = {"type": "Finished", "status": "True", "reason": "Succeeded", "message": "", "lastTransitionTime": STARTED}
    conditions = {"status": {"conditions": [*copy["status"]["conditions"], ended]}}
    site.patch(kinds.WORKLOADS, ObjectKey(NAMESPACE, copy["metadata"]["name"]), conditions, subresource="status")
    await until(lambda: not copies(world, "job"))
    assert phase(world, "job") == "Over"


async def _is_unclear_for_a_while(world: World, tasks: TaskGroup) -> None:
    between = "pods: []\nsuspnd: spec.suspend"
    await begun(world, tasks)
    declare(world, DECLARATION)
    submitted(world, "early")
    await until(lambda: copies(world, "early"))
    (winner,) = copies(world, "early")
    declare(world, between)
    await anyio.sleep(30)
    submitted(world, "late")
    status = {"status": {"phase": "Running", "groups": [{"active": 2}]}}
    world.workers[winner].site.patch(SIMULATIONS, ObjectKey(NAMESPACE, "early"), status, subresource="status")
    await anyio.sleep(60)
    assert (copies(world, "early"), copies(world, "late")) == ([winner], []), "what runs goes on, nothing new begins"
    assert phase(world, "early") is None
    declare(world, DECLARATION)
    await until(lambda: phase(world, "early") == "Running")
    await until(lambda: copies(world, "late"))
    assert copies(world, "early") == [winner]


async def _goes(world: World, tasks: TaskGroup) -> None:
    await begun(world, tasks)
    declare(world, DECLARATION)
    submitted(world, "early")
    await until(lambda: copies(world, "early"))
    declare(world, None)
    await anyio.sleep(30)
    submitted(world, "late")
    await anyio.sleep(60)
    assert len(world.manager.all(kinds.WORKLOADS)) == 1, "there are no such jobs any more"


async def _says_what_is_wrong(world: World, tasks: TaskGroup) -> None:
    await begun(world, tasks)

    def told() -> list[Object]:
        return [each for each in world.manager.all(kinds.EVENTS) if each["reason"] == "KindMisdeclared"]

    with capture_logs() as logs:
        declare(world, "pods: [{at: spec.groups, cuont: 3}]")
        await until(told)
        await anyio.sleep(60)
    ((event,),) = (told(),)
    (line,) = [entry for entry in logs if entry["event"] == "jobs.kind_misdeclared"]
    assert (event["involvedObject"]["name"], line["definition"]) == (DEFINITION.name, DEFINITION.name)
    assert event["message"] == line["why"]
    assert "pods[0].cuont: expected 'count'; there is no 'cuont'" in event["message"]

    declare(world, DECLARATION)
    submitted(world, "job")
    await until(lambda: copies(world, "job"))


async def _is_hurt_by_no_other(world: World, tasks: TaskGroup) -> None:
    await begun(world, tasks)
    declare(world, DECLARATION)
    submitted(world, "job")
    await until(lambda: copies(world, "job"))
    began = world.manager.all(kinds.WORKLOADS)[0]["metadata"]["uid"]
    other = definition(Kind("example.org", "v1", "others", "Other", False, job_type("Other")))
    other["metadata"]["annotations"] = {KIND_ANNOTATION: DECLARATION}
    with capture_logs() as logs:
        world.manager.create(DEFINITIONS, other)
        await until(lambda: [entry for entry in logs if entry["event"] == "jobs.kind_misdeclared"])
        await anyio.sleep(30)
    assert "manager.acting" not in [entry["event"] for entry in logs], "it goes on as if nothing had been"
    assert world.manager.all(kinds.WORKLOADS)[0]["metadata"]["uid"] == began


def _test(scene: Callable[[World, TaskGroup], Any]) -> Callable[[], None]:
    return lambda: perform(LAYOUT, scene)


test_a_kind_is_taken_in_once_its_definition_declares_it = _test(_is_taken_in)
test_what_runs_goes_on_while_its_kind_is_unclear_and_is_told_of_again_after = _test(_is_unclear_for_a_while)
test_a_kind_is_off_once_its_definition_does_not_declare_it_any_more = _test(_goes)
test_a_declaration_that_makes_no_sense_is_told_on_its_definition = _test(_says_what_is_wrong)
test_a_bad_declaration_costs_the_others_nothing = _test(_is_hurt_by_no_other)
