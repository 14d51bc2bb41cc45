"""Bugs planted on purpose, each to be caught: one file, a table of them.

Each replaces a function of the product by one that does what a tired programmer might have written. Most are caught by
seeds; those that no simulated life can show, by the test that guards the same. `python -m tests.simulation.bugs
[NAME ...]` lives seeds from 0 on until each is caught, and says by which and by what invariant.

A bug with a `row` takes away what was built for that row of the table in docs/attacks.md.
"""

from __future__ import annotations

import gc
import io
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, redirect_stdout
from dataclasses import dataclass
from datetime import datetime, timedelta
from fractions import Fraction
from math import ceil
from typing import Any, NamedTuple
from unittest.mock import patch

import pytest
from msgspec.structs import replace

from multikueue.answers import answer as answers
from multikueue.answers import passing
from multikueue.answers.codes import Code
from multikueue.answers.obstacle import Obstacle
from multikueue.answers.seen import Seen
from multikueue.api.jobs.job import job_spec, job_status
from multikueue.api.kueue.workload import NOMINATED, ReclaimablePod
from multikueue.api.values import foreign, quantity
from multikueue.api.values.quantity import NANO
from multikueue.controllers.reconcile.context import WorkQueues
from multikueue.controllers.workers.connection import identities, outbox, proofs, refused_calls
from multikueue.controllers.workloads import workloads
from multikueue.dispatch import remote
from multikueue.dispatch.copies import plan
from multikueue.dispatch.remote import Remote
from multikueue.errors import InvalidObject, NotKept
from multikueue.jobs.framework.actions import CreateWorkload, JobDecision
from multikueue.jobs.kinds.batch_job.adapter import BatchJob
from multikueue.jobs.reconciler import case, ensure_workload
from multikueue.kube import errors, reflector
from multikueue.kube.auth import credentials, kubeconfig
from multikueue.kube.client import Client
from multikueue.kube.cluster_client import Page
from multikueue.quota import engine
from multikueue.quota.cache.cache import QuotaCache
from multikueue.registration import plan as plans
from multikueue.runtime import AGAIN, WorkQueue
from multikueue.runtime.controller import queue
from multikueue.store import job_view
from multikueue.store.caches.cache import Cache
from multikueue.store.caches.groups import Groups
from multikueue.store.event_handlers import concerned
from multikueue.store.state import State
from multikueue.store.store import Store
from multikueue.store.workers import worker
from multikueue.store.workers.worker import WorkerView
from multikueue.telemetry.metrics import Metrics
from multikueue.telemetry.sink import LogSink
from multikueue.web import admission, door
from multikueue.workload import case as workload_case
from multikueue.workload import decide, phases
from multikueue.workload.case import Case
from multikueue.workload.handlers import (
    doubts,
    evicting,
    finishing,
    nominating,
    outcome,
    removal,
    retrying,
    winning,
)
from multikueue.workload.life import life
from multikueue_simulator.simulation.plan.draw import drawn
from multikueue_simulator.simulation.runs.batch import alike
from multikueue_simulator.simulation.runs.life import live

Plant = Callable[[], Iterator[None]]


FAR = 600
"""Seeds that a hunt goes through at least, before it gives up; and as many as it is known to take."""


class Catch(NamedTuple):
    """What a bug was caught by: a seed, and the invariant that was violated; or a test, and what it says."""

    name: str
    by: str
    violation: str

    def __str__(self) -> str:
        return f"{self.name}: {self.by}: {self.violation}"


@dataclass(frozen=True)
class Bug:
    """`caught_by` is a seed that catches it, `within` how many seeds from 0 on are enough; or it is a test that does."""

    name: str
    plant: Plant
    caught_by: int | str
    within: int = 0
    row: int = 0

    def planted(self) -> Any:
        return contextmanager(self.plant)()


BUGS: dict[str, Bug] = {}


def bug(*, caught_by: int | str, within: int = 0, row: int = 0) -> Callable[[Plant], Plant]:
    def register(plant: Plant) -> Plant:
        name = plant.__name__
        BUGS[name] = Bug(name, plant, caught_by, within, row)
        return plant

    return register


@contextmanager
def replaced(target: Any, name: str, make: Callable[[Any], Any]) -> Iterator[None]:
    """`target.name` is what `make` makes of it, in this block."""
    real = target.__dict__[name] if isinstance(target, type) else getattr(target, name)
    setattr(target, name, make(real))
    try:
        yield
    finally:
        setattr(target, name, real)


@contextmanager
def in_handlers(name: str, make: Callable[[Any], Any]) -> Iterator[None]:
    """A function that several handlers of dispatch import, replaced for each of them."""
    with ExitStack() as stack:
        for module in (evicting, finishing, nominating, removal, retrying, winning):
            if hasattr(module, name):
                stack.enter_context(replaced(module, name, make))
        yield


# --- dispatch --------------------------------------------------------------------------------------------------------


@bug(caught_by=0, within=5)
def losers_are_not_deleted() -> Iterator[None]:
    def make(real: Any) -> Any:
        return lambda keep, remotes: () if keep else real(keep, remotes)

    with in_handlers("removals", make), in_handlers("loser_removals", lambda _real: lambda _v: ()):
        yield


@bug(caught_by=0, within=1)
def the_winner_is_not_sticky() -> Iterator[None]:
    """Whoever admitted first wins, whatever was recorded."""

    def make(real: Any) -> Any:
        def winner(seen: Case) -> Remote | None:
            admitted = [r for r in seen.remotes if r.is_reachable and r.has_taken and seen.is_current(r.workload)]
            return (min(admitted, key=seen._taken_at, default=None) if seen.attempt else None) or real.func(seen)

        return property(winner)

    with replaced(Case, "winner", make):
        yield


@bug(caught_by=1395, within=1400)
def the_attempt_is_ignored() -> Iterator[None]:
    """A copy of an earlier attempt counts as one of this."""

    def make(_real: Any) -> Any:
        return lambda item, _local, _attempt: item is not None and item.metadata.deletion_timestamp is None

    with (
        replaced(workload_case, "is_of_attempt", make),
        replaced(plan, "is_of_attempt", make),
        replaced(concerned, "is_of_attempt", make),
        replaced(job_view, "is_of_attempt", make),
    ):
        yield


@bug(caught_by=231, within=232)
def what_a_standby_missed_counts_as_a_loss() -> Iterator[None]:
    """Who takes over counts absences from its own links, not from what the leader before it knew."""

    def leads(view: WorkerView, _now: datetime, _never_lost_before: datetime) -> None:
        view._reached(replace(view.link, never_lost_before=None))

    with (
        replaced(WorkerView, "leads", lambda _real: leads),
        replaced(Store, "stand_by", lambda _real: lambda _store: None),
    ):
        yield


@bug(caught_by=3, within=4)
def a_recorded_loss_is_read_again_and_again() -> Iterator[None]:
    """A later loss counts from the beginning of one that is over."""

    def recorded(view: WorkerView, since: datetime | None) -> None:
        if since is not None and not view.link.is_connected:
            view._reached(replace(view.link, since=since))

    with replaced(WorkerView, "recorded", lambda _real: recorded):
        yield


@bug(caught_by=18, within=38)
def the_round_is_kept_in_memory() -> Iterator[None]:
    """The condition with the time of the newest nomination is not written."""

    def make(_real: Any) -> Any:
        return lambda v, answer, wanted: tuple(c for c in v.local.status.conditions if c.type != NOMINATED)

    with replaced(nominating, "_with_note", make):
        yield


@bug(caught_by=0, within=5)
def the_check_is_ready_before_the_job_is_there() -> Iterator[None]:
    def make(real: Any) -> Any:
        def admitted(v: Case) -> Any:
            decision = real(v)
            if not v.has_won and any(isinstance(each, plan.Running) for each in decision.desired):
                return replace(decision, status=winning.status_of_win(v))
            return decision

        return admitted

    with replaced(winning, "admitted", make), _handlers():
        yield


@bug(caught_by=4, within=5)
def the_workload_finishes_before_its_job() -> Iterator[None]:
    def make(real: Any) -> Any:
        return lambda v: real(replace(v, is_job_finished=True))

    with replaced(finishing, "completing", make), _handlers():
        yield


@bug(caught_by=238, within=240)
def an_eviction_by_the_worker_is_ignored() -> Iterator[None]:
    def make(_real: Any) -> Any:
        return lambda v: outcome.unchanged(v)

    with replaced(retrying, "evicted_remotely", make), _handlers():
        yield


@bug(caught_by=14, within=30)
def a_worker_counts_as_lost_at_once() -> Iterator[None]:
    def make(_real: Any) -> Any:
        return lambda self, now, timeout: self.link.since is not None

    with replaced(Remote, "is_lost", make):
        yield


@bug(caught_by=7, within=8)
def a_lost_worker_is_waited_for_for_ever() -> Iterator[None]:
    with replaced(Remote, "is_lost", lambda _real: lambda self, now, timeout: False):
        yield


@bug(caught_by=6, within=7)
def what_fits_no_worker_keeps_its_quota() -> Iterator[None]:
    with replaced(phases, "can_fit_nowhere", lambda _real: lambda _case: False):
        yield


@bug(caught_by=0, within=5)
def copies_of_finished_workloads_stay() -> Iterator[None]:
    with patch.dict(decide.HANDLERS, {phases.Phase.FINISHED: outcome.unchanged}):
        yield


@contextmanager
def _handlers() -> Iterator[None]:
    """The table of handlers refers to them by value: have it look them up again."""
    handlers = {phase: getattr(sys.modules[each.__module__], each.__name__) for phase, each in decide.HANDLERS.items()}
    with patch.dict(decide.HANDLERS, handlers):
        yield


# --- what is done on workers -------------------------------------------------------------------------------------------


@bug(caught_by=34, within=35)
def deleted_workloads_are_not_cleaned_up() -> Iterator[None]:
    def make(real: Any) -> Any:
        def decided(case: Case, *asked: Any) -> Any:
            outcome = real(case, *asked)
            return outcome if case.workload is not None else replace(outcome, desired=())

        return decided

    with replaced(workloads, "decide", make):
        yield


@bug(caught_by=51, within=52)
def nobody_looks_at_what_workers_hold() -> Iterator[None]:
    """Neither a new leader nor the sweep asks for copies of workloads that are no more."""
    with replaced(worker.WorkerView, "held", lambda _real: lambda self: set()):
        yield


# --- what the simulation could not show: part of a server, of another manager's work, or of many workers ---------------------


@bug(caught_by=325, within=326)
def what_another_manager_made_is_known_by_its_clock_alone() -> Iterator[None]:
    """An object without a mark is of the attempt only if its worker's clock has it made after the reservation."""
    with (
        replaced(plan, "is_taken_over", lambda _real: lambda *_: False),
        replaced(job_view, "is_taken_over", lambda _real: lambda *_: False),
        replaced(workload_case, "is_taken_over", lambda _real: lambda *_: False),
    ):
        yield


@bug(caught_by=517, within=518)
def what_the_server_does_not_keep_is_written_at_once_again() -> Iterator[None]:
    def make(real: Any) -> Any:
        async def reconcile(self: Any, key: Any) -> Any:
            try:
                return await real(self, key)
            except NotKept:
                return AGAIN

        return reconcile

    with replaced(workloads.Workloads, "reconcile", make):
        yield


@bug(caught_by=49, within=50)
def whom_nobody_could_name_wins_without_a_name() -> Iterator[None]:
    """Beside Kueue, the 21st worker of a MultiKueueConfig."""
    with replaced(winning, "_is_named", lambda _real: lambda _v: True):
        yield


@bug(caught_by=2, within=3)
def what_a_person_owns_too_is_left_out_and_stays() -> Iterator[None]:
    """Beside Kueue: a field goes only where nobody else has applied it."""
    with replaced(workloads, "_CLEARED", lambda _real: {}):
        yield


@bug(caught_by=31, within=32)
def who_says_neither_yes_nor_no_keeps_the_job() -> Iterator[None]:
    """Each try starts over to wait for an answer, and nobody reads whether the job was made."""
    with (
        replaced(refused_calls, "_is_of_webhook", lambda _real: lambda _error: False),
        replaced(doubts, "ASKED_FOR", lambda _real: timedelta(days=1)),
    ):
        yield


@bug(caught_by=30, within=31)
def a_log_line_is_written_by_who_logs() -> Iterator[None]:
    def make(_real: Any) -> Any:
        def write(self: LogSink, line: bytes) -> int:
            self._write_one(line)
            return len(line)

        return write

    with replaced(LogSink, "write", make):
        yield


@bug(caught_by=419, within=420)
def who_counts_may_fail_who_works() -> Iterator[None]:
    with replaced(Metrics, "guarded", lambda _real: lambda _self, _what, look: look):
        yield


# --- jobs ----------------------------------------------------------------------------------------------------------------


@bug(caught_by=0, within=5)
def results_are_not_brought_home() -> Iterator[None]:
    def make(real: Any) -> Any:
        return lambda self, remote: () if self.adapter.finished(remote) is not None else real(self, remote)

    with replaced(case.JobCase, "copied_status", make):
        yield


# --- what simulation found, as it was before ------------------------------------------------------------------------------


@bug(caught_by=100, within=120)
def a_job_out_of_reach_does_not_hold_back_the_next() -> Iterator[None]:
    with (
        replaced(doubts, "_has_unreachable_job", lambda _real: lambda _v, _remote: False),
        replaced(outbox.Outbox, "_may_run_beside", lambda _real: lambda *_: False),
    ):
        yield


# --- quota ---------------------------------------------------------------------------------------------------------------


@bug(caught_by=12, within=20)
def quota_is_given_back_twice() -> Iterator[None]:
    def make(real: Any) -> Any:
        def release(self: QuotaCache, key: Any) -> Any:
            held = real(self, key)
            node = None if held is None or self.forest.stale else self.forest.queue(held.cluster_queue)
            if node is not None:
                node.remove(held.amounts)
            return held

        return release

    with replaced(QuotaCache, "release", make):
        yield


@bug(caught_by=6, within=10)
def quota_is_never_given_back() -> Iterator[None]:
    with replaced(engine.Engine, "_release", lambda _real: lambda self, key, now: None):
        yield


@bug(caught_by=6, within=20)
def quota_is_free_as_soon_as_a_workload_is_evicted() -> Iterator[None]:
    """Though its job may still run."""
    with replaced(life, "is_holding", lambda _real: lambda _case: False):
        yield


# --- what outsiders may write and say ------------------------------------------------------------------------------------


def _exactly(text: str) -> int:
    """A quantity as large or as fine as it says."""
    match = quantity._GRAMMAR(text)
    if match is None:
        raise InvalidObject("quantity", "value", "a number", text)
    sign, digits, exponent, suffix = match.groups()
    scale = Fraction(10) ** int(exponent[1:]) * NANO if exponent else Fraction(quantity._NANOS[suffix or ""])
    nanos = ceil(Fraction(digits) * scale)
    return -nanos if sign == "-" else nanos


@bug(caught_by=273, within=274, row=1)
def a_long_quantity_is_read_as_it_stands() -> Iterator[None]:
    """And what cannot be taken in is not set aside: either by itself costs nobody anything."""
    with replaced(quantity, "_nanos", lambda _real: _exactly), replaced(Cache, "_attempt", lambda _real: Cache._change):
        yield


@bug(caught_by=4, within=5, row=3)
def an_exponent_is_taken_at_its_word() -> Iterator[None]:
    with replaced(quantity, "_remembered", lambda _real: _exactly), replaced(quantity, "capped", lambda _real: int):
        yield


def _as_it_is(_real: Any) -> Any:
    return lambda text: text


@bug(caught_by=20, within=21, row=6)
def a_worker_is_quoted_at_any_length() -> Iterator[None]:
    with in_handlers("excerpt", _as_it_is), replaced(outcome, "LONGEST_MESSAGE", lambda _real: None):
        yield


@bug(caught_by=857, within=858, row=6)
def a_worker_dates_its_word_as_it_likes() -> Iterator[None]:
    def make(_real: Any) -> Any:
        def stuck(v: Case, wanted: tuple[str, ...]) -> tuple[str, timedelta | None]:
            said = [c for r in v.remotes if r.cluster in wanted and (c := nominating._inadmissible(r))]
            due = [c.last_transition_time + nominating.STUCK_AFTER for c in said if c.last_transition_time is not None]
            return "", min((at - v.now for at in due if at > v.now), default=None)

        return stuck

    with replaced(remote, "bounded", _as_it_is), replaced(nominating, "_stuck", make):
        yield


@bug(caught_by=183, within=184, row=2)
def what_is_nested_deeply_ends_who_reads_it() -> Iterator[None]:
    def make(real: Any) -> Any:
        return tuple(error for error in real if error is not RecursionError)

    with replaced(reflector, "UNREADABLE", make):
        yield


@bug(caught_by=86, within=87, row=4)
def a_cluster_may_have_two_names() -> Iterator[None]:
    with (
        replaced(identities.ClusterIdentity, "_judge", lambda _real: lambda self, uid, client: None),
        replaced(removal, "_kept_uids", lambda _real: lambda _keep, _remotes: frozenset()),
    ):
        yield


@bug(caught_by=34, within=35)
def of_two_that_show_one_uid_one_is_shut_without_proof() -> Iterator[None]:
    with replaced(proofs.Proofs, "is_other", lambda _real: lambda self, first, client: False):
        yield


@bug(caught_by=148, within=149, row=17)
def a_name_may_lead_elsewhere_after_a_start() -> Iterator[None]:
    with replaced(identities.ClusterIdentity, "_judge", lambda _real: lambda self, uid, client: None):
        yield


@bug(caught_by=27, within=28, row=7)
def pages_are_read_for_ever() -> Iterator[None]:
    def make(_real: Any) -> Any:
        async def pages(self: Client, kind: Any, namespace: str, label_selector: str, size: int, wanted: Any) -> Any:
            items: list[Any] = []
            cont = ""
            while True:
                query = {"labelSelector": label_selector, "continue": cont, "limit": str(size or "")}
                part = await self._one_page(kind, namespace, query, wanted)
                items += part.items.values()
                cont = part.cont
                if not cont:
                    return Page(tuple(items), part.resource_version, {})

        return pages

    with replaced(Client, "_pages", make):
        yield


@bug(caught_by=166, within=167, row=8)
def a_name_that_is_taken_is_waited_for() -> Iterator[None]:
    def make(_real: Any) -> Any:
        return lambda case, body: JobDecision(actions=(CreateWorkload(body),))

    with replaced(ensure_workload, "creation", make):
        yield


@bug(caught_by=762, within=763, row=12)
def a_server_may_ask_for_any_patience() -> Iterator[None]:
    with replaced(errors, "LONGEST_RETRY_AFTER", lambda _real: timedelta.max):
        yield


@bug(caught_by=41, within=42, row=5)
def a_job_is_removed_when_its_check_is() -> Iterator[None]:
    def make(real: Any) -> Any:
        return property(lambda seen: real.func(seen) if seen.check_state is not None else "")

    with replaced(Case, "recorded_winner", make):
        yield


@bug(
    caught_by="tests/controllers/reconcile/test_context.py::test_what_failed_is_hurried_but_not_what_waits_for_a_worker"
)
def what_failed_waits_though_the_manager_cluster_answers_again() -> Iterator[None]:
    with replaced(WorkQueues, "hurry", lambda _real: lambda _self: None):
        yield


@bug(caught_by=39, within=40, row=9)
def an_error_shows_the_password_of_a_proxy() -> Iterator[None]:
    """It is neither taken out of the URL nor out of the error: either by itself shows nobody anything."""
    with (
        replaced(credentials, "_proxy", lambda _real: lambda address: (address, "")),
        replaced(foreign, "_USER_INFO", lambda _real: re.compile("(?!)")),
    ):
        yield


@bug(caught_by=165, within=166, row=14)
def a_kubeconfig_is_unfolded_to_any_size() -> Iterator[None]:
    with replaced(kubeconfig, "LARGEST", lambda _real: sys.maxsize):
        yield


@bug(caught_by=128, within=129, row=16)
def a_tenant_chooses_a_placement() -> Iterator[None]:
    def make(real: Any) -> Any:
        return lambda self, local, *, option, may_workload_choose: real(
            self, local, option=option, may_workload_choose=True
        )

    with replaced(State, "placement_for", make):
        yield


# --- what costs time, or is not simulated: a test catches it -------------------------------------------------------------


@bug(caught_by="tests/store/caches/test_groups.py::test_a_list_of_many_members_looks_at_each_once", row=10)
def a_group_is_gathered_while_its_pods_come_in() -> Iterator[None]:
    """At each hundredth of them: at each one it would take seconds to show the same."""

    def make(real: Any) -> Any:
        def changed(self: Any, old: Any, new: Any) -> None:
            real(self, old, new)
            if len(self._pods) % 100 == 0:
                self._gather_all()

        return changed

    with replaced(Groups, "_member_changed", make):
        yield


@bug(caught_by="tests/web/test_door.py::test_who_never_comes_to_ask_is_hung_up_on[plain-half a head]", row=11)
def half_a_request_may_stay_open() -> Iterator[None]:
    with replaced(door._Caller, "expect_within", lambda _real: lambda self, seconds: None):
        yield


@bug(caught_by="tests/web/test_door.py::test_nobody_shuts_a_port_by_holding_connections_to_it", row=11)
def a_port_takes_any_number_of_connections() -> Iterator[None]:
    def make(_real: Any) -> Any:
        return lambda self, caller: self._wait(caller, door.HEAD_TIMEOUT.total_seconds())

    with replaced(door.Door, "enter", make):
        yield


@bug(
    caught_by="tests/runtime/controller/test_queue.py::test_a_key_of_a_lower_priority_has_its_share_of_the_takes"
    "[news do not starve retries and timers]",
    row=13,
)
def news_go_before_all_that_waits() -> Iterator[None]:
    def make(_real: Any) -> Any:
        return lambda self: next(line for line in self._waiting if line.length).pop()

    with replaced(WorkQueue, "_next", make):
        yield


@bug(caught_by="tests/runtime/controller/test_queue.py::test_tenants_take_turns", row=13)
def a_tenant_goes_before_who_came_later() -> Iterator[None]:
    def make(real: Any) -> Any:
        return lambda self, _tenant: real(self, lambda _key: None)

    with replaced(queue._Line, "__init__", make):
        yield


@bug(caught_by="tests/web/test_admission.py::test_no_review_at_all[a UID that is no UTF-8]", row=15)
def a_review_is_taken_for_text() -> Iterator[None]:
    def make(real: Any) -> Any:
        return tuple(error for error in real if error is not UnicodeDecodeError)

    with replaced(admission, "_UNREADABLE", make):
        yield


@bug(
    caught_by="tests/simulator/test_worker_rights.py::test_what_is_granted_is_used_and_nothing_else_is_asked_for"
    "[job_set-everywhere]",
    row=18,
)
def a_worker_grants_what_nobody_needs() -> Iterator[None]:
    with replaced(plans, "_COPY", lambda real: (*real, "update")):
        yield


@bug(caught_by=37, within=38)
def a_job_of_more_pods_at_a_time_than_completions_gives_back_what_runs() -> Iterator[None]:
    """As Kueue before 0.20 (kueue#16111)."""

    def make(_real: Any) -> Any:
        def reclaimable(_self: BatchJob, job: Any) -> tuple[ReclaimablePod, ...]:
            spec, over = job_spec(job), job_status(job).succeeded
            remaining = (spec.parallelism if spec.completions is None else spec.completions) - over
            freed = spec.parallelism - remaining if over and spec.parallelism > 1 else 0
            return (ReclaimablePod(name="main", count=freed),) if freed > 0 else ()

        return reclaimable

    with replaced(BatchJob, "reclaimable", make):
        yield


@bug(caught_by="tests/answers/test_situations.py::test_a_situation_gets_its_answer[the worker that runs it dies]")
def why_takes_the_last_news_of_a_worker_for_the_present() -> Iterator[None]:
    """A worker is dead for half a minute, and its job is said to run."""
    with replaced(answers, "state_of", lambda real: lambda seen: {"Unknown": "Running"}.get(real(seen), real(seen))):
        yield


@bug(caught_by=510, within=511)
def why_takes_quota_that_others_have_for_quota_that_is_not_there() -> Iterator[None]:
    def never(seen: Seen, now: datetime) -> Obstacle | None:
        waits = passing._quota(seen, now)
        return replace(waits, code=Code.MoreThanQueueHas.name) if waits else None

    with replaced(answers, "RULES", lambda real: (never, *real)):
        yield


def catch(name: str) -> Catch | None:
    """By what is known to catch the bug of that name, and by nothing else: a hunt for another seed takes minutes."""
    by = BUGS[name].caught_by
    return failed(name, by) if isinstance(by, str) else caught(name, [by])


class _Heard:
    """What a failed test says."""

    said = ""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" and report.failed:
            self.said = report.longreprtext.splitlines()[-1]


def failed(name: str, test: str) -> Catch | None:
    """The test if it fails with the bug of that name. Only in a process that has not loaded it yet."""
    heard = _Heard()
    with BUGS[name].planted(), redirect_stdout(io.StringIO()):
        code = pytest.main([test, "--assert=plain", "-p", "no:cacheprovider"], plugins=[heard])
    return Catch(name, test, heard.said) if code == pytest.ExitCode.TESTS_FAILED and heard.said else None


def caught(name: str, seeds: Iterable[int]) -> Catch | None:
    """The first of the seeds that catches the bug of that name."""
    gc.freeze()  # what is loaded already is looked at once, not after each life
    with BUGS[name].planted():
        for seed in seeds:
            violation = live(drawn(seed)).violation
            gc.collect()
            if violation is not None:
                return Catch(name, f"seed {seed}", str(violation))
    return None


def main(names: Sequence[str]) -> int:
    """Hunts from seed 0 on, not from where a bug is known to be caught. Returns how many were not."""
    missed = 0
    with alike(os.cpu_count() or 1, tasks=1) as pool:
        hunts = {name: pool.apply_async(_from_afar, (name,)) for name in names or BUGS}
        for name, hunt in hunts.items():
            found = hunt.get()
            print(found or f"{name}: not caught", flush=True)
            missed += found is None
    return missed


def _from_afar(name: str) -> Catch | None:
    bug = BUGS[name]
    return catch(name) if isinstance(bug.caught_by, str) else caught(name, range(max(FAR, bug.within)))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]) > 0)
