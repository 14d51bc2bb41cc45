"""Workers with Kueue of several releases side by side under one manager, each with the Kubernetes it is made for.

There is one worker for each release that is built (`make testbed KUEUE=…`); with fewer than two there is nothing to see.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from typing import Any

import anyio
import pytest

from testbed import programs
from testbed.bed import MANAGER, Plan, Testbed
from testbed.client import eventually
from testbed.controllers import GARBAGE
from testbed.kubeconfig import dump
from testbed.programs import NotInstalledError, Release
from tests.real.harness import Team, played
from tests.real.skipping import needs_programs

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.real,
    pytest.mark.timeout(240),
    needs_programs("it starts Kueue of several releases"),
]


def is_built(release: Release) -> bool:
    try:
        programs.find(release)
    except NotInstalledError:
        return False
    return True


BUILT = [release for release in map(Release, programs.releases()) if is_built(release)]
WORKERS = {f"worker{number}": release for number, release in enumerate(BUILT, start=1)}
each = pytest.mark.parametrize("worker", WORKERS, ids=[f"Kueue {release.kueue}" for release in BUILT])


@pytest.fixture(scope="module")
def bed() -> Iterator[Testbed]:
    """The manager's cluster has the definitions of the chosen release."""
    if len(BUILT) < 2:
        missing = sorted({*programs.releases()} - {release.kueue for release in BUILT})
        pytest.skip(f"one release is built; `make testbed KUEUE=…` builds another: {', '.join(missing)}")
    bed = Testbed(Plan(workers=len(WORKERS), releases=WORKERS, controllers={MANAGER: [GARBAGE]}))
    anyio.run(bed.open)
    yield bed
    anyio.run(bed.close)


def others(worker: str) -> list[str]:
    return [name for name in WORKERS if name != worker]


@each
async def test_a_job_runs_on_a_worker_of_each_release(crew: Team, worker: str) -> None:
    await crew.stop(*others(worker))

    await crew.submit("job")

    assert await crew.runs_on("job") == worker
    await crew.complete(worker, "job")
    await crew.finished("job")


@each
async def test_what_a_worker_evicts_goes_on_at_one_of_another_release(crew: Team, worker: str) -> None:
    await crew.stop(*others(worker))
    await crew.submit("job")
    assert await crew.runs_on("job") == worker

    await crew.go(*others(worker))
    await crew.stop(worker, policy="HoldAndDrain")

    async def elsewhere() -> str:
        now = await crew.runs_on("job")
        assert now != worker
        return now

    await crew.complete(await eventually(elsewhere, timeout=60), "job")
    await crew.finished("job")


async def test_many_jobs_start_once_each_wherever_that_is(crew: Team) -> None:
    names = [f"job-{number}" for number in range(12)]
    async with played(crew) as started:
        await crew.submit_all(names)
        ends = await crew.all_over()

    assert ends == dict.fromkeys(names, "Complete")
    assert started.twice() == {}
    assert set(started.runs) == set(names)


async def test_the_check_of_clusters_tells_the_release_of_each(bed: Testbed, crew: Team) -> None:
    told = await findings(bed, crew)

    for worker, release in WORKERS.items():
        (about,) = [found for found in told[crew.cluster(worker)] if found["subject"] == "Kueue's definitions"]
        assert f"as of Kueue {release.kueue.rpartition('.')[0]}," in about["detail"]
        is_older = release.version[:2] < Release.chosen().version[:2]  # definitions tell the minor alone
        assert about["level"] == ("warning" if is_older else "ok"), about


async def findings(bed: Testbed, crew: Team) -> dict[str, list[dict[str, Any]]]:
    """What `multikueue clusters check` finds on the team's workers."""
    access = bed.folder / "check.kubeconfig"
    access.write_bytes(dump(bed.manager.kubeconfig()))
    names = [crew.cluster(worker) for worker in WORKERS]
    command = [sys.executable, "-m", "multikueue", "clusters", "check", "-o", "json"]
    done = await anyio.run_process(command, env={**os.environ, "KUBECONFIG": str(access)}, check=False)
    assert done.stdout, done.stderr.decode()
    items = json.loads(done.stdout)["items"]
    return {name: [item for item in items if item["metadata"]["name"] == name] for name in names}
