"""The best workers first: filters narrow the fleet, scorers rank what is left, and more copies follow with time."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from hashlib import blake2b
from typing import ClassVar

from multikueue.strategy import Filter, Fleet, Nomination, Score, Weighted, Worker, Workload

_MIDDLE = 0.5
"""What a worker gets of a scorer that cannot tell."""

_TOLD, _LONGEST = 3, 1000  # workers of each sort in a reason, and its characters


@dataclass(frozen=True, slots=True)
class Composed:
    """Nominate the best workers first: `filters` say which may be used, `scorers` which are better.

    `copies` workers get one at once, and one more after each `patience` without a winner, up to `most`; with
    `patience: null` no more. A worker's total is the mean of its scores by their weights; 0.5 where a scorer cannot
    tell. Of equals the order differs from workload to workload, so that they spread. Workers where an earlier attempt failed
    come last. A copy goes from a worker that a filter refuses by now. With `give_back_after` the quota goes back once no
    worker has admitted it for so long since the last copy.
    """

    __pydantic_config__: ClassVar[dict[str, bool]] = {"arbitrary_types_allowed": True}  # parts are built by their names

    filters: tuple[Filter, ...] = ()
    scorers: tuple[Weighted, ...] = ()
    copies: int = 1
    patience: timedelta | None = timedelta(minutes=5)
    most: int | None = None
    give_back_after: timedelta | None = None

    def __post_init__(self) -> None:
        if self.copies < 1:
            raise ValueError("expected copies to be 1 or more")
        if self.most is not None and self.most < self.copies:
            raise ValueError("expected most to be copies or more")
        if any(span is not None and span <= timedelta() for span in (self.patience, self.give_back_after)):
            raise ValueError("expected durations longer than 0")

    def nominate(self, workload: Workload, fleet: Fleet) -> Nomination:
        refused = {worker.name: why for worker in fleet.workers if (why := self._refusal(workload, worker))}
        usable = [worker for worker in fleet.workers if worker.usable and worker.name not in refused]
        rated = {worker.name: self._rated(workload, worker, fleet) for worker in usable}
        kept = tuple(name for name in workload.nominated_clusters if name in rated)
        fresh = self._ranked([name for name in rated if name not in kept], rated, workload, fleet)
        batch = fresh[: self._more(workload, fleet, len(kept))]
        clusters = kept + batch
        waits = (
            self.patience if len(batch) < len(fresh) and len(clusters) < self._bound(fleet) else self.give_back_after
        )
        began = fleet.now if batch else workload.nominated_at or workload.reserved_at or fleet.now
        left = None if waits is None else began + waits - fleet.now
        if left is not None and left <= timedelta():
            return Nomination(reason=f"No worker admitted it for {waits}, and all were tried", give_back=True)
        return Nomination(clusters, left, _told(clusters, rated, refused))

    def _refusal(self, workload: Workload, worker: Worker) -> str:
        return next((why for each in self.filters if (why := each.refuses(workload, worker))), "")

    def _rated(self, workload: Workload, worker: Worker, fleet: Fleet) -> Score:
        """The mean of its scores, with their reasons."""
        total, weights, reasons = 0.0, 0.0, []
        for part in self.scorers:
            score = part.scorer.score(workload, worker, fleet)
            value = _MIDDLE if score.value is None else score.value
            if not 0 <= value <= 1:
                raise ValueError(f"scorer {type(part.scorer).__name__} gave {worker.name} {value}, not 0 to 1")
            total, weights = total + part.weight * value, weights + part.weight
            reasons += [score.reason] if score.reason else []
        return Score(total / weights if weights else 1.0, ", ".join(reasons))

    def _ranked(
        self, names: list[str], rated: Mapping[str, Score], workload: Workload, fleet: Fleet
    ) -> tuple[str, ...]:
        failed = workload.failed_on

        def place(name: str) -> tuple[object, ...]:
            tie = blake2b(f"{workload.namespace}/{workload.name}@{name}".encode(), digest_size=8).digest()
            return name in failed, failed.get(name, fleet.now), -round(rated[name].value or 0.0, 9), tie

        return tuple(sorted(names, key=place))

    def _more(self, workload: Workload, fleet: Fleet, kept: int) -> int:
        """How many more workers to nominate now."""
        lacking = max(0, self.copies - kept)
        is_over = self.patience is not None and not workload.waited_less_than(self.patience, fleet.now)
        more = max(lacking, 1) if kept and is_over else lacking
        return max(0, min(more, self._bound(fleet) - kept))

    def _bound(self, fleet: Fleet) -> int:
        if self.patience is None:
            return self.copies
        return len(fleet.workers) if self.most is None else self.most


def _told(clusters: tuple[str, ...], rated: Mapping[str, Score], refused: Mapping[str, str]) -> str:
    """Why these, and why not those that a filter refuses.

    Nothing of which workers can be used just now: a state that comes and goes must not be written into each workload.
    """
    chosen = [_with(name, f"{rated[name].value:.2f}", rated[name].reason) for name in clusters[:_TOLD]]
    others = [_with(name, why) for name, why in sorted(refused.items())]
    parts = (", ".join(chosen), f"refused: {_some(others)}" if others else "")
    return "; ".join(part for part in parts if part)[:_LONGEST]


def _with(name: str, *words: str) -> str:
    return f"{name[:100]} ({': '.join(word for word in words if word)})"


def _some(texts: list[str]) -> str:
    more = f" and {len(texts) - _TOLD} more" if len(texts) > _TOLD else ""
    return ", ".join(texts[:_TOLD]) + more
