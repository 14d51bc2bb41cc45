"""Short plays: what each needs is there, and each can be played."""

from __future__ import annotations

import pytest

from multikueue_simulator.commands.demo import ActName
from multikueue_simulator.demo.scripts.acts import ACTS


def test_the_command_line_knows_them_all() -> None:
    assert [act.value for act in ActName] == [*ACTS]


@pytest.mark.parametrize("name", ACTS)
def test_each_job_has_a_queue_and_fits_a_worker(name: str) -> None:
    play = ACTS[name]()
    assert play.name == name
    queues = {queue.name for queue in play.layout.queues}
    biggest = max(worker.cpu for worker in play.layout.workers)
    for job in play.script.submissions:
        assert job.queue in queues
        assert job.cpu * job.pods <= biggest
        assert not job.priority or job.priority in play.priorities


@pytest.mark.parametrize("name", ACTS)
def test_what_happens_is_in_order_and_told_in_a_line(name: str) -> None:
    acts = ACTS[name]().script.acts
    assert [act.at for act in acts] == sorted(act.at for act in acts)
    assert [act.text for act in acts if len(act.text) > 80] == []
