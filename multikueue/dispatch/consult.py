"""Asking a strategy, which may be anybody's code: the answer is a sound nomination or a StrategyError."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import timedelta

from multikueue.errors import StrategyError
from multikueue.strategy import Fleet, Nomination, Strategy, Workload

__all__ = ["consult"]


def consult(strategy: Strategy, workload: Workload, fleet: Fleet) -> Nomination:
    """The strategy's nomination. Raises StrategyError, with the strategy's name, if it raised or broke its contract.

    One of the three places that may catch every exception: a strategy's mistake costs its workload a wait, never the
    manager. A worker that is in the fleet but not usable may be named: a strategy may keep the place of one that is
    away for a moment.
    """
    name = type(strategy).__name__
    try:
        nomination = strategy.nominate(workload, fleet)
        fault = next(_faults(nomination, fleet), None)  # within: even the repr of an answer may raise
    except Exception as error:
        raise StrategyError(f"strategy {name} raised {type(error).__name__}: {error}") from error
    if fault is not None:
        raise StrategyError(f"strategy {name} {fault}")
    return nomination


def _faults(nomination: object, fleet: Fleet) -> Iterator[str]:
    if not isinstance(nomination, Nomination):
        yield f"must answer a Nomination, answered {_shown(nomination)}"
    else:
        yield from _faults_of_clusters(nomination.clusters, fleet)
        yield from _faults_of_revisit(nomination.revisit_after)
        yield from _faults_of_reason(nomination.reason)


def _faults_of_clusters(clusters: object, fleet: Fleet) -> Iterator[str]:
    if not isinstance(clusters, tuple) or not all(isinstance(name, str) for name in clusters):
        yield f"must nominate a tuple of names, nominated {_shown(clusters)}"
    else:
        yield from _faults_of_names(clusters, fleet)


def _faults_of_names(clusters: tuple[str, ...], fleet: Fleet) -> Iterator[str]:
    known = {worker.name for worker in fleet.workers}
    unknown = sorted(set(clusters) - known)
    if unknown:
        yield f"nominated {', '.join(unknown)}, not in its fleet of {', '.join(sorted(known)) or 'no workers'}"
    twice = sorted(name for name, times in Counter(clusters).items() if times > 1)
    if twice:
        yield f"nominated {', '.join(twice)} more than once"


def _faults_of_revisit(after: object) -> Iterator[str]:
    if after is not None and not isinstance(after, timedelta):
        yield f"must give revisit_after as a timedelta or None, gave {_shown(after)}"
    elif after is not None and after <= timedelta():
        yield f"must wait before it is asked again, gave revisit_after={after}"


def _faults_of_reason(reason: object) -> Iterator[str]:
    if not isinstance(reason, str):
        yield f"must give its reason as text, gave {_shown(reason)}"


def _shown(value: object) -> str:
    return f"{type(value).__name__} {repr(value)[:100]}"
