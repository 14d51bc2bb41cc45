"""Why a workload is pending: the missing quota, its holders and their protection, what has to end; one file, one inquiry.

Computed on request, from the present state of the engine; a cycle never runs this. Kueue's own message stays as it is
and comes first. Amounts are quantities as in Kueue's objects. Other work waits meanwhile, so the cost is bounded: of a
large cohort only a part is looked at, its own queue first, and `Explanation.partial` says so.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from itertools import islice

from msgspec.structs import replace

from multikueue.api.kueue.workload import QUOTA_RESERVED
from multikueue.api.meta import ObjectKey, Value
from multikueue.api.values import quantity
from multikueue.quota.cache.reservations import Reservation
from multikueue.quota.cache.tree import FlavorResource, Node, UndoLog, subtree_that_fits
from multikueue.quota.preemption.candidates import Grade, Mode, may_be_preempted
from multikueue.quota.preemption.preemption import PreemptionRules, Searches
from multikueue.quota.queueing.pending_workload import PendingWorkload
from multikueue.quota.requests.matching import unsuitable
from multikueue.quota.scheduler.cycle import Head
from multikueue.quota.scheduler.flavors import Assignment, PodSetFlavors, assign
from multikueue.quota.visibility.view import QuotaView
from multikueue.quota.workload.outcome import is_news

TOP = 5
"""The number of holders named per flavor and resource."""

LOOKED_AT = 4000
"""Up to this many reservations are looked at for holders and for rules that protect them, over all lacks together."""

CANDIDATES = 1000
"""Up to this many reservations are considered that might have to end."""

CAREFULLY = 50
"""Up to this many workloads that have to end, those that turn out to be unnecessary are dropped; and up to this many are
tried whether the end of one alone would do."""

EXCEEDS = "more than it could ever use"
"""In the problem of a lack that no end of others removes."""


class Holder(Value):
    """A ClusterQueue that uses some of the missing quota; `borrowed` is its usage beyond its nominal quota."""

    cluster_queue: str
    path: str
    workloads: int
    amount: str
    borrowed: str


class Barrier(Value):
    """A rule that protects workloads of a ClusterQueue from preemption; `amount` is the missing quota that they use."""

    cluster_queue: str
    rule: str
    workloads: int
    amount: str


class Shortage(Value):
    """Why one flavor does not give a pod set one resource. With a `problem` the flavor does not suit the pods, or could
    never hold them; holders and barriers are empty then. `most` is what it could ever use of it, where that is too little.
    `is_final`: no other flavor is left for the pod set either, so it can never get quota as it is."""

    pod_set: str
    flavor: str
    resource: str
    needed: str
    available: str = ""
    missing: str = ""
    problem: str = ""
    most: str = ""
    is_final: bool = False
    holders: tuple[Holder, ...] = ()
    barriers: tuple[Barrier, ...] = ()


class Ending(Value):
    """A workload that has to end. `at_latest`: when it has to be gone, if that is known; `leaving`: it is evicted
    already."""

    workload: str
    cluster_queue: str
    at_latest: datetime | None = None
    leaving: bool = False


class Explanation(Value):
    """All reasons why a workload has no quota.

    `message` is Kueue's, as in its condition. A `problem` keeps cycles from looking at the workload. `place` is its
    position in its queue, from 1; `behind` is the head of a StrictFIFO queue, which has to go first. Once all `endings`
    are gone it fits; none: it fits now, or no end of others helps. `enough` are the workloads of which one alone would do by
    its end.

    If it is `partial`, there are more reservations than LOOKED_AT or CANDIDATES: holders have at least so many workloads,
    barriers are at least these, and `endings` are the best among the candidates, or none if all of them are not enough.
    """

    workload: str
    cluster_queue: str = ""
    message: str = ""
    problem: str = ""
    place: int = 0
    behind: str = ""
    lacks: tuple[Shortage, ...] = ()
    endings: tuple[Ending, ...] = ()
    enough: tuple[str, ...] = ()
    partial: bool = False


def explain(view: QuotaView, key: ObjectKey, now: datetime) -> Explanation | None:
    """Why a workload has no quota; None if it waits for none. Usage is the same before and after."""
    waiting = view.pending_workload(key)
    if waiting is None:
        return None
    local_queue = view.local_queue(waiting.local_queue)
    queue_name = local_queue.spec.cluster_queue if local_queue else ""
    known = partial(Explanation, workload=str(key), cluster_queue=queue_name)
    place = next((place for place, each in enumerate(view.waiting_in(queue_name), 1) if each.key == key), 0)
    if not place:
        problem = waiting.uncounted or _no_way(view, waiting.local_queue)
        return known(message=_message(view, waiting), problem=problem)
    head = view.head(waiting, queue_name)
    strict = head.queue.spec.queueing_strategy == "StrictFIFO"
    inquiry = None if head.problem else _Inquiry(view, head, now)
    return known(
        message=_message(view, waiting, inquiry.assignment.message() if inquiry else ""),
        problem=_problem(view, head, now),
        place=place,
        behind=str(next(view.waiting_in(queue_name)).key) if strict and place > 1 else "",
        lacks=tuple(inquiry.lacks()) if inquiry else (),
        endings=tuple(inquiry.endings()) if inquiry else (),
        enough=tuple(inquiry.enough()) if inquiry else (),
        partial=inquiry.is_partial if inquiry else False,
    )


def _message(view: QuotaView, waiting: PendingWorkload, found: str = "") -> str:
    """The message of its verdict, else of its condition QuotaReserved; with the amounts of now, if that is all that differs
    from what is `found`."""
    verdict, told = view.verdict(waiting.key), waiting.workload.condition(QUOTA_RESERVED)
    message = verdict.message if verdict else told.message if told else ""
    return message if not found or is_news(found, message) else found


def _no_way(view: QuotaView, local_queue: ObjectKey) -> str:
    """Why a workload is in no ClusterQueue's queue."""
    known = view.local_queue(local_queue)
    if known is None:
        return f"LocalQueue {local_queue.name} doesn't exist"
    if view.cluster_queue(known.spec.cluster_queue) is None:
        return f"ClusterQueue {known.spec.cluster_queue} doesn't exist"
    return f"LocalQueue {local_queue.name} is inactive"


def _problem(view: QuotaView, head: Head, now: datetime) -> str:
    """The reason why a cycle does not look at the workload, or does not go on."""
    problems = view.cluster_queue_problems(head.queue.name)
    if problems:
        return f"ClusterQueue {head.queue.name} {'; '.join(problem.message for problem in problems)}"
    if head.problem or head.waiting.may_queue(now):
        return head.problem
    until = head.waiting.requeue_at
    return f"held back until {until.isoformat()}" if until and until > now else "held back after its eviction"


_NOT_FOUND = "not found"
"""A flavor that does not exist may come."""


def _no_help(_fr: FlavorResource, _amount: int) -> Grade:
    return Grade(Mode.NO_CANDIDATES)


_User = tuple[Reservation, Node]
"""A reservation, and the queue that it counts in."""


@dataclass(slots=True)
class _Group:
    """Workloads of one queue that the same rule protects."""

    workloads: int = 0
    amount: int = 0

    def count(self, amount: int) -> None:
        self.workloads += 1
        self.amount += amount


@dataclass(slots=True)
class _Inquiry:
    view: QuotaView
    head: Head
    now: datetime
    rules: PreemptionRules = field(init=False)
    assignment: Assignment = field(init=False)
    is_partial: bool = False
    _left: int = LOOKED_AT
    _candidates: list[_User] | None = None

    def __post_init__(self) -> None:
        self.rules = self.view.rules(self.now)
        searches = Searches(self.head.waiting, self.head.queue, self.rules)
        waiting = self.head.waiting
        self.assignment = assign(waiting.demand, self.head.queue, oracle=searches.oracle)

    @property
    def node(self) -> Node:
        return self.head.queue.node

    def lacks(self) -> Iterator[Shortage]:
        """Per pod set, flavor and resource, as far as the search for flavors went."""
        earlier: dict[FlavorResource, int] = {}
        for each in self.assignment.pod_sets:
            if each.reasons:
                yield from self._judged(list(self._lacks_of(each, earlier)))
            for resource, choice in each.choices.items():
                fr = choice.flavor, resource
                earlier[fr] = earlier.get(fr, 0) + each.requests[resource]

    def _judged(self, lacks: list[Shortage]) -> Iterator[Shortage]:
        """The lacks of one pod set, those that leave it no flavor marked as final. A flavor is in one group only."""
        hopeless = {lack.flavor for lack in lacks if lack.problem and lack.problem != _NOT_FOUND}
        groups = self.head.queue.group_of.values()
        final = {name for group in groups if hopeless.issuperset(group.flavors) for name in group.flavors}
        for lack in lacks:
            is_final = lack.problem and (not lack.flavor or lack.flavor in final)
            yield replace(lack, is_final=True) if is_final else lack

    def _lacks_of(self, each: PodSetFlavors, earlier: dict[FlavorResource, int]) -> Iterator[Shortage]:
        for resource, amount in sorted(each.requests.items()):
            lack = partial(
                Shortage, pod_set=each.pod_set.name, resource=resource, needed=quantity.render(resource, amount)
            )
            group = self.head.queue.group_of.get(resource)
            if group is None:
                if amount and not self.head.queue.should_ignore_undeclared:
                    yield lack(flavor="", problem="no flavor of the ClusterQueue has it")
                continue
            for name in group.flavors:
                flavor = self.head.queue.flavors.get(name)
                keys = group.label_keys.get(name, frozenset())
                why = _NOT_FOUND if flavor is None else unsuitable(each.pod_set.nodes, flavor, keys)
                if why:
                    yield lack(flavor=name, problem=why)
                    continue
                total = amount + earlier.get((name, resource), 0)
                yield from self._shortage(lack, (name, resource), total)

    def _shortage(self, lack: Callable[..., Shortage], fr: FlavorResource, total: int) -> Iterator[Shortage]:
        """The lack if `total` of a flavor and resource is needed; nothing if it is available."""
        flavor, resource = fr
        cell = self.node.cell(fr)
        show = partial(quantity.render, resource)
        available = max(0, cell.available())
        if total > cell.potential():
            most = show(cell.potential())
            problem = f"{show(total)} are {EXCEEDS} of it: {most}"
            missing = show(total - available)
            yield lack(flavor=flavor, available=show(available), missing=missing, problem=problem, most=most)
        elif total > available:
            seen = self._first(self._left)
            self._left -= len(seen)
            yield lack(
                flavor=flavor,
                available=show(available),
                missing=show(total - available),
                holders=tuple(self._holders(fr, seen)),
                barriers=tuple(self._barriers(fr, total, seen)),
            )

    # --- holders ---

    def _queues(self) -> Iterator[Node]:
        """The queues of the cohort, its own first."""
        *_, root = self.node, *self.node.ancestors()
        yield self.node
        yield from (node for node in _leaves(root) if node is not self.node)

    def _first(self, most: int) -> list[_User]:
        """The first reservations, `most` of them; notes whether there are others."""
        every = ((each, node) for node in self._queues() for each in self.view.reservations_in(node.name))
        found = list(islice(every, most + 1))
        self.is_partial = self.is_partial or len(found) > most
        return found[:most]

    def _holders(self, fr: FlavorResource, seen: list[_User]) -> Iterator[Holder]:
        """The largest users first."""
        workloads = Counter(node.name for reservation, node in seen if fr in reservation.amounts)
        found = [(node.cell(fr).usage, node) for node in self._queues() if node.cell(fr).usage > 0]
        show = partial(quantity.render, fr[1])
        for usage, node in sorted(found, key=lambda pair: (-pair[0], pair[1].name))[:TOP]:
            yield Holder(
                cluster_queue=node.name,
                path=node.path,
                workloads=workloads[node.name],
                amount=show(usage),
                borrowed=show(max(0, usage - node.cell(fr).quota.nominal)),
            )

    # --- rules against preemption ---

    def _barriers(self, fr: FlavorResource, total: int, seen: list[_User]) -> Iterator[Barrier]:
        groups: dict[tuple[str, str], _Group] = {}
        for reservation, node in seen:
            amount = reservation.amounts.get(fr, 0)
            rule = self._rule_against(reservation, node, fr, total) if amount else ""
            if rule:
                groups.setdefault((node.name, rule), _Group()).count(amount)
        for (queue, rule), group in sorted(groups.items(), key=lambda item: (-item[1].amount, item[0])):
            amount_text = quantity.render(fr[1], group.amount)
            yield Barrier(cluster_queue=queue, rule=rule, workloads=group.workloads, amount=amount_text)

    def _rule_against(self, reservation: Reservation, node: Node, fr: FlavorResource, total: int) -> str:
        """The rule that protects a workload from preemption; empty if none does, or if it is evicted already."""
        if reservation.is_evicted:
            return ""
        rules, own = self.head.queue.spec.preemption, node is self.node
        name = "withinClusterQueue" if own else "reclaimWithinCohort"
        policy = rules.within_cluster_queue if own else rules.reclaim_within_cohort
        if not self.view.is_active(node.name):
            return "its ClusterQueue is inactive"
        if policy == "Never":
            return f"{name}: Never"
        if not own and node.is_within_nominal((fr,)):
            return "its ClusterQueue borrows nothing of it"
        if not may_be_preempted(reservation, policy, priority=self._priority, since=self.head.waiting.rank[1]):
            return f"{name}: {policy}"
        if reservation.is_protected:
            return "non-preemptible"
        if not self.rules.allowance(node.name):
            return "the preemption budget of its ClusterQueue is used up"
        if self.rules.fair is None:
            return self._rule_of_borrowing(reservation, fr, total, is_own=own)
        return "" if own or self.assignment.mode is not Mode.NO_CANDIDATES else "fair sharing: its share is not larger"

    def _rule_of_borrowing(self, reservation: Reservation, fr: FlavorResource, total: int, *, is_own: bool) -> str:
        """The rule against a preemptor that needs more than its queue, or any cohort below the root, has by itself."""
        cell = self.node.cell(fr)
        if total <= cell.quota.nominal or subtree_that_fits(cell, total)[1]:
            return ""
        rule = self.head.queue.spec.preemption.borrow_within_cohort
        if rule.policy == "Never" or (not is_own and reservation.priority >= self._priority):
            return f"borrowWithinCohort: {rule.policy}"
        threshold = rule.max_priority_threshold
        above = not is_own and threshold is not None and reservation.priority > threshold
        return f"borrowWithinCohort: maxPriorityThreshold {threshold}" if above else ""

    @property
    def _priority(self) -> int:
        return -self.head.waiting.rank[0]

    # --- what would have to end ---

    def endings(self) -> Iterator[Ending]:
        """The workloads that have to end so that this one fits: evicted ones first, then those known to end soonest,
        then the largest."""
        if self._has_room():
            return
        log = UndoLog()
        try:
            users = self._users()
            count = self._fewest(users, log)
            needed = _needed(users[:count], self._has_room, log) if count else []
        finally:
            log.roll_back()  # it is the quota that everybody gets
        for reservation, _ in needed:
            yield Ending(
                workload=str(reservation.key),
                cluster_queue=reservation.cluster_queue,
                at_latest=reservation.ends_by,
                leaving=reservation.is_evicted,
            )

    def enough(self) -> Iterator[str]:
        """The workloads whose end alone would make room, of the first `CAREFULLY` candidates."""
        if self._has_room():
            return
        log = UndoLog()
        for reservation, node in self._users()[:CAREFULLY]:
            try:
                node.remove(reservation.amounts, log)
                fits = self._has_room()
            finally:
                log.roll_back()
            if fits:
                yield str(reservation.key)

    def _has_room(self) -> bool:
        waiting = self.head.waiting
        found = assign(waiting.demand, self.head.queue, oracle=_no_help)
        return found.mode is Mode.FIT

    def _users(self) -> list[_User]:
        if self._candidates is None:
            self._candidates = self._ordered()
        return self._candidates

    def _ordered(self) -> list[_User]:
        wanted = self._wanted()
        found = [user for user in self._first(CANDIDATES) if not wanted.isdisjoint(user[0].amounts)]
        return sorted(found, key=lambda user: _ending_order(user[0], wanted))

    def _wanted(self) -> frozenset[FlavorResource]:
        """All flavors and resources that the workload could use."""
        queue = self.head.queue
        resources = {name for pod_set in self.head.waiting.demand.pod_sets for name in pod_set.with_pods()}
        groups = ((name, queue.group_of[name]) for name in resources if name in queue.group_of)
        return frozenset((flavor, name) for name, group in groups for flavor in group.flavors)

    def _fewest(self, users: list[_User], log: UndoLog) -> int:
        """How many users, from the first on, have to be gone so that the workload fits; 0: not even all of them are
        enough."""

        def has_room_without(count: int) -> bool:
            mark = log.mark()
            for reservation, node in users[:count]:
                node.remove(reservation.amounts, log)
            fits = self._has_room()
            log.roll_back(mark)
            return fits

        if not has_room_without(len(users)):
            return 0
        low, high = 1, len(users)
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if has_room_without(middle) else (middle + 1, high)
        return low


def _needed(users: list[_User], does_fit: Callable[[], bool], log: UndoLog) -> list[_User]:
    """The users that have to be gone so that the workload fits, and the evicted ones. The last user is always one of
    them."""
    for reservation, node in users:
        node.remove(reservation.amounts, log)
    if len(users) > CAREFULLY:
        return users
    kept = []
    for reservation, node in reversed(users):
        mark = log.mark()
        node.add(reservation.amounts, log)
        if reservation.is_evicted or not does_fit():
            log.roll_back(mark)
            kept.append((reservation, node))
    return kept[::-1]


def _ending_order(reservation: Reservation, wanted: Iterable[FlavorResource]) -> tuple[bool, bool, float, int, str]:
    soon = reservation.ends_by.timestamp() if reservation.ends_by else 0.0
    size = sum(reservation.amounts.get(fr, 0) for fr in wanted)
    return not reservation.is_evicted, reservation.ends_by is None, soon, -size, str(reservation.key)


def _leaves(node: Node) -> Iterator[Node]:
    if node.is_queue:
        yield node
    for child in node.children:
        yield from _leaves(child)
