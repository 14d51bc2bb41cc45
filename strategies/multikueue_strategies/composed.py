"""The best workers first: filters narrow the fleet, scorers rank what is left, and more copies follow with time."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from hashlib import blake2b
from itertools import groupby
from operator import itemgetter
from typing import ClassVar, Literal

from multikueue.strategy import Filter, Fleet, Nomination, Opinion, Weighted, Worker, Workload
from multikueue_strategies.room import holds_now

_MIDDLE = 0.5
"""What a worker gets of a scorer that cannot tell."""

_SOONEST = timedelta(seconds=10)
"""No workload is hedged sooner, however fast a worker was: its answer takes a moment."""

_LOOK = timedelta(seconds=30)
"""How often it looks after `patience` whether another worker has room by now."""

_LONG = 3
"""After so many times `patience` the next copy goes out whether there is room or not."""

_TOLD, _LONGEST = 3, 1000  # workers of each sort in a reason, and its characters
_REFUSED = "; refused: "


@dataclass(frozen=True, slots=True)
class Composed:
    """Nominate the best workers first: `filters` say which may be used, `scorers` which are better.

    `copies` workers get one at once, and one more after each `patience` without a winner, up to `most`; with
    `patience: null` no more. A worker's total is the mean of its scores by their weights; 0.5 where a scorer cannot
    tell. Of equals the order differs from workload to workload, so that they spread. Workers where an earlier attempt failed
    come last. A copy goes from a worker that a filter refuses by now. With `give_back_after` the quota goes back once no
    worker has admitted it for so long since the last copy.

    With `hedge: 0.95` the next copy follows as soon as the last one has waited for longer than 95% of the jobs like it did on
    that worker, and after `patience` at the latest. With `extra: room` these further copies go only to workers that have room
    now, as far as that is known, and after three times `patience` to others too; with `extra: any` to any. With `extra: moved`
    no two workers preempt for one job: it goes where there is room first, and a copy that goes where there is none takes the
    place of those before it. So it goes from the best worker to the last one, and stays there.
    With `extra_priority: lowest` the further copies wait behind all other workloads there, until one of them has won.
    """

    __pydantic_config__: ClassVar[dict[str, bool]] = {"arbitrary_types_allowed": True}  # parts are built by their names

    filters: tuple[Filter, ...] = ()
    scorers: tuple[Weighted, ...] = ()
    copies: int = 1
    patience: timedelta | None = timedelta(minutes=5)
    most: int | None = None
    give_back_after: timedelta | None = None
    hedge: float | None = None
    extra: Literal["room", "any", "moved"] = "room"
    extra_priority: Literal["own", "lowest"] = "own"

    def __post_init__(self) -> None:
        if self.copies < 1:
            raise ValueError("expected copies to be 1 or more")
        if self.most is not None and self.most < self.copies:
            raise ValueError("expected most to be copies or more")
        if any(span is not None and span <= timedelta() for span in (self.patience, self.give_back_after)):
            raise ValueError("expected durations longer than 0")
        if self.extra == "moved" and self.copies > 1:
            raise ValueError("expected copies to be 1 with extra: moved")
        if self.hedge is not None and not 0 < self.hedge < 1:
            raise ValueError("expected hedge to be a share between 0 and 1, such as 0.95")

    @property
    def reads(self) -> tuple[str, ...]:
        """What it needs itself, beside its parts."""
        follows = self.patience is not None and (self.most is None or self.most > self.copies)
        room = ("room",) if follows and self.extra != "any" else ()
        return (*room, "waits") if follows and self.hedge is not None else room

    def nominate(self, workload: Workload, fleet: Fleet) -> Nomination:
        refused = {worker.name: why for worker in fleet.workers if (why := self._refusal(workload, worker, fleet)[1])}
        usable = [worker for worker in fleet.workers if worker.usable and worker.name not in refused]
        totals = self._totals(workload, usable, fleet)
        kept = tuple(name for name in workload.nominated_clusters if name in totals)
        fresh = [name for name in totals if name not in kept]
        lacking, bound = max(0, self.copies - len(kept)), self._bound(fleet)
        is_extra, left = False, self._left(workload, kept, fleet)
        if lacking:
            first = _with_room(fresh, workload, fleet) if self.extra == "moved" else ()
            batch = _best(min(lacking, bound - len(kept)), first or fresh, totals, workload, fleet)
        else:
            is_extra = left is not None and left <= timedelta() and len(kept) < bound
            batch = _best(int(is_extra), self._with_place(fresh, workload, fleet), totals, workload, fleet)
            if self.extra == "moved" and batch and not _with_room(batch, workload, fleet):
                ranked = _best(len(totals), list(totals), totals, workload, fleet)
                fresh = list(ranked[ranked.index(kept[0]) + 1 :])
                batch = tuple(fresh[:1])
                kept = () if batch else kept
        clusters = kept + batch
        began = fleet.now if batch else workload.nominated_at or workload.reserved_at or fleet.now
        if len(batch) == len(fresh) or len(clusters) >= bound:
            left = None if self.give_back_after is None else began + self.give_back_after - fleet.now
            if left is not None and left <= timedelta():
                reason = f"No worker admitted it for {self.give_back_after}, and all were tried"
                return Nomination(reason=reason, give_back=True)
        elif batch:
            left = self._wait(clusters, fleet)
        elif is_extra:
            left = _LOOK
        told = [self._with_reasons(name, totals, workload, fleet) for name in clusters[:_TOLD]]
        yielding = clusters[self.copies :] if self.extra_priority == "lowest" else ()
        return Nomination(clusters, left, _told(workload, clusters, ", ".join(told), refused), yielding=yielding)

    def explain(self, workload: Workload, fleet: Fleet) -> tuple[Opinion, ...]:
        """What each filter and scorer says of each worker."""
        totals = self._totals(workload, list(fleet.workers), fleet)
        return tuple(self._opinion(workload, worker, fleet, totals[worker.name]) for worker in fleet.workers)

    def _opinion(self, workload: Workload, worker: Worker, fleet: Fleet, total: float) -> Opinion:
        by, why = self._refusal(workload, worker, fleet)
        if why:
            return Opinion(worker.name, refused=why, by=by)
        scores = tuple((part, part.scorer.score(workload, worker, fleet)) for part in self.scorers)
        return Opinion(worker.name, scores=scores, total=total)

    def _refusal(self, workload: Workload, worker: Worker, fleet: Fleet) -> tuple[Filter | None, str]:
        """The first filter that refuses the worker, and why; none, and no words, if all take it."""
        for each in self.filters:
            why = each.refuses(workload, worker, fleet)
            if why:
                return each, why
        return None, ""

    def _totals(self, workload: Workload, workers: list[Worker], fleet: Fleet) -> dict[str, float]:
        """The mean of its scores by worker. The reasons are asked for where they are shown: of the few that are nominated."""
        weights = sum(part.weight for part in self.scorers)
        if not weights:
            return dict.fromkeys((worker.name for worker in workers), 1.0)
        totals = dict.fromkeys((worker.name for worker in workers), 0.0)
        for part in self.scorers:
            weight, score = part.weight / weights, part.scorer.score
            for worker in workers:
                value = score(workload, worker, fleet).value
                if value is None:
                    value = _MIDDLE
                elif not 0 <= value <= 1:
                    raise ValueError(f"scorer {type(part.scorer).__name__} gave {worker.name} {value}, not 0 to 1")
                totals[worker.name] += weight * value
        return totals

    def _with_reasons(self, name: str, totals: Mapping[str, float], workload: Workload, fleet: Fleet) -> str:
        worker = _worker(fleet, name)
        reasons = (part.scorer.score(workload, worker, fleet).reason for part in self.scorers)
        return _with(name, f"{totals[name]:.2f}", ", ".join(filter(None, reasons)))

    def _left(self, workload: Workload, kept: tuple[str, ...], fleet: Fleet) -> timedelta | None:
        """How long until the next copy; None if none follows."""
        wait = self._wait(kept, fleet)
        return wait if wait is None or workload.nominated_at is None else workload.nominated_at + wait - fleet.now

    def _wait(self, clusters: tuple[str, ...], fleet: Fleet) -> timedelta | None:
        """How long the last of these copies may wait: `patience`, or what jobs like it waited there."""
        if self.patience is None or self.hedge is None or not clusters:
            return self.patience
        waits = _worker(fleet, clusters[-1]).waits
        learned = waits.within(self.hedge) if waits is not None else None
        return self.patience if learned is None else min(self.patience, max(learned, _SOONEST))

    def _with_place(self, names: list[str], workload: Workload, fleet: Fleet) -> list[str]:
        """Where one more copy may go: where there is room. Once no worker had any for long, for what is known of room
        may be wrong, and nothing waits forever."""
        patience, since = self.patience or timedelta(), workload.nominated_at or fleet.now
        if self.extra == "any" or fleet.now >= since + _LONG * patience:
            return names
        return _with_room(names, workload, fleet)

    def _bound(self, fleet: Fleet) -> int:
        if self.patience is None:
            return self.copies
        return len(fleet.workers) if self.most is None else self.most


def _with_room(names: Iterable[str], workload: Workload, fleet: Fleet) -> list[str]:
    """Those that have room for it now, as far as is known."""
    return [name for name in names if holds_now(workload, _worker(fleet, name).room) is not False]


def _worker(fleet: Fleet, name: str) -> Worker:
    return next(each for each in fleet.workers if each.name == name)


def _best(
    count: int, names: list[str], totals: Mapping[str, float], workload: Workload, fleet: Fleet
) -> tuple[str, ...]:
    """So many of the names, the best first; of equals first those that the workload's own draw puts first."""
    failed, now = workload.failed_on, fleet.now
    ranked = sorted([(name in failed, failed.get(name, now), -round(totals[name], 9), name) for name in names])
    best: list[str] = []
    for _, equals in groupby(ranked if count else (), itemgetter(0, 1, 2)):
        if len(best) >= count:
            break
        best += sorted((name for *_, name in equals), key=partial(_draw, workload))
    return tuple(best[:count])


def _draw(workload: Workload, name: str) -> bytes:
    return blake2b(f"{workload.namespace}/{workload.name}@{name}".encode(), digest_size=8).digest()


def _told(workload: Workload, clusters: tuple[str, ...], chosen: str, refused: Mapping[str, str]) -> str:
    """Why these, as it was when they were chosen, and why not those that a filter refuses.

    Nothing of which workers can be used just now: a state that comes and goes must not be written into each workload. Nor
    what has become of a score since: that of room changes with each job.
    """
    before = workload.told.partition(_REFUSED)[0]
    if set(clusters) == set(workload.nominated_clusters) and before.partition(" (")[0] in clusters:
        chosen = before
    others = [_with(name, why) for name, why in sorted(refused.items())]
    parts = (chosen, f"refused: {_some(others)}" if others else "")
    return "; ".join(part for part in parts if part)[:_LONGEST]


def _with(name: str, *words: str) -> str:
    return f"{name[:100]} ({': '.join(word for word in words if word)})"


def _some(texts: list[str]) -> str:
    more = f" and {len(texts) - _TOLD} more" if len(texts) > _TOLD else ""
    return ", ".join(texts[:_TOLD]) + more
