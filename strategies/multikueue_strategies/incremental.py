"""A few workers at a time: fewer copies and less churn, at the price of a later start where the first are full."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from multikueue.strategy import Fleet, Nomination, Workload


@dataclass(frozen=True, slots=True)
class Incremental:
    """Nominate `step` more workers at each `round_length`; those nominated before keep their copies.

    They are taken in the `order` of the MultiKueueConfig or by name, those where an earlier attempt failed last. One that
    cannot be used takes no other's place: it is made up for at once, and joins when it is back. When all are nominated it
    waits, and with `give_back_after` gives the quota back once it has waited for so long: others may go first.
    """

    step: int = 3
    round_length: timedelta = timedelta(minutes=5)
    order: Literal["config", "name"] = "config"
    give_back_after: timedelta | None = None

    def __post_init__(self) -> None:
        if self.step < 1:
            raise ValueError("expected step to be 1 or more")
        if any(span is not None and span <= timedelta() for span in (self.round_length, self.give_back_after)):
            raise ValueError("expected durations longer than 0")

    def nominate(self, workload: Workload, fleet: Fleet) -> Nomination:
        tried = [worker.name for worker in fleet.workers if worker.name in workload.nominated_clusters]
        alive = tuple(name for name in workload.nominated_clusters if name in fleet.names)
        fresh = self._ranked([name for name in fleet.names if name not in tried], workload, fleet.now)
        in_round = workload.waited_less_than(self.round_length, fleet.now)
        batch = fresh[: max(0, self.step - len(alive)) if in_round else self.step]
        patience = self.round_length if len(batch) < len(fresh) else self.give_back_after
        began = fleet.now if batch else workload.nominated_at or workload.reserved_at or fleet.now
        left = None if patience is None else began + patience - fleet.now
        if left is not None and left <= timedelta():
            return Nomination(reason=f"No worker admitted it for {patience}, and all were tried", give_back=True)
        return Nomination(alive + batch, left, _told(len(tried) + len(batch), len(fleet.workers), self.step))

    def _ranked(self, names: list[str], workload: Workload, now: datetime) -> tuple[str, ...]:
        """Workers where an attempt failed come last, the longest ago first."""
        ordered, failed = sorted(names) if self.order == "name" else names, workload.failed_on
        return tuple(sorted(ordered, key=lambda name: (name in failed, failed.get(name, now))))


def _told(tried: int, workers: int, step: int) -> str:
    """The round by counts of names, not of states: a state that comes and goes must not be written into each workload."""
    return f"Round {-(-tried // step)}: {tried} of {workers} workers" if tried else ""
