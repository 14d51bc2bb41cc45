"""The manager killed at each of its writes in turn: the next process ends in the same place."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import anyio
import pytest

from testbed.bed import Testbed
from tests.real.faulty_manager import FAULTY, MOMENTS, Moment, Point, environment
from tests.real.harness import Manager, Starts, Team, complaints, starts, team

pytestmark = [pytest.mark.anyio, pytest.mark.real, pytest.mark.timeout(400)]


@pytest.fixture
def mortal(bed: Testbed) -> Iterator[Manager]:
    """A manager that may be told where to die. Not started."""
    process = Manager(bed, command=FAULTY)
    yield process
    process.kill()


@pytest.fixture
async def crew(bed: Testbed, mortal: Manager) -> AsyncIterator[Team]:
    try:
        async with team(bed) as members:
            yield members
    except BaseException as error:
        error.add_note(f"the manager's log ends with:\n{mortal.tail()}")
        raise


async def test_each_write_of_a_job_is_recorded_as_a_fault_point(crew: Team, mortal: Manager, tmp_path: Path) -> None:
    mortal.start(**environment(mention="kill000", log=tmp_path / "writes"))
    await crew.all_active()
    async with starts(crew) as started:
        await _live(crew, started, "kill000")
    print(Counter((tmp_path / "writes").read_text().splitlines()))


async def _live(crew: Team, started: Starts, name: str) -> None:
    await crew.submit(name)
    await crew.complete(await started.first(name), name)
    done = await crew.finished(name)
    assert done["status"]["succeeded"] == 1
