"""Strategies on real clusters: rounds that outlive the manager, choices right and wrong, and code of somebody else's.

On every worker the queue is stopped until a test says otherwise: copies come, and nothing is admitted.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import anyio
import pytest

from testbed import objects
from testbed.bed import Testbed
from testbed.client import eventually
from testbed.objects import ADMISSION_CHECK, JOB, WORKLOAD, Object
from tests.real.chronicle import HOME, Chronicle
from tests.real.harness import Manager, Team, team
from tests.real.skipping import needs_testbed
from tests.strategies.distributions import BLOCKER, HEADER, LAST_ONLY, distribution

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.real,
    pytest.mark.timeout(120),
    needs_testbed("a package of its own for the manager"),
]

STRATEGY, OPTIONS = "multikueue.dev/strategy", "multikueue.dev/strategy-options"
NOMINATED, FAILED_ON = "multikueue.dev/Nominated", "multikueue.dev/FailedOn"
ALLOWED = {"last-only": {"count": 2}, "blocker": {}}

NONSENSE = '''
@dataclass(frozen=True)
class Nonsense:
    """Names somebody nobody knows."""

    def nominate(self, workload: Workload, fleet: Fleet) -> Nomination:
        return Nomination(("nobody",))
'''


@pytest.fixture(scope="module")
def manager(bed: Testbed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Manager]:
    """A manager with a package of somebody else's on its path."""
    site = distribution(
        tmp_path_factory.mktemp("strangers"),
        "strangers",
        HEADER + BLOCKER + LAST_ONLY + NONSENSE,
        blocker="Blocker",
        last_only="LastOnly",
        nonsense="Nonsense",
    )
    process = Manager(
        bed,
        DISPATCH__WORKLOAD_STRATEGIES=json.dumps(ALLOWED | {"nonsense": {}}),
        TIMINGS__STRATEGY_TIMEOUT="500ms",
        TIMINGS__RETRY_CAP="2s",
    )
    process.settings["PYTHONPATH"] = str(site)
    process.start()
    yield process
    process.kill()


@pytest.fixture
async def stopped(crew: Team, calm: None) -> Team:
    """A team on whose workers nothing is admitted yet."""
    await crew.stop()
    return crew


async def choose(members: Team, name: str | None, **options: Any) -> None:
    """The strategy of the team's AdmissionCheck."""
    annotations = {STRATEGY: name, OPTIONS: json.dumps(options) if options else None}
    await members.manager.patch(ADMISSION_CHECK, members.namespace, {"metadata": {"annotations": annotations}})


async def say(members: Team, strategy: str | None, name: str = "job") -> None:
    """What the user writes on a job."""
    await members.manager.patch(JOB, name, {"metadata": {"annotations": {STRATEGY: strategy}}}, members.namespace)


async def submit(members: Team, strategy: str, name: str = "job") -> None:
    body = objects.job(name, members.namespace, managed_by=objects.MULTIKUEUE_CONTROLLER)
    body["metadata"]["annotations"] = {STRATEGY: strategy}
    await members.manager.create(body)


async def copied(members: Team, *workers: str, name: str = "job", timeout: float = 20) -> dict[str, Object]:
    """The copies of a workload, once they are on exactly those workers."""

    async def there() -> tuple[dict[str, Object]]:
        copies = await members.copies(name)
        assert set(copies) == set(workers), f"copies on {sorted(copies)}"
        return (copies,)

    return (await eventually(there, timeout=timeout))[0]


async def waits_for(members: Team, text: str, name: str = "job", *, timeout: float = 20) -> str:
    """The message of the check, once it has that text."""

    async def told() -> str:
        message: str = (await members.check(name))["message"]
        assert text in message, message
        return message

    return await eventually(told, timeout=timeout)


def when(body: Object | None, field: str = "lastTransitionTime") -> datetime:
    assert body is not None
    return datetime.fromisoformat(body[field])


def made(copy: Object) -> datetime:
    return when(copy["metadata"], "creationTimestamp")


# --- rounds ------------------------------------------------------------------------------------------------------------


async def test_rounds_follow_each_other_in_the_order_of_the_configuration(stopped: Team, history: Chronicle) -> None:
    await choose(stopped, "incremental", step=1, round_length="2s")
    await stopped.submit()
    await copied(stopped, "worker1", "worker2", "worker3", timeout=40)
    await history.complete()
    bodies = [change.body for change in history.story(cluster=HOME, kind=WORKLOAD) if change.body]
    rounds = {
        tuple(b["status"]["nominatedClusterNames"]): note for b in bodies if (note := objects.condition(b, NOMINATED))
    }
    names = [stopped.cluster(worker) for worker in stopped.clients]
    assert list(rounds) == [tuple(names[:1]), tuple(names[:2]), tuple(names)]
    first, second, third = rounds.values()
    assert (first["status"], first["reason"], first["message"]) == ("True", "Incremental", "Round 1: 1 of 3 workers")
    assert when(second) - when(first) >= timedelta(seconds=2)
    assert when(third) - when(second) >= timedelta(seconds=2)
    await stopped.go("worker2")
    assert await stopped.winner() == "worker2"
    assert await stopped.condition(NOMINATED) is None


async def test_a_dead_worker_takes_no_round(stopped: Team) -> None:
    await choose(stopped, "incremental", step=2, round_length="10m")
    stopped.links["worker1"].refuse()
    await stopped.active("worker1", status="False")
    await stopped.submit()
    await copied(stopped, "worker2", "worker3")
    stopped.links["worker1"].ok()
    await stopped.active("worker1")
    await anyio.sleep(0.5)
    await copied(stopped, "worker2", "worker3")  # it is back, and waits for its round


async def test_a_manager_killed_within_a_round_goes_on_with_it(stopped: Team, manager: Manager) -> None:
    length = timedelta(seconds=9)
    await choose(stopped, "incremental", step=1, round_length=f"{length.seconds}s")
    await stopped.submit()
    await copied(stopped, "worker1")
    note = await stopped.condition(NOMINATED)
    await anyio.sleep(length.total_seconds() / 2)  # a round that starts over ends so much later
    async with manager.reborn():
        await manager.ready()
        acting = datetime.now(when(note).tzinfo)
        copies = await copied(stopped, "worker1", "worker2", timeout=30)
    assert made(copies["worker2"]) >= when(note) + length, "the round ended early"
    assert made(copies["worker2"]) < acting + length, "the round started over"


async def test_patience_gives_the_quota_back_and_another_workload_gets_it(bed: Testbed, manager: Manager) -> None:
    async with team(bed, quota={"cpu": "100m", "memory": "1Gi"}) as members:
        await members.all_active(manager)
        await members.stop()
        await choose(members, "incremental", give_back_after="6s")
        await members.submit("first")
        await copied(members, "worker1", "worker2", "worker3", name="first", timeout=40)
        await members.submit("second")
        await copied(members, "worker1", "worker2", "worker3", name="second", timeout=40)
        await copied(members, name="first")
        workload = await members.workload("first")
        assert workload["status"]["requeueState"]["count"] >= 1

        async def says_why() -> bool:
            events = await members.told(WORKLOAD, workload["metadata"]["name"])
            return any("No worker admitted it for 0:00:06" in event["message"] for event in events)

        await eventually(says_why)


async def test_the_next_attempt_begins_where_none_has_failed(stopped: Team) -> None:
    await choose(stopped, "incremental", step=1, round_length="10m")
    await stopped.go("worker1")
    await stopped.submit()
    assert await stopped.runs_on() == "worker1"
    await stopped.stop("worker1", policy="HoldAndDrain")
    await copied(stopped, "worker2", timeout=30)
    note = await stopped.condition(FAILED_ON)
    assert note is not None
    assert note["message"].startswith(f"{stopped.cluster('worker1')} at 2")


# --- the choice --------------------------------------------------------------------------------------------------------


async def test_the_check_chooses_and_may_change_its_mind(stopped: Team) -> None:
    await choose(stopped, "last-only")
    await stopped.submit()
    await copied(stopped, "worker3")
    await choose(stopped, None)
    await copied(stopped, "worker1", "worker2", "worker3")


async def test_a_check_that_chooses_wrongly_is_inactive_until_it_is_corrected(stopped: Team) -> None:
    async def active(status: str) -> Object:
        condition = objects.condition(await stopped.manager.get(ADMISSION_CHECK, stopped.namespace), "Active")
        assert condition is not None
        assert condition["status"] == status
        return condition

    await choose(stopped, "incremental", steps=1)
    condition = await eventually(lambda: active("False"), timeout=20)
    assert condition["reason"] == "BadStrategy"
    assert "there is no option steps; its options are: step: int = 3" in condition["message"]
    await stopped.submit()
    await choose(stopped, "incremental", step=1)
    await eventually(lambda: active("True"), timeout=20)
    await copied(stopped, "worker1")


async def test_a_job_chooses_among_what_is_allowed(stopped: Team) -> None:
    await submit(stopped, "last-only", "chooses")
    await stopped.submit("follows")
    await copied(stopped, "worker2", "worker3", name="chooses")
    await copied(stopped, "worker1", "worker2", "worker3", name="follows")


async def test_a_choice_that_is_not_allowed_waits_and_says_so_until_it_is_corrected(stopped: Team) -> None:
    await submit(stopped, "all-at-once")
    message = await waits_for(stopped, "(setting dispatch.workload_strategies), got 'all-at-once'")
    assert "expected one of blocker, last-only, nonsense" in message
    await copied(stopped)
    name = (await stopped.workload())["metadata"]["name"]

    async def refused() -> list[Object]:
        return [event for event in await stopped.told(WORKLOAD, name) if event["reason"] == "StrategyRefused"]

    (event,) = await eventually(refused)
    assert event["message"] == message
    await say(stopped, None)
    await copied(stopped, "worker1", "worker2", "worker3")
    await stopped.go()
    await stopped.winner()


# --- strategies of somebody else's -------------------------------------------------------------------------------------


async def test_a_strategy_that_blocks_hurts_its_own_workloads_only(stopped: Team) -> None:
    blocked = [f"blocked-{number}" for number in range(6)]
    for name in blocked:
        await submit(stopped, "blocker", name)
    await waits_for(stopped, "strategy blocker cannot be asked: 4 calls have not come back", blocked[0])
    name = (await stopped.workload(blocked[0]))["metadata"]["name"]

    async def timed_out() -> bool:
        """The check says so for half a second only; then no thread is left to ask in."""
        told = await stopped.told(WORKLOAD, name)
        return any("strategy blocker gave no answer within 0.5s" in event["message"] for event in told)

    await eventually(timed_out)
    await stopped.go()
    others = [f"other-{number}" for number in range(10)]
    await stopped.submit_all(others)
    for name in others:
        await stopped.winner(name)
    assert [await stopped.copies(name) for name in blocked] == [{}] * len(blocked)
    for name in blocked:
        await say(stopped, None, name)
    for name in blocked:
        await stopped.winner(name)


async def test_a_strategy_that_names_nonsense_is_told_so(stopped: Team) -> None:
    await submit(stopped, "nonsense")
    await waits_for(stopped, "strategy Nonsense nominated nobody, not in its fleet of ")
    name = (await stopped.workload())["metadata"]["name"]

    async def failed() -> list[Object]:
        return [event for event in await stopped.told(WORKLOAD, name) if event["reason"] == "StrategyFailed"]

    (event,) = await eventually(failed)
    assert event["type"] == "Warning"
    await say(stopped, "last-only")
    await copied(stopped, "worker2", "worker3")
