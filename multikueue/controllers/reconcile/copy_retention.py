"""The retention of a finished workload's copy on its worker: by the settings, or by an annotation of the user."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

from multikueue.api.kueue.workload import Workload
from multikueue.api.meta import Object
from multikueue.durations import parse_duration
from multikueue.settings.tree import Retention

__all__ = ["COPY_RETENTION", "copy_retention", "copy_retention_problem"]

COPY_RETENTION = "multikueue.dev/copy-retention"
"""Annotation of a Workload or its job: a duration, as `12h`. The Workload's goes before the job's."""


def copy_retention(local: Workload, job_of: Callable[[Workload], Object | None], settings: Retention) -> timedelta:
    """The retention, counted from the workload's end. An annotation that is no duration counts as absent; a longer time than
    the settings allow counts as the longest allowed."""
    wanted = parse_duration(_asked(local, job_of(local)))
    return settings.copies if wanted is None else min(wanted, _longest(settings))


def copy_retention_problem(local: Workload, job: Object | None, settings: Retention) -> str:
    """The problem of the annotation; empty if it is absent or good."""
    text = _asked(local, job)
    if not text:
        return ""
    wanted, longest = parse_duration(text), _longest(settings)
    if wanted is None:
        return f"annotation {COPY_RETENTION}: expected a duration as 12h or 30m, got {text[:60]!r}; it counts as absent"
    if wanted > longest:
        return f"annotation {COPY_RETENTION}: {text} is more than {longest}, the longest that the settings allow"
    return ""


def _asked(local: Workload, job: Object | None) -> str:
    givers = (giver for giver in (local, job) if giver is not None)
    return next((text for giver in givers if (text := giver.metadata.annotations.get(COPY_RETENTION))), "")


def _longest(settings: Retention) -> timedelta:
    return max(settings.copies, settings.copies_at_most)
