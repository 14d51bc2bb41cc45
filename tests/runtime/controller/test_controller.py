"""The controller loop: each key to its end, each error to its own key."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from datetime import timedelta
from functools import partial
from itertools import pairwise

import anyio
import pytest
import structlog
from structlog.testing import capture_logs
from structlog.typing import EventDict

from multikueue.errors import ClusterUnreachable, Conflict, InvariantBroken, NotKept, StrategyError, Throttled
from multikueue.runtime import DONE, Backoff, Result, WorkQueue, run_controller

pytestmark = pytest.mark.anyio

SECOND = timedelta(seconds=1)
DOWN = ClusterUnreachable("worker-1", "refused")
Reconcile = Callable[[str], Awaitable[Result]]


def queue(*keys: str) -> WorkQueue[str]:
    work: WorkQueue[str] = WorkQueue(retries=Backoff(first=SECOND, cap=60 * SECOND, jitter=0))
    for key in keys:
        work.add(key)
    return work


class Script:
    """A reconcile that answers what it is given in turn, and then DONE; it notes when it was called for what."""

    def __init__(self, *answers: Result | Exception) -> None:
        self.answers = list(answers)
        self.calls: list[tuple[float, str]] = []

    async def __call__(self, key: str) -> Result:
        self.calls.append((round(anyio.current_time() - self.began, 3), key))
        answer = self.answers.pop(0) if self.answers else DONE
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def run(self, work: WorkQueue[str], *, seconds: float = 1000) -> list[EventDict]:
        """Runs the controller for a while; answers what was logged."""
        self.began = anyio.current_time()
        with capture_logs() as logs:
            await run_for(seconds, work, self)
        return logs


async def run_for(seconds: float, work: WorkQueue[str], reconcile: Reconcile, *, workers: int = 1) -> None:
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(close_after, seconds, work)
        await run_controller("dispatch", work, reconcile, workers=workers)


async def close_after(seconds: float, work: WorkQueue[str]) -> None:
    await anyio.sleep(seconds)
    work.close()


async def test_each_key_is_reconciled_once() -> None:
    script = Script()
    work = queue("a", "b")
    assert await script.run(work) == []
    assert script.calls == [(0, "a"), (0, "b")]


async def test_a_result_may_ask_to_look_again() -> None:
    script = Script(Result(again_after=5 * SECOND), Result(again_after=timedelta()))
    await script.run(queue("a"))
    assert script.calls == [(0, "a"), (5, "a"), (5, "a")]


async def test_an_error_costs_its_key_a_growing_wait_and_success_ends_it() -> None:
    script = Script(DOWN, DOWN, DOWN, Result(again_after=100 * SECOND), DOWN)
    work = queue("a")
    await script.run(work)
    assert [at for at, _ in script.calls] == [0, 1, 3, 7, 107, 108]
    assert work.failures("a") == 0


async def test_an_error_costs_other_keys_nothing() -> None:
    script = Script(DOWN)
    await script.run(queue("a", "b"))
    assert script.calls == [(0, "a"), (0, "b"), (1, "a")]


async def test_as_many_work_as_may_at_the_time() -> None:
    """The number may change while keys wait."""
    may, working, seen = 2, 0, list[int]()

    async def reconcile(_key: str) -> Result:
        nonlocal may, working
        working += 1
        seen.append(working)
        await anyio.sleep(1)
        working -= 1
        may = 6 if len(seen) < 30 else 1
        return DONE

    work = queue(*map(str, range(60)))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(close_after, 1000, work)
        await run_controller("dispatch", work, reconcile, workers=lambda: may)
    assert (len(seen), max(seen[:2]), max(seen), set(seen[-10:])) == (60, 2, 6, {1})


async def test_throttled_waits_as_long_as_the_server_asked() -> None:
    slow_down = Throttled(429, "TooManyRequests", "slow down", after=30)
    script = Script(slow_down, ExceptionGroup("two workers", [slow_down, DOWN]), Throttled(429, "TooManyRequests", "?"))
    await script.run(queue("a"))
    assert [at for at, _ in script.calls] == [0, 30, 60, 64]


async def test_what_others_undo_each_time_is_written_seldom_though_each_time_makes_news() -> None:
    work, calls = queue("a"), list[float]()

    async def fought_over(key: str) -> Result:
        calls.append(anyio.current_time())
        asyncio.get_running_loop().call_later(0.005, work.add, key)
        raise NotKept("Workload a: the API server does not keep status.admissionChecks")

    await run_for(100, work, fought_over)
    assert [round(later - earlier) for earlier, later in pairwise(calls)][:5] == [0, 2, 4, 5, 5]


@pytest.mark.parametrize(
    ("error", "event", "level", "traceback"),
    [
        pytest.param(
            StrategyError("it raised"), "reconcile.failed", "warning", False, id="an expected error is a warning"
        ),
        pytest.param(DOWN, "reconcile.failed", "debug", False, id="a cluster out of reach is its connection's news"),
        pytest.param(
            Conflict(409, "Conflict", "x"), "reconcile.conflicted", "debug", False, id="a conflict is nothing"
        ),
        pytest.param(KeyError("x"), "reconcile.crashed", "error", True, id="a bug comes with its traceback"),
    ],
)
async def test_errors_are_logged_for_what_they_are(error: Exception, event: str, level: str, traceback: bool) -> None:
    logs = await Script(error).run(queue("a"))
    assert [(log["event"], log["log_level"], log["retry_after"], log["failures"]) for log in logs] == [
        (event, level, 1.0, 1)
    ]
    assert (logs[0].get("exc_info") is error) == traceback


async def test_lasting_trouble_with_a_cluster_is_a_warning_in_the_end() -> None:
    logs = await Script(*[DOWN] * 6).run(queue("a"))
    assert [log["log_level"] for log in logs] == ["debug"] * 4 + ["warning"] * 2


async def test_every_failure_is_told() -> None:
    told: list[tuple[str, Exception]] = []
    script = Script(DOWN, KeyError("x"))
    work = queue("a")
    script.began = anyio.current_time()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(close_after, 10, work)
        await run_controller("c", work, script, workers=1, on_error=lambda key, error: told.append((key, error)))
    assert [(key, type(error)) for key, error in told] == [("a", ClusterUnreachable), ("a", KeyError)]


async def test_a_broken_invariant_ends_the_controller() -> None:
    with pytest.raises(ExceptionGroup) as caught:
        await Script(ExceptionGroup("x", [DOWN, InvariantBroken("two winners")])).run(queue("a"))
    assert caught.group_contains(InvariantBroken, match="two winners")


async def test_workers_bound_how_many_keys_are_worked_on_at_once() -> None:
    running, most = 0, 0

    async def slow(_key: str) -> Result:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await anyio.sleep(1)
        running -= 1
        return DONE

    await run_for(100, queue(*"abcdefgh"), slow, workers=3)
    assert most == 3


async def test_reconciles_that_never_wait_let_others_run() -> None:
    work = queue(*(str(number) for number in range(100)))
    left: list[int] = []

    async def look() -> None:
        left.append(len(work))

    async def at_once(_key: str) -> Result:
        return DONE

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(close_after, 1, work)
        tasks.start_soon(look)
        await run_controller("c", work, at_once, workers=1)

    assert left[0] > 90


async def test_cancellation_passes_and_frees_the_key() -> None:
    work = queue("a")

    async def hangs(_key: str) -> Result:
        await anyio.sleep_forever()
        return DONE

    with anyio.move_on_after(5) as scope, capture_logs() as logs:
        await run_controller("c", work, hangs, workers=1)

    assert scope.cancelled_caught
    assert work.depth().processing == 0
    assert logs == []


async def test_what_a_reconcile_logs_names_controller_and_key() -> None:
    async def speaks(key: str) -> Result:
        structlog.get_logger().info("workload.seen", said=key)
        return DONE

    with capture_logs(processors=[structlog.contextvars.merge_contextvars]) as logs:
        await run_for(1, queue("a", "b"), speaks)

    facts = {"event": "workload.seen", "log_level": "info", "controller": "dispatch"}
    assert logs == [{**facts, "key": "a", "said": "a"}, {**facts, "key": "b", "said": "b"}]
    assert structlog.contextvars.get_contextvars() == {}


async def test_there_are_as_many_workers_as_keys_at_a_time_and_one_while_there_is_none() -> None:
    work, under_way, most = queue(), 0, 0

    async def reconcile(_key: str) -> Result:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await anyio.sleep(1)
        under_way -= 1
        return DONE

    def workers() -> int:
        return sum((task.name or "").startswith("dispatch-") for task in anyio.get_running_tasks())

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(partial(run_controller, "dispatch", work, reconcile, workers=3, spare=1))
        await anyio.sleep(1)
        assert workers() == 1
        for key in "abcde":
            work.add(key)
        await anyio.sleep(0.5)
        assert (workers(), len(work)) == (3, 2)
        await anyio.sleep(9)
        assert (workers(), most, work.depth().taken) == (1, 3, 5)
        work.close()


async def test_a_worker_that_a_key_calls_for_takes_nothing_from_whoever_added_the_key() -> None:
    seen: list[tuple[str, str]] = []
    mark: ContextVar[str] = ContextVar("mark", default="ours")

    async def reconcile(key: str) -> Result:
        seen.append((key, mark.get()))
        await anyio.sleep(1)
        return DONE

    work = queue()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(partial(run_controller, "dispatch", work, reconcile, workers=3))
        await anyio.sleep(1)
        mark.set("theirs")
        work.add("a")
        work.add("b")
        await anyio.sleep(1)
        work.close()
    assert seen == [("a", "ours"), ("b", "ours")]


async def test_keys_that_come_after_the_controller_was_cancelled_only_wait() -> None:
    work = queue()
    with anyio.move_on_after(1):
        await run_controller("dispatch", work, Script(), workers=3)
    work.add("a")
    work.add("b")
    assert len(work) == 2


async def test_no_worker_begins_for_a_key_that_a_cancelled_one_gives_back() -> None:
    calls: list[str] = []
    work = queue()

    async def reconcile(key: str) -> Result:
        calls.append(key)
        if calls.count(key) == 1:
            work.add(key)  # news of it while it is worked on
            await anyio.sleep_forever()
        return DONE

    for key in "abc":
        work.add(key)
    with anyio.move_on_after(1):
        await run_controller("dispatch", work, reconcile, workers=12)
    assert calls == ["a", "b", "c"]


async def test_no_worker_begins_for_a_key_that_comes_while_the_controller_is_cancelled() -> None:
    """Its worker waits for the next key just then, after a reconcile that had nothing to do."""
    calls: list[str] = []
    work = queue()

    async def reconcile(key: str) -> Result:
        calls.append(key)
        asyncio.get_running_loop().call_soon(scope.cancel)
        asyncio.get_running_loop().call_soon(lambda: asyncio.get_running_loop().call_soon(work.add, "b"))
        return DONE

    work.add("a")
    with anyio.CancelScope() as scope:
        await run_controller("dispatch", work, reconcile, workers=12, spare=1)
    assert (calls, len(work)) == (["a"], 1)
