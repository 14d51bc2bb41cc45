"""The life of a job, from the label to the result."""

from __future__ import annotations

import pytest

from tests.real.harness import Team

pytestmark = [pytest.mark.anyio, pytest.mark.real, pytest.mark.timeout(120)]


async def test_a_job_runs_on_one_worker_and_its_result_comes_home(crew: Team) -> None:
    await crew.submit()
    worker = await crew.runs_on()
    assert await crew.winner() == worker
    await crew.complete(worker)
    done = await crew.finished()
    assert done["status"]["succeeded"] == 1
