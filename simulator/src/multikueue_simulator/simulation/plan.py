"""The plan of one life, a value that can be shown, shrunk and run again: one file, a class for each kind of event.

All times are seconds since the world began. An event happens at its time, or, with `write`, at the n-th write of a
manager after that time: just before it is carried out, or just after. An event with `lasts` ends so much later.
A worker may be named by a job: `@job0` is the worker that has it then.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from fakekube.network.link import CALM, State, Weather
from multikueue_simulator.world import Layout

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
    """A job that a user submits: `pods` of them at a time, each asking for `cpu` CPUs and running for `seconds`.

    One with `room` fits no worker, until the worker of that name grows at `room_at`.
    """

    name: str
    at: float = 0.0
    queue: str = "main"
    cpu: int = 1
    pods: int = 1
    seconds: float = 1.0
    fails: bool = False
    room: str = ""
    room_at: float = 0.0

    @property
    def total(self) -> int:
        """CPUs of all pods at a time."""
        return self.pods * self.cpu

    def tell(self) -> str:
        size = f"{self.pods} pods of {self.cpu} CPU for {self.seconds:g} s"
        return f"a user submits job {self.name} to queue {self.queue}: {size}{', which fail' if self.fails else ''}"

    def tell_room(self) -> str:
        """In words, what it is that it waits for."""
        return f"an admin gives {self.room} the {self.total} CPU that job {self.name} needs"


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """An act or a fault. With `lasts` it ends after so many seconds."""

    at: float = 0.0
    write: int = 0
    """Happens at that write of a manager after `at`, counted from 1; 0: at `at`."""
    before: bool = False
    """Just before the write is carried out, instead of just after."""
    lasts: float = 0.0

    def tell(self) -> str:
        """In words, without time and duration."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True, kw_only=True)
class Adversity(Event):
    """Something that an adversary does (`adversaries` has them)."""

    @property
    def liar(self) -> str:
        """The worker that cannot be believed because of it: what it has won is its own affair. Empty if there is none."""
        return ""

    def control(self) -> tuple[Event, ...] | None:
        """What may cost others as much as this; None if nobody can tell what this may cost them."""
        return ()


# --- managers ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class _OfReplica(Event):
    replica: str = "manager-0"


@dataclass(frozen=True, slots=True, kw_only=True)
class Crash(_OfReplica):
    def tell(self) -> str:
        return f"{self.replica} dies"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop(_OfReplica):
    def tell(self) -> str:
        return f"{self.replica} is asked to stop"


@dataclass(frozen=True, slots=True, kw_only=True)
class Freeze(_OfReplica):
    def tell(self) -> str:
        return f"{self.replica} is frozen"


# --- the way between managers and clusters -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class _OfLink(Event):
    replica: str = "manager-0"
    host: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Break(_OfLink):
    state: State

    def tell(self) -> str:
        return f"the link from {self.replica} to {self.host} is in state {self.state.value}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut(_OfLink):
    def tell(self) -> str:
        return f"the open connections from {self.replica} to {self.host} break"


@dataclass(frozen=True, slots=True, kw_only=True)
class Storm(_OfLink):
    weather: Weather

    def tell(self) -> str:
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
    def tell(self) -> str:
        return f"the API server of {self.host} is down, for everybody"


@dataclass(frozen=True, slots=True, kw_only=True)
class Restore(_OfHost):
    """Down, until it is over; then as it was `age` seconds before it went down."""

    age: float

    def tell(self) -> str:
        return f"{self.host} is down, to be restored from a backup {self.age:g} s old"


@dataclass(frozen=True, slots=True, kw_only=True)
class Compact(_OfHost):
    def tell(self) -> str:
        return f"{self.host} forgets its history: who watches from an old version must list again"


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota(_OfHost):
    cpu: int

    def tell(self) -> str:
        return f"the quota on {self.host} becomes {self.cpu} CPU"


@dataclass(frozen=True, slots=True, kw_only=True)
class StopQueue(_OfHost):
    policy: Literal["Hold", "HoldAndDrain"]

    def tell(self) -> str:
        return f"the ClusterQueue on {self.host} is stopped: {self.policy}"


# --- workers -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class _OfWorker(Event):
    worker: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Revoke(_OfWorker):
    """With `rotated`, the manager gets a new token when it is over; without, the old one is good again."""

    rotated: bool

    def tell(self) -> str:
        return f"{self.worker} refuses the manager's token{' until it gets another one' if self.rotated else ''}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartKueue(_OfWorker):
    def tell(self) -> str:
        return f"the Kueue of {self.worker} is away"


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowAdmission(_OfWorker):
    seconds: float

    def tell(self) -> str:
        return f"{self.worker} takes {self.seconds:g} s to look at a workload"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoseLocalQueue(_OfWorker):
    def tell(self) -> str:
        return f"{self.worker} has no LocalQueue"


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaveConfig(_OfWorker):
    def tell(self) -> str:
        return f"{self.worker} is taken out of the MultiKueueConfig"


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgetCluster(_OfWorker):
    def tell(self) -> str:
        return f"the MultiKueueCluster of {self.worker} is deleted"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoseSecret(_OfWorker):
    def tell(self) -> str:
        return f"the kubeconfig Secret of {self.worker} is deleted"


# --- a job's things on a worker ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class _OfRemote(Event):
    job: str
    worker: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Preempt(_OfRemote):
    def tell(self) -> str:
        return f"{self.worker} evicts the workload of {self.job}"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteCopy(_OfRemote):
    def tell(self) -> str:
        return f"a stranger deletes the copy of {self.job}'s workload on {self.worker}"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteRemoteJob(_OfRemote):
    def tell(self) -> str:
        return f"a stranger deletes the copy of {self.job} itself on {self.worker}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TakeOver(_OfRemote):
    """There until it is over."""

    def tell(self) -> str:
        return f"a stranger puts a job of his own in the place of the copy of {self.job} on {self.worker}"


@dataclass(frozen=True, slots=True, kw_only=True)
class EditCopy(_OfRemote):
    """Deactivates it, or changes its priority."""

    what: Literal["inactive", "priority", "annotation"]

    def tell(self) -> str:
        return f"a stranger edits the copy of {self.job}'s workload on {self.worker}: {self.what}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Foreign(_OfRemote):
    """There until it is over; `what` has the name of the job or of its workload."""

    what: Literal["job", "workload"] = "job"

    def tell(self) -> str:
        return f"a user of {self.worker} has a {self.what} with the name that {self.job}'s has"


# --- a job on the manager cluster ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class _OfJob(Event):
    job: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteJob(_OfJob):
    def tell(self) -> str:
        return f"a user deletes job {self.job}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Recreate(_OfJob):
    """Deleted at its time, and submitted again when it is over."""

    def tell(self) -> str:
        return f"a user deletes job {self.job}, to submit another one of that name"


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspend(_OfJob):
    def tell(self) -> str:
        return f"a user suspends job {self.job}"


@dataclass(frozen=True, slots=True, kw_only=True)
class EditJob(_OfJob):
    what: Literal["annotation", "parallelism", "queue"]

    def tell(self) -> str:
        return f"a user edits job {self.job}: {self.what}"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteWorkload(_OfJob):
    def tell(self) -> str:
        return f"a user deletes the workload of job {self.job}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Deactivate(_OfJob):
    def tell(self) -> str:
        return f"a user deactivates the workload of job {self.job}"


# --- settings --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class StrategyChange(Event):
    name: str
    options: Mapping[str, object] = field(default_factory=dict)

    def tell(self) -> str:
        return f"the AdmissionCheck asks for the strategy {self.name} {dict(self.options) or ''}".rstrip()


@dataclass(frozen=True, slots=True, kw_only=True)
class Decide(Event):
    clusters: tuple[str, ...]

    def tell(self) -> str:
        return f"the Placement decides for {', '.join(self.clusters) or 'nobody'}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Replica:
    """A manager, with a clock that is `skew` seconds ahead of the world's. One that `nominates` does nothing else, as
    Kueue's external dispatcher; then the others dispatch to whom it names."""

    name: str
    skew: float = 0.0
    nominates: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """The managers' settings that have to do with time, in seconds."""

    lost: float = 20.0
    heartbeat: float = 3.0
    call: float = 8.0
    sweep: float = 20.0
    requeue: float = 2.0
    lease: float = 12.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One life. `seed` is also that of all luck that the plan leaves open: latencies, jitter, UIDs."""

    seed: int
    layout: Layout = field(default_factory=Layout)
    replicas: tuple[Replica, ...] = (Replica(name="manager-0"),)
    elected: bool = False
    strategy: str = "all-at-once"
    options: Mapping[str, object] = field(default_factory=dict)
    timing: Timing = Timing()
    weather: Weather = CALM
    """On a normal day: only its latency counts."""
    jobs: tuple[JobPlan, ...] = ()
    events: tuple[Event, ...] = ()
    adversaries: tuple[Adversity, ...] = ()

    @property
    def ends(self) -> float:
        """When the last event is over and the last job submitted."""
        over = [event.at + event.lasts for event in (*self.events, *self.adversaries)]
        return max([*over, *(max(job.at, job.room_at) for job in self.jobs)], default=0.0)

    @property
    def has_dispatcher(self) -> bool:
        """Whether one nominates for the others."""
        return any(replica.nominates for replica in self.replicas)

    @property
    def workers(self) -> tuple[str, ...]:
        return tuple(share.name for share in self.layout.workers)
