"""Whose strategy is asked, what its failure does, and rounds that outlive the process: one file, one seam."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest
from hypothesis import given
from hypothesis import strategies as st

from multikueue import registry
from multikueue.api import kinds
from multikueue.api.meta import ObjectKey
from multikueue.controllers.reconcile.strategies import Strategies, _known, verify
from multikueue.controllers.workloads.workloads import Workloads
from multikueue.errors import ConfigurationError
from multikueue.quota.engine import Engine
from multikueue.settings import Dispatch, InForce, Loaded, Settings, StrategyChoice, Timings
from multikueue.store.queues import NoQueues
from multikueue.store.store import Store
from multikueue.workload.case import Case
from tests.builders import NOW, admission_check, workload
from tests.controllers.table import CHECK, NAMESPACE, Table, table
from tests.strategies.distributions import BLOCKER, HEADER, LAST_ONLY, distribution

pytestmark = pytest.mark.anyio

STRATEGY, OPTIONS = "multikueue.dev/strategy", "multikueue.dev/strategy-options"
ONE_BY_ONE = {"name": "incremental", "options": {"step": 1, "round_length": "1m"}}
MINUTE = timedelta(minutes=1)
MS = timedelta(milliseconds=1)

RAISES = '''
@dataclass(frozen=True)
class Raises:
    """Knows nothing."""

    def nominate(self, workload: Workload, fleet: Fleet) -> Nomination:
        raise ValueError("no idea")
'''

NONSENSE = '''
@dataclass(frozen=True)
class Nonsense:
    """Names somebody nobody knows."""

    def nominate(self, workload: Workload, fleet: Fleet) -> Nomination:
        return Nomination(("nobody",))
'''


JUDGE = '''
import sys
import threading
from dataclasses import dataclass

from multikueue.strategy import Score


@dataclass(frozen=True)
class Judge:
    """The second worker."""

    def score(self, workload, worker, fleet):
        sys.asked.append(threading.current_thread())
        return Score(float(worker.name == "w2"))
'''

SLOW = '''
import sys
import threading

from multikueue.strategy import Nomination
from dataclasses import dataclass

begun, open_gate = sys.gates
begun.set()
assert open_gate.wait(10)
imported_in = threading.current_thread()
built_in = []


@dataclass(frozen=True)
class Slow:
    """Takes its time to be imported."""

    def __post_init__(self):
        built_in.append(threading.current_thread())

    def nominate(self, workload, fleet):
        return Nomination(fleet.names)
'''


async def test_a_strange_strategy_is_imported_and_built_aside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While it is, the loop goes on, its workloads stay as they are, and its check is not written."""
    begun, gate = threading.Event(), threading.Event()
    monkeypatch.setattr(sys, "gates", (begun, gate), raising=False)
    monkeypatch.syspath_prepend(str(distribution(tmp_path, "slow_one", SLOW, slow="Slow")))
    world = table()
    await world.settle()
    before = active(world)
    annotate(world, strategy="slow")
    world.submit()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(world.settle)
        assert await anyio.to_thread.run_sync(begun.wait, 10)
        assert (world.copies(), active(world)) == ([], before)
        gate.set()
    await settle(world)

    module = sys.modules.pop("slow_one")
    assert world.copies() == ["w1", "w2", "w3"]
    assert active(world)[0] == "True"
    assert threading.main_thread() not in (module.imported_in, *module.built_in)
    assert not world.errors


async def test_one_that_took_too_long_to_import_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, gate = threading.Event(), threading.Event()
    monkeypatch.setattr(sys, "gates", (begun, gate), raising=False)
    monkeypatch.setattr("multikueue.controllers.reconcile.strategies.LOADING", timedelta(seconds=0.2))
    monkeypatch.syspath_prepend(str(distribution(tmp_path, "late_one", SLOW, late="Slow")))
    world = table()
    await world.settle()
    annotate(world, strategy="late")
    world.submit()
    await settle(world)
    assert active(world)[0] == "False"
    gate.set()
    with anyio.fail_after(10):
        while not world.copies():
            await anyio.sleep(0.05)
            await world.settle()

    sys.modules.pop("late_one")
    assert (world.copies(), active(world)[0]) == (["w1", "w2", "w3"], "True")


@pytest.fixture(scope="module", autouse=True)
def _strangers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A distribution of somebody else's with one good strategy and three bad ones."""
    site = distribution(
        tmp_path_factory.mktemp("strangers"),
        "strangers",
        HEADER + BLOCKER + LAST_ONLY + RAISES + NONSENSE,
        blocker="Blocker",
        last_only="LastOnly",
        raises="Raises",
        nonsense="Nonsense",
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(site))
        yield
    sys.modules.pop("strangers", None)


def annotate(world: Table, **annotations: str | None) -> None:
    """Annotations of the AdmissionCheck; None takes one away."""
    named = {STRATEGY if name == "strategy" else OPTIONS: text for name, text in annotations.items()}
    world.manager.change(kinds.ADMISSION_CHECKS, ObjectKey("", CHECK), {"metadata": {"annotations": named}})


async def settle(world: Table) -> None:
    """Until nothing is left to do, strangers have answered, and what follows from that is done."""
    await world.settle()
    with anyio.fail_after(10):
        while world.world.strategies._running or world.world.strategies._loading:
            await anyio.sleep(0.01)
            await world.settle()
    await world.settle()


async def loaded(world: Table) -> None:
    """The same, but strangers have only been imported and built: they may still think."""
    await world.settle()
    with anyio.fail_after(10):
        for loading in tuple(world.world.strategies._loading.values()):
            await loading.done.wait()
    await world.settle()


async def pass_time(world: Table, by: timedelta, name: str = "job") -> None:
    """What is due meanwhile is looked at."""
    world.time += by
    world.queues.workloads.add(world.key(name))
    await settle(world)


def check_message(world: Table, name: str = "job") -> str:
    (check,) = world.status(name)["admissionChecks"]
    message: str = check["message"]
    return message


def active(world: Table) -> tuple[str, str, str]:
    (found,) = (world.manager.find(kinds.ADMISSION_CHECKS, ObjectKey("", CHECK)) or {})["status"]["conditions"]
    return found["status"], found["reason"], found["message"]


# --- rounds, in the object ---------------------------------------------------------------------------------------------


async def test_all_at_once_leaves_no_note() -> None:
    world = table()
    world.submit()
    await settle(world)
    assert world.copies() == ["w1", "w2", "w3"]
    assert world.condition("multikueue.dev/Nominated") is None


async def test_rounds_are_noted_in_the_write_that_nominates() -> None:
    world = table(strategy=ONE_BY_ONE)
    world.submit()
    await settle(world)
    assert world.copies() == ["w1"]
    note = world.condition("multikueue.dev/Nominated") or {}
    assert (note["status"], note["reason"]) == ("True", "Incremental")
    assert note["message"] == "Round 1: 1 of 3 workers"
    assert note["lastTransitionTime"] == "2026-01-01T12:00:00Z"
    assert len([call for call in world.manager.calls if call == "patch workloads/status"]) == len(
        [call for call in (await _all_at_once()).manager.calls if call == "patch workloads/status"]
    )


async def _all_at_once() -> Table:
    world = table()
    world.submit()
    await settle(world)
    return world


async def test_a_round_begins_at_the_end_of_the_one_before() -> None:
    world = table(strategy=ONE_BY_ONE)
    world.submit()
    await settle(world)
    await pass_time(world, MINUTE - timedelta(seconds=1))
    assert world.copies() == ["w1"]
    await pass_time(world, timedelta(seconds=1))
    assert world.copies() == ["w1", "w2"]
    assert (world.condition("multikueue.dev/Nominated") or {})["message"] == "Round 2: 2 of 3 workers"


@pytest.mark.parametrize(
    ("down", "copies"),
    [
        pytest.param(timedelta(seconds=20), ["w1"], id="within the round: no early batch"),
        pytest.param(timedelta(seconds=40), ["w1", "w2"], id="over the end of the round: the next one begins"),
        pytest.param(timedelta(hours=5), ["w1", "w2"], id="for hours: one round, not all that were missed"),
    ],
)
async def test_a_restart_in_the_middle_of_a_round_does_not_turn_its_clock(down: timedelta, copies: list[str]) -> None:
    world = table(strategy=ONE_BY_ONE)
    world.submit()
    await settle(world)
    world.time += timedelta(seconds=20)
    world.start()
    world.time += down
    await settle(world)
    assert world.copies() == copies


async def test_a_second_look_writes_nothing() -> None:
    world = table(strategy=ONE_BY_ONE)
    world.submit()
    await settle(world)
    before = list(world.manager.calls)
    for _ in range(3):
        await pass_time(world, timedelta(seconds=5))
    assert world.manager.calls == before


async def test_the_note_goes_with_the_win() -> None:
    world = table(strategy=ONE_BY_ONE)
    world.submit()
    await settle(world)
    world.admit("w1")
    await settle(world)
    assert world.status()["clusterName"] == "w1"
    assert world.condition("multikueue.dev/Nominated") is None


async def test_a_dead_worker_takes_no_round() -> None:
    world = table(strategy=ONE_BY_ONE)
    world.cut("w1")
    world.submit()
    await settle(world)
    assert world.copies() == ["w2"]
    world.cut("w2")
    await settle(world)
    assert world.copies() == ["w2", "w3"]  # the copy on w2 cannot be removed, and may win if it is back
    assert world.status()["nominatedClusterNames"] == ["w3", "w2"]


async def test_the_next_attempt_begins_with_workers_where_none_failed() -> None:
    world = table(strategy=ONE_BY_ONE)
    world.submit()
    await settle(world)
    world.admit("w1")
    await settle(world)
    world.evict("w1")
    await settle(world)
    note = world.condition("multikueue.dev/FailedOn") or {}
    assert (note["reason"], note["message"]) == ("AttemptFailed", "w1 at 2026-01-01T12:00:02Z")
    await pass_time(world, timedelta(minutes=2))
    await settle(world)
    assert world.copies() == ["w2"]
    assert (world.condition("multikueue.dev/FailedOn") or {})["message"] == "w1 at 2026-01-01T12:00:02Z"


class Ticking(Table):
    """Its clock goes on by a `tick` whenever somebody looks at it."""

    tick = timedelta()

    def now(self) -> datetime:
        self.time += self.tick
        return self.time


@pytest.mark.parametrize("early", range(8))
async def test_a_round_that_ends_while_its_workload_is_looked_at_is_not_forgotten(early: int) -> None:
    world = Ticking(strategy=ONE_BY_ONE)
    world.errors = []
    world.submit()
    await settle(world)
    left = (await Workloads(world.world).reconcile(world.key())).again_after
    assert left is not None
    world.tick = timedelta(milliseconds=1)
    world.time += left - early * world.tick
    result = await Workloads(world.world).reconcile(world.key())
    assert result.again_after is not None


async def test_patience_gives_the_quota_back_and_another_workload_gets_it() -> None:
    patient = {"name": "incremental", "options": {"step": 3, "round_length": "1m", "give_back_after": "2m"}}
    world = table(quota=1, strategy=patient)
    world.submit("first")
    await settle(world)
    world.submit("second")
    await settle(world)
    assert (world.copies("first"), world.copies("second")) == (["w1", "w2", "w3"], [])
    await pass_time(world, timedelta(minutes=2), "first")
    await pass_time(world, timedelta(seconds=1), "second")
    assert world.copies("first") == []
    assert world.copies("second") == ["w1", "w2", "w3"]
    evicted = world.condition("Evicted", "first") or {}
    assert (evicted["status"], evicted["reason"]) == ("True", "AdmissionCheck")
    assert world.status("first")["requeueState"]["count"] == 1
    told = [message for _, message in world.said() if message.startswith("No worker admitted it")]
    assert told == ['No worker admitted it for 0:02:00, and all were tried, Previously: "Pending"']


# --- the choice --------------------------------------------------------------------------------------------------------


async def test_the_check_may_choose_for_its_workloads() -> None:
    world = table()
    annotate(world, strategy="incremental", options='{"step": 2, "order": "name"}')
    world.submit()
    await settle(world)
    assert world.copies() == ["w1", "w2"]
    assert active(world)[:2] == ("True", "Active")


async def test_a_choice_that_changes_is_followed_at_once() -> None:
    world = table()
    world.submit()
    await settle(world)
    annotate(world, strategy="last-only")
    await settle(world)
    assert world.copies() == ["w3"]
    annotate(world, strategy=None)
    await settle(world)
    assert world.copies() == ["w1", "w2", "w3"]


WRONG_CHECKS: dict[str, tuple[dict[str, str], str]] = {
    "no such strategy": (
        {"strategy": "best"},
        "AdmissionCheck mk: strategy 'best': expected one that is installed: all-at-once, ",
    ),
    "no such option": (
        {"strategy": "incremental", "options": '{"steps": 2}'},
        "AdmissionCheck mk: strategy 'incremental': there is no option steps; its options are: step: int = 3; ",
    ),
    "an option of another type": (
        {"strategy": "incremental", "options": '{"step": "many"}'},
        "AdmissionCheck mk: strategy 'incremental': step: expected ",
    ),
    "options that are no JSON": (
        {"strategy": "incremental", "options": "step=2"},
        "AdmissionCheck mk: annotation multikueue.dev/strategy-options: expected a JSON object, got 'step=2'",
    ),
    "options that are a list": (
        {"strategy": "incremental", "options": "[2]"},
        "AdmissionCheck mk: annotation multikueue.dev/strategy-options: expected a JSON object, got '[2]'",
    ),
    "options of nobody": (
        {"options": "{}"},
        "AdmissionCheck mk: annotation multikueue.dev/strategy-options: expected annotation multikueue.dev/strategy",
    ),
}


@pytest.mark.parametrize(("annotations", "problem"), WRONG_CHECKS.values(), ids=WRONG_CHECKS.keys())
async def test_a_wrong_choice_makes_the_check_inactive_and_its_workloads_wait(
    annotations: dict[str, str], problem: str
) -> None:
    world = table()
    world.submit("before")
    await settle(world)
    annotate(world, **annotations)
    world.submit("after")
    await settle(world)
    status, reason, message = active(world)
    assert (status, reason) == ("False", "BadStrategy")
    assert message.startswith(problem)
    assert world.copies("after") == []
    assert check_message(world, "before").startswith(problem)
    assert world.copies("before") == ["w1", "w2", "w3"]
    annotate(world, strategy=None, options=None)
    await settle(world)
    assert active(world)[:2] == ("True", "Active")
    assert world.copies("after") == ["w1", "w2", "w3"]
    assert check_message(world, "before") == ""


ALLOWED = {"last-only": {"count": 2}}


def of_job(world: Table, annotation: str | None, name: str = "job") -> None:
    """What the user says on the job."""
    metadata = {"metadata": {"annotations": {STRATEGY: annotation}}}
    world.manager.change(kinds.JOBS, ObjectKey(NAMESPACE, name), metadata)


def of_workload(world: Table, annotation: str | None, name: str = "job") -> None:
    metadata = {"metadata": {"annotations": {STRATEGY: annotation}}}
    world.manager.change(kinds.WORKLOADS, world.key(name), metadata)


async def test_a_workload_may_choose_what_the_operator_allows_with_its_options() -> None:
    world = table(workload_strategies=ALLOWED)
    annotate(world, strategy="incremental", options='{"step": 1}')
    world.submit()
    world.submit("other")
    of_job(world, "last-only")
    await settle(world)
    assert world.copies() == ["w2", "w3"]
    assert world.copies("other") == ["w1"]


NAMES = "kueue.x-k8s.io/multikueue-cluster-names"


async def test_a_strategy_sees_the_annotations_of_the_job_and_those_of_the_workload_before_them() -> None:
    world = table()
    annotate(world, strategy="composed", options='{"filters": ["named"], "patience": null}')
    world.submit()
    world.manager.change(kinds.JOBS, ObjectKey(NAMESPACE, "job"), {"metadata": {"annotations": {NAMES: "w3"}}})
    await settle(world)
    assert world.copies() == ["w3"]
    world.manager.change(kinds.WORKLOADS, world.key("job"), {"metadata": {"annotations": {NAMES: "w2"}}})
    await settle(world)
    assert world.copies() == ["w2"]


async def test_a_part_of_somebody_else_is_asked_in_a_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[threading.Thread] = []
    monkeypatch.setattr(sys, "asked", asked, raising=False)
    monkeypatch.syspath_prepend(str(distribution(tmp_path, "judging", JUDGE, group=registry.SCORERS, judge="Judge")))
    world = table()
    annotate(world, strategy="composed", options='{"scorers": ["judge"], "patience": null}')
    world.submit()
    await settle(world)
    assert world.copies() == ["w2"]
    told = await world.world.strategies.choice(world.world.case(world.key()))
    assert told is not None
    assert (told.workers[0].worker, told.workers[0].words) == ("w2", "judge 1.00: ")
    assert asked
    assert threading.main_thread() not in asked


async def test_the_workload_goes_before_its_job() -> None:
    world = table(workload_strategies=ALLOWED | {"incremental": {"step": 1}})
    world.submit()
    of_job(world, "incremental")
    await settle(world)
    assert world.copies() == ["w1"]
    of_workload(world, "last-only")
    await settle(world)
    assert world.copies() == ["w2", "w3"]
    assert world.condition("multikueue.dev/Nominated") is None


@pytest.mark.parametrize(
    ("allowed", "right"),
    [
        pytest.param({}, "expected none, as workloads may not choose here", id="none is allowed"),
        pytest.param(ALLOWED, "expected one of last-only", id="others are allowed"),
    ],
)
async def test_what_is_not_allowed_makes_the_workload_wait_until_it_is_corrected(
    allowed: dict[str, Any], right: str
) -> None:
    world = table(workload_strategies=allowed)
    world.submit()
    world.submit("other")
    of_job(world, "incremental")
    await settle(world)
    assert world.copies() == []
    assert world.copies("other") == ["w1", "w2", "w3"]
    assert right in check_message(world)
    assert "got 'incremental'" in check_message(world)
    assert [reason for reason, message in world.said() if message == check_message(world)] == ["StrategyRefused"]
    writes = len(world.manager.calls)
    world.queues.workloads.add(world.key())
    await settle(world)
    assert len(world.manager.calls) == writes
    of_job(world, None)
    await settle(world)
    assert world.copies() == ["w1", "w2", "w3"]
    assert check_message(world) == ""


# --- strategies of somebody else's -------------------------------------------------------------------------------------


async def test_one_of_somebody_elses_is_asked_aside_and_its_answer_counts() -> None:
    world = table(strategy={"name": "last-only", "options": {"count": 1}})
    world.submit()
    await world.settle()
    assert world.copies() == []
    await settle(world)
    assert world.copies() == ["w3"]
    world.cut("w3")
    await settle(world)
    assert world.copies() == ["w2", "w3"]


@pytest.mark.parametrize(
    ("strategy", "problem"),
    [
        pytest.param("raises", "strategy Raises raised ValueError: no idea", id="raises"),
        pytest.param("nonsense", "strategy Nonsense nominated nobody, not in its fleet of w1, w2, w3", id="nonsense"),
        pytest.param("blocker", "strategy blocker gave no answer within 0.05s", id="blocks"),
    ],
)
async def test_a_strategy_that_fails_hurts_its_own_workload_only(strategy: str, problem: str) -> None:
    world = table(workload_strategies={strategy: {}}, timings=Timings(strategy_timeout=50 * MS))
    world.submit("blocked")
    of_job(world, strategy, "blocked")
    world.submit("other")
    await settle(world)
    assert world.copies("blocked") == []
    assert check_message(world, "blocked") == problem
    assert ("StrategyFailed", problem) in world.said()
    assert world.copies("other") == ["w1", "w2", "w3"]


async def test_failures_are_retried_with_a_wait_that_doubles() -> None:
    world = table(strategy={"name": "raises"}, timings=Timings(retry_cap=timedelta(seconds=3)))
    world.submit()
    await settle(world)
    waits = []
    for _ in range(4):
        _, result = world.world.strategies._results[world.key()]
        assert result.again_at is not None
        waits.append((result.failures, (result.again_at - world.time).total_seconds()))
        await pass_time(world, (result.again_at - world.time) / 2)
        assert world.world.strategies._results[world.key()][1] is result  # not asked before its time
        await pass_time(world, result.again_at - world.time)
    assert waits == [(1, 1), (2, 2), (3, 3), (4, 3)]


async def test_a_strategy_that_lost_all_its_threads_is_told_so_and_others_go_on() -> None:
    world = table(workload_strategies={"blocker": {}}, timings=Timings(strategy_timeout=50 * MS))
    names = [f"blocked-{number}" for number in range(6)]
    for name in names:
        world.submit(name)
        of_job(world, "blocker", name)
    world.submit("other")
    await settle(world)
    told = {check_message(world, name) for name in names}
    assert told <= {
        "strategy blocker gave no answer within 0.05s",
        "strategy blocker cannot be asked: 4 calls have not come back; once one does, it is asked again",
    }
    assert world.copies("other") == ["w1", "w2", "w3"]


async def test_what_a_strategy_says_after_another_one_was_chosen_is_not_heard() -> None:
    world = table(workload_strategies={"blocker": {}}, timings=Timings(strategy_timeout=100 * MS))
    world.submit("blocked")
    of_job(world, "blocker", "blocked")
    await loaded(world)
    of_job(world, None, "blocked")
    await world.settle()
    assert world.copies("blocked") == ["w1", "w2", "w3"]
    (pool,) = world.world.strategies._pools.values()
    with anyio.fail_after(10):
        while not all(task.is_given_up for task in pool._running):  # noqa: ASYNC110
            await anyio.sleep(0.01)
    await world.settle()
    assert check_message(world, "blocked") == ""
    assert world.world.strategies._results[world.key("blocked")][1].problem == ""


async def test_a_workload_that_goes_while_its_strategy_thinks_leaves_nothing_behind() -> None:
    world = table(strategy={"name": "blocker"}, timings=Timings(strategy_timeout=50 * MS))
    world.submit("blocked")
    await world.settle()
    key = world.key("blocked")
    world.manager.drop(kinds.JOBS, ObjectKey(NAMESPACE, "blocked"))
    await world.manager.delete(kinds.WORKLOADS, key)
    await settle(world)
    assert world.world.strategies._results == {}


@pytest.mark.parametrize(
    ("dispatch", "problem"),
    [
        pytest.param(
            {"strategy": StrategyChoice(name="best")},
            "dispatch.strategy.name: strategy 'best': expected one",
            id="name",
        ),
        pytest.param(
            {"strategy": StrategyChoice(name="incremental", options={"steps": 1})},
            "dispatch.strategy.options: strategy 'incremental': there is no option steps",
            id="options",
        ),
        pytest.param(
            {"workload_strategies": {"incremental": {"step": "many"}}},
            "dispatch.workload_strategies.incremental: strategy 'incremental': step: expected",
            id="what workloads may choose",
        ),
    ],
)
def test_settings_that_name_a_wrong_strategy_are_refused(dispatch: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        verify(Loaded(Settings(dispatch=Dispatch(**dispatch))))
    assert problem in str(caught.value)


def test_settings_that_name_good_strategies_pass() -> None:
    verify(Loaded(Settings(dispatch=Dispatch(workload_strategies={"incremental": {"step": 1}}))))


# --- whatever people write ---------------------------------------------------------------------------------------------

TEXT = st.one_of(st.text(), st.sampled_from(["incremental", "last-only", "", "null", "{}", "[[[[", '{"step": 1e999}']))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(), lambda inner: st.dictionaries(st.text(), inner)
)


@given(name=st.none() | TEXT, options=st.none() | TEXT | JSON.map(json.dumps))
def test_whatever_a_check_says_is_a_strategy_or_a_problem_in_words(name: str | None, options: str | None) -> None:
    annotations = {key: text for key, text in ((STRATEGY, name), (OPTIONS, options)) if text is not None}
    check = admission_check("mk").annotations(annotations).build()
    problem = anyio.run(_strategies().problem_of, check)
    assert len(problem) <= 1000
    assert problem.encode().decode() == problem
    assert not problem or "AdmissionCheck mk: " in problem


@given(name=TEXT)
def test_whatever_a_workload_says_is_refused_unless_it_is_allowed(name: str) -> None:
    local = workload("wl").annotations({STRATEGY: name}).build()
    strategies = _strategies(workload_strategies=ALLOWED)
    choice = partial(_known, partial(strategies._choose, Case(now=NOW, key=local.key, workload=local), None))
    if name in ALLOWED:
        assert anyio.run(choice).name == name
    else:
        with pytest.raises(ConfigurationError, match="expected one of last-only"):
            anyio.run(choice)


def _strategies(**dispatch: Any) -> Strategies:
    inside = InForce(Settings(dispatch=Dispatch(**dispatch)))
    store = Store(Engine(), NoQueues(), lambda: NOW)
    return Strategies(store=store, settings=inside, now=lambda: NOW, wake=lambda _: None)
