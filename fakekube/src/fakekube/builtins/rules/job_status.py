"""The status of Jobs: valid values, and valid transitions.

The rules are those of kube-apiserver 1.37, which validates status changes strictly, since external controllers may run
Jobs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime
from typing import NamedTuple

from fakekube.model.refusals import Problem, immutable, invalid_value, required
from fakekube.model.wire import Json, Object

__all__ = ["negative", "status_problems"]


def status_problems(new: Object, old: Object) -> Iterator[Problem]:
    """Problems of a change of a Job's status."""
    spec, after, before = new["spec"], _Status.of(new), _Status.of(old)
    yield from _state_problems(spec, after, before)
    yield from _step_problems(spec, after, before)


def negative(value: Json, path: str) -> Iterator[Problem]:
    if isinstance(value, int) and value < 0:
        yield invalid_value(path, value, "must be greater than or equal to 0")


class _Status(NamedTuple):
    """A Job's status with derived facts."""

    body: Object
    true: frozenset[str]
    false: frozenset[str]

    @classmethod
    def of(cls, job: Object) -> _Status:
        body = job.get("status") or {}
        conditions = body.get("conditions") or ()
        by_value = {
            value: frozenset(each.get("type", "") for each in conditions if each.get("status") == value)
            for value in ("True", "False")
        }
        return cls(body, by_value["True"], by_value["False"])

    @property
    def is_finished(self) -> bool:
        return not self.true.isdisjoint(("Complete", "Failed"))

    def count(self, name: str) -> int:
        return self.body.get(name) or 0


def _state_problems(spec: Object, new: _Status, old: _Status) -> Iterator[Problem]:
    """Problems of a status in itself. Most rules apply only to changed fields: old violations may stay."""
    for name in ("active", "succeeded", "failed", "ready", "terminating"):
        yield from negative(new.body.get(name), f"status.{name}")
    yield from _uncounted_problems(new.body.get("uncountedTerminatedPods") or {})
    changed = _Changes(new, old)
    yield from _completion_problems(new, old, changed)
    yield from _finish_problems(spec, new, changed)
    yield from _index_problems(spec, new, changed)
    if changed.finished or changed.of("terminating"):
        yield from _none_left(new, "terminating")
    ready = new.body.get("ready")
    if (changed.of("ready") or changed.of("active")) and ready is not None and ready > new.count("active"):
        yield invalid_value("status.ready", ready, "cannot set more ready pods than active")
    for other, name in (("Failed", "Failed=true"), ("FailureTarget", "FailureTarget=true")):
        if {"SuccessCriteriaMet", other} <= new.true:
            yield _bad_conditions(f"cannot set SuccessCriteriaMet=True and {name} conditions")


class _Changes:
    """The changed fields of a status."""

    def __init__(self, new: _Status, old: _Status) -> None:
        self._new, self._old = new, old
        self.finished = new.is_finished != old.is_finished

    def of(self, name: str) -> bool:
        # A count that is missing is 0.
        return (self._new.body.get(name) or None) != (self._old.body.get(name) or None)

    def to(self, condition: str) -> bool:
        return (condition in self._new.true) != (condition in self._old.true)


def _uncounted_problems(uncounted: Object) -> Iterator[Problem]:
    seen: set[str] = set()
    for kind in ("succeeded", "failed"):
        for index, uid in enumerate(uncounted.get(kind) or ()):
            path = f"status.uncountedTerminatedPods.{kind}[{index}]"
            if not uid:
                yield invalid_value(path, uid, "must not be empty")
            elif uid in seen:
                yield Problem("FieldValueDuplicate", path, f'Duplicate value: "{uid}"')
            seen.add(uid)


def _completion_problems(new: _Status, _old: _Status, changed: _Changes) -> Iterator[Problem]:
    if changed.to("Complete") or changed.to("Failed"):
        yield from _both(new, "Failed", "Failed=true")
    if changed.to("Complete") or changed.to("FailureTarget"):
        yield from _both(new, "FailureTarget", "FailureTarget=true")
    start, end = new.body.get("startTime"), new.body.get("completionTime")
    complete = "Complete" in new.true
    if changed.to("Complete") or changed.of("completionTime"):
        if end and not complete:
            yield invalid_value(_END, end, "cannot set completionTime when there is no Complete=True condition")
        if complete and not end:
            yield required(_END, "completionTime is required for Complete jobs")
    if (changed.of("startTime") or changed.of("completionTime")) and start and end and _time(end) < _time(start):
        yield invalid_value(_END, end, "must be equal to or after `startTime`")
    if (changed.to("Failed") or changed.of("failedIndexes")) and "Failed" in new.true:
        yield from _needs(
            new, "FailureTarget", "cannot set Failed=True condition without the FailureTarget=true condition"
        )
    if changed.to("Complete") or changed.to("SuccessCriteriaMet"):
        detail = "cannot set Complete=True condition without the SuccessCriteriaMet=true condition"
        yield from _needs(new, "SuccessCriteriaMet", detail) if complete else ()


_END = "status.completionTime"


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text)


def _both(new: _Status, other: str, called: str) -> Iterator[Problem]:
    if {"Complete", other} <= new.true:
        yield _bad_conditions(f"cannot set Complete=True and {called} conditions")


def _needs(new: _Status, condition: str, detail: str) -> Iterator[Problem]:
    if condition not in new.true:
        yield _bad_conditions(detail)


def _bad_conditions(detail: str) -> Problem:
    return Problem("FieldValueInvalid", "status.conditions", f"Invalid value: {detail}")


def _finish_problems(spec: Object, new: _Status, changed: _Changes) -> Iterator[Problem]:
    if changed.finished or changed.of("active"):
        yield from _none_left(new, "active")
    empty = spec.get("suspend") and spec.get("completions") == 0
    if (
        (changed.finished or changed.of("startTime"))
        and not empty
        and new.is_finished
        and not new.body.get("startTime")
    ):
        yield required("status.startTime", "startTime is required for finished job")
    uncounted = new.body.get("uncountedTerminatedPods") or {}
    if (changed.finished or changed.of("uncountedTerminatedPods")) and new.is_finished and any(uncounted.values()):
        yield invalid_value("status.uncountedTerminatedPods", uncounted, "must be empty for finished job")


def _none_left(new: _Status, name: str) -> Iterator[Problem]:
    if new.is_finished and new.count(name) > 0:
        yield invalid_value(f"status.{name}", new.count(name), f"{name}>0 is invalid for finished job")


def _index_problems(spec: Object, new: _Status, changed: _Changes) -> Iterator[Problem]:
    completed, failed = new.body.get("completedIndexes") or "", new.body.get("failedIndexes")
    if changed.of("completedIndexes"):
        yield from _unreadable(spec, completed, "completedIndexes")
        if completed and spec.get("completionMode") != "Indexed":
            detail = "cannot set non-empty completedIndexes when non-indexed completion mode"
            yield invalid_value("status.completedIndexes", completed, detail)
    if changed.of("failedIndexes") and failed is not None:
        if "backoffLimitPerIndex" in spec:
            yield from _unreadable(spec, failed, "failedIndexes")
        else:
            detail = "cannot set non-null failedIndexes when backoffLimitPerIndex is null"
            yield invalid_value("status.failedIndexes", failed, detail)


def _unreadable(spec: Object, text: str, name: str) -> Iterator[Problem]:
    if text and "completions" in spec and (why := _wrong_indexes(text, spec["completions"])):
        yield invalid_value(f"status.{name}", text, f"error parsing {name}: {why}")


def _wrong_indexes(text: str, completions: int) -> str:
    """The problem of a text like `1,3-5`; empty if it is valid."""
    last = -1
    for interval in text.split(","):
        ends = interval.split("-")
        if len(ends) > 2 or not all(re.fullmatch(r"\d+", end) for end in ends):
            return f'cannot convert string to integer for index: "{interval}"'
        for end in ends:
            if int(end) >= completions:
                return f'too large index: "{end}"'
            if int(end) <= last:
                return f"non-increasing order, previous: {last}, current: {end}"
            last = int(end)
    return ""


def _step_problems(spec: Object, new: _Status, old: _Status) -> Iterator[Problem]:
    """Problems of the transition from one status to the next."""
    for condition in ("Failed", "Complete", "FailureTarget"):
        if condition in old.true and condition not in new.true:
            yield _bad_conditions(f"cannot disable the terminal {condition}=True condition")
    yield from _shrunk(new, old, "failed")
    if spec.get("completionMode") != "Indexed" or spec.get("completions") != spec.get("parallelism"):
        yield from _shrunk(new, old, "succeeded")
    end = new.body.get("completionTime")
    if end and old.body.get("completionTime") not in (None, end):
        yield immutable(_END, end)
    resuming = "Suspended" in old.true and "Suspended" in new.false
    start = old.body.get("startTime")
    if start and new.body.get("startTime") != start and not resuming and not spec.get("suspend"):
        detail = "field is immutable for unsuspended job once set"
        yield invalid_value("status.startTime", new.body.get("startTime"), detail)
    if "SuccessCriteriaMet" in old.true and "SuccessCriteriaMet" not in new.true:
        yield _bad_conditions("cannot disable the SuccessCriteriaMet=True condition")
    if "Complete" in old.true and "SuccessCriteriaMet" in new.true - old.true:
        yield _bad_conditions("cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions")


def _shrunk(new: _Status, old: _Status, name: str) -> Iterator[Problem]:
    if new.count(name) < old.count(name):
        yield invalid_value(f"status.{name}", new.count(name), f"cannot decrease the {name} counter")
