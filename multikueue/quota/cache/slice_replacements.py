"""Replacements of workload slices: which slice has quota in place of which (quota-engine 3.1).

From the moment a slice has quota, the slice it replaces no longer counts, finished or not.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from multikueue.api.meta import ObjectKey
from multikueue.quota.cache.reservations import Reservation


@dataclass(slots=True)
class SliceReplacements:
    """Pairs of slices, of which one has its quota in place of the other. An assumption can be taken back, so the
    reservation of the replaced slice is kept."""

    is_trusting: bool = False
    """Whether slices may replace those of other jobs: copies on a worker have no owner until their job comes."""

    _replacements: dict[ObjectKey, tuple[ObjectKey, str]] = field(default_factory=dict)
    _replaced: dict[ObjectKey, tuple[ObjectKey, Reservation | None]] = field(default_factory=dict)

    def may_replace(self, job: str, old: Reservation | None) -> bool:
        """Whether a slice of `job` may replace the slice with the reservation `old`."""
        return old is not None and self._is_one_job(job, old.job)

    def record(
        self, replacement: ObjectKey, old: ObjectKey, *, job: str, reservation: Reservation | None = None
    ) -> None:
        """The replacement has quota. `reservation` is that of the old slice, while it may have to be restored."""
        if not self._is_successor(old, replacement):
            self._replacements[old] = replacement, job
            self._replaced[replacement] = old, reservation

    def has_replacement(self, key: ObjectKey, *, job: str) -> bool:
        """Whether another slice of its job has quota in its place."""
        replacement, its = self._replacements.get(key, (None, ""))
        return replacement is not None and self._is_one_job(its, job)

    def _is_one_job(self, one: str, other: str) -> bool:
        return self.is_trusting or (bool(one) and one == other)

    def _is_successor(self, later: ObjectKey, earlier: ObjectKey) -> bool:
        """Whether `later` replaces `earlier`, directly or through other slices. The reverse cannot hold then."""
        key: ObjectKey | None = later
        while key is not None and key != earlier:
            key = self._replaced.get(key, (None, None))[0]
        return key is not None

    def end(self, key: ObjectKey) -> None:
        """The workload is finished or gone."""
        replacement, _ = self._replacements.pop(key, (None, ""))
        if replacement is not None:
            self._replaced.pop(replacement, None)

    def lose(self, replacement: ObjectKey) -> Reservation | None:
        """The replacement has no quota any more. Returns the reservation of the old slice, if it lost that to an
        assumption only."""
        old, reservation = self._replaced.pop(replacement, (None, None))
        if old is not None:
            self._replacements.pop(old, None)
        return reservation
