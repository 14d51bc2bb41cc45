"""The manager killed at each of its writes in turn: the next process ends in the same place."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path

import anyio
import pytest

from testbed.bed import Testbed
from testbed.client import eventually
from testbed.jobs import start_job
from tests.real.faulty_manager import FAULTY, Moment, Point, environment
from tests.real.harness import Manager, Starts, Team, complaints, starts, team

pytestmark = [pytest.mark.anyio, pytest.mark.real, pytest.mark.timeout(600)]

EVERY_WRITE = Counter(
    {
        "manager create workloads": 1,
        "manager patch workloads/status": 3,  # reserved and nominated; won; finished
        "manager patch jobs": 1,
        "manager patch jobs/status": 2,  # runs; complete
        "worker create workloads": 3,
        "worker create jobs": 1,
        "worker delete workloads": 3,
        "worker delete jobs": 1,
    }
)
"""What one job over three workers costs: 7 writes on the manager, 2K+2 on the workers (design: the write budget)."""


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


@pytest.mark.parametrize("moment", ["before", "after"])
async def test_killed_at_any_write_it_goes_on_where_it_was(
    crew: Team, mortal: Manager, tmp_path: Path, moment: Moment
) -> None:
    async with starts(crew) as started:
        stage = Stage(crew, mortal, started, tmp_path)
        points = await stage.rehearse()
        assert Counter(point.write for point in points) == EVERY_WRITE
        for number, point in enumerate(points):
            following = points[number + 1] if number + 1 < len(points) else None
            await stage.perform(number, point, following, moment)
        await started.settled()
        assert not started.twice()
        assert len(started.runs) == 1 + len(points)
    assert not complaints(mortal)


@dataclass(slots=True)
class Stage:
    """One life of a job after another. A manager that dies is followed by one that has the next fault point before it:
    it counts only the writes for the next job, so for the job at hand it is a plain one."""

    crew: Team
    manager: Manager
    started: Starts
    folder: Path

    async def rehearse(self) -> list[Point]:
        """Live through one job undisturbed: its writes in order."""
        self.manager.start(**environment(mention="rehearsal", log=self.folder / "rehearsal"))
        await self.crew.all_active()
        await self._live("rehearsal")
        counts: Counter[str] = Counter()
        points = []
        for write in (self.folder / "rehearsal").read_text().splitlines():
            counts[write] += 1
            points.append(Point(write, counts[write]))
        self.manager.kill()
        return points

    async def perform(self, number: int, point: Point, following: Point | None, moment: Moment) -> None:
        """Kill at that point in the life of a job of its own, and see the job through with the next process."""
        name = f"job{number:03d}"
        if not self.manager.alive:
            self._start(number, point, moment)
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._succeed, number, following, moment)
                await self._live(name)
            assert len(self.started.runs[name]) == 1
            import time; print(time.strftime("%X"), point)
        except BaseException as error:
            error.add_note(f"killed {moment} {point}, job {name}")
            raise

    async def _succeed(self, number: int, following: Point | None, moment: Moment) -> None:
        with anyio.fail_after(60):
            await self.manager.ended()
        if following is not None:
            self._start(number + 1, following, moment)
        else:
            self.manager.start(**environment(mention="nothing", log=self.folder / "nothing"))

    def _start(self, number: int, point: Point, moment: Moment) -> None:
        name = f"job{number:03d}"
        self.manager.start(**environment(mention=name, log=self.folder / name, point=point, moment=moment))

    async def _live(self, name: str) -> None:
        crew = self.crew
        await crew.submit(name)
        worker = await self.started.first(name)
        await start_job(crew.clients[worker], crew.namespace, name)
        await eventually(lambda: self._is_shown_running(name), timeout=30)
        await crew.complete(worker, name)
        done = await crew.finished(name, timeout=30)
        assert done["status"]["succeeded"] == 1
        assert done["status"]["conditions"][-1]["type"] == "Complete"

    async def _is_shown_running(self, name: str) -> bool:
        return (await self.crew.job(name)).get("status", {}).get("active") == 1
