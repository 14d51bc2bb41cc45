"""Runs a plan, from an empty world until nothing changes any more."""

from __future__ import annotations

import asyncio
import gc
import random
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import get_args

import anyio

from multikueue.api.kueue.compatibility import Release
from multikueue.runtime.controller.supervisor import describe, is_expected
from multikueue.settings import (
    BESIDE_KUEUE,
    EXTERNAL_DISPATCHER,
    STANDALONE,
    Cluster,
    Dispatch,
    InForce,
    LeaderElection,
    Quota,
    Retention,
    Settings,
    StrategyChoice,
    Timings,
)
from multikueue_simulator.simulation.faults.adversary_injector import AdversaryInjector
from multikueue_simulator.simulation.faults.fault_injector import FaultInjector
from multikueue_simulator.simulation.faults.partial_injector import Logs, PartialInjector
from multikueue_simulator.simulation.faults.stage import Stage
from multikueue_simulator.simulation.invariants.answers import Asker
from multikueue_simulator.simulation.invariants.invariants import Course, Invariants, Violation, held_up
from multikueue_simulator.simulation.invariants.state_invariants import StateInvariants
from multikueue_simulator.simulation.plan.adversaries import control
from multikueue_simulator.simulation.plan.partial import FillLog, Partial
from multikueue_simulator.simulation.plan.plan import Plan, Replica
from multikueue_simulator.simulation.runs.recorder import Changes, Phases, RunRecorder, Trace, logs_heard
from multikueue_simulator.time import NothingLeft, VirtualClock, run
from multikueue_simulator.world.world import World

__all__ = ["Outcome", "live", "settings_of", "timings_of"]

SETTLING = 1200.0
"""The maximum time in seconds of the world from the last fault until all is settled."""

RELEASES = get_args(Release)
"""Releases of Kueue whose decisions a manager follows: runs take them in turn, by seed."""

RETENTIONS = (
    Retention(copies=timedelta()),
    Retention(copies=timedelta(seconds=20), failed_copies=timedelta(minutes=1), most_copies=3),
)
"""Copies of finished jobs go at once, or after a time within the life, in turn by seed. By its end they are all gone."""

STEP = 2.0
"""Seconds between two checks whether all is settled."""

CALM = 6.0
"""Seconds without a write after which no more writes are expected; statuses are written up to a second late."""

QUIET = 45.0
"""Seconds without writes that are demanded after that."""


@dataclass(slots=True)
class Outcome:
    """The result of a run: the first violation, if any; the digest of its trace; and counters."""

    seed: int
    violation: Violation | None = None
    digest: str = ""
    writes: int = 0
    settled: float = 0.0
    """The time at which all was settled, in seconds of the world."""
    courses: dict[str, Course] = field(default_factory=dict)
    """The courses of undisturbed jobs."""
    phases: Changes = field(default_factory=Changes)
    asked: int = 0
    """How often somebody asked why a job does not run."""
    trace: Trace = field(default_factory=Trace)


def live(plan: Plan, *, describe: bool = False) -> Outcome:
    """Run a plan. `describe` keeps its trace. A plan with only adversaries is compared with the same plan without them."""
    outcome = _lived(plan, describe=describe)
    without = control(plan)
    if without is not None and outcome.violation is None:
        outcome.violation = held_up(plan, outcome.courses, _lived(without, describe=False).courses)
    return outcome


def _lived(plan: Plan, *, describe: bool) -> Outcome:
    outcome = Outcome(plan.seed, trace=Trace(is_told=describe))
    random.seed(plan.seed)
    with _without_collector():
        try:
            run(lambda: _live(plan, outcome))
        except NothingLeft as error:  # one life that stands still must not end those after it
            outcome.violation = outcome.violation or Violation("stuck", outcome.settled, str(error))
    return outcome


async def _live(plan: Plan, outcome: Outcome) -> None:
    clock = VirtualClock()
    world = World(plan.layout, clock=clock, seed=plan.seed)
    world.apply_fixtures(annotations=None)
    over = anyio.Event()

    def crashed(text: str) -> None:
        invariants.broken("crash", anyio.current_time(), text)

    def stumbled(_loop: object, context: dict[str, object]) -> None:
        crashed(f"{context.get('message')}: {context.get('exception')!r}")

    asyncio.get_running_loop().set_exception_handler(stumbled)
    logs = Logs(is_written=any(isinstance(act, FillLog) for act in plan.adversaries))
    with logs_heard(outcome.trace, logs, crashed):
        async with anyio.create_task_group() as tasks:
            await world.start(tasks)
            injector = FaultInjector(world, plan, tasks)
            adversary_injector = AdversaryInjector(
                world, injector, lambda invariant, text: invariants.broken(invariant, anyio.current_time(), text)
            )
            if plan.adversaries:
                adversary_injector.apply_fixtures()
            partial_injector = PartialInjector(world, injector, logs)
            stage = Stage(world, plan, injector, adversary_injector, partial_injector, outcome.trace)
            invariants = Invariants(world, plan, injector, on_violation=over.set)
            recorder = RunRecorder(world, stage, invariants, outcome.trace)
            recorder.attend()
            _hire(world, plan, stage, recorder, invariants, Phases(outcome.phases))
            stage.begin()
            with anyio.CancelScope() as rest:
                tasks.start_soon(_cut_short, over, rest)
                states = StateInvariants(world, plan, injector, adversary_injector, invariants.broken)
                settings = settings_of(plan, plan.replicas[0])
                asker = Asker(world, injector, settings, states.led_since, invariants.broken, plan.seed)
                tasks.start_soon(asker.run)
                await _course(plan, stage, states, recorder)
            outcome.asked = asker.asked
            outcome.settled = anyio.current_time()
            outcome.violation = invariants.violations[0] if invariants.violations else None
            outcome.courses = invariants.courses()
            outcome.digest, outcome.writes = recorder.digest.hexdigest(), recorder.writes.total()
            stage.thaw()
            tasks.cancel_scope.cancel()


def _hire(
    world: World, plan: Plan, stage: Stage, recorder: RunRecorder, invariants: Invariants, phases: Phases
) -> None:
    """Add the managers, and set the weather of their links."""

    def ended(name: str) -> None:
        error = world.managers[name].error
        if error is not None and not is_expected(error):
            invariants.broken("ends", anyio.current_time(), f"{name} ends by itself: {describe(error)[:200]}")
        stage.ended(name)

    for replica in plan.replicas:
        clock = VirtualClock(skew=timedelta(seconds=replica.skew))
        in_force = InForce(settings_of(plan, replica), timings_of(plan))
        world.add_manager(replica.name, in_force, clock=clock, observer=recorder, ended=ended, on_decision=phases)
    for source in world.managers:
        for site in world.sites:
            world.network.link(source, site.name).weather = plan.weather


async def _cut_short(over: anyio.Event, rest: anyio.CancelScope) -> None:
    await over.wait()
    rest.cancel()


async def _course(plan: Plan, stage: Stage, states: StateInvariants, recorder: RunRecorder) -> None:
    """The planned events, then the repair of all faults, then a time without writes."""
    await _wait_until(plan.ends + STEP, states)
    stage.heal()
    healed = anyio.current_time()
    await _wait_until(healed + CALM + 2 * plan.timing.heartbeat, states)
    at_home = [act.lasts for act in plan.adversaries if isinstance(act, Partial) and act.is_at_home]
    calm = CALM + 3 * max(at_home, default=0.0)  # what failed for so long is tried again after a pause
    kept = _retention(plan)
    if plan.adversaries and kept.copies:  # whose copies are no part of what has to settle
        calm += max(kept.copies, kept.failed_copies).total_seconds()
    while (problem := states.unsettled(anyio.current_time())) or anyio.current_time() < recorder.last + calm:
        if anyio.current_time() > healed + SETTLING:
            states.broken("settles", anyio.current_time(), problem or "it writes and writes")
            return
        await _wait_until(anyio.current_time() + STEP, states)
    states.at_the_end(anyio.current_time())
    expected = recorder.writes + Counter(states.spending())
    await anyio.sleep(QUIET)
    surplus = recorder.writes - expected
    if surplus:
        states.broken("I11", recorder.last, f"{surplus.total()} writes although nothing changed")


async def _wait_until(when: float, states: StateInvariants) -> None:
    while (left := when - anyio.current_time()) > 0:
        await anyio.sleep(min(STEP, left))
        states.look(anyio.current_time())


def settings_of(plan: Plan, replica: Replica) -> Settings:
    """The settings of one of the plan's managers. With a nominating manager the others follow it, as Kueue's own
    MultiKueue does."""
    timing = plan.timing
    follows = plan.has_dispatcher and not replica.nominates
    strategy = (
        StrategyChoice(name="external") if follows else StrategyChoice(name=plan.strategy, options=dict(plan.options))
    )

    def seconds(number: float) -> timedelta:
        return timedelta(seconds=number)

    return Settings(
        roles=EXTERNAL_DISPATCHER if replica.nominates else BESIDE_KUEUE if plan.layout.core else STANDALONE,
        cluster=Cluster(namespace=plan.layout.secrets),
        dispatch=Dispatch(
            strategy=strategy,
            worker_lost_timeout=seconds(timing.lost),
            gc_interval=seconds(timing.sweep),
            heartbeat_interval=seconds(timing.heartbeat),
            concurrency=8,
            concurrency_per_cluster=4,
            tell_suspended_after=seconds(10) if plan.seed // len(RELEASES) % 2 else None,
        ),
        quota=Quota(
            compatibility=RELEASES[plan.seed % len(RELEASES)],
            requeue_first=seconds(timing.requeue),
            requeue_cap=seconds(4 * timing.requeue),
        ),
        retention=_retention(plan),
        leader_election=LeaderElection(
            enabled=plan.elected,
            lease_duration=seconds(timing.lease),
            renew_deadline=seconds(timing.lease * 0.65),
            retry_period=seconds(timing.lease / 3.5),
        ),
    )


def _retention(plan: Plan) -> Retention:
    return RETENTIONS[plan.seed // (2 * len(RELEASES)) % len(RETENTIONS)]


def timings_of(plan: Plan) -> Timings:
    """Times of the plan's managers, short enough for a life of minutes."""

    def seconds(number: float) -> timedelta:
        return timedelta(seconds=number)

    return Timings(
        heartbeat_timeout=seconds(min(2.0, plan.timing.heartbeat)),
        call_timeout=seconds(plan.timing.call),
        retry_cap=seconds(10),
        reconnect_first=seconds(0.5),
        reconnect_cap=seconds(5),
    )


@contextmanager
def _without_collector() -> Iterator[None]:
    """Disable the garbage collector, which would run finalizers at unpredictable times."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
