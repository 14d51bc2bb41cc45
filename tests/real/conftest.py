"""One bed for the whole session, one manager process per module, one namespace per test."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Generator, Iterator, Mapping
from concurrent.futures import Future

import anyio
import pytest

from testbed.bed import MANAGER, Plan, Testbed
from testbed.contexts import ContextBed, InUse, Missing, load
from testbed.controllers import GARBAGE
from testbed.sandbox import SandboxBed
from tests.real.accounts import balanced
from tests.real.chronicle import Chronicle, chronicle
from tests.real.fresh_stories import Told
from tests.real.fresh_stories import begun as fresh_stories_begun
from tests.real.harness import Manager, Team, complaints, team
from tests.real.skipping import CONTEXTS, SIMULATED, skipping


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup() -> Generator[None, None, None]:
    with skipping():
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Generator[None, None, None]:
    with skipping():
        return (yield)


@pytest.fixture(scope="session")
def bed() -> Iterator[Testbed]:
    """A manager plane, with Kubernetes' garbage collector as any cluster has, and three Kueue workers.

    Or the clusters of a kubeconfig, where the environment names contexts, or simulated ones, if it says so. It belongs
    to no event loop, so all tests can share it.
    """
    try:
        bed = _bed()
        anyio.run(bed.open)
    except InUse as error:
        pytest.exit(f"{os.environ['KUBECONFIG']}: {error}", returncode=pytest.ExitCode.USAGE_ERROR)
    except Missing as error:
        pytest.exit(f"{error}: `make kind-up` makes these clusters", returncode=pytest.ExitCode.USAGE_ERROR)
    yield bed
    anyio.run(bed.close)


def _bed() -> Testbed:
    if CONTEXTS:
        return ContextBed(load(*os.environ.get("KUBECONFIG", "").split(os.pathsep)), CONTEXTS)
    plan = Plan(workers=3, controllers={MANAGER: [GARBAGE]})
    return SandboxBed(plan) if SIMULATED else Testbed(plan)


@pytest.fixture(scope="session", autouse=True)
def fresh_stories(request: pytest.FixtureRequest) -> Iterator[Mapping[str, Future[Told]]]:
    """Begun before the first test, if there are tests about them: their Kueues take two minutes and little else."""
    if CONTEXTS or SIMULATED or all(item.path.stem != "test_parity" for item in request.session.items):
        yield {}
        return
    with fresh_stories_begun() as begun:
        yield begun


@pytest.fixture(scope="module")
def manager_settings() -> dict[str, str]:
    """A module overrides this to run its manager with other settings."""
    return {}


@pytest.fixture(scope="module")
def manager(bed: Testbed, manager_settings: dict[str, str]) -> Iterator[Manager]:
    """The manager of the module: two at a time would both act on the one manager cluster."""
    process = Manager(bed, **manager_settings)  # type: ignore[arg-type]  # no setting is called `command`
    process.start()
    yield process
    process.kill()


@pytest.fixture
def calm(manager: Manager) -> Iterator[None]:
    """Whatever happens outside, the manager never logs an error: that would be a bug of its own."""
    offset = manager.log.stat().st_size
    yield
    assert not complaints(manager, offset=offset)


@pytest.fixture
async def crew(bed: Testbed, manager: Manager) -> AsyncIterator[Team]:
    """A team whose workers are all connected. At the end of each scenario the accounts have to be right."""
    try:
        async with team(bed) as members:
            await members.all_active(manager)
            yield members
            if manager.alive:
                await balanced(members)
    except BaseException as error:
        error.add_note(f"the manager's log ends with:\n{manager.tail()}")
        raise


@pytest.fixture
async def history(crew: Team) -> AsyncIterator[Chronicle]:
    """What happens to the team's objects; at the end of the test it must keep the invariants of the contract."""
    async with chronicle(crew) as record:
        yield record
        await record.judge()
