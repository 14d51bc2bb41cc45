"""The gate of `blockAdmission`: nobody gets quota while pods of those who have some are not ready (quota-engine 5.2).

Kueue's scheduler stops where it is until all are, then goes on: the one who would have got quota gets it, whoever came
meanwhile. A cycle here ends with that one held at the gate, and the next begins with it.
"""

from __future__ import annotations

from multikueue.api.meta import ObjectKey
from multikueue.quota.cycle import Reserve

WAITING = "Waiting"
"""The reason of QuotaReserved=False of the one who is held."""

WAITING_MESSAGE = "waiting for all admitted workloads to be in PodsReady condition"


class Gate:
    """Owned and changed by the engine only. One that never `closes` is always open."""

    def __init__(self, *, closes: bool = False) -> None:
        self._closes = closes
        self._not_ready: set[ObjectKey] = set()
        self.held: Reserve | None = None
        """What the one at the gate gets once it opens."""

    @property
    def is_open(self) -> bool:
        return not self._not_ready

    @property
    def blocks(self) -> bool:
        """Whether somebody is held, and must be still."""
        return self.held is not None and not self.is_open

    def holds_quota(self, key: ObjectKey, *, ready: bool) -> None:
        """A workload has quota; `ready` says whether all of its pods are."""
        if ready:
            self._not_ready.discard(key)
        elif self._closes:
            self._not_ready.add(key)

    def lost_quota(self, key: ObjectKey) -> None:
        self._not_ready.discard(key)

    def release(self) -> Reserve | None:
        """The one who was held, who is not any more."""
        held, self.held = self.held, None
        return held
