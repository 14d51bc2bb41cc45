"""Every usable worker at once: the fastest way to a start, at the price of one copy per worker."""

from dataclasses import dataclass
from datetime import timedelta

from multikueue.strategy import Fleet, Nomination, Workload


@dataclass(frozen=True, slots=True)
class AllAtOnce:
    """Nominate every usable worker; the first that admits the workload wins.

    With `give_back_after` the quota goes back once no worker has admitted it for so long: others may go first.
    """

    give_back_after: timedelta | None = None

    def __post_init__(self) -> None:
        if self.give_back_after is not None and self.give_back_after <= timedelta():
            raise ValueError("expected durations longer than 0")

    def nominate(self, workload: Workload, fleet: Fleet) -> Nomination:
        return Nomination(fleet.names)
