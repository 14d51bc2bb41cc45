"""Jobs drawn after published traces: their run times, sizes, users, bursts and failures, by what was published of each.

Only figures are taken from the traces, none of their files. Where quantiles were published they are these; where only the mean
and the median were, the quantiles are shaped after both. A GPU has ten parts, so that shares of one can be told.
"""

from __future__ import annotations

import math
import random
from bisect import bisect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

__all__ = ["MIXES", "PARTS", "Cluster", "Job", "Mix", "drawn", "fleet"]

PARTS = 10
"""Parts of a GPU."""

USERS, ZIPF = 40, 1.2
DAY = 86_400.0
WAVE = 0.6
"""How much more comes at the height of a day than on its mean, and less at night."""

BATCH = 4.0
"""Jobs that a user submits at once, in the mean: with the wave this gives arrivals a coefficient of variation of 3 to 5."""

NAMED_TYPE = 0.33
"""Jobs that run on one type of GPU only."""

URGENT, WITH_DATA, LOCAL = 0.2, 0.5, 0.15
"""Jobs of a higher priority; jobs that read data which lies somewhere; jobs that users submit to a worker directly."""


@dataclass(frozen=True, slots=True)
class Mix:
    """`run_times`: seconds by share of the jobs. `sizes`: parts of GPUs and the share of jobs that take them."""

    name: str
    source: str
    run_times: tuple[tuple[float, float], ...]
    sizes: tuple[tuple[int, float], ...]
    failed: float


MIXES = {
    mix.name: mix
    for mix in (
        Mix(
            "seren",
            "Acme 2023: mean 1,414 s, median 122 s, 5.7 GPUs, 43 % failed",
            ((0, 2), (0.25, 35), (0.5, 122), (0.75, 560), (0.9, 2_600), (0.95, 6_000), (0.99, 24_000), (1, 60_000)),
            ((10, 0.55), (20, 0.08), (40, 0.08), (80, 0.20), (160, 0.04), (320, 0.03), (640, 0.02)),
            0.43,
        ),
        Mix(
            "philly",
            "Microsoft 2017: p10 61 s, p50 1,186 s, p90 12,860 s, p99 287,333 s; 1.9 GPUs; 31 % failed",
            ((0, 5), (0.1, 61), (0.25, 131), (0.5, 1_186), (0.75, 3_342), (0.9, 12_860), (0.95, 49_969), (1, 287_333)),
            ((10, 0.81), (20, 0.07), (40, 0.06), (80, 0.045), (160, 0.01), (320, 0.005)),
            0.31,
        ),
        Mix(
            "helios",
            "SenseTime 2020: mean 6,652 s, median 206 s, 3.7 GPUs, 16 % failed",
            (
                (0, 2),
                (0.25, 40),
                (0.5, 206),
                (0.75, 1_900),
                (0.9, 12_000),
                (0.95, 30_000),
                (0.99, 110_000),
                (1, 250_000),
            ),
            ((10, 0.62), (20, 0.10), (40, 0.10), (80, 0.14), (160, 0.02), (320, 0.015), (640, 0.005)),
            0.16,
        ),
        Mix(
            "pai",
            "Alibaba 2020: mean 4,787 s, median 481 s, 0.68 GPUs",
            (
                (0, 5),
                (0.25, 120),
                (0.5, 481),
                (0.75, 2_400),
                (0.9, 9_000),
                (0.95, 20_000),
                (0.99, 80_000),
                (1, 200_000),
            ),
            ((3, 0.30), (5, 0.35), (10, 0.33), (80, 0.02)),
            0.30,
        ),
        Mix(
            "openb",
            "Alibaba 2023: p10 73 s, p50 616 s, p75 2,246 s, p90 7,764 s, p95 18,162 s, p99 114,715 s",
            ((0, 5), (0.1, 73), (0.25, 175), (0.5, 616), (0.75, 2_246), (0.9, 7_764), (0.95, 18_162), (1, 114_715)),
            ((1, 0.13), (5, 0.38), (10, 0.48), (20, 0.002), (40, 0.002), (80, 0.006)),
            0.35,
        ),
    )
}


@dataclass(frozen=True, slots=True)
class Cluster:
    """`parts` of GPUs of one type, at a `price` for an hour of a GPU."""

    name: str
    parts: int
    gpu: str
    price: float


@dataclass(frozen=True, slots=True)
class Job:
    """Submitted `at` a second, for `seconds` of so many parts. `local`: to that worker directly. `data`: the cluster where
    what it reads lies, and how many GB."""

    name: str
    at: float
    user: str
    parts: int
    seconds: float
    priority: int = 0
    gpu: str = ""
    local: str = ""
    data: tuple[str, float] | None = None

    @property
    def work(self) -> float:
        return self.parts * self.seconds


def fleet(number: int, *, equal: bool) -> tuple[Cluster, ...]:
    """Clusters of 32 GPUs; unequal ones have from 8 to 64. Two of three have GPUs of type a; prices go by tiers."""
    sizes, prices = (32,) if equal else (64, 8, 16, 8, 32), (1.0, 1.5, 3.0)
    return tuple(
        Cluster(f"c{n:02}", PARTS * sizes[n % len(sizes)], "ab"[n % 3 == 2], prices[n % len(prices)])
        for n in range(number)
    )


def drawn(mix: Mix, clusters: Sequence[Cluster], *, days: float, load: float, seed: int) -> list[Job]:
    """As many jobs as ask for `load` of what the clusters have, in the order in which they come in so many days."""
    luck = random.Random(f"{mix.name} {seed}")  # not a secret
    wanted, found = load * sum(each.parts for each in clusters) * days * DAY, list[Job]()
    while wanted > 0:
        found.append(_job(mix, clusters, len(found), luck))
        wanted -= found[-1].work
    times, users = _times(days * DAY, len(found), luck), _users(luck)
    placed: list[Job] = []
    while len(placed) < len(found):
        at, user = next(times), next(users)
        batch = found[len(placed) : len(placed) + 1 + int(luck.expovariate(1 / (BATCH - 1)))]
        placed += [replace(job, at=at, user=user) for job in batch]
    return sorted(placed, key=lambda job: job.at)


def _job(mix: Mix, clusters: Sequence[Cluster], number: int, luck: random.Random) -> Job:
    gpu = luck.choice("ab") if luck.random() < NAMED_TYPE and len({each.gpu for each in clusters}) > 1 else ""
    fitting = [each for each in clusters if gpu in ("", each.gpu)]
    (parts,) = luck.choices([size for size, _ in mix.sizes], [share for _, share in mix.sizes])
    parts = min(parts, max(each.parts for each in fitting) // 2)
    seconds = _between(mix.run_times, luck.random())
    if luck.random() < mix.failed:
        seconds = max(1.0, seconds * luck.uniform(0.0, 0.2))
    local = ""
    if luck.random() < LOCAL:
        near = [each for each in fitting if each.parts >= 2 * parts]
        local = luck.choices([each.name for each in near], [each.parts for each in near])[0]
    lies = luck.choice(clusters).name
    data = (lies, luck.lognormvariate(3.0, 1.5)) if luck.random() < WITH_DATA else None
    return Job(f"job-{number}", 0.0, "", parts, seconds, int(luck.random() < URGENT), gpu, local, data)


def _between(quantiles: Sequence[tuple[float, float]], share: float) -> float:
    """Between two quantiles it goes by the logarithm."""
    index = min(bisect([at for at, _ in quantiles], share), len(quantiles) - 1)
    (low, first), (high, second) = quantiles[index - 1], quantiles[index]
    part = (share - low) / (high - low)
    return math.exp(math.log(first) * (1 - part) + math.log(second) * part)


def _times(span: float, jobs: int, luck: random.Random) -> Iterator[float]:
    """Times of submissions, as many as are asked for: more by day than by night, if the span is longer than a day."""
    wave = WAVE if span > DAY else 0.0
    needed = max(1, round(jobs / BATCH))
    found: list[float] = []
    while len(found) < 2 * needed:
        at = luck.uniform(0, span)
        if luck.random() < (1 + wave * math.sin(2 * math.pi * at / DAY)) / (1 + wave):
            found.append(at)
    luck.shuffle(found)
    while True:
        yield from found


def _users(luck: random.Random) -> Iterator[str]:
    weights = list(accumulate(1 / rank**ZIPF for rank in range(1, USERS + 1)))
    while True:
        yield f"user-{bisect(weights, luck.uniform(0, weights[-1]))}"
