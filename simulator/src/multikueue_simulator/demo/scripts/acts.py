"""Short plays about one thing each, for the pages of the documentation: `multikueue demo --act NAME`."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from multikueue_simulator.demo.scripts.values import Decide, Play, Scale, Script, ScriptedEvent, Submission
from multikueue_simulator.world.world import Layout, Share

__all__ = ["ACTS"]

_WORKERS = (Share("east", 4), Share("north", 4), Share("west", 4))


def _preemption() -> Play:
    low = [_job(0.2 * n, f"batch-{n}", "research", cpu=4, seconds=12.0, priority="low") for n in range(1, 4)]
    urgent = _job(5.0, "urgent", "research", cpu=4, seconds=4.0, priority="high")
    acts = (
        ScriptedEvent(0.0, "three jobs of low priority fill all three workers"),
        ScriptedEvent(5.0, "an urgent job comes: one of low priority has to make way", hint="multikueue why batch-3"),
        ScriptedEvent(10.0, "when the urgent job is over, the one that made way runs again"),
    )
    return Play(
        name="preemption",
        title="a higher priority preempts a lower one, on whatever worker that runs",
        layout=Layout(queues=(Share("research", 12),), workers=_WORKERS, pods=True),
        script=Script((*low, urgent), acts),
        queue_fields={"preemption": {"withinClusterQueue": "LowerPriority"}},
        priorities={"low": 10, "high": 1000},
    )


def _fair_sharing() -> Play:
    first = [_job(0.2 * n, f"a-{n}", "team-a", cpu=2, seconds=10.0) for n in range(1, 9)]
    second = [_job(6.0 + 0.2 * n, f"b-{n}", "team-b", cpu=2, seconds=10.0) for n in range(1, 4)]
    acts = (
        ScriptedEvent(0.0, "team-a alone takes all there is: half of it is borrowed from team-b"),
        ScriptedEvent(
            6.0, "team-b comes: team-a gives back what it borrowed, and no more", hint="multikueue queues list"
        ),
    )
    return Play(
        name="fair-sharing",
        title="two teams share three workers, and each gets its half when it wants it",
        layout=Layout(queues=(Share("team-a", 6), Share("team-b", 6)), workers=_WORKERS, pods=True),
        script=Script((*first, *second), acts),
        queue_fields={"cohortName": "lab", "preemption": {"reclaimWithinCohort": "Any"}},
        fair_sharing=True,
    )


def _ocm() -> Play:
    jobs = [_job(1.0 * n, f"job-{n:02}", "research", cpu=2, seconds=3.0) for n in range(16)]
    acts = (
        ScriptedEvent(0.0, "OCM's Placement names east alone: all jobs go there, and queue"),
        ScriptedEvent(6.0, "the Placement adds west: the next jobs go to either", Decide(("east", "west"))),
        ScriptedEvent(11.0, "the Placement drops east: nothing new goes there, what runs stays", Decide(("west",))),
    )
    return Play(
        name="ocm",
        title="Open Cluster Management decides where jobs may go, and changes its mind",
        layout=Layout(queues=(Share("research", 12),), workers=_WORKERS, pods=True),
        script=Script(tuple(jobs), acts),
        strategy="external",
        placement=("east",),
    )


def _elastic() -> Play:
    job = Submission(at=0.0, name="elastic", queue="research", cpu=1, seconds=2.0, pods=2, completions=30, elastic=True)
    others = [_job(1.0 + n, f"job-{n}", "research", cpu=1, seconds=3.0) for n in range(4)]
    acts = (
        ScriptedEvent(0.0, "an elastic job begins with two pods, two seconds each"),
        ScriptedEvent(
            5.0, "its user wants four pods at once: it grows where it is, and does not start over", Scale("elastic", 4)
        ),
        ScriptedEvent(11.0, "and three: it shrinks, and gives its quota back", Scale("elastic", 3)),
    )
    return Play(
        name="elastic",
        title="a job grows and shrinks while it runs, on its worker",
        layout=Layout(queues=(Share("research", 12),), workers=_WORKERS, pods=True),
        script=Script((job, *others), acts, hero="elastic"),
        elastic=True,
    )


def _job(at: float, name: str, queue: str, *, cpu: int, seconds: float, priority: str = "") -> Submission:
    return Submission(at=at, name=name, queue=queue, cpu=cpu, seconds=seconds, priority=priority)


ACTS: Mapping[str, Callable[[], Play]] = {
    "preemption": _preemption,
    "fair-sharing": _fair_sharing,
    "ocm": _ocm,
    "elastic": _elastic,
}
