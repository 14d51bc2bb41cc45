"""How long the copy of a finished workload stays on its worker: by the settings, or by a word of who submitted it."""

from __future__ import annotations

from datetime import timedelta

from multikueue.api.meta import Object
from multikueue.api.workload import FINISHED, Workload
from multikueue.settings.tree import Retention
from multikueue.settings.values import duration

__all__ = ["COPY_RETENTION", "copy_retention", "copy_retention_problem"]

COPY_RETENTION = "multikueue.dev/copy-retention"
"""Annotation of a job or its Workload, which goes first: a duration, as `12h`."""

_LONGEST_TEXT = 60


def copy_retention(local: Workload, job: Object | None, settings: Retention) -> timedelta:
    """Counted from its end; zero before it. What cannot be read counts as absent, and a longer time than is allowed as the
    longest that is."""
    if not local.has(FINISHED):
        return timedelta()
    wanted = _parsed(_asked(local, job))
    return settings.copies if wanted is None else min(wanted, _longest(settings))


def copy_retention_problem(local: Workload, job: Object | None, settings: Retention) -> str:
    """What is wrong with the annotation; empty: nothing, or there is none."""
    text = _asked(local, job)
    wanted, longest = _parsed(text), _longest(settings)
    if text and wanted is None:
        return f"annotation {COPY_RETENTION}: expected a duration as 12h or 30m, got {text[:60]!r}; it counts as absent"
    if wanted is not None and wanted > longest:
        return f"annotation {COPY_RETENTION}: {text} is more than {longest}, the longest that the settings allow"
    return ""


def _asked(local: Workload, job: Object | None) -> str:
    givers = (giver for giver in (local, job) if giver is not None)
    return next((text for giver in givers if (text := giver.metadata.annotations.get(COPY_RETENTION))), "")


def _parsed(text: str) -> timedelta | None:
    try:
        wanted = duration(text) if len(text) <= _LONGEST_TEXT else None
    except ValueError:
        return None
    return wanted if isinstance(wanted, timedelta) and wanted >= timedelta() else None


def _longest(settings: Retention) -> timedelta:
    return max(settings.copies, settings.copies_at_most)
