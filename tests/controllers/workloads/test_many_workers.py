"""More workers than `status.nominatedClusterNames` takes: each of them may win, and is recorded before it gets the job."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from multikueue.api import kinds
from multikueue.api.kind import Kind
from multikueue.api.meta import ObjectKey
from multikueue.settings import BESIDE_KUEUE, STANDALONE, Role
from multikueue.workload.case import MAX_NOMINATED
from multikueue_simulator.workers.kueue import webhooks
from tests.controllers import table as tables
from tests.controllers.kueue_core import Core
from tests.controllers.table import NAMESPACE, Body, Table, table

pytestmark = pytest.mark.anyio

WORKERS = 25
JOB = ObjectKey(NAMESPACE, "job")


@pytest.fixture(autouse=True)
def _many(monkeypatch: pytest.MonkeyPatch) -> None:
    """A MultiKueueConfig takes 20 names, its annotation the others."""
    real = tables._objects

    def many(clusters: tuple[str, ...], quota: int) -> Iterable[tuple[Kind[Any], Body]]:
        for kind, body in real(clusters, quota):
            if kind is kinds.MULTIKUEUE_CONFIGS:
                body["spec"]["clusters"] = list(clusters[:MAX_NOMINATED])
                body["metadata"]["annotations"] = {"multikueue.dev/clusters": ",".join(clusters[MAX_NOMINATED:])}
            yield kind, body

    monkeypatch.setattr(tables, "_objects", many)


async def submitted(roles: frozenset[Role]) -> tuple[Table, Core | None]:
    """A job with a copy on each worker. Beside Kueue, its webhook judges what is written."""
    world = table(workers=WORKERS, roles=roles)
    core = Core(world) if roles is BESIDE_KUEUE else None
    if core is None:
        world.submit()
        await world.settle()
    else:
        world.manager.server.admission.local[webhooks.HOST] = webhooks.review
        path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
        core.site.call("POST", path, webhooks.configuration())
        await core.submit()
    assert (len(world.status()["nominatedClusterNames"]), len(world.copies())) == (MAX_NOMINATED, WORKERS)
    return world, core


@pytest.mark.parametrize("roles", [BESIDE_KUEUE, STANDALONE], ids=["beside Kueue", "standalone"])
@pytest.mark.parametrize("winner", ["w1", "w20", "w21", "w25"])
async def test_whoever_admits_wins_and_was_recorded_before_it_got_the_job(
    winner: str, roles: frozenset[Role], monkeypatch: pytest.MonkeyPatch
) -> None:
    world, core = await submitted(roles)
    nominated: list[list[str]] = []
    create = world.workers[winner].create

    async def creating(kind: Kind[Any], namespace: str, body: Any) -> Any:
        if kind is kinds.JOBS:
            nominated.append(world.status()["nominatedClusterNames"])
        return await create(kind, namespace, body)

    monkeypatch.setattr(world.workers[winner], "create", creating)
    world.admit(winner)
    world.errors.clear()
    await (core or world).settle()
    assert world.errors == []
    assert (world.runs_on(), world.copies(), world.status()["clusterName"]) == ([winner], [winner], winner)
    [names] = nominated
    assert winner in names
    assert len(names) == MAX_NOMINATED


async def test_a_job_that_an_earlier_process_started_unrecorded_is_recorded() -> None:
    world, core = await submitted(BESIDE_KUEUE)
    assert core is not None
    world.admit("w25")
    await core.settle()

    def forget_the_win(status: dict[str, Any]) -> None:
        status.pop("clusterName")
        status["nominatedClusterNames"] = [f"w{n}" for n in range(1, MAX_NOMINATED + 1)]
        status["admissionChecks"] = [core.check_state("Pending", "")]
        status["conditions"] = [c for c in status["conditions"] if c["type"] != "Admitted"]

    del world.manager.server.admission.local[webhooks.HOST]
    core.site.call("DELETE", "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/" + _name())
    core.apply("job", forget_the_win)
    world.start()
    world.manager.server.admission.local[webhooks.HOST] = webhooks.review
    core.site.call(
        "POST", "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations", webhooks.configuration()
    )
    world.errors.clear()
    await core.settle()
    assert world.errors == []
    assert (world.runs_on(), world.status()["clusterName"]) == (["w25"], "w25")


def _name() -> str:
    name: str = webhooks.configuration()["metadata"]["name"]
    return name
