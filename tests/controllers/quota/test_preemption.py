"""A workload makes room for a stronger one: told, stopped on its worker, queued again (quota-engine 3.7, 4.3)."""

from __future__ import annotations

from math import isnan

import pytest
from msgspec.structs import replace

from multikueue.api import kinds
from multikueue.api.jobs.job import JobKey
from multikueue.api.meta import ObjectKey
from multikueue.controllers.metrics.collector import StateCollector
from multikueue.controllers.quota.admission import SchedulerLoop
from multikueue.controllers.quota.queue_status import QueueStatuses
from multikueue.controllers.workloads.jobs import Jobs
from multikueue.controllers.workloads.workloads import Workloads
from multikueue.quota.queueing.requeueing import FLUSH_DELAY
from multikueue.settings import InForce, Quota, Settings
from tests.controllers.table import Table, job_body, table

pytestmark = pytest.mark.anyio

QUEUE = ObjectKey("", "cq")


async def pressed() -> Table:
    """A weak job runs and has all the quota; a strong one was just submitted."""
    world = table(quota=1)
    queue = world.manager.find(kinds.CLUSTER_QUEUES, QUEUE)
    assert queue
    spec = {**queue["spec"], "preemption": {"withinClusterQueue": "LowerPriority"}}
    world.manager.change(kinds.CLUSTER_QUEUES, QUEUE, {"spec": spec})
    world.manager.put(kinds.WORKLOAD_PRIORITY_CLASSES, {"metadata": {"name": "high"}, "value": 7})
    world.submit("weak")
    await world.settle()
    world.admit("w1", "weak")
    await world.settle()
    body = job_body("strong")
    body["metadata"]["labels"]["kueue.x-k8s.io/priority-class"] = "high"
    world.manager.put(kinds.JOBS, body)
    return world


async def test_the_victim_leaves_its_worker_and_waits_then_the_preemptor_gets_the_quota() -> None:
    world = await pressed()
    await world.settle()
    assert world.runs_on("weak") == ["w1"]  # it is told there, and keeps its quota meanwhile
    assert (world.condition("QuotaReserved", "weak") or {})["status"] == "True"
    world.evict("w1", "weak")
    await world.settle()

    assert world.runs_on("weak") == []
    evicted, preempted, requeued = (world.condition(type_, "weak") for type_ in ("Evicted", "Preempted", "Requeued"))
    assert evicted
    assert preempted
    assert requeued
    assert (evicted["status"], evicted["reason"]) == ("True", "Preempted")
    assert (preempted["status"], preempted["reason"]) == ("True", "InClusterQueue")
    assert (requeued["status"], requeued["reason"]) == ("True", "Preempted")
    assert {"EvictedDueToPreempted", "Preempted"} <= {reason for reason, _ in world.said()}
    reserved = world.condition("QuotaReserved", "strong")
    assert reserved
    assert reserved["status"] == "True"


async def test_while_its_worker_is_out_of_reach_it_keeps_the_quota() -> None:
    world = await pressed()
    world.cut("w1")
    await world.settle()

    reserved = {name: world.condition("QuotaReserved", name) for name in ("weak", "strong")}
    assert {name: condition and condition["status"] for name, condition in reserved.items()} == {
        "weak": "True",
        "strong": "False",
    }
    assert (reserved["strong"] or {})["message"].endswith("Pending the preemption of 1 workload(s)")

    world.connect("w1")
    world.evict("w1", "weak")
    await world.settle()
    assert (world.condition("QuotaReserved", "strong") or {})["status"] == "True"


@pytest.mark.parametrize("allowed", [True, False])
async def test_an_annotation_that_makes_no_sense_is_told_of_where_it_would_count(allowed: bool) -> None:
    world = table(quota=1)
    body = job_body("job")
    body["metadata"]["annotations"] = {"multikueue.dev/non-preemptible": "yes"}
    world.manager.put(kinds.JOBS, body)
    await world.settle()
    in_force = InForce(Settings(quota=Quota(non_preemptible=allowed)))
    await Workloads(replace(world.world, settings=in_force)).reconcile(world.key())
    said = [message for reason, message in world.said() if reason == "InvalidAnnotation"]
    assert [message.partition("expected")[2] for message in said] == [' "true" or "false", got "yes"'] * allowed
    assert (world.condition("QuotaReserved") or {})["status"] == "True"


async def limit_preemptions(world: Table, text: str) -> None:
    annotations = {"multikueue.dev/max-preempted-workloads": text}
    world.manager.change(kinds.CLUSTER_QUEUES, QUEUE, {"metadata": {"annotations": annotations}})
    await world.settle()
    await world.statuses()


async def test_a_budget_keeps_the_weak_until_it_is_lifted() -> None:
    world = await pressed()
    await limit_preemptions(world, "0/1h")
    assert world.condition("Evicted", "weak") is None
    await limit_preemptions(world, "1/1h")
    world.time += FLUSH_DELAY
    await world.settle()
    world.evict("w1", "weak")
    await world.settle()
    evicted, kept = world.condition("Evicted", "weak"), world.condition("multikueue.dev/PreemptedAt", "weak")
    assert evicted
    assert kept
    assert (kept["status"], kept["message"]) == ("True", evicted["lastTransitionTime"])


async def test_a_budget_that_makes_no_sense_is_told_of_and_stops_nothing() -> None:
    world = await pressed()
    await limit_preemptions(world, "few")
    assert [message.partition("expected")[2] for reason, message in world.said() if reason == "InvalidAnnotation"] == [
        ' a number of workloads and a duration such as "3/1h" or "0/30m", got "few"'
    ]
    assert (world.condition("Evicted", "weak") or {})["status"] == "True"


async def test_preemptions_are_counted_by_the_queue_that_gains() -> None:
    world = await pressed()
    for job in list(world.store.jobs):
        await Jobs(world.world).reconcile(JobKey("Job.batch", *job.key))
    SchedulerLoop()._cycle(world.world)
    assert world.world.metrics.preempted("cq", "InClusterQueue")._value.get() == 1


async def test_the_shares_of_queues_and_cohorts_are_shown_where_sharing_is_fair() -> None:
    world = table(quota=1, rules=Quota(fair_sharing=True))
    for name, parent in (("all", ""), ("part", "all")):
        world.manager.put(kinds.COHORTS, {"metadata": {"name": name}, "spec": {"parentName": parent}})
    queue = world.manager.find(kinds.CLUSTER_QUEUES, QUEUE) or {}
    spec = {**queue["spec"], "cohortName": "part"}
    world.manager.put(kinds.CLUSTER_QUEUES, {"metadata": {"name": "cq", "generation": 3}, "spec": spec})

    await QueueStatuses(world.world).reconcile_cluster_queue("cq")
    assert len(world.queues.cohorts) == 2  # what a queue uses is news for all cohorts above
    for name in ("all", "part", "unknown"):
        await QueueStatuses(world.world).reconcile_cohort(name)

    for kind, name in ((kinds.CLUSTER_QUEUES, "cq"), (kinds.COHORTS, "all"), (kinds.COHORTS, "part")):
        shown = world.manager.find(kind, ObjectKey("", name)) or {}
        assert shown["status"]["fairSharing"] == {"weightedShare": 0}
    figures = StateCollector(store=world.store, queues=world.queues).collect()
    found = {family.name: [sample.value for sample in family.samples] for family in figures}
    assert found["kueue_cluster_queue_weighted_share"] == [0]
    assert found["kueue_cohort_weighted_share"] == [0, 0]


async def test_qe_243_the_share_of_who_may_not_borrow_and_does_is_no_number() -> None:
    world = table(quota=0, rules=Quota(fair_sharing=True))
    flavors = [{"name": "default", "resources": [{"name": "cpu", "nominalQuota": "1"}]}]
    bank = {"resourceGroups": [{"coveredResources": ["cpu"], "flavors": flavors}]}
    world.manager.put(kinds.COHORTS, {"metadata": {"name": "all"}, "spec": bank})
    queue = world.manager.find(kinds.CLUSTER_QUEUES, QUEUE) or {}
    spec = {**queue["spec"], "cohortName": "all", "fairSharing": {"weight": "0"}}
    for kind in (kinds.NAMESPACES, kinds.RESOURCE_FLAVORS, kinds.ADMISSION_CHECKS, kinds.LOCAL_QUEUES):
        for body in world.manager.all(kind):
            world.manager.put(kind, body)
    world.manager.put(kinds.CLUSTER_QUEUES, {"metadata": {"name": "cq", "generation": 3}, "spec": spec})
    world.submit()
    await world.settle()

    figures = StateCollector(store=world.store, queues=world.queues).collect()
    (share,) = (family for family in figures if family.name == "kueue_cluster_queue_weighted_share")
    assert [isnan(sample.value) for sample in share.samples] == [True]


async def test_and_nowhere_else() -> None:
    world = table(quota=1)
    world.manager.put(kinds.COHORTS, {"metadata": {"name": "all"}, "spec": {}})
    await QueueStatuses(world.world).reconcile_cluster_queue("cq")
    await QueueStatuses(world.world).reconcile_cohort("all")

    assert "fairSharing" not in (world.manager.find(kinds.CLUSTER_QUEUES, QUEUE) or {})["status"]
    assert "status" not in (world.manager.find(kinds.COHORTS, ObjectKey("", "all")) or {})
    assert not [
        each.name for each in StateCollector(store=world.store, queues=world.queues).collect() if "share" in each.name
    ]
