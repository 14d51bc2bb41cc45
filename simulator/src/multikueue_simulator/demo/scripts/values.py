"""The parts of a play: jobs, steps and their times. All times are seconds since the start, at speed 1."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from multikueue_simulator.world.world import Layout, Share

__all__ = [
    "Decide",
    "Die",
    "Fill",
    "Hang",
    "KillManager",
    "Play",
    "Recover",
    "Return",
    "Scale",
    "Script",
    "ScriptedEvent",
    "Share",
    "Step",
    "Submission",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """A job: time and queue of its submission, its CPUs per pod, and the duration of a pod in seconds.

    `completions` is the number of pods in all, if more than run at once; `priority` names a class; an `elastic` job may
    change the number of its pods while it runs.
    """

    at: float
    name: str
    queue: str
    cpu: int
    seconds: float
    pods: int = 1
    completions: int = 0
    priority: str = ""
    elastic: bool = False


@dataclass(frozen=True, slots=True)
class Die:
    """A worker is gone: API server, Kueue and nodes. Empty: the worker with the hero of the play."""

    worker: str = ""


@dataclass(frozen=True, slots=True)
class Return:
    """A worker is back, with what it had. Empty: the one that was gone first."""

    worker: str = ""


@dataclass(frozen=True, slots=True)
class Hang:
    """The link to a worker swallows all requests and answers none."""

    worker: str


@dataclass(frozen=True, slots=True)
class Recover:
    """The link to a worker works again."""

    worker: str


@dataclass(frozen=True, slots=True)
class Fill:
    """Another user submits jobs of this duration to a worker, enough to fill it."""

    worker: str
    seconds: float


@dataclass(frozen=True, slots=True)
class KillManager:
    """The manager is killed, and started again after this time, as Kubernetes would."""

    seconds: float = 2.0


@dataclass(frozen=True, slots=True)
class Scale:
    """A user changes the number of pods of an elastic job."""

    job: str
    pods: int


@dataclass(frozen=True, slots=True)
class Decide:
    """OCM's placement decides for these workers."""

    workers: tuple[str, ...]


Step = Die | Return | Hang | Recover | Fill | KillManager | Scale | Decide


@dataclass(frozen=True, slots=True)
class ScriptedEvent:
    """A step and its announcement, in which `{worker}` is where it happens. `hint` is a command to watch it by."""

    at: float
    text: str
    step: Step | None = None
    hint: str = ""


@dataclass(frozen=True, slots=True)
class Script:
    """The jobs and acts in the order of their times. `hero` is the job that the story is about."""

    submissions: tuple[Submission, ...]
    acts: tuple[ScriptedEvent, ...] = ()
    hero: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Play:
    """A script with its scene: the clusters, and how the manager's queues are set up."""

    name: str
    title: str
    layout: Layout
    script: Script
    strategy: str = ""
    placement: tuple[str, ...] = ()
    """The workers of OCM's first decision, if there is a Placement."""
    queue_fields: Mapping[str, object] = field(default_factory=dict)
    """Fields of the spec of each ClusterQueue of the manager."""
    priorities: Mapping[str, int] = field(default_factory=dict)
    fair_sharing: bool = False
    elastic: bool = False
