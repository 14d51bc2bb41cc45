"""The call of a strategy, which may be third-party code: it returns a valid nomination or raises StrategyError."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timedelta

import msgspec

from multikueue.api.values.foreign import LONGEST_EXCERPT, excerpt
from multikueue.errors import StrategyError
from multikueue.strategy import Explaining, Fleet, Nomination, Opinion, Strategy, Workload

__all__ = [
    "FLAVORS",
    "KUEUE",
    "MATES",
    "PLACEMENTS",
    "ROOM",
    "SCORES",
    "SPEND",
    "WAITS",
    "LoadedStrategy",
    "NominationRequest",
    "NominationResult",
    "again_at",
    "call_strategy",
    "explain_strategy",
]

PLACEMENTS = "placementdecisions"
"""The word in a strategy's `reads` that requests the Placement of a workload."""

ROOM = "room"
"""The word in the `reads` of a strategy or a part that requests what workers have room for."""

MATES = "mates"
"""The word that requests where other workloads of its group are."""

WAITS = "waits"
"""The word that requests how long jobs waited on workers."""

SCORES = "scores"
"""The word that requests the scores that the hub has of workers."""

FLAVORS = "flavors"
"""The word that requests the flavors that the manager gave a workload."""

SPEND = "spend"
"""The word that requests what the queues of a workload have spent."""

KUEUE = "kueue"
"""The word that requests which release of Kueue workers run."""

AGAIN = {ROOM: timedelta(seconds=10), SPEND: timedelta(minutes=1)}
"""How soon a strategy that reads this is asked again where it names no worker. A change of room does not ask again: that would
be work for all who wait at each end of a job anywhere. Nor does a queue that is within its limit again."""

SOONEST, LATEST = timedelta(milliseconds=250), timedelta(days=1)
"""Bounds of `revisit_after`."""


class LoadedStrategy(msgspec.Struct, frozen=True, eq=False):
    """A strategy with its options. One of ours returns at once; third-party code may do anything, so it runs with a
    deadline.

    `reads`: the inputs it wants besides the fleet.
    """

    name: str
    strategy: Strategy
    is_ours: bool = True
    reads: frozenset[str] = frozenset()


class NominationRequest(msgspec.Struct, frozen=True):
    """The two arguments of `Strategy.nominate`."""

    workload: Workload
    fleet: Fleet


class NominationResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a request: a valid nomination, or a text, the `problem`, that says why there is none.

    `by` is the strategy; None if none could be determined. `failures` counts consecutive failures. At `again_at`
    the strategy is called again even if nothing changed.
    """

    request: NominationRequest
    by: LoadedStrategy | None = None
    nomination: Nomination | None = None
    problem: str = ""
    failures: int = 0
    again_at: datetime | None = None

    def is_valid_for(self, request: NominationRequest, by: LoadedStrategy) -> bool:
        """Whether the result holds for a request to a strategy, until `again_at`: a failure for any request, a nomination
        only for an equal one."""
        if self.by is not by or (self.again_at is not None and request.fleet.now >= self.again_at):
            return False
        return self.nomination is None or self._is_same(request)

    def _is_same(self, request: NominationRequest) -> bool:
        mine, other = self.request, request
        return mine.workload == other.workload and (mine.fleet.workers, mine.fleet.placement) == (
            other.fleet.workers,
            other.fleet.placement,
        )


def again_at(nomination: Nomination, now: datetime, *, reads: frozenset[str] = frozenset()) -> datetime | None:
    """The time of the next call that the strategy wants, within bounds; None if it wants none."""
    after = nomination.revisit_after
    if not nomination.clusters and not nomination.give_back:
        again = (wait for word, wait in AGAIN.items() if word in reads)
        after = min(filter(None, (after, *again)), default=None)
    return None if after is None else now + min(max(after, SOONEST), LATEST)


def call_strategy(strategy: Strategy, workload: Workload, fleet: Fleet) -> Nomination:
    """The strategy's nomination. Raises StrategyError, with the strategy's name, if it raised or broke its contract.

    One of the four places that may catch every exception: a strategy's error costs its workload a wait, never the
    manager. A worker of the fleet that is not usable may be nominated, and so may any cluster nominated already: a
    strategy may keep the place of a worker that is away for a moment, and a nomination that another controller wrote. One
    that is reached gets no copy for it (`workload.handlers.nominating`).
    """
    name = type(strategy).__name__
    try:
        nomination = strategy.nominate(workload, fleet)
        fault = next(_faults(nomination, workload, fleet), None)  # inside `try`: even the repr of an answer may raise
    except Exception as error:
        raise StrategyError(f"strategy {name} raised {type(error).__name__}: {_words(error)}") from error
    if fault is not None:
        raise StrategyError(excerpt(f"strategy {name} {fault}"))
    return nomination


def explain_strategy(strategy: Strategy, workload: Workload, fleet: Fleet) -> tuple[Opinion, ...]:
    """What the strategy thinks of each worker; nothing if it cannot tell. Raises StrategyError if it raised."""
    if not isinstance(strategy, Explaining):
        return ()
    try:
        return tuple(strategy.explain(workload, fleet))
    except Exception as error:
        raise StrategyError(
            f"strategy {type(strategy).__name__} raised {type(error).__name__}: {_words(error)}"
        ) from error


def _faults(nomination: object, workload: Workload, fleet: Fleet) -> Iterator[str]:
    if not isinstance(nomination, Nomination):
        yield f"must answer a Nomination, answered {_shown(nomination)}"
    else:
        yield from _faults_of_clusters(nomination.clusters, workload, fleet)
        yield from _faults_of_revisit(nomination.revisit_after)
        yield from _faults_of_reason(nomination.reason)
        yield from _faults_of_giving_back(nomination.give_back, nomination.clusters)
        yield from _faults_of_yielding(nomination.yielding, nomination.clusters)


def _faults_of_clusters(clusters: object, workload: Workload, fleet: Fleet) -> Iterator[str]:
    if not isinstance(clusters, tuple) or {type(name) for name in clusters} - {str}:
        yield f"must nominate a tuple of names, nominated {_shown(clusters)}"
    else:
        yield from _faults_of_names(clusters, workload, fleet)


def _faults_of_names(clusters: tuple[str, ...], workload: Workload, fleet: Fleet) -> Iterator[str]:
    known = {worker.name for worker in fleet.workers}
    unknown = sorted(set(clusters) - known - set(workload.nominated_clusters))
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
    if type(reason) is not str:
        yield f"must give its reason as text, gave {_shown(reason)}"
    elif len(reason) > LONGEST_EXCERPT or reason != reason.encode(errors="replace").decode():
        yield f"must give its reason as text of at most {LONGEST_EXCERPT} characters, gave {_shown(reason)}"


def _faults_of_giving_back(give_back: object, clusters: tuple[str, ...]) -> Iterator[str]:
    if not isinstance(give_back, bool):
        yield f"must say whether to give back with True or False, said {_shown(give_back)}"
    elif give_back and clusters:
        yield f"gave back and nominated {', '.join(clusters)}"


def _faults_of_yielding(yielding: object, clusters: tuple[str, ...]) -> Iterator[str]:
    if not isinstance(yielding, tuple) or not all(type(name) is str and name in clusters for name in yielding):
        yield f"must name those that yield as a tuple of its clusters, named {_shown(yielding)}"


def _shown(value: object) -> str:
    return f"{type(value).__name__} {repr(value)[:100]}"


def _words(error: Exception) -> str:
    """The error's text, unless reading it raises."""
    try:
        return excerpt(str(error))
    except Exception:  # noqa: BLE001  # a third-party error's `__str__` may raise too
        return "(without words)"
