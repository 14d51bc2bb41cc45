"""The guards before steps that cannot be undone: where no fault may go unnoticed."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["EQUIVALENT", "GUARDS", "Guard", "guards_in"]


@dataclass(frozen=True, slots=True)
class Guard:
    """What stands before one step: functions of a module, all of them where none is named."""

    step: str
    module: str
    functions: frozenset[str] = frozenset()

    def has(self, function: str) -> bool:
        return not self.functions or function in self.functions


def _of(step: str, module: str, functions: str = "") -> Guard:
    return Guard(step, f"multikueue/{module}.py", frozenset(functions.split()))


STARTED = "a job is started on a worker"
REMOVED = "a copy or a job is removed from a worker"
GIVEN_UP = "an attempt is given up, and its jobs are stopped"
WON = "a worker is recorded as the winner"
FINISHED = "a workload is finished"
GIVEN_BACK = "quota is given back"
FORGOTTEN = "what may run on a worker is forgotten"
DELETED = "a workload or its job is deleted at home"

GUARDS = (
    _of(STARTED, "dispatch/copies/effects"),
    _of(
        STARTED,
        "controllers/workers/connection/outbox",
        "reconcile _carry_out _may_create _left _may_run_beside _is_ending _create_job _as_counted _refuse_surplus"
        " _create_part _not_made _find_job _find _read _adopt _is_ours _is_told_by_its_job _delete _delete_job _is_there"
        " _let_go",
    ),
    _of(STARTED, "controllers/workers/connection/refused_calls", "is_unsure _is_of_webhook"),
    _of(STARTED, "dispatch/remote", "ends_attempt"),
    _of(STARTED, "store/state", "may_be_on may_run_beside job_to_stop"),
    _of(STARTED, "jobs/framework/adapter", "may_run"),
    _of(STARTED, "store/plans"),
    _of(REMOVED, "dispatch/copies/plan"),
    _of(REMOVED, "workload/handlers/removal"),
    _of(REMOVED, "dispatch/remote", "own_uids"),
    _of(
        GIVEN_UP,
        "dispatch/remote",
        "lost_at is_lost is_of_attempt is_taken_over _is_unmarked _is_won may_be_running",
    ),
    _of(GIVEN_UP, "workload/handlers/evicting", "evicted _stops is_holding _may_have_job _is_result_unreported"),
    _of(GIVEN_UP, "workload/handlers/retrying"),
    _of(GIVEN_UP, "workload/handlers/doubts", "until_lost may_be_there may_hold_unseen _has_unreachable_job"),
    _of(WON, "workload/case", "recorded_winner has_won winner chosen _holder _first _may_win _is_nominated"),
    _of(WON, "workload/phases"),
    _of(
        WON,
        "workload/handlers/winning",
        "admitted _can_take_over _completion record_win _is_named",
    ),
    _of(FINISHED, "workload/handlers/finishing"),
    _of(GIVEN_BACK, "workload/handlers/nominating", "give_back_after_of give_back_at give_back_message"),
    _of(GIVEN_BACK, "workload/life/eviction"),
    _of(GIVEN_BACK, "workload/life/rules", "_finish _make_way _end_deactivation"),
    _of(FINISHED, "workload/life/life", "is_holding end"),
    _of(GIVEN_BACK, "workload/life/pods", "evict_if_pods_are_late limit_execution_time"),
    _of(GIVEN_BACK, "workload/life/transitions", "evict release unreserve reset_checks"),
    _of(
        FORGOTTEN,
        "store/workers/worker",
        "disconnected leaves forget ask_for_job _copy_changed _job_changed may_have may_run",
    ),
    _of(
        FORGOTTEN,
        "store/workers/known_objects",
        "__bool__ asked awaited ask answered about look is_creating creating unfit is_passed_over pass_over"
        " forget clear",
    ),
    _of(REMOVED, "store/caches/ended"),
    _of(FORGOTTEN, "store/store", "forget_worker forget _tidy _remember"),
    _of(DELETED, "controllers/workloads/retention"),
)


def guards_in(module: str) -> list[Guard]:
    return [guard for guard in GUARDS if guard.module == module]


EFFECTS = "multikueue/dispatch/copies/effects.py"
EVICTING = "multikueue/workload/handlers/evicting.py"
OUTBOX = "multikueue/controllers/workers/connection/outbox.py"
AGAIN = "a second look where nothing is started, or nothing was done before, finds the same"
REMOTE = "multikueue/dispatch/remote.py"
NO_TIME = "an attempt has the time of its reservation, so mypy alone needs the question"
RETENTION = "multikueue/controllers/workloads/retention.py"
NO_ITEM = "what is not there is of no attempt, so mypy alone needs the question"

EQUIVALENT = {
    (OUTBOX, "for action in self._left(key, plan) if True else left:"): AGAIN,
    (OUTBOX, "for action in self._left(key, plan) if first else left:"): AGAIN,
    (OUTBOX, "for action in self._left(key, plan) if plan.is_running_on(self.worker.name) else left:"): AGAIN,
    (REMOTE, "return self.link.is_lost(now, timeout)"): "the link says the same",
    (
        RETENTION,
        "return condition.last_transition_time if True else None",
    ): "it has ended, so mypy alone needs the question",
    (REMOTE, "return created is not None and created >= since"): NO_TIME,
    (REMOTE, "if remote.job is None or not _is_unmarked(remote.job):"): NO_TIME,
    (EFFECTS, "elif not plan.is_current(remote.workload, remote):"): NO_ITEM,
    (EFFECTS, "plan.is_current(remote.workload, remote)"): NO_ITEM,
    (EFFECTS, "remote.job_state.is_inherited"): NO_ITEM,
    (EVICTING, "since = evicted.last_transition_time if True else None"): "in this phase it is there",
    (EFFECTS, "runs = plan.is_ready or (plan.is_current(remote.job, remote))"): NO_ITEM,
}
"""Mutants that change nothing: the module and its line as changed, and why."""
