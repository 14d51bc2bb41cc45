"""Each fault of a part keeps managers from one thing, lets others pass, and is over when it ends."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

import anyio
import pytest

from fakekube.model.wire import Object
from fakekube.network.link import State
from multikueue.api import kinds
from multikueue.api.kueue.workload import ATTEMPT_ANNOTATION
from multikueue.api.meta import ObjectKey
from multikueue.errors import Forbidden, MultiKueueError, ServerError
from multikueue.kube.auth.credentials import Credentials
from multikueue.kube.auth.tokens import FixedToken
from multikueue.kube.client import Client
from multikueue.settings import InForce
from multikueue_simulator.simulation.faults.fault_injector import FaultInjector
from multikueue_simulator.simulation.faults.partial_injector import Logs, PartialInjector
from multikueue_simulator.simulation.plan.partial import (
    DropField,
    FailObservers,
    FailWebhook,
    FillLog,
    Nameless,
    Partial,
    RefuseVerb,
    ShareField,
    TakenOver,
)
from multikueue_simulator.simulation.plan.plan import JobPlan, Plan
from multikueue_simulator.simulation.runs.life import settings_of, timings_of
from multikueue_simulator.time import VirtualClock, run
from multikueue_simulator.world import objects
from multikueue_simulator.world.transport import over
from multikueue_simulator.world.world import MANAGER, NAMESPACE, Layout, Share, World, token

WORKERS = (Share("w1", 4), Share("w2", 4))
PLAN = Plan(seed=1, layout=Layout(workers=WORKERS), jobs=(JobPlan(name="job0", seconds=300.0),))
CREATE: dict[str, Any] = {"kind": "jobs", "operations": ("CREATE",)}


class Scene:
    """A world in which a job runs on a worker, and a client that is a manager's."""

    def __init__(self, world: World, parts: PartialInjector, clients: dict[str, Client]) -> None:
        self.world, self.parts, self.clients = world, parts, clients

    async def create(self, host: str, name: str) -> Object | MultiKueueError:
        """What a manager gets that creates a Job there."""
        body = objects.job(name, NAMESPACE, queue=None, managed=False)
        try:
            await self.clients[host].create(kinds.JOBS, NAMESPACE, body)
        except MultiKueueError as error:
            return error
        return self.world.site(host).find(kinds.JOBS, ObjectKey(NAMESPACE, name)) or {}

    def workload(self) -> Object:
        (found,) = self.world.manager.all(kinds.WORKLOADS)
        return found


def staged(test: Callable[[Scene], Coroutine[Any, Any, None]], plan: Plan = PLAN) -> None:
    async def main() -> None:
        world = World(plan.layout, clock=VirtualClock(), seed=1)
        world.apply_fixtures()
        async with anyio.create_task_group() as tasks:
            await world.start(tasks)
            injector = FaultInjector(world, plan, tasks)
            for job in plan.jobs:
                injector.submit(job)
            manager = world.add_manager("manager-0", InForce(settings_of(plan, plan.replicas[0]), timings_of(plan)))
            manager.begin(tasks)
            await anyio.sleep(5)
            async with _client(world, MANAGER) as home, _client(world, "w1") as there:
                await test(Scene(world, PartialInjector(world, injector, Logs()), {MANAGER: home, "w1": there}))
            tasks.cancel_scope.cancel()

    run(main)


def _client(world: World, host: str, *, secret: str = "") -> Any:
    secret = secret or ("manager-0" if host == MANAGER else token(host))
    credentials = Credentials(server=f"http://{host}", token=FixedToken(f"Bearer {secret}"))
    return Client.connect(credentials, cluster=host, transport=over(world.network.line("probe")))


@pytest.mark.parametrize("host", [MANAGER, "w1"])
@pytest.mark.parametrize(
    ("fault", "error"),
    [
        (lambda host: RefuseVerb(host=host, kind="jobs", verb="create"), Forbidden),
        (lambda host: RefuseVerb(host=host, kind="jobs", verb="create", code=500), ServerError),
        (lambda host: FailWebhook(host=host, **CREATE), ServerError),
    ],
    ids=["403", "500", "a webhook"],
)
def test_managers_may_not_create_and_a_person_may(
    host: str, fault: Callable[[str], Partial], error: type[MultiKueueError]
) -> None:
    async def body(scene: Scene) -> None:
        undo = scene.parts.do(fault(host))
        assert undo is not None
        refused = await scene.create(host, "a")
        assert isinstance(refused, error)
        scene.world.site(host).create(kinds.JOBS, objects.job("b", NAMESPACE, queue=None, managed=False))
        undo()
        assert not isinstance(await scene.create(host, "a"), MultiKueueError)
        assert scene.parts.injector.faults.between(host, 0.0, 9.0)
        assert not scene.parts.injector.faults.between(host, 0.0, 9.0, partial=False)

    staged(body)


def test_a_webhook_says_what_a_real_one_says() -> None:
    async def body(scene: Scene) -> None:
        scene.parts.do(FailWebhook(host="w1", **CREATE))
        assert "failed calling webhook" in str(await scene.create("w1", "a"))
        scene.parts.do(FailWebhook(host="w1", **CREATE, is_late=True))
        began = anyio.current_time()
        await scene.create("w1", "a")
        assert anyio.current_time() >= began + 8

    staged(body)


def test_a_field_is_not_kept_whoever_else_may_write_it() -> None:
    async def body(scene: Scene) -> None:
        undo = scene.parts.do(DropField(host=MANAGER, what="requeue state"))
        key = ObjectKey(NAMESPACE, scene.workload()["metadata"]["name"])
        patch = {"status": {"requeueState": {"count": 3}}}
        await scene.clients[MANAGER].merge_patch(kinds.WORKLOADS, key, patch, subresource="status")
        assert "requeueState" not in scene.workload()["status"]
        scene.world.manager.patch(kinds.WORKLOADS, key, patch, subresource="status")
        assert scene.workload()["status"]["requeueState"] == {"count": 3}
        assert undo is not None
        undo()
        await scene.clients[MANAGER].merge_patch(kinds.WORKLOADS, key, patch, subresource="status")
        assert scene.workload()["status"]["requeueState"] == {"count": 3}

    staged(body)


def test_a_field_is_kept_of_what_a_kueue_beside_the_manager_writes() -> None:
    async def body(scene: Scene) -> None:
        scene.parts.do(DropField(host=MANAGER, what="requeue state"))
        core, key = scene.world.core, ObjectKey(NAMESPACE, scene.workload()["metadata"]["name"])
        assert core is not None
        async with _client(scene.world, MANAGER, secret=core.name) as client:
            for writer, count, kept in ((client, 3, {"count": 3}), (scene.clients[MANAGER], 4, None)):
                patch = {"status": {"requeueState": {"count": count}}}
                await writer.merge_patch(kinds.WORKLOADS, key, patch, subresource="status")
                assert scene.workload()["status"].get("requeueState") == kept

    staged(body, replace(PLAN, layout=replace(PLAN.layout, core=True)))


def test_a_name_without_an_answer_lets_open_watches_go_on() -> None:
    async def body(scene: Scene) -> None:
        link = scene.world.network.link("manager-0", "w1")
        age, undo = link.age, scene.parts.do(Nameless(host="w1"))
        assert (link.state, link.deaf, link.silent) == (State.NAMELESS, True, False)
        assert undo is not None
        undo()
        assert (link.state, link.age) == (State.UP, age)

    staged(body)


def test_counting_fails_and_works_again() -> None:
    async def body(scene: Scene) -> None:
        metrics = scene.world.managers["manager-0"].metrics
        assert metrics is not None
        undo = scene.parts.do(FailObservers(replica="manager-0"))
        with pytest.raises(OSError, match="No space"):
            metrics.sweeps.inc()
        assert undo is not None
        undo()
        metrics.sweeps.inc()

    staged(body)


@pytest.mark.parametrize("what", ["gone", "unread"])
def test_a_log_that_cannot_be_written_holds_nobody_up(what: Any) -> None:
    async def body(scene: Scene) -> None:
        undo = scene.parts.do(FillLog(what=what))
        for number in range(2000):
            scene.parts.logs.write({"event": "x" * 100, "number": number})
        assert undo is not None
        undo()
        assert scene.parts.logs.sink is None

    staged(body)


def test_another_managers_objects_have_no_mark_and_the_clock_of_their_worker() -> None:
    async def body(scene: Scene) -> None:
        winner = scene.workload()["status"]["clusterName"]
        scene.parts.do(TakenOver(job="job0", behind=60.0))
        job = scene.world.site(winner).stored(kinds.JOBS, ObjectKey(NAMESPACE, "job0"))
        assert job is not None
        assert ATTEMPT_ANNOTATION not in job["metadata"]["annotations"]
        assert job["metadata"]["creationTimestamp"] < scene.workload()["metadata"]["creationTimestamp"]
        assert scene.parts.injector.taken_over[job["metadata"]["uid"]][0] == "job0"

    staged(body)


def test_a_person_owns_the_winner_too() -> None:
    async def owned(scene: Scene) -> None:
        scene.parts.do(ShareField(job="job0"))
        owners = {
            each["manager"]
            for each in scene.workload()["metadata"]["managedFields"]
            if "f:clusterName" in (each["fieldsV1"].get("f:status") or {})
        }
        assert "somebody" in owners
        assert scene.parts.injector.shared == {"job0"}

    staged(owned, Plan(seed=1, layout=Layout(workers=WORKERS, core=True), jobs=PLAN.jobs))
