"""The answer: a state, what stands in the way in the order of its weight, and what happened before."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from itertools import islice
from typing import Any, Literal

import msgspec

from multikueue.answers import fix, never, passing
from multikueue.answers.codes import Code
from multikueue.answers.obstacle import Obstacle, Repair
from multikueue.answers.past import PastEvent, past
from multikueue.answers.seen import Seen, is_held
from multikueue.api.kueue.workload import (
    ADMITTED,
    EVICTED,
    FINISHED,
    PODS_READY,
    SUCCEEDED,
    Finish,
    Workload,
    logs_until,
)
from multikueue.api.meta import Condition, Value, render_time
from multikueue.workload.nomination.prospects import State

__all__ = ["STATES", "JobAnswer", "StateName", "answer", "better_seen", "state_of"]

StateName = Literal["Pending", "Starting", "Running", "Finished", "Failed", "Held", "Unknown"]

STATES: tuple[StateName, ...] = ("Pending", "Starting", "Running", "Finished", "Failed", "Held", "Unknown")
"""Unknown: the worker that has it does not answer."""

RULES = (*never.RULES, *fix.RULES, *passing.RULES)
"""In the order in which obstacles are reported."""


class JobAnswer(Value, frozen=True):
    """`summary` is one sentence. `since`: when the state began, None if that is not known. `cluster`: the worker that has, or
    had, the job. `obstacles`: the heaviest first; empty for one that runs or has ended. `past`: oldest first. `not_seen`:
    what could not be read, in one clause; empty if nothing is missing."""

    job: str
    state: StateName
    summary: str
    workload: str = ""
    since: datetime | None = None
    cluster: str = ""
    obstacles: tuple[Obstacle, ...] = ()
    past: tuple[PastEvent, ...] = ()
    not_seen: str = ""

    @property
    def heaviest(self) -> Obstacle | None:
        return next(iter(self.obstacles), None)

    def lines(self) -> Iterator[str]:
        """For people: one sentence, what helps, what else stands in the way, and what happened before."""
        yield self.summary
        told = list[Repair]()
        for number, each in enumerate(self.obstacles):
            if number:
                yield f"  Also: {each.text}"
            if each.repair is not None and each.repair not in told:
                told.append(each.repair)
                yield f"  What helps: {each.repair}"
        yield from (f"  Before: {event}" for event in self.past)

    def __str__(self) -> str:
        """One line: the sentence, and what helps."""
        first = self.heaviest
        return f"{self.summary} What helps: {first.repair}." if first and first.repair else self.summary

    def document(self) -> dict[str, Any]:
        """For programs."""
        tree: dict[str, Any] = msgspec.to_builtins(self)
        return tree | {"obstacles": tree.get("obstacles", [])}


def answer(seen: Seen, now: datetime) -> JobAnswer:
    state = state_of(seen)
    is_fine = state in ("Running", "Finished", "Failed")
    obstacles = () if is_fine else _obstacles(seen, now)
    since, workload = _since(seen, state), seen.workload
    return JobAnswer(
        job=seen.name,
        workload=str(workload.key) if workload and not seen.is_foreseen else "",
        state=state,
        since=since,
        cluster=(workload.status.cluster_name or "") if workload else "",
        summary=_sentence(seen, state, since, obstacles, now),
        obstacles=obstacles,
        past=tuple(past(seen)),
        not_seen=f"not seen: {'; '.join(seen.not_seen)}" if seen.not_seen else "",
    )


_GUESSES = {Code.WaitsForQuota, Code.PodsStarting, Code.NextInLine, Code.NoManager}
"""What is said where nothing else was found; a manager that answers is one that runs."""

_WEIGHTS = {code.name: number for number, code in enumerate(Code) if code not in _GUESSES}


def better_seen(mine: JobAnswer, managers: JobAnswer) -> JobAnswer:
    """Of two answers about one job the one that found the heavier obstacle. The manager sees the quota, its workers and its
    own settings, and no pods; the caller sees the pods, and workers that the manager has not asked yet. What happened before
    is reported with the names that the caller may see."""
    if mine.state != managers.state or mine.state not in ("Pending", "Held", "Unknown"):
        return mine
    if _weight(managers) > _weight(mine):
        return mine
    return msgspec.structs.replace(managers, past=mine.past or managers.past)


def _weight(told: JobAnswer) -> int:
    """The smaller, the heavier."""
    return _WEIGHTS.get(told.heaviest.code if told.heaviest else "", len(Code))


def _obstacles(seen: Seen, now: datetime) -> tuple[Obstacle, ...]:
    found = (each for rule in RULES if (each := rule(seen, now)) is not None)
    otherwise = (each for rule in passing.OTHERWISE if (each := rule(seen, now)) is not None)
    return tuple(found) or tuple(islice(otherwise, 1))


def state_of(seen: Seen) -> StateName:
    """The state by what was seen. `Running` needs a ready pod."""
    workload, end = seen.workload, _end(seen)
    if end is not None:
        return "Finished" if end.reason == SUCCEEDED else "Failed"
    if workload is None:
        return "Pending"
    if is_held(workload):
        return "Held"
    if not workload.has(ADMITTED) or workload.has(EVICTED):
        return "Pending"
    if any(each.state == State.UNREACHABLE.value for each in seen.workers if each.cluster == _cluster(workload)):
        return "Unknown"
    return "Running" if _has_ready_pod(seen, workload) else "Starting"


def _end(seen: Seen) -> Condition | Finish | None:
    """How it ended, by its Workload, else by its own status, which may come home before."""
    ended = _true(seen.workload, FINISHED) if seen.workload else None
    return ended or (seen.job.end if seen.job else None)


def _has_ready_pod(seen: Seen, workload: Workload) -> bool:
    if seen.pods is not None:
        return any(fix.is_at_work(pod) for pod in seen.pods)
    return workload.has(PODS_READY) or bool(seen.job and seen.job.ready)


def _since(seen: Seen, state: StateName) -> datetime | None:
    workload = seen.workload
    if workload is None:
        return seen.job.meta.creation_timestamp if seen.job else None
    if state == "Unknown":
        return next((each.since for each in seen.workers if each.cluster == _cluster(workload)), None)
    began = {"Finished": FINISHED, "Failed": FINISHED, "Starting": ADMITTED, "Running": ADMITTED, "Held": EVICTED}
    found = _true(workload, began.get(state, EVICTED))
    return found.last_transition_time if found else workload.metadata.creation_timestamp


def _sentence(
    seen: Seen, state: StateName, since: datetime | None, obstacles: tuple[Obstacle, ...], now: datetime
) -> str:
    workload = seen.workload
    where = _where(workload) if workload else ""
    if state in ("Finished", "Failed"):
        end, logs = _end(seen), _logs(workload, now) if workload else ""
        return f"{state}{where}{logs}: {_stop((end.message or end.reason) if end else '')}"
    if state == "Running":
        return f"Running{where}{f' since {render_time(since)}' if since else ''}."
    place = (
        where
        if state == "Starting"
        else f" since {render_time(since)}"
        if state in ("Unknown", "Held") and since
        else ""
    )
    return f"{state}{place}: {_stop(obstacles[0].text)}"


def _where(workload: Workload) -> str:
    """Without a check that is for workers a job runs where it was submitted."""
    if _cluster(workload):
        return f" on {_cluster(workload)}"
    return " on the manager cluster" if workload.has(ADMITTED) and not workload.status.admission_checks else ""


def _logs(workload: Workload, now: datetime) -> str:
    """How long its logs can be read, in parentheses; empty if that is unknown."""
    until = logs_until(workload)
    if until is None:
        return ""
    return f" (logs {'until' if until > now else 'gone since'} {render_time(until)})"


def _stop(text: str) -> str:
    return text if text.endswith((".", "?")) else f"{text}."


def _cluster(workload: Workload) -> str:
    return workload.status.cluster_name or ""


def _true(workload: Workload, type_: str) -> Condition | None:
    found = workload.condition(type_)
    return found if found is not None and found.status == "True" else None
