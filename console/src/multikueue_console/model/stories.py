"""The story of one workload: what became of it on which cluster, why it waits or runs there, and its place in line."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from multikueue.answers.answer import JobAnswer
from multikueue.api.kueue.workload import Workload, workload_spec
from multikueue.api.meta import Time
from multikueue_console.model.attempts import Attempt, folded
from multikueue_console.model.workloads import WorkloadRow

__all__ = ["Step", "Story", "steps_of", "story_of"]


class Step(msgspec.Struct, frozen=True, gc=False):
    """Something that happened: `what` is one of Submitted, Reserved, Asked, Won, Running, Evicted, Finished, Failed. `cluster`:
    where, empty for the manager cluster. `attempt`: from 1 on, 0 for what belongs to none."""

    what: str
    at: Time | None
    cluster: str = ""
    attempt: int = 0
    text: str = ""


class CheckRow(msgspec.Struct, frozen=True, gc=False):
    """An admission check of the workload."""

    name: str
    state: str
    message: str = ""


class Story(msgspec.Struct, frozen=True, gc=False):
    """One workload as its page shows it. `place`: in the line of its ClusterQueue, from 1 on, 0 if it waits in none; `line`:
    how many wait there. `flavors`: by resource, of all pod sets. `attempts`: the oldest first."""

    row: WorkloadRow
    answer: JobAnswer
    steps: tuple[Step, ...]
    attempts: tuple[Attempt, ...]
    place: int = 0
    line: int = 0
    checks: tuple[CheckRow, ...] = ()
    flavors: dict[str, str] = {}
    pod_sets: dict[str, int] = {}


def story_of(
    workload: Workload,
    row: WorkloadRow,
    answer: JobAnswer,
    attempts: tuple[Attempt, ...] = (),
    *,
    place: int = 0,
    line: int = 0,
) -> Story:
    """`attempts`: what somebody who watched has kept of it; else the object tells its present one."""
    told = folded(attempts, workload)
    admission = workload.status.admission
    assigned = admission.pod_set_assignments if admission is not None else ()
    return Story(
        row=row,
        answer=answer,
        steps=tuple(steps_of(workload, told)),
        attempts=told,
        place=place,
        line=line,
        checks=tuple(CheckRow(each.name, each.state, each.message) for each in workload.status.admission_checks),
        flavors={resource: flavor for each in assigned for resource, flavor in each.flavors.items()},
        pod_sets={each.name: each.count for each in workload_spec(workload).pod_sets},
    )


def steps_of(workload: Workload, attempts: tuple[Attempt, ...]) -> Iterator[Step]:
    """What happened, in its order; a step whose time nobody saw is told without one."""
    yield Step("Submitted", workload.metadata.creation_timestamp)
    for number, each in enumerate(attempts, 1):
        yield from _of_attempt(number, each)


def _of_attempt(number: int, attempt: Attempt) -> Iterator[Step]:
    if attempt.reserved_at is not None:
        yield Step("Reserved", attempt.reserved_at, attempt=number)
    for cluster in attempt.nominated:
        yield Step("Asked", attempt.nominated_at or attempt.reserved_at, cluster, number)
    if attempt.cluster and attempt.won_at is not None:
        yield Step("Won", attempt.won_at, attempt.cluster, number)
    if attempt.running_at is not None:
        yield Step("Running", attempt.running_at, attempt.cluster, number)
    if attempt.is_over:
        what = "Failed" if attempt.end == "Failed" else "Finished"
        yield Step(what, attempt.ended_at, attempt.cluster, number, attempt.end)
    elif attempt.ended_at is not None:
        yield Step("Evicted", attempt.ended_at, attempt.cluster, number, attempt.end)
