"""What the strategy of a workload thinks of each worker, for people: what refuses it, what it scores, and who is nominated."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from multikueue.api.meta import Value
from multikueue.strategy import Filter, Fleet, Opinion, Scorer, Workload

__all__ = ["ExplainedChoice", "PartScore", "WorkerChoice", "choice"]


class PartScore(Value, frozen=True):
    """What one scorer gave a worker. `value` is None if it could not tell, and counts as 0.5."""

    scorer: str
    weight: float
    value: float | None = None
    reason: str = ""


class WorkerChoice(Value, frozen=True):
    """One worker of the fleet. `why` says why it cannot be used, `refused` why the filter `filter` refuses it."""

    worker: str
    nominated: bool = False
    usable: bool = True
    why: str = ""
    filter: str = ""
    refused: str = ""
    total: float | None = None
    scores: tuple[PartScore, ...] = ()

    @property
    def words(self) -> str:
        """Why it may get a copy, or gets none."""
        if not self.usable:
            return self.why
        if self.refused:
            return f"refused by {self.filter}: {self.refused}" if self.filter else f"refused: {self.refused}"
        return ", ".join(f"{each.scorer} {_shown(each.value)}: {each.reason}" for each in self.scores)


class ExplainedChoice(Value, frozen=True):
    """`reason` is the strategy's own, of the present nomination; `problem`, why the strategy cannot be asked."""

    strategy: str
    workers: tuple[WorkerChoice, ...] = ()
    reason: str = ""
    problem: str = ""


def choice(
    strategy: str,
    workload: Workload,
    fleet: Fleet,
    opinions: tuple[Opinion, ...],
    name_of: Callable[[Filter | Scorer], str],
) -> ExplainedChoice:
    """Workers in the order of their totals, those that cannot have a copy last. `name_of` gives the name of a part."""
    found = {each.worker: each for each in opinions}
    workers = list(_workers(workload, fleet, found, name_of))
    workers.sort(key=lambda each: (bool(each.refused), not each.usable, -(each.total or 0.0)))
    return ExplainedChoice(strategy=strategy, workers=tuple(workers), reason=workload.told)


def _workers(
    workload: Workload, fleet: Fleet, opinions: dict[str, Opinion], name_of: Callable[[Filter | Scorer], str]
) -> Iterator[WorkerChoice]:
    for worker in fleet.workers:
        said = opinions.get(worker.name, Opinion(worker.name))
        yield WorkerChoice(
            worker=worker.name,
            nominated=worker.name in workload.nominated_clusters,
            usable=worker.usable,
            why=worker.why,
            filter=name_of(said.by) if said.by is not None else "",
            refused=said.refused,
            total=said.total,
            scores=tuple(
                PartScore(scorer=name_of(part.scorer), weight=part.weight, value=score.value, reason=score.reason)
                for part, score in said.scores
            ),
        )


def _shown(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"
