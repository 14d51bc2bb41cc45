"""Who has to go so that a head fits."""

from __future__ import annotations

from multikueue.api.meta import ObjectKey
from multikueue.quota.pending import Waiting
from multikueue.quota.tree import Amounts, Node


def find_targets(head: Waiting, queue: Node, needs: Amounts) -> tuple[ObjectKey, ...]:  # noqa: ARG001
    """The workloads to evict so that `head` can use `needs` in its queue. None are: nobody is preempted yet."""
    return ()
