"""The manager killed at each of its writes in turn: the next process ends in the same place."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import anyio
import pytest

from testbed.bed import Testbed
from testbed.client import Kind, eventually
from testbed.jobs import start_job
from testbed.objects import ADMISSION_CHECK, CLUSTER_QUEUE, JOB, LOCAL_QUEUE, WORKLOAD, Object, condition
from tests.real.chronicle import Chronicle, chronicle
from tests.real.faulty_manager import FAULTY, Moment, Point, environment
from tests.real.harness import Manager, Starts, Team, complaints, starts, team
from tests.real.skipping import needs_testbed

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
"""What one job over three workers costs: 7 writes on the manager, 2K+2 on K workers."""


EVERY_WRITE_OF_AN_EVICTION = Counter(
    {
        "manager patch workloads/status": 4,  # Retry; evicted and released; queued again; reserved and nominated
        "manager patch jobs": 1,
        "worker delete jobs": 1,
        "worker delete workloads": 1,
    }
)

CONDITIONS = (
    "manager patch multikueueclusters/status",
    "manager patch admissionchecks/status",
    "manager patch clusterqueues/status",
    "manager patch localqueues/status",
)


@pytest.fixture
def mortal(bed: Testbed) -> Iterator[Manager]:
    """A manager that may be told where to die. Not started."""
    # A worker that is slow for a moment is asked nothing meanwhile: then a write that is counted does not come.
    process = Manager(bed, command=FAULTY, TIMINGS__HEARTBEAT_TIMEOUT="10s", DISPATCH__TELL_SUSPENDED_AFTER="1h")
    yield process
    process.kill()


@pytest.fixture(autouse=True)
async def history(crew: Team) -> AsyncIterator[Chronicle]:
    """What happens to the team's objects; at the end of the test it must keep the invariants of the contract."""
    async with chronicle(crew) as record:
        yield record
        await record.judge()


@pytest.fixture
async def crew(bed: Testbed, mortal: Manager) -> AsyncIterator[Team]:
    try:
        async with team(bed) as members:
            yield members
    except BaseException as error:
        error.add_note(f"the manager's log ends with:\n{mortal.tail()}")
        raise


@needs_testbed("it counts the writes, and a Job controller causes more")
@pytest.mark.parametrize("moment", ["before", "after"])
async def test_killed_at_any_write_it_goes_on_where_it_was(
    crew: Team, mortal: Manager, tmp_path: Path, moment: Moment
) -> None:
    async with starts(crew) as started:
        stage = Stage(crew, mortal, started, tmp_path, moment, runs_to_its_end)
        points = _planned(await stage.rehearse(), EVERY_WRITE)
        await stage.perform(points)
        assert not (await started.settled()).twice()
        assert len(started.runs) == 1 + len(points)
    assert not complaints(mortal)


def _planned(points: list[Point], writes: Counter[str]) -> list[Point]:
    """All the planned writes. A conflict on a busy machine may have added one that no other job will make."""
    planned = [point for point in points if point.nth <= writes[point.write]]
    assert Counter(point.write for point in planned) == writes
    return planned


async def test_killed_at_any_write_of_a_cancellation_it_removes_everything(
    crew: Team, mortal: Manager, tmp_path: Path
) -> None:
    async with starts(crew) as started:
        stage = Stage(crew, mortal, started, tmp_path, "after", is_cancelled)
        points = await stage.rehearse()
        assert {str(point) for point in points} == {
            "worker delete jobs #1",
            "worker delete workloads #3",
            "manager patch workloads #1",
        }
        await stage.perform(points)
        assert not (await started.settled()).twice()
    assert not complaints(mortal)


@needs_testbed("it counts the writes, and a Job controller causes more")
async def test_killed_at_any_write_of_an_eviction_it_starts_the_next_attempt_once(
    crew: Team, mortal: Manager, tmp_path: Path
) -> None:
    async with starts(crew) as started:
        stage = Stage(crew, mortal, started, tmp_path, "after", is_evicted_once)
        points = await stage.rehearse()
        until_the_next_copies = [point.write for point in points].index("worker create workloads")
        assert Counter(point.write for point in points[:until_the_next_copies]) == EVERY_WRITE_OF_AN_EVICTION
        await stage.perform(points[:until_the_next_copies])
        assert {len(runs) for runs in (await started.settled()).runs.values()} == {2}
    assert not complaints(mortal)


@pytest.mark.parametrize("write", CONDITIONS)
async def test_killed_before_any_condition_it_writes_that_condition_the_next_time(
    crew: Team, mortal: Manager, tmp_path: Path, write: str
) -> None:
    mortal.start(**environment(crew.namespace, log=tmp_path / "writes", point=Point(write, 1), moment="before"))
    with anyio.fail_after(60):
        await mortal.ended()
    mortal.start(**environment(crew.namespace, log=tmp_path / "more"))
    await crew.all_active()
    for kind, name, namespace in (
        (ADMISSION_CHECK, crew.namespace, None),
        (CLUSTER_QUEUE, crew.namespace, None),
        (LOCAL_QUEUE, "main", crew.namespace),
    ):
        await eventually(lambda at=(kind, name, namespace): _is_active(crew, *at), timeout=30)  # type: ignore[misc]


@dataclass(slots=True)
class Stage:
    """One life of a job after another. A manager that dies is followed by one that has the next fault point before it:
    it counts only the writes for the next job, so for the job at hand it is a plain one."""

    crew: Team
    manager: Manager
    started: Starts
    folder: Path
    moment: Moment
    life: Life
    _scene: list[int] = field(default_factory=lambda: [0])

    async def rehearse(self) -> list[Point]:
        """Live through one job undisturbed: its writes in order, or those of the scene that the life marks."""
        self.manager.start(**environment(self.crew.namespace, "rehearsal", log=self.folder / "rehearsal"))
        await self.crew.all_active()
        await self.life(self, "rehearsal")
        self.manager.kill()
        counts: Counter[str] = Counter()
        points = []
        for write in self._writes():
            counts[write] += 1
            points.append(Point(write, counts[write]))
        return points[slice(*(self._scene if len(self._scene) == 2 else [0, None]))]

    def begin_scene(self) -> None:
        """From here to `end_scene` writes are fault points."""
        self._scene = [len(self._writes())]

    def end_scene(self) -> None:
        self._scene.append(len(self._writes()))

    async def perform(self, points: list[Point]) -> None:
        """Kill at each point in the life of a job of its own, and see that job through with the next process."""
        self._start(0, points[0])
        for number, (point, following) in enumerate(zip(points, [*points[1:], None], strict=True)):
            began = time.monotonic()
            try:
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(self._succeed, number + 1, following)
                    await self.life(self, _name(number))
            except BaseException as error:
                error.add_note(f"killed {self.moment} {point}, job {_name(number)}")
                raise
            print(f"killed {self.moment} {point}: {time.monotonic() - began:.1f} s")

    async def _succeed(self, number: int, following: Point | None) -> None:
        with anyio.fail_after(60):
            await self.manager.ended()
        self._start(number, following)

    def _start(self, number: int, point: Point | None) -> None:
        name = _name(number)
        words, log = (self.crew.namespace, name), self.folder / name
        self.manager.start(**environment(*words, log=log, point=point, moment=self.moment))

    def _writes(self) -> list[str]:
        return (self.folder / "rehearsal").read_text().splitlines()


Life = Callable[[Stage, str], Awaitable[None]]


def _name(number: int) -> str:
    return f"job{number:03d}"


async def runs_to_its_end(stage: Stage, name: str) -> None:
    crew = stage.crew
    await crew.submit(name)
    worker = await stage.started.first(name)
    await start_job(crew.clients[worker], crew.namespace, name)
    await eventually(lambda: _runs(crew, name), timeout=30)
    await crew.complete(worker, name)
    await _is_done(crew, name)


async def is_cancelled(stage: Stage, name: str) -> None:
    """Deleted while it runs."""
    crew = stage.crew
    await crew.submit(name)
    await stage.started.first(name)
    await eventually(lambda: _has_settled(crew, name), timeout=30)
    if name == "rehearsal":
        stage.begin_scene()
    await crew.manager.delete(JOB, name, crew.namespace)
    await crew.gone(name, timeout=40)
    if name == "rehearsal":
        stage.end_scene()


async def is_evicted_once(stage: Stage, name: str) -> None:
    crew = stage.crew
    await crew.submit(name)
    worker = await stage.started.first(name)
    workload = (await eventually(lambda: _has_settled(crew, name), timeout=30))["metadata"]["name"]
    if name == "rehearsal":
        stage.begin_scene()
    await crew.clients[worker].patch(WORKLOAD, workload, {"spec": {"active": False}}, crew.namespace)
    second = (await stage.started.times(2, name))[1]
    if name == "rehearsal":
        stage.end_scene()
    await crew.complete(second, name)
    await _is_done(crew, name)


async def _is_done(crew: Team, name: str) -> None:
    done = await crew.finished(name, timeout=30)
    assert done["status"]["succeeded"] == 1
    assert done["status"]["conditions"][-1]["type"] == "Complete"


async def _is_active(crew: Team, kind: Kind, name: str, namespace: str | None) -> bool:
    active = condition(await crew.manager.get(kind, name, namespace), "Active")
    return active is not None and active["status"] == "True"


async def _runs(crew: Team, name: str) -> bool:
    return bool((await crew.job(name)).get("status", {}).get("active") == 1)


async def _has_settled(crew: Team, name: str) -> Object:
    """The workload, once all writes of its start are done."""
    assert not (await crew.job(name))["spec"].get("suspend")
    assert len(await crew.copies(name)) == 1
    return await crew.workload(name)
