"""The decision of another controller: of Open Cluster Management's placement, or of a writer of nominations."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import ClassVar

from multikueue.strategy import Fleet, Nomination, Placement, Workload

_TOLD, _LONGEST = 10, 1000  # names in a reason, and its characters: a Placement may have decided for thousands
_RECORDED = 20  # what status.nominatedClusterNames may hold


@dataclass(frozen=True, slots=True)
class External:
    """Nominate the clusters that an OCM Placement decided for; without one, those that another program nominated.

    The Placement is named by annotation `multikueue.dev/placement`, or else by the option `placement`. Its decision
    groups are tiers: the next one opens after `tier_patience` without a winner, or at once if all workers of those
    before it cannot be used or failed. A cluster that leaves the decisions keeps a waiting copy for `shrink_after`. With
    `give_back_after` the quota goes back once no worker has admitted it for so long since the last tier opened.
    """

    reads: ClassVar[tuple[str, ...]] = ("placementdecisions",)

    placement: str = ""
    tier_patience: timedelta = timedelta(minutes=5)
    shrink_after: timedelta = timedelta(seconds=10)
    give_back_after: timedelta | None = None

    def __post_init__(self) -> None:
        if min(self.tier_patience, self.shrink_after) < timedelta():
            raise ValueError("expected durations of 0 or more")
        if self.give_back_after is not None and self.give_back_after <= timedelta():
            raise ValueError("expected give_back_after to be longer than 0")

    def nominate(self, workload: Workload, fleet: Fleet) -> Nomination:
        placement = fleet.placement
        if placement is None:
            return _as_it_is(workload, fleet)
        tiers = () if placement.problem else _tiers(placement, workload, fleet)
        depth = self._depth(tiers, workload, fleet.now)
        opened = (name for tier in tiers[:depth] for name in tier)
        staying, moments = self._staying(placement, workload, fleet)
        clusters = tuple(dict.fromkeys((*opened, *staying)))
        if depth < len(tiers):
            moments.append(self._opens_next(workload, fleet.now))
        return Nomination(
            clusters,
            revisit_after=min((at - fleet.now for at in moments if at > fleet.now), default=None),
            reason=(placement.problem or _reason(placement, fleet, is_nobody=not clusters))[:_LONGEST],
        )

    def _depth(self, tiers: tuple[tuple[str, ...], ...], workload: Workload, now: datetime) -> int:
        """How many tiers are open: as far as the nomination reached, and one more once its time is over."""
        nominated = set(workload.nominated_clusters)
        reached = [number for number, tier in enumerate(tiers, 1) if nominated.intersection(tier)]
        if not reached:
            return 1
        return max(reached) + (now >= self._opens_next(workload, now))

    def _opens_next(self, workload: Workload, now: datetime) -> datetime:
        since = workload.nominated_at if workload.nominated_clusters else now
        return (since or workload.reserved_at or now) + self.tier_patience

    def _staying(self, placement: Placement, workload: Workload, fleet: Fleet) -> tuple[list[str], list[datetime]]:
        """Workers that stay nominated, and the ends of the waits for workers that are in no decision just now.

        A worker that is not known of yet has no such end: news of it asks the strategy again.
        """
        usable = set(fleet.names)
        staying = [name for name in workload.nominated_clusters if name in usable]
        ends = {name: at + self.shrink_after for name, at in placement.absent_since.items() if name in staying}
        over = {name for name, end in ends.items() if fleet.now >= end}
        return [name for name in staying if name not in over], list(ends.values())


def _tiers(placement: Placement, workload: Workload, fleet: Fleet) -> tuple[tuple[str, ...], ...]:
    """The groups by their usable workers, without groups where all of these failed, unless none is left."""
    usable = set(fleet.names)
    groups = [tuple(dict.fromkeys(n for n in group if n in usable)) for group in placement.groups]
    tiers = tuple(tier for tier in groups if tier)
    fresh = tuple(tier for tier in tiers if not set(tier) <= set(workload.failed_on))
    return fresh or tiers


def _reason(placement: Placement, fleet: Fleet, *, is_nobody: bool) -> str:
    """The clusters that the Placement names beside workers. Unusable ones are named only if none is nominated: they change."""
    whys = {worker.name: worker.why for worker in fleet.workers}
    names = dict.fromkeys(name for group in placement.groups for name in group)
    foreign = [name for name in names if name not in whys]
    unusable = [f"{name}: {whys[name]}" for name in names if whys.get(name) and is_nobody]
    parts = (
        f"Placement {placement.name}",
        f"not usable: {_some(unusable)}" if unusable else "",
        f"not in the MultiKueueConfig: {_some(foreign)}" if foreign else "",
    )
    return "; ".join(part for part in parts if part)


def _as_it_is(workload: Workload, fleet: Fleet) -> Nomination:
    """Nominations by hand stay as they are: their author alone changes them (contract 4.3)."""
    nominated = tuple(dict.fromkeys(workload.nominated_clusters[:_RECORDED]))
    known = {worker.name for worker in fleet.workers}
    if not nominated:
        return Nomination(reason="no Placement is named, and nobody else has nominated one")
    foreign = "" if known & set(nominated) else f"not in the MultiKueueConfig: {_some(list(nominated))}"
    return Nomination(nominated, reason=foreign[:_LONGEST])


def _some(names: list[str]) -> str:
    shown = ", ".join(name[:200] for name in names[:_TOLD])
    return f"{shown} and {len(names) - _TOLD} more" if len(names) > _TOLD else shown
