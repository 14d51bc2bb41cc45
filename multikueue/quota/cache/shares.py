"""The dominant resource share: how much a queue or cohort uses beyond its own quota (quota-engine 1.8)."""

from __future__ import annotations

from math import ceil
from typing import NamedTuple

from multikueue.quota.cache.tree import Node

UNBOUNDED = 2**63 - 1
"""The figure in a status for a share without bound."""


class Share(NamedTuple):
    """Ordered as shares are. A borrower with weight 0 has an unbounded share, above all others; among such shares the
    ratio alone decides."""

    is_unbounded: bool
    value: float

    @property
    def is_zero(self) -> bool:
        return self.value == 0

    @property
    def figure(self) -> int:
        """As in a status: rounded up."""
        return UNBOUNDED if self.is_unbounded else ceil(self.value)


NOTHING = Share(False, 0.0)


def share(node: Node) -> Share:
    """The share at current usage: thousandths of what the parent could lend, over the weight.

    The order of the operations is Kueue's: another one rounds differently, and makes or breaks ties.
    """
    if node.parent is None:
        return NOTHING
    borrowed: dict[str, int] = {}
    for fr in node.declared:
        cell = node.cells[fr]
        if cell.usage > cell.subtree:
            _, resource = fr
            borrowed[resource] = borrowed.get(resource, 0) + cell.usage - cell.subtree
    if not borrowed:
        return NOTHING
    lendable = node.parent.potential()
    ratio = max(
        (amount * 1000.0 / lendable[name] for name, amount in borrowed.items() if lendable.get(name, 0) > 0),
        default=0.0,
    )
    if ratio == 0:
        return NOTHING
    return Share(True, ratio) if node.weight == 0 else Share(False, ratio / node.weight)
