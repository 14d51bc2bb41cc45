"""Problems of a queue, and the figures in its status (quota-engine 4.5, contract 1.4)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime

import msgspec

from multikueue.api.kueue.admission_checks import ACTIVE, CONTROLLER_NAME, AdmissionCheck
from multikueue.api.kueue.queues import (
    AdmissionFairSharingStatus,
    ClusterQueue,
    ClusterQueueStatus,
    FairSharingStatus,
    FlavorUsage,
    LocalQueue,
    QueueStatus,
    ResourceFlavor,
    ResourceUsage,
    has_manager_as_worker,
)
from multikueue.api.meta import Condition, is_true, with_condition
from multikueue.api.values import quantity
from multikueue.quota.cache.reservations import QueueUsage
from multikueue.quota.cache.tree import Amounts, CellQuota, FlavorResource

PROVISIONING_CONTROLLER_NAME = "kueue.x-k8s.io/provisioning-request"


class Problem(msgspec.Struct, frozen=True):
    """Why a ClusterQueue admits nothing: Kueue's reason and part of its message."""

    reason: str
    message: str


def cluster_queue_problems(
    queue: ClusterQueue, *, flavors: Mapping[str, ResourceFlavor], checks: Mapping[str, AdmissionCheck]
) -> tuple[Problem, ...]:
    """All that keeps a ClusterQueue from admitting, the most important first; empty: it is active."""
    if queue.metadata.deletion_timestamp is not None:
        return (Problem("Terminating", "clusterQueue is terminating"),)
    return tuple(_problems(queue, flavors, checks))


def cycle_problem(cohorts: Sequence[str]) -> Problem:
    """The Cohorts above a ClusterQueue form a cycle: there is no quota to compute. The reason is that of Kueue since 0.19.7."""
    return Problem("CohortCycleDetected", f"is below a cycle of Cohorts: {' -> '.join((*cohorts, cohorts[0]))}")


def _problems(
    queue: ClusterQueue, flavors: Mapping[str, ResourceFlavor], checks: Mapping[str, AdmissionCheck]
) -> Iterator[Problem]:
    if queue.spec.stop_policy != "None":
        yield Problem("Stopped", "is stopped")
    if missing := sorted(flavor_names(queue) - flavors.keys()):
        yield Problem("FlavorNotFound", f"references missing ResourceFlavor(s): {','.join(missing)}")
    names = check_names(queue)
    if missing := sorted(names - checks.keys()):
        yield Problem("AdmissionCheckNotFound", f"references missing AdmissionCheck(s): {','.join(missing)}")
    known = [checks[name] for name in sorted(names & checks.keys())]
    if inactive := [check.metadata.name for check in known if not is_true(check.status.conditions, ACTIVE)]:
        yield Problem("AdmissionCheckInactive", f"references inactive AdmissionCheck(s): {','.join(inactive)}")
    yield from _multikueue_problems(queue, known)
    if all(check.spec.controller_name != CONTROLLER_NAME for check in known):
        yield from _topology_problems(queue, flavors)


def _topology_problems(queue: ClusterQueue, flavors: Mapping[str, ResourceFlavor]) -> Iterator[Problem]:
    """A flavor with a topology needs a MultiKueue check: the workers place pods, and the manager has no Topology."""
    for name in sorted(flavor_names(queue) & flavors.keys()):
        if topology := flavors[name].spec.topology_name:
            yield Problem("TopologyNotFound", f'there is no Topology "{topology}" for TAS flavor "{name}"')


def _multikueue_problems(queue: ClusterQueue, checks: Iterable[AdmissionCheck]) -> Iterator[Problem]:
    by_controller: dict[str, list[str]] = {}
    for check in checks:
        by_controller.setdefault(check.spec.controller_name, []).append(check.metadata.name)
    ours = by_controller.get(CONTROLLER_NAME, [])
    if len(ours) > 1:
        message = f"Cannot use multiple MultiKueue AdmissionChecks on the same ClusterQueue, found: {','.join(ours)}"
        yield Problem("MultipleMultiKueueAdmissionChecks", message)
    rules = queue.spec.admission_checks_strategy.admission_checks
    some = (rule for rule in rules if rule.on_flavors and set(rule.on_flavors) != flavor_names(queue))
    per_flavor = sorted(rule.name for rule in some if rule.name in ours)
    if per_flavor and not has_manager_as_worker(queue):
        message = f"Cannot specify MultiKueue AdmissionCheck per flavor, found: {','.join(per_flavor)}"
        yield Problem("MultiKueueAdmissionCheckAppliedPerFlavor", message)
    if ours and (others := by_controller.get(PROVISIONING_CONTROLLER_NAME, [])):
        found = f"found: {','.join(ours)}, {','.join(others)}"
        message = f"Cannot use both MultiKueue and ProvisioningRequest AdmissionChecks together, {found}"
        yield Problem("MultiKueueWithProvisioningRequest", message)


def flavor_names(queue: ClusterQueue) -> set[str]:
    return {flavor.name for group in queue.spec.resource_groups for flavor in group.flavors}


def check_names(queue: ClusterQueue) -> set[str]:
    return {rule.name for rule in queue.spec.admission_checks_strategy.admission_checks}


def cluster_queue_status(
    queue: ClusterQueue,
    queue_usage: QueueUsage,
    quotas: Mapping[FlavorResource, CellQuota],
    *,
    pending: int,
    problems: tuple[Problem, ...],
    now: datetime,
    share: int | None = None,
) -> ClusterQueueStatus:
    """The status that follows `queue.status`, with its transition times; equal to it if nothing changed. `share` is the
    weighted share; None without fair sharing."""
    nominal = {fr: quota.nominal for fr, quota in quotas.items()} if queue.spec.cohort_name else {}
    return ClusterQueueStatus(
        conditions=with_condition(queue.status.conditions, _cluster_queue_condition(queue, problems), now),
        flavors_reservation=_flavors(queue, queue_usage.reservation, nominal),
        flavors_usage=_flavors(queue, queue_usage.usage, nominal),
        pending_workloads=pending,
        reserving_workloads=queue_usage.reserving,
        admitted_workloads=queue_usage.admitted,
        fair_sharing=None if share is None else FairSharingStatus(weighted_share=share),
        effective_quotas=queue.status.effective_quotas,
    )


def _cluster_queue_condition(queue: ClusterQueue, problems: tuple[Problem, ...]) -> Condition:
    reason, message = "Ready", "Can admit new workloads"
    if problems:
        reason = problems[0].reason
        message = f"Can't admit new workloads: {', '.join(problem.message for problem in problems)}."
    if reason == "Terminating":
        message = f"Can't admit new workloads; {problems[0].message}"
    return _active(queue.metadata.generation, reason, message, is_active=not problems)


def local_queue_status(
    local_queue: LocalQueue,
    queue: ClusterQueue | None,
    queue_usage: QueueUsage,
    *,
    pending: int,
    is_active: bool,
    now: datetime,
    history: AdmissionFairSharingStatus | None = None,
) -> QueueStatus:
    """As `cluster_queue_status`, for a LocalQueue. `is_active`: its ClusterQueue is; `history`: its consumed resources,
    where they count."""
    condition = _local_queue_condition(
        local_queue, has_cluster_queue=queue is not None, is_cluster_queue_active=is_active
    )
    return QueueStatus(
        conditions=with_condition(local_queue.status.conditions, condition, now),
        flavors_reservation=_flavors(queue, queue_usage.reservation, None),
        flavors_usage=_flavors(queue, queue_usage.usage, None),
        pending_workloads=pending,
        reserving_workloads=queue_usage.reserving,
        admitted_workloads=queue_usage.admitted,
        fair_sharing=None if history is None else FairSharingStatus(0, history),
    )


def _local_queue_condition(
    local_queue: LocalQueue, *, has_cluster_queue: bool, is_cluster_queue_active: bool
) -> Condition:
    generation = local_queue.metadata.generation
    if local_queue.spec.stop_policy != "None":
        return _active(generation, "Stopped", "LocalQueue is stopped", is_active=False)
    if not has_cluster_queue:
        return _active(
            generation, "ClusterQueueDoesNotExist", "Can't submit new workloads to clusterQueue", is_active=False
        )
    if not is_cluster_queue_active:
        return _active(
            generation, "ClusterQueueIsInactive", "Can't submit new workloads to clusterQueue", is_active=False
        )
    return _active(generation, "Ready", "Can submit new workloads to localQueue", is_active=True)


def _active(generation: int, reason: str, message: str, *, is_active: bool) -> Condition:
    return Condition(
        type=ACTIVE,
        status="True" if is_active else "False",
        reason=reason,
        message=message,
        observed_generation=generation,
    )


def _flavors(queue: ClusterQueue | None, used: Amounts, nominal: Amounts | None) -> tuple[FlavorUsage, ...]:
    """The amounts by flavor in the order of the spec. `nominal` is None where the status has no borrowed amounts."""
    found = []
    for group in queue.spec.resource_groups if queue else ():
        for flavor in group.flavors:
            usage = []
            for resource in sorted([each.name for each in flavor.resources]):
                amount = used.get((flavor.name, resource), 0)
                borrowed = ""
                if nominal is not None:
                    more = max(0, amount - nominal.get((flavor.name, resource), amount))
                    borrowed = quantity.render(resource, more)
                total = quantity.render(resource, amount)
                usage.append(ResourceUsage(name=resource, total=total, borrowed=borrowed))
            found.append(FlavorUsage(name=flavor.name, resources=tuple(usage)))
    return tuple(found)
