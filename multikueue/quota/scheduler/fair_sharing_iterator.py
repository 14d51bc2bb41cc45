"""The order of heads under fair sharing: the smallest share goes first (quota-engine 3.2)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Generic, NamedTuple, Protocol, TypeVar

from multikueue.api.kueue.compatibility import NEWEST, Compatibility
from multikueue.quota.cache.shares import Share, share
from multikueue.quota.cache.tree import Amounts, Node, UndoLog
from multikueue.quota.workload.ordering import Rank


class Contender(Protocol):
    """A head with its flavors: what it would use, how far up the tree it borrows, and its rank among others."""

    @property
    def node(self) -> Node: ...
    @property
    def usage(self) -> Amounts: ...
    @property
    def borrowing(self) -> int: ...
    @property
    def rank(self) -> Rank: ...


class Standing(NamedTuple):
    """Whether a side borrows what the contender asks for, and its share."""

    is_borrowing: bool
    share: Share


C = TypeVar("C", bound=Contender)


def tournament(contenders: Iterable[C], compatibility: Compatibility = NEWEST) -> Iterator[C]:
    """The contenders, one per ClusterQueue, in the order in which they are served.

    The caller adds the usage of each to the tree before it asks for the next: shares depend on it.
    """
    by_root: dict[Node, list[C]] = {}
    for contender in contenders:
        *_, root = contender.node, *contender.node.ancestors()
        by_root.setdefault(root, []).append(contender)
    for root in sorted(by_root, key=lambda node: (node.is_queue, node.name)):
        yield from by_root[root] if root.is_queue else _Rounds(root, by_root[root], compatibility).run()


class _Rounds(Generic[C]):
    """One round per contender: at each cohort its own queues meet the winners of the cohorts below.

    The shares of a contender stay valid until something changes on the way up from its queue.
    """

    def __init__(self, root: Node, contenders: Iterable[C], compatibility: Compatibility) -> None:
        self._root, self._by_flavor = root, compatibility.is_fair_by_flavor
        self._log = UndoLog()
        self._at = {contender.node: contender for contender in contenders}
        self._below: dict[Node, list[Node]] = {}
        self._shares: dict[Node, dict[Node, Standing]] = {}
        for node in self._at:
            self._enter(node)

    def _enter(self, node: Node) -> None:
        for cohort in node.ancestors():
            below = self._below.setdefault(cohort, [])
            if node in below:
                return
            below.append(node)
            node = cohort

    def run(self) -> Iterator[C]:
        for below in self._below.values():
            below.sort(key=lambda node: (node.is_queue, node.name))
        while (winner := self._winner(self._root)) is not None:
            del self._at[winner.node]
            yield winner
            self._outdate(winner.node)

    def _winner(self, cohort: Node) -> C | None:
        best: C | None = None
        for node in self._below[cohort]:
            contender = self._at.get(node) if node.is_queue else self._winner(node)
            if contender is not None and (best is None or self._place(contender, cohort) < self._place(best, cohort)):
                best = contender
        return best

    def _place(self, contender: C, cohort: Node) -> tuple[bool, Share, Rank]:
        """Contenders that do not borrow come first."""
        priority, since, _ = contender.rank
        standing = self._shares_with(contender)[cohort]
        borrows = standing.is_borrowing if self._by_flavor else contender.borrowing > 0
        return borrows, standing.share, (priority, since, contender.node.name)

    def _shares_with(self, contender: C) -> dict[Node, Standing]:
        """The standing of its queue and of the cohorts above, with its usage added, each by the cohort above it."""
        asked = [fr for fr, amount in contender.usage.items() if amount > 0]
        known = self._shares.get(contender.node)
        if known is None:
            known = self._shares[contender.node] = {}
            contender.node.add(contender.usage, self._log)
            node = contender.node
            for cohort in node.ancestors():
                known[cohort] = Standing(not node.is_within_nominal(asked), share(node))
                node = cohort
            self._log.roll_back()
        return known

    def _outdate(self, served: Node) -> None:
        """Forget the shares that the usage of a served head changes."""
        changed = {node for node in served.ancestors() if node is not self._root}
        for node in self._at:
            if not changed.isdisjoint(node.ancestors()):
                self._shares.pop(node, None)
