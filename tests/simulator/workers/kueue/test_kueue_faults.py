"""The simulated Kueue on a server that fails: all jobs end, and no quota is given out twice."""

from __future__ import annotations

import random

import anyio
import anyio.lowlevel
import pytest

from fakekube.model.wire import Object
from fakekube.network.link import Weather
from multikueue.api import kinds
from multikueue_simulator.workers.jobs.jobs import drawn as drawn_lives
from tests.simulator.bench import Bench, on_bench
from tests.simulator.workers.kueue.copies import SECOND

# --- whatever happens ------------------------------------------------------------------------------------------------


ROUGH = Weather(
    lost_request=0.05, lost_answer=0.05, unwilling=0.05, broken_watch=0.02, doubled_line=0.05, slow_line=0.02
)


def reserved(worker: Bench) -> int:
    """CPUs that are given out."""
    admissions = (body.get("status", {}).get("admission") for body in worker.site.all(kinds.WORKLOADS))
    usages = (usage for a in admissions if a for usage in a["podSetAssignments"])
    live = sum(int(usage["resourceUsage"]["cpu"]) for usage in usages)
    ended = (body for body in worker.site.all(kinds.WORKLOADS) if is_finished(body) and body["status"].get("admission"))
    return live - sum(int(b["status"]["admission"]["podSetAssignments"][0]["resourceUsage"]["cpu"]) for b in ended)


def is_finished(body: Object) -> bool:
    return any(c["type"] == "Finished" for c in body.get("status", {}).get("conditions", []))


def rough_life(seed: int) -> list[str]:
    """What is written while jobs come and go, the queue is drained, and Kueue dies now and then on a bad connection."""
    luck = random.Random(seed)
    random.seed(seed)  # the client's own pauses between two tries of a call
    writes: list[str] = []

    @on_bench
    async def life(worker: Bench) -> None:
        worker.apply_fixtures(cpu=3)
        worker.network.link("kueue", "worker").weather = ROUGH
        await worker.start_jobs(drawn_lives(seed, shortest=SECOND, longest=30 * SECOND))
        await worker.start_kueue()
        for number in range(8):
            worker.submit(f"job{number}", cpu=luck.randint(1, 3))
            await anyio.sleep(luck.random() * 10)
            assert reserved(worker) <= 3
            if luck.random() < 0.3:
                worker.kill("kueue")
                await worker.start_kueue()
            if luck.random() < 0.2:
                worker.stop_queue("HoldAndDrain")
                await anyio.sleep(luck.random() * 5)
                worker.stop_queue("None")
        await anyio.sleep(900)
        assert [worker.ended(f"job{number}") for number in range(8)] == ["Complete"] * 8
        assert len(worker.site.all(kinds.WORKLOADS)) == 8
        assert reserved(worker) == 0
        writes.extend(worker.writes)

    life()
    return writes


@pytest.mark.parametrize("seed", range(5))
def test_all_jobs_end_and_no_quota_is_given_out_twice(seed: int) -> None:
    assert rough_life(seed)


def test_the_same_luck_gives_the_same_life() -> None:
    assert rough_life(7) == rough_life(7)
