"""What feature gates of a Kueue of today switch on: by ours in the place of its MultiKueue, and by its own, side by side.

The workers are real, and what is promised to users is the same whoever dispatches.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from functools import partial

import anyio
import anyio.from_thread
import pytest

from testbed import objects
from testbed.bed import Testbed, unique
from testbed.client import eventually
from testbed.objects import CLUSTER_QUEUE, JOB, MULTIKUEUE_CLUSTER, MULTIKUEUE_CONFIG, WORKLOAD, Object
from testbed.programs import Release
from tests.real.dialect import release
from tests.real.harness import Team, complaints, team
from tests.real.neighbours import CORE, OWN, Neighbourhood, neighbourhood
from tests.real.skipping import needs_testbed
from tests.real.test_capacity import has, have
from tests.real.test_credentials import profile
from tests.real.test_roles import priority_class

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.real,
    pytest.mark.timeout(180),
    pytest.mark.skipif(
        release().version < Release("0.19.0").version, reason="its Kueue has other gates, or other words"
    ),
    needs_testbed("a Kueue of its own on the manager cluster, and workers whose Kueue has a feature gate on"),
]

WORKERS = 2
GATE = "kueue.x-k8s.io/multikueue"
ORCHESTRATED = {"MultiKueueOrchestratedPreemption": True}
AUTOMATION = "MultiKueueManagerQuotaAutomation"
THEIRS: Object = {
    **OWN,
    "feature_gates": {**ORCHESTRATED, AUTOMATION: True, "MultiKueueClusterProfile": True},
}
OURS = {
    "DISPATCH__ORCHESTRATED_PREEMPTION": "true",
    "CAPACITY_FOLLOW__QUOTA_MANAGEMENT": "true",
    "CAPACITY_FOLLOW__INTERVAL": "200ms",
    "CAPACITY_FOLLOW__SHRINK_AFTER": "1s",
}


@asynccontextmanager
async def gated_workers(bed: Testbed) -> AsyncIterator[Neighbourhood]:
    """Two workers whose Kueue minds preemption gates, and a manager cluster for either manager."""

    async def all_have(gates: Mapping[str, bool]) -> None:
        options = {"configuration": bed.plan.worker_configuration, "frameworks": bed.plan.frameworks}
        async with anyio.create_task_group() as tasks:
            for plane in bed.workers[:WORKERS]:
                tasks.start_soon(partial(bed.start_kueue, plane, feature_gates=gates, **options))

    try:
        await all_have(ORCHESTRATED)
        async with neighbourhood(bed) as found:
            await bed.install(found.manager, ["clusterprofile"])
            yield found
    finally:
        with anyio.CancelScope(shield=True):
            await all_have({})


@pytest.fixture(scope="module")
def neighbour(bed: Testbed) -> Iterator[Neighbourhood]:
    with (
        anyio.from_thread.start_blocking_portal() as portal,
        portal.wrap_async_context_manager(gated_workers(bed)) as found,
    ):
        yield found


@pytest.fixture(scope="module", params=["ours", "Kueue's own"])
def is_ours(request: pytest.FixtureRequest) -> bool:
    """Who dispatches; all tests of one go before those of the other."""
    return bool(request.param == "ours")


@pytest.fixture
async def crew(neighbour: Neighbourhood, is_ours: bool) -> AsyncIterator[Team]:
    found = await (neighbour.arrange(CORE, "dispatch", **OURS) if is_ours else neighbour.arrange(THEIRS))
    async with team(neighbour, workers=WORKERS) as members:  # type: ignore[arg-type]  # it is all that a team needs of a bed
        await members.all_active(found)
        yield members
    assert found is None or not complaints(found)


async def test_workers_preempt_for_a_workload_one_after_the_other(crew: Team) -> None:
    """KEP 8303: both could take it by preempting, and one does; the other's work runs on."""
    for worker, client in crew.clients.items():
        await have(crew, worker, "1")
        await client.patch(
            CLUSTER_QUEUE, crew.namespace, {"spec": {"preemption": {"withinClusterQueue": "LowerPriority"}}}
        )
        await client.create(objects.job("theirs", crew.namespace, requests={"cpu": "1", "memory": "1Mi"}))
    for client in (crew.manager, *crew.clients.values()):
        await client.create(priority_class(crew.namespace, 10))
    for worker in crew.clients:
        await eventually(lambda w=worker: _runs(crew, w))  # type: ignore[misc]

    await crew.submit(requests={"cpu": "1", "memory": "1Mi"}, priority_class=crew.namespace)

    winner = await crew.winner()
    await crew.runs_on()
    (other,) = set(crew.clients) - {winner}
    assert (await _runs(crew, winner), await _runs(crew, other)) == (False, True)
    name = (await crew.workload())["metadata"]["name"]
    copy = await crew.clients[winner].get(WORKLOAD, name, crew.namespace)
    assert copy["spec"]["preemptionGates"] == [{"name": GATE}]
    assert [(gate["name"], gate["position"]) for gate in copy["status"]["preemptionGates"]] == [(GATE, "Open")]


async def _runs(crew: Team, worker: str) -> bool:
    body = await crew.clients[worker].get(JOB, "theirs", crew.namespace)
    return not body["spec"]["suspend"]


async def test_a_queue_has_what_its_workers_have_together_as_long_as_its_config_says_so(crew: Team) -> None:
    """KEP 9988."""
    one, two = crew.clients
    await have(crew, one, "6")
    await have(crew, two, "10")
    await _managed(crew, "Automated")
    await has(crew, "16")
    await eventually(lambda: _says(crew, "True", "QuotaAutomated"))
    await have(crew, two, "3")
    await has(crew, "9")

    await _managed(crew, "Manual")
    await eventually(lambda: _says(crew, "False", "NotRequested"))
    await have(crew, two, "10")
    await has(crew, "9")


async def _managed(crew: Team, how: str) -> None:
    await crew.manager.patch(MULTIKUEUE_CONFIG, crew.namespace, {"spec": {"quotaManagement": how}})


async def _says(crew: Team, status: str, reason: str) -> bool:
    said = objects.condition(await crew.manager.get(CLUSTER_QUEUE, crew.namespace), AUTOMATION)
    assert said is not None
    assert (said["status"], said["reason"]) == (status, reason)
    return True


async def test_a_cluster_profile_that_is_of_no_use_says_why(crew: Team) -> None:
    name = unique("profile")
    body: Object = objects.multikueue_cluster(name, secret="")
    body["spec"] = {"clusterSource": {"clusterProfileRef": {"name": name}}}
    await crew.manager.create(body)
    try:
        missing = f'ClusterProfile.multicluster.x-k8s.io "{name}" not found'
        await eventually(lambda: _is_bad(crew, name, missing))
        await profile(crew, name, crew.bed.workers[0])
        await eventually(lambda: _is_bad(crew, name, "no access provider configured"))
    finally:
        await crew.manager.delete(MULTIKUEUE_CLUSTER, name)


async def _is_bad(crew: Team, name: str, why: str) -> bool:
    said = objects.condition(await crew.manager.get(MULTIKUEUE_CLUSTER, name), "Active")
    assert said is not None
    found = (said["status"], said["reason"], said["message"])
    assert found == ("False", "BadClusterProfile", f"load client config failed: {why}")
    return True
