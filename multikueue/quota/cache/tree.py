"""The quota tree: how much each ClusterQueue and Cohort has, uses, lends and may borrow (quota-engine 1.7).

Each (flavor, resource) is an independent tree of `Cell`s, so the arithmetic is a walk along parents. The shape is built
again only when a spec changes; in between only usage changes. Nothing is ever copied: a trial takes an `UndoLog` and
rolls back.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping

import msgspec

from multikueue.api.kueue.queues import FairSharing, ResourceGroup
from multikueue.api.kueue.queues import ResourceQuota as QuotaSpec
from multikueue.api.values import quantity

FlavorResource = tuple[str, str]
"""(flavor, resource): the key of a quota."""

Amounts = Mapping[FlavorResource, int]


class CellQuota(msgspec.Struct, frozen=True):
    """Limits in counted amounts. No borrowing limit: all that the cohort has; no lending limit: everything."""

    nominal: int = 0
    borrowing_limit: int | None = None
    lending_limit: int | None = None


_NOTHING = CellQuota()


def quotas(groups: Iterable[ResourceGroup]) -> dict[FlavorResource, CellQuota]:
    return {
        (flavor.name, resource.name): _quota(resource)
        for group in groups
        for flavor in group.flavors
        for resource in flavor.resources
    }


def fair_weight(spec: FairSharing | None) -> float:
    """The weight of a queue or cohort, 1 by default; rounded once, from the exact decimal."""
    return 1.0 if spec is None else quantity.parse(spec.weight) / quantity.NANO


def _quota(spec: QuotaSpec) -> CellQuota:
    def counted(text: str | int | float | None) -> int | None:
        return None if text is None else quantity.counted(spec.name, text)

    return CellQuota(counted(spec.nominal_quota) or 0, counted(spec.borrowing_limit), counted(spec.lending_limit))


class UndoLog:
    """Changes of usage in order, to be rolled back exactly: all of them, or those since a `mark`."""

    __slots__ = ("_entries",)

    def __init__(self) -> None:
        self._entries: list[tuple[Cell, int]] = []

    def note(self, cell: Cell) -> None:
        self._entries.append((cell, cell.usage))

    def mark(self) -> int:
        return len(self._entries)

    def roll_back(self, mark: int = 0) -> None:
        for cell, usage in reversed(self._entries[mark:]):
            cell.usage = usage
        del self._entries[mark:]


class Cell:
    """One (flavor, resource) at one node.

    `subtree` is the quota of the node and all below that lend to it; `private` the part it never lends; `usage` what
    the node uses: of a cohort, what its children use beyond their private part.
    """

    __slots__ = ("node", "parent", "private", "quota", "subtree", "usage")

    def __init__(self, node: Node, parent: Cell | None, quota: CellQuota) -> None:
        self.node, self.parent, self.quota = node, parent, quota
        self.subtree = quota.nominal
        self.private = 0
        self.usage = 0

    def local_available(self) -> int:
        return max(0, self.private - self.usage)

    def available(self) -> int:
        """The amount that can be used now, including by borrowing. Negative below an oversubscribed root."""
        if self.parent is None:
            return self.subtree - self.usage
        above = self.parent.available()
        if self.quota.borrowing_limit is not None:
            lent = self.subtree - self.private
            above = min(above, lent - max(0, self.usage - self.private) + self.quota.borrowing_limit)
        return self.local_available() + above

    def potential(self) -> int:
        """The amount that could be used if all usage were 0."""
        if self.parent is None:
            return self.subtree
        reachable = self.private + self.parent.potential()
        limit = self.quota.borrowing_limit
        return reachable if limit is None else min(reachable, self.subtree + limit)

    def add(self, amount: int, log: UndoLog | None = None) -> None:
        free = self.local_available()
        if log is not None:
            log.note(self)
        self.usage += amount
        if self.parent is not None and amount > free:
            self.parent.add(amount - free, log)

    def remove(self, amount: int, log: UndoLog | None = None) -> None:
        stored = self.usage - self.private
        if log is not None:
            log.note(self)
        self.usage -= amount
        if self.parent is not None and stored > 0:
            self.parent.remove(min(amount, stored), log)

    def is_borrowing_with(self, amount: int) -> bool:
        return self.usage + amount > self.subtree


class Node:
    """A ClusterQueue or Cohort in the tree; `height` is 0 for a ClusterQueue, 1 for a cohort of ClusterQueues only.

    `declared` has each (flavor, resource) of which it or a node below has a quota; `weight` is for fair shares.
    """

    __slots__ = (
        "_potential",
        "cells",
        "children",
        "declared",
        "height",
        "in_cycle",
        "is_queue",
        "name",
        "parent",
        "quotas",
        "weight",
    )

    def __init__(
        self, name: str, *, is_queue: bool, quotas: Mapping[FlavorResource, CellQuota], weight: float = 1.0
    ) -> None:
        self.name, self.is_queue, self.quotas, self.weight = name, is_queue, quotas, weight
        self.declared: tuple[FlavorResource, ...] = ()
        self._potential: dict[str, int] | None = None
        self.parent: Node | None = None
        self.children: list[Node] = []
        self.cells: dict[FlavorResource, Cell] = {}
        self.height = 0
        self.in_cycle = False

    def cell(self, fr: FlavorResource) -> Cell:
        """The cell; created, with those above it, where no quota is declared."""
        cell = self.cells.get(fr)
        if cell is None:
            parent = self.parent.cell(fr) if self.parent else None
            cell = self.cells[fr] = Cell(self, parent, self.quotas.get(fr, _NOTHING))
        return cell

    def available(self, fr: FlavorResource) -> int:
        """The amount that a ClusterQueue can still use; never negative."""
        return max(0, self.cell(fr).available())

    def ancestors(self) -> Iterator[Node]:
        """The cohorts above, the nearest first."""
        node = self.parent
        while node is not None:
            yield node
            node = node.parent

    @property
    def path(self) -> str:
        """The path from the root, as Kueue writes it: `/root/cohort/queue`."""
        names = [self.name, *(node.name for node in self.ancestors())]
        return f"/{'/'.join(reversed(names))}"

    def is_borrowing(self) -> bool:
        """Whether the node borrows anything of what is declared."""
        return not self.is_within_nominal(self.declared)

    def is_within_nominal(self, frs: Iterable[FlavorResource]) -> bool:
        """Whether the node borrows none of these."""
        for fr in frs:  # a plain loop: called for each queue of a tree per head without room
            cell = self.cells.get(fr)
            if cell is not None and cell.usage > cell.subtree:
                return False
        return True

    def fit(self, amounts: Amounts) -> tuple[bool, dict[FlavorResource, int]]:
        """Whether its own quota holds that much more, and the rest that the parent has to provide."""
        rest = {fr: max(0, amount - self.cell(fr).local_available()) for fr, amount in amounts.items()}
        return not any(self.cell(fr).is_borrowing_with(amount) for fr, amount in amounts.items()), rest

    def potential(self) -> dict[str, int]:
        """The amounts that could be used here if all usage were 0, by resource: all flavors of the tree together."""
        if self._potential is None:
            *_, root = self, *self.ancestors()
            self._potential = {}
            for fr in root.declared:
                _, resource = fr
                self._potential[resource] = self._potential.get(resource, 0) + self.cell(fr).potential()
        return self._potential

    def add(self, amounts: Amounts, log: UndoLog | None = None) -> None:
        for fr, amount in amounts.items():
            self.cell(fr).add(amount, log)

    def remove(self, amounts: Amounts, log: UndoLog | None = None) -> None:
        for fr, amount in amounts.items():
            self.cell(fr).remove(amount, log)


def subtree_that_fits(cell: Cell, amount: int) -> tuple[int, bool]:
    """Height of the lowest subtree whose quota holds `amount` more, and whether quota may be reclaimed for that from
    others."""
    parent = cell.parent
    if not cell.is_borrowing_with(amount) or parent is None:
        return 0, parent is not None
    rest = amount - cell.local_available()
    while parent.is_borrowing_with(rest):
        if parent.parent is None:
            return parent.node.height, False
        rest -= parent.local_available()
        parent = parent.parent
    return parent.node.height, parent.parent is not None


class Member(msgspec.Struct, frozen=True):
    """A ClusterQueue or Cohort as declared: its parent cohort (empty: none), its quotas and its fair weight."""

    parent: str = ""
    quotas: Mapping[FlavorResource, CellQuota] = {}
    weight: float = 1.0


class Forest:
    """All trees. Declare members, then `build`. A build makes new nodes: do not use older ones after it."""

    def __init__(self) -> None:
        self._queue_specs: dict[str, Member] = {}
        self._cohort_specs: dict[str, Member] = {}
        self._queues: dict[str, Node] = {}
        self._cohorts: dict[str, Node] = {}
        self._roots: dict[str, str] = {}
        self.stale = False

    def declare_queue(self, name: str, member: Member | None) -> bool:
        """Set a ClusterQueue, or remove it with None. Returns whether that changed anything."""
        return self._declare(self._queue_specs, name, member)

    def declare_cohort(self, name: str, member: Member | None) -> bool:
        """Set a Cohort, or remove it with None. Returns whether that changed anything. Without an object a cohort that
        others name as their parent exists, without quota."""
        return self._declare(self._cohort_specs, name, member)

    def _declare(self, specs: dict[str, Member], name: str, member: Member | None) -> bool:
        if specs.get(name) == member:
            return False
        if member is None:
            del specs[name]
        else:
            specs[name] = member
        self._roots.clear()
        self.stale = True
        return True

    def queue(self, name: str) -> Node | None:
        return self._queues.get(name)

    def cohort(self, name: str) -> Node | None:
        return self._cohorts.get(name)

    def quotas(self, queue: str) -> Mapping[FlavorResource, CellQuota]:
        """The quotas of a ClusterQueue, as declared."""
        return self._queue_specs.get(queue, Member()).quotas

    def root_name(self, queue: str) -> str:
        """The name of a ClusterQueue's tree: `cohort/ROOT`, or `queue/NAME` without a cohort, so that names cannot
        clash.

        Read from the declarations, so it is right before a build too.
        """
        root = self._roots.get(queue)
        if root is None:
            parent = self._queue_specs.get(queue, Member()).parent
            root = self._roots[queue] = self.root_of_cohort(parent) if parent else f"queue/{queue}"
        return root

    def has_cohort_objects(self, queue: str) -> bool:
        """Whether any cohort above a ClusterQueue has an object."""
        return any(name in self._cohort_specs for name in self._lineage(self._queue_specs.get(queue, Member()).parent))

    def queues_of(self, roots: Container[str]) -> list[str]:
        """The declared ClusterQueues of these trees."""
        return [name for name in self._queue_specs if self.root_name(name) in roots]

    def root_of_cohort(self, cohort: str) -> str:
        """The same for all nodes below it; cohorts that form a cycle have one name, too."""
        *_, top = self._lineage(cohort)
        return f"cohort/{min(self._cycle(top), default=top)}"

    def cycle_above(self, queue: str) -> tuple[str, ...]:
        """The cohorts that form a cycle above a ClusterQueue, each once, and each the parent of the one before; none: there is
        no cycle."""
        lineage = list(self._lineage(self._queue_specs.get(queue, Member()).parent))
        return self._cycle(lineage[-1]) if lineage else ()

    def _cycle(self, top: str) -> tuple[str, ...]:
        """The cycle that a cohort is part of whose parent is part of its own lineage, beginning with the first by name."""
        names = tuple(self._lineage(self._cohort_specs.get(top, Member()).parent))
        first = names.index(min(names)) if names else 0
        return names[first:] + names[:first]

    def _lineage(self, cohort: str) -> Iterator[str]:
        """The cohort and its ancestors, each once."""
        seen: set[str] = set()
        while cohort and cohort not in seen:
            seen.add(cohort)
            yield cohort
            cohort = self._cohort_specs.get(cohort, Member()).parent

    def build(self, usages: Mapping[str, Amounts]) -> None:
        """Build the trees as declared and fill in the usage of each ClusterQueue."""
        self._cohorts = {name: self._cohort_node(name) for name in self._cohort_names()}
        self._queues = {
            name: Node(name, is_queue=True, quotas=spec.quotas, weight=spec.weight)
            for name, spec in sorted(self._queue_specs.items())
        }
        for name, node in self._cohorts.items():
            self._link(node, self._cohort_specs.get(name, Member()).parent)
        for name, node in self._queues.items():
            self._link(node, self._queue_specs[name].parent)
        nodes = [*self._cohorts.values(), *self._queues.values()]
        for node in nodes:
            node.height = _height(node)
            for fr in node.quotas:
                node.cell(fr)
        for node in nodes:
            node.declared = tuple(node.cells)  # cells made later have no declared quota
        for node in sorted(nodes, key=lambda node: node.height):
            _sum_up(node)
        for name, amounts in usages.items():
            if name in self._queues:
                self._queues[name].add(amounts)
        self.stale = False

    def _cohort_names(self) -> list[str]:
        named = {spec.parent for spec in (*self._queue_specs.values(), *self._cohort_specs.values()) if spec.parent}
        return sorted(named | self._cohort_specs.keys())

    def _cohort_node(self, name: str) -> Node:
        spec = self._cohort_specs.get(name, Member())
        return Node(name, is_queue=False, quotas=spec.quotas, weight=spec.weight)

    def _link(self, node: Node, parent: str) -> None:
        """Put a node below its parent, unless the cohorts above form a cycle."""
        if not parent:
            return
        *_, top = self._lineage(parent)
        node.in_cycle = bool(self._cycle(top))
        if not node.in_cycle:
            node.parent = self._cohorts[parent]
            node.parent.children.append(node)


def _height(node: Node) -> int:
    if node.is_queue:
        return 0
    return max((1 + _height(child) for child in node.children), default=0)


def _sum_up(node: Node) -> None:
    """Set what each cell keeps private and add the rest to the parent, which must be summed up later."""
    for cell in node.cells.values():
        lending_limit = cell.quota.lending_limit
        cell.private = 0 if lending_limit is None else max(0, cell.subtree - lending_limit)
        if cell.parent is not None:
            cell.parent.subtree += cell.subtree - cell.private
