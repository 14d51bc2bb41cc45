"""The scores that an OCM hub has of its clusters, once a strategy reads them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from datetime import datetime

from multikueue import strategy as contract
from multikueue.api.multikueue.ocm import AddOnPlacementScore
from multikueue.store.caches.cache import Cache, ignore

__all__ = ["HubScores"]


class HubScores:
    """Owner of the last seen AddOnPlacementScores: their watch fills `cache`, and sets `need`, which each question
    calls. A score that is over is absent, as one that is not there: OCM counts both as 0, which would go before bad ones."""

    def __init__(self, now: Callable[[], datetime]) -> None:
        self._now = now
        self.need: Callable[[], None] = ignore
        self.cache: Cache[AddOnPlacementScore] = Cache(indexes={"cluster": lambda score: (score.metadata.namespace,)})

    def of(self, cluster: str) -> Mapping[str, int]:
        """The present scores of a cluster, by `object/score`."""
        now = self._now()
        return {
            f"{each.metadata.name}/{score.name}": score.value
            for each in self.cache.by("cluster", cluster)
            if each.status.valid_until is None or now < each.status.valid_until
            for score in each.status.scores
        }

    def shown(self, fleet: contract.Fleet) -> contract.Fleet:
        """The fleet with the scores of its workers."""
        self.need()
        workers = [
            dataclasses.replace(worker, scores=scores) if (scores := self.of(worker.name)) else worker
            for worker in fleet.workers
        ]
        return dataclasses.replace(fleet, workers=tuple(workers))
