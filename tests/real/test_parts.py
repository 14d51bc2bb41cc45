"""The strategy `composed` on real clusters: parts of somebody else's, room as real workers tell it, and copies that yield."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator

import pytest

from multikueue.dispatch.copies.remote import LOWEST
from multikueue.registry import FILTERS, SCORERS
from testbed import objects
from testbed.bed import Testbed
from testbed.client import eventually
from testbed.objects import ADMISSION_CHECK, JOB, WORKLOAD
from tests.real.harness import Manager, Team
from tests.real.skipping import needs_testbed
from tests.strategies.distributions import distribution

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.real,
    pytest.mark.timeout(120),
    pytest.mark.usefixtures("calm"),
    needs_testbed("a package of its own for the manager"),
]

STRATEGY, OPTIONS = "multikueue.dev/strategy", "multikueue.dev/strategy-options"

HEADER = '''
"""Parts of somebody else's."""

from dataclasses import dataclass
from typing import ClassVar

from multikueue.strategy import Fleet, Score, Worker, Workload

'''

NOT_THERE = '''
@dataclass(frozen=True)
class NotThere:
    """Refuses workers whose name ends so, and those of which not all is read yet."""

    reads: ClassVar[tuple[str, ...]] = ("room",)
    end: str

    def refuses(self, workload: Workload, worker: Worker, fleet: Fleet) -> str:
        if worker.room is None or worker.room.doubt:
            return "its room is not known"
        return f"its name ends with {self.end}" if worker.name.endswith(self.end) else ""
'''

FREE_CORES = '''
@dataclass(frozen=True)
class FreeCores:
    """Prefers workers with more free cores, up to a thousand."""

    reads: ClassVar[tuple[str, ...]] = ("room",)

    def score(self, workload: Workload, worker: Worker, fleet: Fleet) -> Score:
        quotas = worker.room.quotas if worker.room is not None else ()
        free = [each.free for each in quotas if each.resource == "cpu"]
        return Score(max(0, min(free) / 1_000_000), f"{min(free) // 1000} cores") if free else Score(None, "unknown")
'''


@pytest.fixture(scope="module")
def manager(bed: Testbed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Manager]:
    """A manager with a filter and a scorer of somebody else's on its path, both in its settings."""
    folder = tmp_path_factory.mktemp("parts")
    sites = (
        distribution(folder, "a_filter", HEADER + NOT_THERE, FILTERS, not_there="NotThere"),
        distribution(folder, "a_scorer", HEADER + FREE_CORES, SCORERS, free_cores="FreeCores"),
    )
    parts = {"filters": [{"not-there": {"end": "worker3"}}], "scorers": ["free-cores"], "patience": None}
    process = Manager(bed, DISPATCH__STRATEGY__NAME="composed", DISPATCH__STRATEGY__OPTIONS=json.dumps(parts))
    process.settings["PYTHONPATH"] = os.pathsep.join(map(str, sites))
    process.start()
    yield process
    process.kill()


async def others_use(crew: Team, worker: str, cpu: str) -> None:
    """A job that is local to the worker has so much of its queue."""
    client = crew.clients[worker]
    await client.create(objects.job("theirs", crew.namespace, requests={"cpu": cpu}))

    async def has_quota() -> bool:
        found = await client.list(WORKLOAD, crew.namespace)
        return any((objects.condition(each, "QuotaReserved") or {}).get("status") == "True" for each in found)

    await eventually(has_quota)


async def test_parts_of_somebody_elses_choose_by_the_room_that_watches_tell(crew: Team) -> None:
    """Of 100 cores each worker1 has 40 left, worker2 70, and worker3 is refused. Of five jobs of 10 cores, submitted at once,
    the fourth and the fifth find 40 on both: what is nominated counts before a worker tells of it. Nobody watches the rooms
    before the first of them asks; until all is read, usage that a ClusterQueue tells may count twice, so the filter waits."""
    await others_use(crew, "worker1", "60")
    await others_use(crew, "worker2", "30")
    names = [f"burst-{number}" for number in range(5)]
    for name in names:
        await crew.submit(name, requests={"cpu": "10"})
    found = Counter([await crew.winner(name) for name in names])
    assert found == {"worker2": 4, "worker1": 1}
    for worker in ("worker1", "worker2"):
        await crew.clients[worker].delete(JOB, "theirs", crew.namespace)


async def test_a_further_copy_waits_behind_all_others_until_it_wins(crew: Team) -> None:
    """No worker admits anything at first. The second copy comes after two seconds."""
    parts = {"scorers": ["order"], "patience": "2s", "most": 2, "extra": "any", "extra_priority": "lowest"}
    annotations = {STRATEGY: "composed", OPTIONS: json.dumps(parts)}
    await crew.manager.patch(ADMISSION_CHECK, crew.namespace, {"metadata": {"annotations": annotations}})
    await crew.stop()
    await crew.submit()

    async def priorities() -> dict[str, int]:
        return {worker: body["spec"].get("priority", 0) for worker, body in (await crew.copies()).items()}

    async def has_both() -> bool:
        found = await priorities()
        assert found == {"worker1": 0, "worker2": LOWEST}, found
        return True

    await eventually(has_both, timeout=20)
    await crew.go("worker2")
    assert await crew.runs_on() == "worker2"
    assert await priorities() == {"worker2": 0}
