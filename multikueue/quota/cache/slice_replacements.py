"""Replacements of workload slices: which workload has quota in the place of which (quota-engine 3.1).

From the moment a slice has quota the one before it counts no more, finished or not.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from multikueue.api.meta import ObjectKey
from multikueue.quota.cache.reservations import Reservation


@dataclass(slots=True)
class SliceReplacements:
    """Which workloads have quota in the place of which. What is only assumed can be taken back, so the old is kept."""

    trusting: bool = False
    """Whether slices need not be of one job: the copies on a worker belong to nobody until their job comes."""

    _replacements: dict[ObjectKey, tuple[ObjectKey, str]] = field(default_factory=dict)
    _replaced: dict[ObjectKey, tuple[ObjectKey, Reservation | None]] = field(default_factory=dict)

    def may_replace(self, job: str, old: Reservation | None) -> bool:
        """Whether a slice of that job may take the place of what holds quota there."""
        return old is not None and self._is_one_job(job, old.job)

    def record(
        self, replacement: ObjectKey, old: ObjectKey, *, job: str, reservation: Reservation | None = None
    ) -> None:
        """The replacement has quota; `reservation` is what the old one had, as long as that may have to be given back to it."""
        if not self._leads(old, replacement):
            self._replacements[old] = replacement, job
            self._replaced[replacement] = old, reservation

    def has_replacement(self, key: ObjectKey, *, job: str) -> bool:
        """Whether another slice of its job has quota in the place of this one."""
        replacement, its = self._replacements.get(key, (None, ""))
        return replacement is not None and self._is_one_job(its, job)

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
        replacement, _ = self._replacements.pop(key, (None, ""))
        if replacement is not None:
            self._replaced.pop(replacement, None)

    def lose(self, replacement: ObjectKey) -> Reservation | None:
        """The replacement has no quota any more; answers what the old one has again, if it lost that to an assumption only."""
        old, reservation = self._replaced.pop(replacement, (None, None))
        if old is not None:
            self._replacements.pop(old, None)
        return reservation
