"""How long the copy of a finished workload stays on its worker: by the settings, or by an annotation of the user."""

from __future__ import annotations

from datetime import timedelta

from multikueue.api.kueue.workload import Workload
from multikueue.api.meta import Object
from multikueue.durations import parse_duration
from multikueue.workload.decision_rules import DecisionRules

__all__ = ["COPY_RETENTION", "LONGEST", "copy_retention", "copy_retention_problem"]

COPY_RETENTION = "multikueue.dev/copy-retention"
"""Annotation of a Workload or its job: a duration, as `12h`. The Workload's goes before the job's."""

LONGEST = timedelta(days=1)
"""The longest that an annotation may ask for, unless all copies stay longer: a user must not fill a worker with what is
over."""


def copy_retention(local: Workload, job: Object | None, rules: DecisionRules) -> timedelta:
    """The retention, counted from the workload's end. An annotation that is no duration counts as absent; a longer time than
    allowed counts as the longest allowed."""
    wanted = parse_duration(_asked(local, job))
    return rules.copies if wanted is None else min(wanted, _longest(rules))


def copy_retention_problem(local: Workload, job: Object | None, rules: DecisionRules) -> str:
    """The problem of the annotation; empty if it is absent or good."""
    text = _asked(local, job)
    if not text:
        return ""
    wanted, longest = parse_duration(text), _longest(rules)
    if wanted is None:
        return f"annotation {COPY_RETENTION}: expected a duration as 12h or 30m, got {text[:60]!r}; it counts as absent"
    if wanted > longest:
        return f"annotation {COPY_RETENTION}: {text} is more than {longest}, the longest that is allowed"
    return ""


def _asked(local: Workload, job: Object | None) -> str:
    givers = (giver for giver in (local, job) if giver is not None)
    return next((text for giver in givers if (text := giver.metadata.annotations.get(COPY_RETENTION))), "")


def _longest(rules: DecisionRules) -> timedelta:
    return max(rules.copies, LONGEST)
