"""Pods beside a real Kueue that holds them by its gate, and whose MultiKueue ours is in the place of; one file, one Kueue."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import anyio
import anyio.from_thread
import pytest

from testbed.bed import Plan, Testbed
from testbed.client import eventually
from testbed.objects import WORKLOAD
from tests.real.harness import Team, complaints, team
from tests.real.neighbours import Neighbourhood, held_pods, neighbourhood
from tests.real.skipping import needs_programs
from tests.real.test_pods import (
    GATES,
    POD,
    RUNNING,
    ended,
    gates,
    group_started,
    member,
    nothing_left,
    pod,
    shows,
    started,
)

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.real,
    pytest.mark.timeout(180),
    needs_programs("a Kueue without its MultiKueue controllers is a build of the testbed's"),
]


@pytest.fixture(scope="module")
def bed() -> Iterator[Testbed]:
    """Two workers whose Kueue integrates Pods; the manager cluster is the neighbourhood's."""
    bed = Testbed(Plan(manager=False, workers=2, frameworks=("batch/job", "pod")))
    anyio.run(bed.open)
    yield bed
    anyio.run(bed.close)


@pytest.fixture(scope="module")
def neighbour(bed: Testbed) -> Iterator[Neighbourhood]:
    with (
        anyio.from_thread.start_blocking_portal() as portal,
        portal.wrap_async_context_manager(neighbourhood(bed)) as found,
    ):
        yield found


@pytest.fixture
async def crew(neighbour: Neighbourhood) -> AsyncIterator[Team]:
    """A team whose workers are connected; at its end the manager must not have logged an error."""
    settings = {"INTEGRATIONS__FRAMEWORKS": "batch/job,pod", "INTEGRATIONS__KUEUE_HOLDS_PODS": "true"}
    process = await neighbour.arrange(held_pods(neighbour.manager), "dispatch", **settings)
    assert process is not None
    async with team(neighbour) as members:  # type: ignore[arg-type]  # it is all that a team needs of a bed
        await members.all_active(process)
        yield members
    assert not complaints(process)


async def test_a_pod_that_kueue_holds_runs_on_one_worker_and_ends_at_home(crew: Team) -> None:
    made = await crew.manager.create(pod(crew))
    assert gates(made) == GATES, "Kueue's own webhook holds it"

    _, client = await started(crew)
    await client.patch_status(POD, "pod", RUNNING, crew.namespace)
    assert gates(await shows(crew, "Running")) == GATES

    await client.patch_status(POD, "pod", ended("Succeeded", 0), crew.namespace)
    await shows(crew, "Succeeded")
    await eventually(lambda: is_over(crew), timeout=40)


async def test_a_group_that_kueue_holds_runs_together_on_one_worker(crew: Team) -> None:
    for name in ("a", "b"):
        await crew.manager.create(member(crew, name))
    client = await group_started(crew, "a", "b")
    for name in ("a", "b"):
        await client.patch_status(POD, name, RUNNING, crew.namespace)
        assert gates(await shows(crew, "Running", name)) == GATES
    for name in ("a", "b"):
        await client.patch_status(POD, name, ended("Succeeded", 0), crew.namespace)
        await shows(crew, "Succeeded", name)
    await eventually(lambda: is_over(crew), timeout=40)


async def test_a_pod_that_is_deleted_takes_its_copy_with_it(crew: Team) -> None:
    await crew.manager.create(pod(crew))
    _, client = await started(crew)
    await client.patch_status(POD, "pod", RUNNING, crew.namespace)
    await shows(crew, "Running")
    await crew.manager.delete(POD, "pod", crew.namespace)
    await eventually(lambda: nothing_left(crew), timeout=40)


async def is_over(crew: Team) -> bool:
    """Kueue counts it as finished, and nothing is left on the workers."""
    await nothing_left(crew)
    (workload,) = await crew.manager.list(WORKLOAD, crew.namespace)
    conditions = {each["type"]: each for each in workload["status"]["conditions"]}
    assert conditions["Finished"]["reason"] == "Succeeded"
    return True
