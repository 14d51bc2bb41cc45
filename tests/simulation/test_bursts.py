"""Bursts in lives without faults: one copy for each job, placed by what workers have room for."""

from __future__ import annotations

from collections import Counter

import pytest

from multikueue_simulator.simulation.plan.plan import JobPlan, Plan
from multikueue_simulator.simulation.runs.life import live
from multikueue_simulator.world.world import Layout, Share

WORKERS, JOBS = 5, 80


@pytest.mark.timeout(600)
@pytest.mark.parametrize("cpu", [2 * JOBS // WORKERS, JOBS // WORKERS // 3], ids=["room for all", "room for a third"])
def test_no_worker_gets_more_than_its_share_of_a_burst(cpu: int) -> None:
    plan = Plan(
        seed=1,
        layout=Layout(
            queues=(Share("main", JOBS),),
            workers=tuple(Share(f"worker{number}", cpu) for number in range(1, WORKERS + 1)),
        ),
        strategy="composed",
        options={"scorers": ["room"], "copies": 1, "patience": "3600s"},
        jobs=tuple(JobPlan(name=f"job{number}", at=5.0, seconds=20.0) for number in range(JOBS)),
    )
    life = live(plan, describe=True)
    made = [text for _, text in life.trace.lines if "action=CreateWorkload, cluster=" in text]
    share = Counter(text.partition("cluster=")[2].split(",")[0] for text in made)
    assert life.violation is None
    assert sum(share.values()) == JOBS
    assert max(share.values()) <= 1.1 * JOBS / WORKERS
