"""The plan of one run, a value that can be printed, shrunk and repeated: one file, a class for each kind of event.

All times are seconds since the world began. An event happens at its time, or, with `write`, at the n-th write of a
manager after that time: just before or just after the write is carried out. An event with `lasts` ends that many
seconds later. `@job0` instead of a worker's name means the worker that has that job at the time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from fakekube.network.link import CALM, State, Weather
from multikueue_simulator.world.world import Layout

__all__ = [
    "Adversity",
    "Break",
    "Compact",
    "Crash",
    "Cut",
    "Deactivate",
    "Decide",
    "DeleteCopy",
    "DeleteJob",
    "DeleteRemoteJob",
    "DeleteWorkload",
    "EditCopy",
    "EditJob",
    "Event",
    "Foreign",
    "ForgetCluster",
    "Freeze",
    "JobPlan",
    "LeaveConfig",
    "LoseLocalQueue",
    "LoseSecret",
    "Outage",
    "Plan",
    "Preempt",
    "Quota",
    "Recreate",
    "Replica",
    "RestartKueue",
    "Restore",
    "Revoke",
    "SlowAdmission",
    "Stop",
    "StopQueue",
    "Storm",
    "StrategyChange",
    "Suspend",
    "TakeOver",
    "Timing",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPlan:
    """A job that a user submits: `pods` parallel pods, each with a request of `cpu` CPUs and a duration of `seconds`.

    `completions` of them have to succeed, 0: all; `retried` fail first, and others run in their place.
    A job with `room` fits no worker, until the worker of that name grows at `room_at`.
    """

    name: str
    at: float = 0.0
    queue: str = "main"
    cpu: int = 1
    pods: int = 1
    seconds: float = 1.0
    fails: bool = False
    completions: int = 0
    retried: int = 0
    room: str = ""
    room_at: float = 0.0

    @property
    def total(self) -> int:
        """CPUs of all parallel pods."""
        return self.pods * self.cpu

    def describe(self) -> str:
        size = f"{self.pods} pods of {self.cpu} CPU for {self.seconds:g} s"
        more = f", {self.completions} to succeed" if self.completions else ""
        more += f", {self.retried} of which fail first" if self.retried else ""
        return (
            f"a user submits job {self.name} to queue {self.queue}: {size}{more}{', which fail' if self.fails else ''}"
        )

    def describe_room(self) -> str:
        """The event at `room_at`, in words."""
        return f"an admin gives {self.room} the {self.total} CPU that job {self.name} needs"


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """An act or a fault. With `lasts` it ends after that many seconds."""

    at: float = 0.0
    write: int = 0
    """The number of the manager's write after `at` at which the event happens, from 1; 0: at `at`."""
    before: bool = False
    """Whether it happens just before the write is carried out, not just after."""
    lasts: float = 0.0

    def describe(self) -> str:
        """The event in words, without time and duration."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True, kw_only=True)
class Adversity(Event):
    """The act of an adversary; `adversaries` has the classes."""

    @property
    def liar(self) -> str:
        """The worker whose statements are false during this event, so that jobs it wins are not judged; empty if
        none."""
        return ""

    def control(self) -> tuple[Event, ...] | None:
        """Faults that may cost other tenants as much as this event; None if its cost is unknown."""
        return ()

    @property
    def patience(self) -> float:
        """Seconds by which it may delay a job beyond that."""
        return 0.0


# --- managers ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class _OfReplica(Event):
    replica: str = "manager-0"


@dataclass(frozen=True, slots=True, kw_only=True)
class Crash(_OfReplica):
    def describe(self) -> str:
        return f"{self.replica} dies"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop(_OfReplica):
    def describe(self) -> str:
        return f"{self.replica} is asked to stop"


@dataclass(frozen=True, slots=True, kw_only=True)
class Freeze(_OfReplica):
    def describe(self) -> str:
        return f"{self.replica} is frozen"


# --- links between managers and clusters ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class _OfLink(Event):
    replica: str = "manager-0"
    host: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Break(_OfLink):
    state: State

    def describe(self) -> str:
        return f"the link from {self.replica} to {self.host} is in state {self.state.value}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut(_OfLink):
    def describe(self) -> str:
        return f"the open connections from {self.replica} to {self.host} break"


@dataclass(frozen=True, slots=True, kw_only=True)
class Storm(_OfLink):
    weather: Weather

    def describe(self) -> str:
        names = (
            "lost_request",
            "lost_answer",
            "late",
            "unwilling",
            "broken_watch",
            "torn_line",
            "doubled_line",
            "slow_line",
        )
        chances = [f"{name} {value:.0%}" for name in names if (value := getattr(self.weather, name))]
        if self.weather.unwilling:
            chances.append(f"answers {list(self.weather.answers)}")
        return f"bad weather from {self.replica} to {self.host}: {', '.join(chances)}"


# --- clusters ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class _OfHost(Event):
    host: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Outage(_OfHost):
    def describe(self) -> str:
        return f"the API server of {self.host} is down, for everybody"


@dataclass(frozen=True, slots=True, kw_only=True)
class Restore(_OfHost):
    """An outage that ends with the state of `age` seconds before its beginning."""

    age: float

    def describe(self) -> str:
        return f"{self.host} is down, to be restored from a backup {self.age:g} s old"


@dataclass(frozen=True, slots=True, kw_only=True)
class Compact(_OfHost):
    def describe(self) -> str:
        return f"{self.host} forgets its history: who watches from an old version must list again"


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota(_OfHost):
    cpu: int

    def describe(self) -> str:
        return f"the quota on {self.host} becomes {self.cpu} CPU"


@dataclass(frozen=True, slots=True, kw_only=True)
class StopQueue(_OfHost):
    policy: Literal["Hold", "HoldAndDrain"]

    def describe(self) -> str:
        return f"the ClusterQueue on {self.host} is stopped: {self.policy}"


# --- workers -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class _OfWorker(Event):
    worker: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Revoke(_OfWorker):
    """Ends with a new token for the manager if `rotated`, otherwise with the old token valid again."""

    rotated: bool

    def describe(self) -> str:
        return f"{self.worker} refuses the manager's token{' until it gets another one' if self.rotated else ''}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartKueue(_OfWorker):
    def describe(self) -> str:
        return f"the Kueue of {self.worker} is away"


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowAdmission(_OfWorker):
    seconds: float

    def describe(self) -> str:
        return f"{self.worker} takes {self.seconds:g} s to look at a workload"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoseLocalQueue(_OfWorker):
    def describe(self) -> str:
        return f"{self.worker} has no LocalQueue"


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaveConfig(_OfWorker):
    def describe(self) -> str:
        return f"{self.worker} is taken out of the MultiKueueConfig"


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgetCluster(_OfWorker):
    def describe(self) -> str:
        return f"the MultiKueueCluster of {self.worker} is deleted"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoseSecret(_OfWorker):
    def describe(self) -> str:
        return f"the kubeconfig Secret of {self.worker} is deleted"


# --- objects of a job on a worker -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class _OfRemote(Event):
    job: str
    worker: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Preempt(_OfRemote):
    def describe(self) -> str:
        return f"{self.worker} evicts the workload of {self.job}"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteCopy(_OfRemote):
    def describe(self) -> str:
        return f"a stranger deletes the copy of {self.job}'s workload on {self.worker}"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteRemoteJob(_OfRemote):
    def describe(self) -> str:
        return f"a stranger deletes the copy of {self.job} itself on {self.worker}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TakeOver(_OfRemote):
    """The foreign job lasts until the event ends."""

    def describe(self) -> str:
        return f"a stranger puts a job of their own in the place of the copy of {self.job} on {self.worker}"


@dataclass(frozen=True, slots=True, kw_only=True)
class EditCopy(_OfRemote):
    """Deactivates the copy, or changes its priority or an annotation."""

    what: Literal["inactive", "priority", "annotation"]

    def describe(self) -> str:
        return f"a stranger edits the copy of {self.job}'s workload on {self.worker}: {self.what}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Foreign(_OfRemote):
    """The object lasts until the event ends; `what` selects the name: the job's or its workload's."""

    what: Literal["job", "workload"] = "job"

    def describe(self) -> str:
        return f"a user of {self.worker} has a {self.what} with the name that {self.job}'s has"


# --- a job on the manager cluster ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class _OfJob(Event):
    job: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteJob(_OfJob):
    def describe(self) -> str:
        return f"a user deletes job {self.job}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Recreate(_OfJob):
    """Deletes the job, and submits it again when the event ends."""

    def describe(self) -> str:
        return f"a user deletes job {self.job}, to submit another one of that name"


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspend(_OfJob):
    def describe(self) -> str:
        return f"a user suspends job {self.job}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Resume(_OfJob):
    def describe(self) -> str:
        return f"a user starts job {self.job} on the manager cluster"


@dataclass(frozen=True, slots=True, kw_only=True)
class EditJob(_OfJob):
    what: Literal["annotation", "parallelism", "queue"]

    def describe(self) -> str:
        return f"a user edits job {self.job}: {self.what}"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteWorkload(_OfJob):
    def describe(self) -> str:
        return f"a user deletes the workload of job {self.job}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Deactivate(_OfJob):
    def describe(self) -> str:
        return f"a user deactivates the workload of job {self.job}"


# --- settings --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class StrategyChange(Event):
    name: str
    options: Mapping[str, object] = field(default_factory=dict)

    def describe(self) -> str:
        return f"the AdmissionCheck asks for the strategy {self.name} {dict(self.options) or ''}".rstrip()


@dataclass(frozen=True, slots=True, kw_only=True)
class Decide(Event):
    clusters: tuple[str, ...]

    def describe(self) -> str:
        return f"the Placement decides for {', '.join(self.clusters) or 'nobody'}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Replica:
    """A manager, with a clock that is `skew` seconds ahead of the world's. A manager that `nominates` does nothing
    else, like an external dispatcher of Kueue; the others dispatch to the clusters it nominates."""

    name: str
    skew: float = 0.0
    nominates: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """The managers' timeouts and intervals, in seconds."""

    lost: float = 20.0
    heartbeat: float = 3.0
    call: float = 8.0
    sweep: float = 20.0
    requeue: float = 2.0
    lease: float = 12.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One run. `seed` also determines all randomness that the plan leaves open: latencies, jitter, UIDs."""

    seed: int
    layout: Layout = field(default_factory=Layout)
    replicas: tuple[Replica, ...] = (Replica(name="manager-0"),)
    elected: bool = False
    strategy: str = "all-at-once"
    options: Mapping[str, object] = field(default_factory=dict)
    timing: Timing = Timing()
    weather: Weather = CALM
    """The weather without storms; only its latency matters."""
    jobs: tuple[JobPlan, ...] = ()
    events: tuple[Event, ...] = ()
    adversaries: tuple[Adversity, ...] = ()

    @property
    def ends(self) -> float:
        """The time at which the last event has ended and the last job is submitted."""
        over = [event.at + event.lasts for event in (*self.events, *self.adversaries)]
        return max([*over, *(max(job.at, job.room_at) for job in self.jobs)], default=0.0)

    @property
    def has_dispatcher(self) -> bool:
        """Whether one manager nominates for the others."""
        return any(replica.nominates for replica in self.replicas)

    @property
    def workers(self) -> tuple[str, ...]:
        return tuple(share.name for share in self.layout.workers)
