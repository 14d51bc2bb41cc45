"""The text of a run: the world, the events, and the violated invariant."""

from __future__ import annotations

from collections.abc import Iterator

from multikueue_simulator.simulation.plan.plan import Event, Plan, Replica
from multikueue_simulator.simulation.runs.life import Outcome
from multikueue_simulator.simulation.runs.recorder import Changes

__all__ = ["phase_table", "story"]


def story(plan: Plan, outcome: Outcome) -> Iterator[str]:
    """The lines of the story: the setting, the plan, and the recorded trace."""
    yield from _setting(plan)
    yield ""
    yield "Planned:"
    yield from _planned(plan)
    if outcome.trace.lines:
        yield ""
        yield "What happened, by the seconds of the world:"
        yield from (f"{at:10.3f}  {text}" for at, text in outcome.trace.lines)
    yield ""
    yield (
        f"Broken: {outcome.violation}"
        if outcome.violation
        else f"No invariant was violated. All had settled by {outcome.settled:.0f} s."
    )


def _setting(plan: Plan) -> Iterator[str]:
    workers = ", ".join(f"{share.name} with {share.cpu} CPU" for share in plan.layout.workers)
    queues = ", ".join(f"{share.name} with {share.cpu} CPU" for share in plan.layout.queues)
    yield f"Seed {plan.seed}. Workers: {workers}. Queues: {queues}."
    if plan.layout.core:
        yield "A Kueue on the manager cluster keeps jobs and quota; ours is beside it."
    if plan.layout.home:
        place = "after" if plan.layout.is_home_last else "before"
        yield f"The manager cluster is a worker too: {plan.layout.home} CPU for each queue, {place} the workers'."
    replicas = ", ".join(map(_replica, plan.replicas))
    options = ", ".join(f"{name}={value}" for name, value in plan.options.items())
    yield f"Managers: {replicas}; {'elected' if plan.elected else 'no election'}. Strategy: {plan.strategy} {options}".rstrip()
    timing = plan.timing
    shortest, longest = plan.weather.latency
    yield (
        f"A worker is lost after {timing.lost:g} s; heartbeat every {timing.heartbeat:g} s, calls take {timing.call:g} s "
        f"at most, the way {1000 * shortest:g} to {1000 * longest:g} ms."
    )


def _replica(replica: Replica) -> str:
    notes = [*(["nominates"] if replica.nominates else []), *([f"clock {replica.skew:+g} s"] if replica.skew else [])]
    return f"{replica.name} ({', '.join(notes)})" if notes else replica.name


def _planned(plan: Plan) -> Iterator[str]:
    told = [(job.at, job.describe()) for job in plan.jobs] + [
        (event.at, _describe(event)) for event in (*plan.events, *plan.adversaries)
    ]
    yield from (f"{at:10.3f}  {text}" for at, text in sorted(told, key=lambda each: each[0]))


def _describe(event: Event) -> str:
    text = event.describe()
    if event.lasts:
        text += f", for {event.lasts:g} s"
    if event.write:
        when = "before" if event.before else "after"
        text += f" (just {when} write {event.write} of a manager from then on)"
    return text


def phase_table(changes: Changes) -> Iterator[str]:
    """The phase changes of a run, the most frequent first."""
    width = max((len(f"{before} -> {after}") for before, after in changes), default=0)
    for (before, after), count in sorted(changes.items(), key=lambda each: (-each[1], each[0])):
        yield f"{f'{before} -> {after}':<{width}}  {count}"
