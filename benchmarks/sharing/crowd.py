"""The submissions by user and time, all drawn from a seed."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass

__all__ = ["Crowd", "Submission", "drawn"]

SIZES = {1: 30, 2: 20, 4: 20, 8: 20, 16: 7, 24: 3}
"""GPUs of a job to the number of such jobs in a hundred."""

SHORTEST, LONGEST = 120.0, 4 * 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """One job. Times are in seconds."""

    name: str
    user: str
    at: float
    gpus: int
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Crowd:
    """The users and their demand. `demand` is the share of all GPUs that would be busy if no job ever had to wait.

    Users differ: the busiest submits `spread` times as often as the quietest. The median job runs `median` minutes, the
    logarithm of run times is normal with deviation `sigma`.
    """

    users: int = 50
    gpus: int = 100
    hours: float = 12.0
    demand: float = 0.9
    spread: float = 20.0
    median: float = 25.0
    sigma: float = 0.9

    def names(self) -> tuple[str, ...]:
        return tuple(f"user{number:02}" for number in range(1, self.users + 1))


def drawn(crowd: Crowd, seed: int) -> tuple[Submission, ...]:
    """The submissions of all users, sorted by time."""
    luck = random.Random(seed)  # not a secret
    jobs: list[tuple[int, float]] = []
    wanted = crowd.demand * crowd.gpus * crowd.hours * 3600
    while wanted > 0:
        jobs.append((_size(luck), _seconds(crowd, luck)))
        wanted -= jobs[-1][0] * jobs[-1][1]
    names = crowd.names()
    weights = [crowd.spread ** (number / max(1, crowd.users - 1)) for number in range(crowd.users)]
    users = luck.choices(names, weights, k=len(jobs))
    times = sorted(luck.uniform(0, crowd.hours * 3600) for _ in jobs)
    return tuple(
        Submission(name=f"job{number:04}", user=user, at=at, gpus=gpus, seconds=seconds)
        for number, (user, at, (gpus, seconds)) in enumerate(zip(users, times, jobs, strict=True))
    )


def _size(luck: random.Random) -> int:
    return luck.choices(list(SIZES), list(SIZES.values()))[0]


def _seconds(crowd: Crowd, luck: random.Random) -> float:
    """The run time of a job in whole seconds, as Kubernetes counts them."""
    drawn = luck.lognormvariate(math.log(crowd.median * 60), crowd.sigma)
    return float(round(min(max(drawn, SHORTEST), LONGEST)))
