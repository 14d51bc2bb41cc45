"""Slices of elastic jobs: which workload has quota in the place of which (quota-engine 3.1).

From the moment a slice has quota the one before it counts no more, finished or not.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from multikueue.api.meta import ObjectKey
from multikueue.quota.cache.usage import Holding


@dataclass(slots=True)
class Succession:
    """Which workloads have quota in the place of which. What is only assumed can be taken back, so the old is kept."""

    trusting: bool = False
    """Whether slices need not be of one job: the copies on a worker belong to nobody until their job comes."""

    _heirs: dict[ObjectKey, tuple[ObjectKey, str]] = field(default_factory=dict)
    _replaced: dict[ObjectKey, tuple[ObjectKey, Holding | None]] = field(default_factory=dict)

    def may_replace(self, job: str, old: Holding | None) -> bool:
        """Whether a slice of that job may take the place of what holds quota there."""
        return old is not None and self._is_one_job(job, old.job)

    def succeed(self, heir: ObjectKey, old: ObjectKey, *, job: str, holding: Holding | None = None) -> None:
        """The heir has quota; `holding` is what the old one had, as long as that may have to be given back to it."""
        if not self._leads(old, heir):
            self._heirs[old] = heir, job
            self._replaced[heir] = old, holding

    def has_heir(self, key: ObjectKey, *, job: str) -> bool:
        """Whether another slice of its job has quota in the place of this one."""
        heir, its = self._heirs.get(key, (None, ""))
        return heir is not None and self._is_one_job(its, job)

    def _is_one_job(self, one: str, other: str) -> bool:
        return self.trusting or (bool(one) and one == other)

    def _leads(self, later: ObjectKey, earlier: ObjectKey) -> bool:
        """Whether the one took the place of the other, at however many removes: then it cannot be the other way round too."""
        key: ObjectKey | None = later
        while key is not None and key != earlier:
            key = self._replaced.get(key, (None, None))[0]
        return key is not None

    def end(self, key: ObjectKey) -> None:
        """That workload is finished, or gone."""
        heir, _ = self._heirs.pop(key, (None, ""))
        if heir is not None:
            self._replaced.pop(heir, None)

    def lose(self, heir: ObjectKey) -> Holding | None:
        """The heir has no quota any more; answers what the old one has again, if it lost that to an assumption only."""
        old, holding = self._replaced.pop(heir, (None, None))
        if old is not None:
            self._heirs.pop(old, None)
        return holding
