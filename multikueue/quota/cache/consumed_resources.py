"""Consumed resources of LocalQueues, for admission fair sharing (quota-engine 5.1).

Amounts are billionths of each resource: Kueue cuts off there, or at thousandths, so two histories stay equal.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import datetime, timedelta
from decimal import Decimal

import msgspec

from multikueue.api.kueue.queues import AdmissionFairSharingStatus, LocalQueue
from multikueue.api.meta import ObjectKey
from multikueue.api.values import quantity
from multikueue.quota.cache.tree import Amounts, fair_weight
from multikueue.quota.requests.amounts import Demand

USAGE_BASED = "UsageBasedAdmissionFairSharing"
"""The admission mode of a ClusterQueue whose LocalQueues are ordered by usage."""

Billionths = Mapping[str, int]

THOUSANDTH = quantity.NANO // 1000


class UsageDecay(msgspec.Struct, frozen=True, kw_only=True):
    """Half of the consumed resources decays in each `half_life`; 0: all of it at each sampling, every `interval`.

    `weights` are factors by resource, 1 by default. `may_begin_with_usage`: a new history begins with the present usage.
    `is_cut_at_thousandths`: what is less than one does not count, so that little usage never shows beside a long half-life.
    """

    half_life: timedelta
    interval: timedelta = timedelta(minutes=5)
    weights: Mapping[str, float] = {}
    may_begin_with_usage: bool = False
    is_cut_at_thousandths: bool = False

    def forgotten(self, elapsed: timedelta) -> float:
        """The part that decays in that time, from 0 to 1; 0 without a half-life, so that there are no penalties. Nothing decays
        in less than no time: who sampled before may have had a clock ahead of ours."""
        if not self.half_life or elapsed < timedelta():
            return 0.0
        return 1.0 - math.pow(0.5, elapsed.total_seconds() / self.half_life.total_seconds())

    def decayed(self, past: Billionths, present: Billionths, elapsed: timedelta) -> Billionths:
        """The consumed resources, given those of before (`past`) and the usage since then (`present`)."""
        part = self.forgotten(elapsed)
        return _sum(self.times(past, 1 - part), self.times(present, part))

    def times(self, amounts: Billionths, factor: float) -> Billionths:
        """That part of the amounts; a factor is the number that is written, as in Kueue."""
        if self.is_cut_at_thousandths:
            return {name: int(amount // THOUSANDTH * factor) * THOUSANDTH for name, amount in amounts.items()}
        numerator, denominator = Decimal(repr(factor)).as_integer_ratio()
        return {name: amount * numerator // denominator for name, amount in amounts.items()}

    def weighed(self, amounts: Billionths) -> float:
        return sum(self.weights.get(name, 1.0) * (amount / quantity.NANO) for name, amount in sorted(amounts.items()))


class _Record(msgspec.Struct, frozen=True):
    consumed: Billionths
    at: datetime


class ConsumedResources:
    """Owned by the cache.

    A workload that gets quota costs its LocalQueue a penalty at once, until it is admitted: its usage takes long to
    show, and until then the LocalQueue would be served again and again. Kueue does not take the penalty back from
    workloads that have to pass checks first, as all do here: there the LocalQueue that was served most would come last
    forever.
    """

    def __init__(self, decay: UsageDecay) -> None:
        self._decay = decay
        self._weights: dict[ObjectKey, float] = {}
        self._records: dict[ObjectKey, _Record] = {}
        self._penalties: dict[ObjectKey, dict[ObjectKey, Billionths]] = {}
        self._usage: dict[ObjectKey, float] = {}

    def usage(self, queue: ObjectKey) -> float:
        """The usage that LocalQueues are ordered by, the least first; infinite if its weight is 0."""
        known = self._usage.get(queue)
        if known is None:
            known = self._usage[queue] = self._weighed(queue)
        return known

    def _weighed(self, queue: ObjectKey) -> float:
        weight = self._weights.get(queue, 1.0)
        if weight <= 0:
            return math.inf
        record = self._records.get(queue)
        total: Billionths = record.consumed if record else {}
        for penalty in self._penalties.get(queue, {}).values():
            total = _sum(total, penalty)
        return self._decay.weighed(total) / weight

    # --- queues ---

    def set_queue(self, queue: LocalQueue) -> bool:
        """Set its weight, and take over its status if that is younger than what we know: another process wrote it,
        before we started or while it was the leader. Returns whether its usage has changed."""
        before = self._usage.pop(queue.key, None)
        self._weights[queue.key] = fair_weight(queue.spec.fair_sharing)
        told = queue.status.fair_sharing.admission_fair_sharing_status if queue.status.fair_sharing else None
        record = self._records.get(queue.key)
        if told is not None and (record is None or record.at < told.last_update):
            self._records[queue.key] = _Record(_parsed(told.consumed_resources), told.last_update)
        return self.usage(queue.key) != before

    def remove_queue(self, queue: ObjectKey) -> None:
        for known in (self._weights, self._records, self._penalties, self._usage):
            known.pop(queue, None)

    # --- workloads ---

    def charge(self, queue: ObjectKey, workload: ObjectKey, demand: Demand) -> None:
        """A workload got quota: add its penalty."""
        asked = _total(demand)
        penalty = self._decay.times(asked, self._decay.forgotten(self._decay.interval))
        self._penalties.setdefault(queue, {})[workload] = penalty
        self._usage.pop(queue, None)

    def discharge(self, queue: ObjectKey, workload: ObjectKey) -> bool:
        """Take its penalty back. Returns whether there was one."""
        penalties = self._penalties.get(queue, {})
        if workload not in penalties:
            return False
        del penalties[workload]
        self._usage.pop(queue, None)
        return True

    def admitted(self, queue: ObjectKey, workload: ObjectKey, *, takes: Amounts, used: Amounts, now: datetime) -> None:
        """A workload with a penalty was admitted: from now on its usage is in the history.

        `takes` is what it uses itself, `used` what all admitted workloads of its LocalQueue use, this one included.
        """
        if self.discharge(queue, workload):
            penalty = self._decay.times(_by_resource(takes), self._decay.forgotten(self._decay.interval))
            record = self._records.get(queue, _Record({}, now))
            self._note(queue, _sum(self._decayed(record, used, now), penalty), now)

    # --- sampling ---

    def sample(self, queue: LocalQueue, used: Amounts, now: datetime) -> timedelta:
        """Update the history if an interval has passed. Returns the time until the next sample."""
        status = queue.status.fair_sharing
        is_told = status is not None and status.admission_fair_sharing_status is not None
        record = self._records.get(queue.key)
        if record is not None and is_told and timedelta() <= now - record.at < self._decay.interval:
            return self._decay.interval - (now - record.at)
        if self._decay.half_life:
            before = record or _Record(_by_resource(used) if self._decay.may_begin_with_usage else {}, now)
            self._note(queue.key, self._decayed(before, used, now), now)
        else:
            self._note(queue.key, {}, now)
        return self._decay.interval

    def status(self, queue: ObjectKey) -> AdmissionFairSharingStatus | None:
        """The consumed resources for the LocalQueue's status; None before the first sample."""
        record = self._records.get(queue)
        if record is None:
            return None
        amounts = sorted(record.consumed.items())
        consumed: dict[str, str | int | float] = {name: quantity.billionths(amount) for name, amount in amounts}
        return AdmissionFairSharingStatus(consumed, record.at.replace(microsecond=0))

    def _decayed(self, record: _Record, used: Amounts, now: datetime) -> Billionths:
        return self._decay.decayed(record.consumed, _by_resource(used), now - record.at)

    def _note(self, queue: ObjectKey, consumed: Billionths, now: datetime) -> None:
        self._records[queue] = _Record(consumed, now)
        self._usage.pop(queue, None)


def _sum(one: Billionths, other: Billionths) -> Billionths:
    return {
        name: one.get(name, 0) + other.get(name, 0) for name in (*one, *(name for name in other if name not in one))
    }


def _billionths(resource: str, amount: int) -> int:
    return amount * (quantity.NANO // quantity.scale(resource))


def _by_resource(amounts: Amounts) -> Billionths:
    total: dict[str, int] = {}
    for (_, resource), amount in amounts.items():
        total[resource] = total.get(resource, 0) + _billionths(resource, amount)
    return total


def _total(demand: Demand) -> Billionths:
    total: dict[str, int] = {}
    for pod_set in demand.pod_sets:
        for resource, amount in pod_set.requests.items():
            total[resource] = total.get(resource, 0) + _billionths(resource, amount)
    return total


def _parsed(resources: Mapping[str, str | int | float]) -> Billionths:
    """From a status that any user may have written: less than nothing is nothing."""
    return {name: max(0, quantity.parse(text)) for name, text in resources.items()}
