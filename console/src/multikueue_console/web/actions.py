"""What pages may change, where that is switched on: who starts the server says how, with the credentials of who asks."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import msgspec

from multikueue.errors import MultiKueueError

if TYPE_CHECKING:
    from multikueue.api.meta import ObjectKey
    from multikueue.kube.cluster_client import ClusterClient

__all__ = ["Action", "ActionRefused"]


class ActionRefused(MultiKueueError):
    """The action cannot be done to this object now; the message says why, and what helps."""


class Action(msgspec.Struct, frozen=True):
    """A change of one object, a workload or else a cluster. `says`: what it means, for each object alike. `effect`: what will
    happen to this object, as it is now, in a sentence; both are shown before. `asks`: for one word more, which `do` gets; empty
    if it takes none.

    `do` and `effect` raise ActionRefused, ApiError and ClusterUnreachable.
    """

    says: str
    do: Callable[[ClusterClient, ObjectKey, str], Awaitable[None]]
    effect: Callable[[ClusterClient, ObjectKey], Awaitable[str]]
    asks: str = ""
    is_of_workload: bool = True

    def shown(self) -> dict[str, Any]:
        """What pages know of it."""
        return {"says": self.says, "asks": self.asks}
