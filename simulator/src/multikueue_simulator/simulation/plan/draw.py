"""From a seed to a plan: one file, a method for each kind of event.

Each seed enables only some kinds of events, so that rare combinations are common in a few runs instead of rare in all.
Most events are placed near the submission of a job, its end or another event, as little happens at other times.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from fakekube.network.link import State, Weather
from multikueue_simulator.simulation.plan import plan as plans
from multikueue_simulator.simulation.plan.adversaries import beset
from multikueue_simulator.simulation.plan.failovers import with_failovers
from multikueue_simulator.simulation.plan.partial import with_partial_faults
from multikueue_simulator.simulation.plan.plan import Event, JobPlan, Plan, Replica, Timing
from multikueue_simulator.simulation.plan.when import When
from multikueue_simulator.world.world import MANAGER, NAMESPACE, PLACEMENT, Layout, Prices, Share

__all__ = ["KINDS", "drawn"]

LATENCIES = ((0.0005, 0.003), (0.0005, 0.003), (0.005, 0.05), (0.02, 0.4))
"""Latencies of a link in seconds, minimum and maximum: from one building to around the world."""

BESIDE_KUEUE = 0.12
"""The share of runs with a Kueue on the manager cluster, and the manager beside it."""

WITH_DISPATCHER = 0.3
"""The share of those runs in which a second manager nominates for the first."""

FITS_NOWHERE = 0.3
"""The share of runs with a job that fits no worker, among the runs that permit one."""

IN_WAVES = 0.2
"""The share of runs with jobs whose pods do not all run at once, among the runs that permit them."""

LONGEST, RECOVERY = 60.0, 75.0
"""The limit of the total duration of jobs in such a run, and the time after which no fault has effects any more; both
in seconds."""

AT_HOME_FROM = 20_000_000
"""From this seed on the manager cluster is a worker of the queues as well. What seeds below it draw stays as it was."""

JOBS_WITHIN = 30.0
"""The time in seconds in which all jobs are submitted."""


def drawn(seed: int) -> Plan:
    """The plan of a seed, always the same."""
    if seed >= AT_HOME_FROM:
        return _at_home_too(_with_waves(_Draft(seed).plan()))
    return with_partial_faults(_with_waves(_with_what_fits_nowhere(beset(_Draft(seed).plan()))))


def _at_home_too(plan: Plan) -> Plan:
    """Make the manager cluster a worker of the queues, for a pod or more. In some of these plans users start jobs there that
    wait, or run on a worker."""
    luck = random.Random(f"home {plan.seed}")  # noqa: S311  # not a secret
    layout = replace(plan.layout, home=luck.choice((1, 2, 2, 4)), is_home_last=luck.random() < 0.3)
    resumed = [luck.choice(plan.jobs) for _ in range(luck.choice((0, 0, 0, 1, 2)))]
    events = (plans.Resume(at=round(job.at + luck.uniform(0.0, job.seconds + 5.0), 3), job=job.name) for job in resumed)
    return replace(plan, layout=layout, events=tuple(sorted((*plan.events, *events), key=lambda event: event.at)))


def _with_waves(plan: Plan) -> Plan:
    """Give some plans jobs of several waves, or of more pods at a time than have to succeed, and pods that fail first: these
    give quota back while they run. With a random generator of its own, so that other plans stay the same."""
    luck = random.Random(f"wave {plan.seed}")  # noqa: S311  # not a secret
    is_other = plan.adversaries or any(job.room for job in plan.jobs)
    if luck.random() >= IN_WAVES or is_other:
        return plan
    most = min(share.cpu for share in (*plan.layout.queues, *plan.layout.workers))
    return replace(plan, jobs=tuple(_in_waves(job, most, luck) for job in plan.jobs))


def _in_waves(job: JobPlan, most: int, luck: random.Random) -> JobPlan:
    pods = luck.randint(1, most)
    completions = luck.choice((max(1, pods - 1), luck.randint(1, 2 * pods)))
    return replace(
        job, pods=pods, cpu=1, completions=completions, retried=0 if job.fails else luck.choice((0, 1, 1, 2))
    )


def _with_what_fits_nowhere(plan: Plan) -> Plan:
    """Add to some plans a job `huge` that fits the manager's queue but no worker, until one worker grows: after all
    faults, and after time for all other jobs to end.

    It has a random generator of its own, so that other plans stay the same. Excluded are plans where another component
    dispatches or chooses, where a workload may give its quota back before all workers were asked, and where a worker
    may fall silent at any time.
    """
    luck = random.Random(f"fit {plan.seed}")  # noqa: S311  # not a secret
    most, quota = max(share.cpu for share in plan.layout.workers), plan.layout.queues[0].cpu
    running = sum(job.seconds for job in plan.jobs)
    if luck.random() >= FITS_NOWHERE or quota <= most or running > LONGEST or plan.adversaries or plan.layout.core:
        return plan
    if plan.strategy == "external" or "give_back_after" in plan.options or any(map(_silences, plan.events)):
        return plan
    huge = JobPlan(
        name="huge",
        at=round(luck.uniform(0.0, JOBS_WITHIN), 3),
        queue=plan.layout.queues[0].name,
        cpu=luck.randint(most + 1, quota),
        seconds=round(luck.uniform(0.2, 5.0), 3),
        room=luck.choice(plan.layout.workers).name,
        room_at=round(max(plan.ends, JOBS_WITHIN) + running + RECOVERY, 3),
    )
    return replace(plan, jobs=(*plan.jobs, huge))


def _silences(event: Event) -> bool:
    """Whether an event may silence a worker's Kueue even after all other faults, or changes the strategy."""
    return isinstance(event, plans.StrategyChange) or (bool(event.write) and bool(event.lasts))


Make = Callable[["_Draft", When], Event]


class _Draft:
    """A plan under construction."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.luck = random.Random(f"plan {seed}")  # noqa: S311  # not a secret
        luck = self.luck
        self.workers = tuple(
            Share(f"worker{number}", luck.choice((2, 3, 4, 8))) for number in range(1, luck.choice((2, 3, 3, 3)) + 1)
        )
        queues = [Share("main", luck.choice((4, 6, 8, 16)))]
        if luck.random() < 0.15:
            queues.append(Share("other", luck.choice((4, 8))))
        self.queues = tuple(queues)
        self.largest = min(share.cpu for share in (*self.workers, *self.queues)) // 2
        """The maximum CPUs of a pod: two such pods fit everywhere."""
        core = random.Random(f"core {seed}")  # noqa: S311  # not a secret
        self.core = core.random() < BESIDE_KUEUE and seed < AT_HOME_FROM
        self.dispatcher = self.core and core.random() < WITH_DISPATCHER
        self.placement = self.some_workers(least=1) if luck.random() < 0.3 else ()
        self.elected = luck.random() < 0.35 and not self.dispatcher
        two = self.dispatcher or (self.elected and luck.random() < 0.7)
        self.replicas = tuple(
            Replica(name=f"manager-{number}", skew=self._skew(), nominates=self.dispatcher and number == 1)
            for number in range(2 if two else 1)
        )
        self.timing = Timing(
            lost=luck.choice((10.0, 15.0, 25.0)),
            heartbeat=luck.choice((3.0, 5.0, 8.0)),
            call=luck.choice((3.0, 6.0, 10.0)),
            sweep=luck.choice((8.0, 15.0, 30.0)),
            requeue=luck.choice((1.0, 2.0, 5.0)),
            lease=luck.choice((8.0, 12.0)),
        )
        self.jobs = tuple(self._job(number) for number in range(luck.choice((1, 2, 2, 3, 3, 4, 5, 6))))
        self.target = self.jobs[0]
        self.moments = [job.at for job in self.jobs] + [job.at + job.seconds for job in self.jobs]

    def plan(self) -> Plan:
        luck = self.luck
        strategy, options = self.strategy()
        number = luck.choice((0, 1, 2, 3, 4, 4, 5, 6, 8, 11))
        kinds = {make: weight for make, weight in KINDS.items() if make not in self._impossible()}
        weights = {make: weight for make, weight in kinds.items() if luck.random() < 0.35}
        events = tuple(self._event(weights or kinds) for _ in range(number))
        drawn = Plan(
            seed=self.seed,
            layout=Layout(
                queues=self.queues,
                workers=self.workers,
                placement=self.placement,
                core=self.core,
                prices=self._prices(),
            ),
            replicas=self.replicas,
            elected=self.elected,
            strategy=strategy,
            options=options,
            timing=self.timing,
            weather=Weather(latency=luck.choice(LATENCIES)),
            jobs=self.jobs,
            events=tuple(sorted(events, key=lambda event: event.at)),
        )
        return with_failovers(drawn)

    def _impossible(self) -> tuple[Make, ...]:
        """Kinds of events that the plan excludes: a strategy named by an AdmissionCheck would also apply to managers
        that follow a dispatcher."""
        return (_Draft.change_strategy,) if self.dispatcher else ()

    def strategy(self) -> tuple[str, Mapping[str, object]]:
        luck = self.luck
        if luck.random() < 0.65:
            return "all-at-once", {}
        if self.placement and luck.random() < 0.7:
            return "external", {
                "placement": f"{NAMESPACE}/{PLACEMENT}",
                "shrink_after": luck.choice(("0s", "2s", "10s")),
            }
        options: dict[str, object] = {"step": luck.choice((1, 1, 2)), "round_length": luck.choice(("2s", "5s", "12s"))}
        if luck.random() < 0.3:
            options["give_back_after"] = luck.choice(("3s", "10s"))
        if luck.random() < 0.3:
            options["order"] = "name"
        return self._composed() or ("incremental", options)

    def _composed(self) -> tuple[str, Mapping[str, object]] | None:
        """Drawn by itself, so that the other plans are what they were before this strategy was there."""
        luck = random.Random(f"composed {self.seed}")  # noqa: S311  # not a secret
        if luck.random() < 0.6:
            return None
        options: dict[str, Any] = {
            "copies": luck.choice((1, 1, 2)),
            "patience": luck.choice(("2s", "5s", "12s")),
            "scorers": luck.choice(([], ["order"], [{"tiers": {"order": ["spot"]}, "weight": 2}, "order"])),
            "filters": ["named", "labels", "taints"],
        }
        return "composed", self._with_prices(self._with_hedge(self._with_room(options)))

    def _with_room(self, options: dict[str, Any]) -> dict[str, Any]:
        """Half of the composed strategies read what workers have room for."""
        luck = random.Random(f"room {self.seed}")  # noqa: S311  # not a secret
        parts = luck.choice(([], [], ["room"], ["quota"], [{"room": {"fit": "tight"}}, {"quota": {}, "weight": 2}]))
        filters = luck.choice(([], [], ["room"], [{"room": {"preempting": True}}])) if parts else []
        return {**options, "scorers": [*parts, *options["scorers"]], "filters": [*options["filters"], *filters]}

    def _with_hedge(self, options: dict[str, Any]) -> dict[str, Any]:
        """Half of the composed strategies learn from waits, and some send further copies to workers without room, too."""
        luck = random.Random(f"hedge {self.seed}")  # noqa: S311  # not a secret
        scorers = luck.choice(([], [], ["wait"], ["steady"], ["wait", "steady"]))
        more = {} if luck.random() < 0.5 else {"hedge": luck.choice((0.5, 0.95))}
        extra = {"extra": "any"} if luck.random() < 0.3 else {}
        return {**options, "scorers": [*scorers, *options["scorers"]], **more, **extra}

    def _with_prices(self, options: dict[str, Any]) -> dict[str, Any]:
        """Half of the composed strategies look at prices or at what was spent, and some further copies yield."""
        luck = random.Random(f"price {self.seed}")  # noqa: S311  # not a secret
        scorers = luck.choice(([], ["price"], ["spend"], [{"price": {}, "weight": 3}, "spend"]))
        filters = [*luck.choice(([], [], ["spend"])), *luck.choice(([], [], ["versions"]))]
        more = {"extra_priority": "lowest"} if luck.random() < 0.4 else {}
        both = {"scorers": [*scorers, *options["scorers"]], "filters": [*options["filters"], *filters]}
        return {**options, **both, **more}

    def _prices(self) -> Prices:
        """What workers cost, and what queues may spend, where a strategy may ask for it."""
        luck = random.Random(f"prices {self.seed}")  # noqa: S311  # not a secret
        if self._composed() is None:
            return Prices()
        of = {share.name: f"cpu={luck.choice((360, 1800, 3600))}" for share in self.workers if luck.random() < 0.8}
        return Prices(workers=of, most=luck.choice(("", "", "5/10s", "200/1m")))

    def some_workers(self, *, least: int) -> tuple[str, ...]:
        names = [share.name for share in self.workers]
        return tuple(self.luck.sample(names, self.luck.randint(least, len(names))))

    def replica(self) -> str:
        return self.luck.choice(self.replicas).name

    def worker(self) -> str:
        """A worker by name, or by a job that it has at that time."""
        return f"@{self.job()}" if self.luck.random() < 0.5 else self.luck.choice(self.workers).name

    def place(self) -> dict[str, Any]:
        """A job, and usually the worker that has it at that time."""
        job = self.job()
        return {"job": job, "worker": f"@{job}" if self.luck.random() < 0.75 else self.luck.choice(self.workers).name}

    def host(self) -> str:
        return MANAGER if self.luck.random() < 0.2 else self.worker()

    def job(self) -> str:
        """Usually the job near which the event is placed."""
        return (self.target if self.luck.random() < 0.8 else self.luck.choice(self.jobs)).name

    def short(self) -> float:
        return round(self.luck.choice((0.2, 0.5, 1.0, 2.0, 4.0)) * self.luck.uniform(0.5, 1.5), 3)

    def long(self) -> float:
        """A duration, often close to the timeout of a lost worker."""
        return round(self.luck.choice((2.0, 5.0, 9.0, self.timing.lost, 2 * self.timing.lost, 60.0)), 3)

    def _skew(self) -> float:
        return self.luck.choice((0.0, 0.0, 0.0, 1.5, -1.5, 4.0)) if self.luck.random() < 0.4 else 0.0

    def _job(self, number: int) -> JobPlan:
        luck = self.luck
        at = 0.0 if luck.random() < 0.3 else round(luck.uniform(0.0, JOBS_WITHIN), 3)
        pods = luck.choice((1, 1, 1, 2))
        return JobPlan(
            name=f"job{number}",
            at=at,
            queue=luck.choice(self.queues).name,
            pods=pods,
            cpu=luck.randint(1, self.largest),
            seconds=round(luck.choice((0.2, 1.0, 5.0, 12.0, 30.0)) * luck.uniform(0.5, 1.5), 3),
            fails=luck.random() < 0.12,
        )

    def _event(self, weights: Mapping[Make, float]) -> Event:
        luck = self.luck
        self.target = luck.choice(self.jobs)
        make = luck.choices(list(weights), weights=list(weights.values()))[0]
        event = make(self, self._when())
        self.moments += [event.at, event.at + event.lasts]
        return event

    def _when(self) -> When:
        luck = self.luck
        place = luck.choice((self._near, self._near, self._while_it_runs, self._while_it_runs, self._ever))
        at = max(0.0, round(place(), 3))
        return When.drawn(luck, at)

    def _near(self) -> float:
        return self.luck.choice(self.moments) + self.luck.choice((-1.0, 1.0, 1.0, 1.0)) * self.luck.expovariate(1.0)

    def _while_it_runs(self) -> float:
        return self.target.at + self.luck.uniform(0.0, self.target.seconds + 1.0)

    def _ever(self) -> float:
        return self.luck.uniform(0.0, 2 * JOBS_WITHIN)

    # One method per kind of event.

    def crash(self, when: When) -> Event:
        return plans.Crash(
            **when(self.luck.choice((0.0, self.short(), self.short(), self.long()))), replica=self.replica()
        )

    def stop(self, when: When) -> Event:
        return plans.Stop(**when(self.short()), replica=self.replica())

    def freeze(self, when: When) -> Event:
        return plans.Freeze(**when(self.luck.choice((self.short(), self.long()))), replica=self.replica())

    def break_(self, when: When) -> Event:
        state = self.luck.choice((State.REFUSE, State.RESET, State.HANG, State.MUTE))
        lasts = self.luck.choice((self.short(), self.long()))
        return plans.Break(**when(lasts), replica=self.replica(), host=self.host(), state=state)

    def cut(self, when: When) -> Event:
        return plans.Cut(**when(), replica=self.replica(), host=self.host())

    def storm(self, when: When) -> Event:
        luck = self.luck
        kinds: dict[str, object] = {}
        for name in luck.sample(
            (
                "lost_request",
                "lost_answer",
                "late",
                "unwilling",
                "broken_watch",
                "torn_line",
                "doubled_line",
                "slow_line",
            ),
            luck.choice((1, 1, 2, 3)),
        ):
            kinds[name] = luck.choice((0.05, 0.2, 0.5))
        answers = luck.choice(((429,), (500,), (503,), (409,), (410,), (429, 500, 503), (409, 410)))
        latency = luck.choice(LATENCIES)
        weather = Weather(latency=latency, answers=answers, lateness=luck.choice((0.5, 3.0)), **kinds)  # type: ignore[arg-type]
        lasts = round(luck.uniform(1.0, 0.6 * self.timing.lost), 3)
        return plans.Storm(**when(lasts), replica=self.replica(), host=self.host(), weather=weather)

    def outage(self, when: When) -> Event:
        return plans.Outage(**when(self.luck.choice((self.short(), self.long()))), host=self.host())

    def restore(self, when: When) -> Event:
        """The outage lasts long enough to be noticed."""
        lasts = 4 * self.timing.heartbeat + self.long()
        host = self.luck.choice(self.workers).name
        return plans.Restore(**when(lasts), host=host, age=self.luck.choice((0.1, 1.0, 5.0, 20.0)))

    def compact(self, when: When) -> Event:
        return plans.Compact(**when(), host=self.host())

    def quota(self, when: When) -> Event:
        return plans.Quota(**when(self.long()), host=self.host(), cpu=self.luck.choice((0, 1, 2, 4)))

    def stop_queue(self, when: When) -> Event:
        policy: Any = self.luck.choice(("Hold", "HoldAndDrain"))
        return plans.StopQueue(**when(self.long()), host=self.host(), policy=policy)

    def revoke(self, when: When) -> Event:
        return plans.Revoke(**when(self.long()), worker=self.worker(), rotated=self.luck.random() < 0.5)

    def restart_kueue(self, when: When) -> Event:
        return plans.RestartKueue(**when(self.long()), worker=self.host())

    def slow_admission(self, when: When) -> Event:
        return plans.SlowAdmission(**when(self.long()), worker=self.worker(), seconds=self.short())

    def lose_local_queue(self, when: When) -> Event:
        return plans.LoseLocalQueue(**when(self.long()), worker=self.worker())

    def leave_config(self, when: When) -> Event:
        return plans.LeaveConfig(**when(self.long()), worker=self.worker())

    def forget_cluster(self, when: When) -> Event:
        return plans.ForgetCluster(**when(self.long()), worker=self.worker())

    def lose_secret(self, when: When) -> Event:
        return plans.LoseSecret(**when(self.long()), worker=self.worker())

    def preempt(self, when: When) -> Event:
        return plans.Preempt(**when(), **self.place())

    def delete_copy(self, when: When) -> Event:
        return plans.DeleteCopy(**when(), **self.place())

    def delete_remote_job(self, when: When) -> Event:
        return plans.DeleteRemoteJob(**when(), **self.place())

    def edit_copy(self, when: When) -> Event:
        what: Any = self.luck.choice(("inactive", "priority", "annotation"))
        return plans.EditCopy(**when(), **self.place(), what=what)

    def foreign(self, when: When) -> Event:
        what: Any = self.luck.choice(("job", "job", "workload"))
        return plans.Foreign(**when(self.long()), **self.place(), what=what)

    def delete_job(self, when: When) -> Event:
        return plans.DeleteJob(**when(), job=self.job())

    def recreate(self, when: When) -> Event:
        return plans.Recreate(**when(self.luck.choice((0.0, self.short()))), job=self.job())

    def suspend(self, when: When) -> Event:
        return plans.Suspend(**when(), job=self.job())

    def edit_job(self, when: When) -> Event:
        what: Any = self.luck.choice(("annotation", "parallelism", "queue"))
        return plans.EditJob(**when(), job=self.job(), what=what)

    def delete_workload(self, when: When) -> Event:
        return plans.DeleteWorkload(**when(), job=self.job())

    def deactivate(self, when: When) -> Event:
        return plans.Deactivate(**when(self.short()), job=self.job())

    def take_over(self, when: When) -> Event:
        return plans.TakeOver(**when(self.long()), **self.place())

    def decide(self, when: When) -> Event:
        return plans.Decide(**when(self.luck.choice((self.short(), self.long()))), clusters=self.some_workers(least=0))

    def change_strategy(self, when: When) -> Event:
        name, options = self.strategy()
        return plans.StrategyChange(**when(), name=name, options=options)


KINDS: Mapping[Make, float] = {
    _Draft.crash: 6,
    _Draft.stop: 2,
    _Draft.freeze: 3,
    _Draft.break_: 6,
    _Draft.cut: 1,
    _Draft.storm: 4,
    _Draft.outage: 3,
    _Draft.restore: 2,
    _Draft.compact: 1,
    _Draft.quota: 2,
    _Draft.stop_queue: 2,
    _Draft.revoke: 2,
    _Draft.restart_kueue: 1,
    _Draft.slow_admission: 2,
    _Draft.lose_local_queue: 1,
    _Draft.leave_config: 2,
    _Draft.forget_cluster: 1,
    _Draft.lose_secret: 1,
    _Draft.preempt: 3,
    _Draft.delete_copy: 2,
    _Draft.delete_remote_job: 2,
    _Draft.edit_copy: 2,
    _Draft.foreign: 2,
    _Draft.delete_job: 2,
    _Draft.recreate: 2,
    _Draft.suspend: 1,
    _Draft.edit_job: 2,
    _Draft.delete_workload: 2,
    _Draft.deactivate: 2,
    _Draft.take_over: 1,
    _Draft.decide: 2,
    _Draft.change_strategy: 1,
}
"""The kinds of events, and their weights among those that a seed enables."""
