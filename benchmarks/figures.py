"""The figures of one side, and their targets."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from statistics import median

from benchmarks.calls import Calls
from benchmarks.timeline import Distribution

__all__ = ["Figures", "Ratio", "Row", "Target", "at_least", "at_most", "ratios", "rows", "typical"]


@dataclass(frozen=True, slots=True)
class Figures:
    """The figures of one side.

    Rates are jobs per second; distributions seconds; calls, and CPU in milliseconds, per job of the burst; memory in
    MiB. `steps` are seconds from submission to each stage, `step_calls` the calls per job, both of jobs one at a time.
    `cpu` maps programs to their CPU seconds during the burst; `others` is the share of the machine that other
    programs had then.
    """

    jobs: int
    unfinished: int
    rested_jobs: int
    workers: int
    dispatch_rate: float
    finish_rate: float
    start: Distribution | None
    completion: Distribution | None
    manager: Calls
    worker: Calls
    cpu_ms: float
    startup_cpu_ms: float
    peak_memory: float
    memory: float
    steps: Mapping[str, Distribution]
    rested_manager: Calls
    rested_worker: Calls
    cpu: Mapping[str, float]
    others: float


def typical(rounds: Sequence[Figures]) -> Figures:
    """Several rounds of one side as one: the median of each number, and of what is no number that of the round with the
    median rate. Jobs that never finished add up."""
    middle = sorted(rounds, key=lambda each: each.dispatch_rate)[len(rounds) // 2]
    numbers = {
        each.name: median(getattr(one, each.name) for one in rounds)
        for each in fields(Figures)
        if isinstance(getattr(middle, each.name), float)
    }
    return replace(middle, **numbers, unfinished=sum(each.unfinished for each in rounds))


@dataclass(frozen=True, slots=True)
class Target:
    """A limit, alone or as a ratio to the peer; `says` is its text in tables."""

    says: str
    met: Callable[[float, float | None], bool | None]


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the report. `met` is None without a target, or without the figures to judge it."""

    label: str
    values: Mapping[str, float | None]
    digits: int
    ratio: float | None
    target: str
    met: bool | None


@dataclass(frozen=True, slots=True)
class Ratio:
    """Our figure divided by another side's of the same run. Value and verdict are None if one was not measured."""

    label: str
    value: float | None
    target: str
    met: bool | None


@dataclass(frozen=True, slots=True)
class _Figure:
    label: str
    of: Callable[[Figures], float | None]
    digits: int = 1
    target: Callable[[Figures], Target] | None = None


def at_most(limit: float) -> Target:
    return Target(f"≤ {limit:,g}", lambda value, _: value <= limit)


def at_least(limit: float) -> Target:
    return Target(f"≥ {limit:,g}", lambda value, _: value >= limit)


def at_least_times(factor: float) -> Target:
    return Target(f"≥ {factor:g} x peer", lambda value, peer: None if peer is None else value >= factor * peer)


def at_most_times(factor: float) -> Target:
    return Target(f"≤ {factor:g} x peer", lambda value, peer: None if peer is None else value <= factor * peer)


def both(one: Target, other: Target) -> Target:
    def met(value: float, peer: float | None) -> bool | None:
        verdicts = [one.met(value, peer), other.met(value, peer)]
        if False in verdicts:
            return False
        return None if None in verdicts else True

    return Target(f"{one.says}, {other.says}", met)


def _milliseconds(of: Callable[[Figures], Distribution | None], percentile: str) -> Callable[[Figures], float | None]:
    def read(figures: Figures) -> float | None:
        found = of(figures)
        return None if found is None else 1000 * float(getattr(found, percentile))

    return read


FIGURES = (
    _Figure("dispatch of a burst, jobs/s", lambda f: f.dispatch_rate, 2, lambda _: at_least_times(10)),
    _Figure("burst until all finished, jobs/s", lambda f: f.finish_rate, 2),
    _Figure("jobs of the burst that never finished", lambda f: f.unfinished, 0, lambda _: at_most(0)),
    _Figure("at rest: submit → remote job, p50 ms", _milliseconds(lambda f: f.start, "p50"), 0, lambda _: at_most(100)),
    _Figure("at rest: submit → remote job, p95 ms", _milliseconds(lambda f: f.start, "p95"), 0),
    _Figure(
        "at rest: remote → local complete, p50 ms",
        _milliseconds(lambda f: f.completion, "p50"),
        0,
        lambda _: at_most(100),
    ),
    _Figure("at rest: remote → local complete, p95 ms", _milliseconds(lambda f: f.completion, "p95"), 0),
    _Figure("writes to the manager cluster per job", lambda f: f.manager.writes, 2),
    _Figure(
        "of these no event (dispatch.tell_wins)", lambda f: f.manager.writes - f.manager.events, 2, lambda _: at_most(7)
    ),
    _Figure("writes to all workers per job", lambda f: f.worker.writes, 2, lambda f: at_most(2 * f.workers + 2)),
    _Figure("live reads per job", lambda f: f.manager.reads + f.worker.reads, 2, lambda _: at_most(0)),
    _Figure("watches begun per job", lambda f: f.manager.watches + f.worker.watches, 2),
    _Figure("refused calls per job", lambda f: f.manager.refused + f.worker.refused, 2),
    _Figure("CPU per job, ms", lambda f: f.cpu_ms, 1, lambda _: both(at_most(15), at_most_times(0.25))),
    _Figure("CPU of the start, ms", lambda f: f.startup_cpu_ms, 0),
    _Figure("peak memory, MiB", lambda f: f.peak_memory, 0, lambda _: at_most_times(1.15)),
    _Figure("memory after the burst, MiB", lambda f: f.memory, 0),
    _Figure("share of the machine that strangers used, %", lambda f: 100 * f.others, 0),
)


def rows(sides: Mapping[str, Figures]) -> list[Row]:
    """The lines of the report; targets are those of `ours`, and need `peer` where they are ratios."""
    return [_row(figure, sides) for figure in FIGURES]


def _row(figure: _Figure, sides: Mapping[str, Figures]) -> Row:
    values = {name: figure.of(side) for name, side in sides.items()}
    ours, peer = values.get("ours"), values.get("peer")
    target = figure.target(sides["ours"]) if figure.target and "ours" in sides else None
    return Row(
        label=figure.label,
        values=values,
        digits=figure.digits,
        ratio=ours / peer if ours is not None and peer else None,
        target=target.says if target else "",
        met=target.met(ours, peer) if target and ours is not None else None,
    )


@dataclass(frozen=True, slots=True)
class _Ratio:
    """`beside`: the other side; empty: the figure itself is judged."""

    label: str
    of: Callable[[Figures], float]
    beside: str
    target: Target


RATIOS = (
    _Ratio("CPU per job beside the script that decides nothing", lambda f: f.cpu_ms, "script", at_most(1.5)),
    _Ratio("CPU per job beside the peer", lambda f: f.cpu_ms, "peer", at_most(0.25)),
    _Ratio(
        "rate of dispatch beside the script that decides nothing", lambda f: f.dispatch_rate, "script", at_least(0.95)
    ),
    _Ratio("CPU from the start until ready, s", lambda f: f.startup_cpu_ms / 1000, "", at_most(1.2)),
)


def ratios(sides: Mapping[str, Figures]) -> list[Ratio]:
    """Ratios to other sides on the same machine, which say more of ours than of the machine."""
    return [_ratio(each, sides) for each in RATIOS]


def _ratio(wanted: _Ratio, sides: Mapping[str, Figures]) -> Ratio:
    ours, other = (wanted.of(sides[name]) if name in sides else None for name in ("ours", wanted.beside))
    unit = other if wanted.beside else 1.0
    value = ours / unit if ours is not None and unit else None
    met = None if value is None else wanted.target.met(value, None)
    return Ratio(wanted.label, value, wanted.target.says, met)
