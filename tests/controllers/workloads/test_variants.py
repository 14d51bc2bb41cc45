"""Concurrent Admission, whole: variants of a job, dispatched by the one that is admitted; one file, one kind of life."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from multikueue.api import kinds
from multikueue.api.kueue.concurrent_admission import FLAVORS_ANNOTATION, GATE, PARENT_LABEL
from multikueue.api.meta import ObjectKey
from multikueue.errors import AlreadyExists
from multikueue.settings import Quota
from tests.controllers.table import NAMESPACE, Body, Table, job_body, table

pytestmark = pytest.mark.anyio

ON = Quota(concurrent_admission=True)
FLAVORS = ("reserved", "spot")
TRY = {"mode": "TryPreferredFlavors"}
SINCE = "2026-01-01T11:00:00Z"
SECONDS = timedelta(seconds=5)


def concurrent(
    *, reserved: int = 10, spot: int = 10, migration: Body | None = None, rules: Quota = ON, **settings: Any
) -> Table:
    """A queue with two flavors, the reserved one preferred, with so many CPUs each."""
    world = table(rules=rules, **settings)
    for name in FLAVORS:
        world.manager.put(kinds.RESOURCE_FLAVORS, {"metadata": {"name": name}, "spec": {}})
    set_quota(world, reserved=reserved, spot=spot, migration=migration)
    return world


def set_quota(world: Table, *, reserved: int, spot: int, migration: Body | None = None, **spec: Any) -> None:
    quotas = {"reserved": reserved, "spot": spot}
    flavors = [{"name": n, "resources": [{"name": "cpu", "nominalQuota": str(q)}]} for n, q in quotas.items()]
    old = world.manager.find(kinds.CLUSTER_QUEUES, ObjectKey("", "cq"))
    assert old is not None
    new = {
        "resourceGroups": [{"coveredResources": ["cpu"], "flavors": flavors}],
        "concurrentAdmissionPolicy": {"migration": migration or TRY},
    }
    world.manager.put(kinds.CLUSTER_QUEUES, old | {"spec": old["spec"] | new | spec})


def variants(world: Table) -> dict[str, Body]:
    """The variants by flavor."""
    notes = [(w["metadata"].get("annotations", {}), w) for w in world.manager.all(kinds.WORKLOADS)]
    return {note[FLAVORS_ANNOTATION]: w for note, w in notes if FLAVORS_ANNOTATION in note}


def states(world: Table) -> dict[str, str]:
    """A word for each variant: what it has, or why it has nothing."""
    return {flavor: _state(variant) for flavor, variant in variants(world).items()}


def _state(variant: Body) -> str:
    true = {c["type"] for c in variant.get("status", {}).get("conditions", []) if c["status"] == "True"}
    order = ("Finished", "Admitted", "QuotaReserved")
    return next((each for each in order if each in true), "waits" if variant["spec"].get("active", True) else "off")


def flavor_of(world: Table) -> str:
    """The flavor that the job has quota of."""
    admission = world.status().get("admission")
    return admission["podSetAssignments"][0]["flavors"]["cpu"] if admission else ""


async def begun(**settings: Any) -> Table:
    world = concurrent(**settings)
    world.submit()
    await world.settle()
    return world


async def running(**settings: Any) -> Table:
    world = await begun(**settings)
    world.admit("w1")
    await world.settle()
    return world


async def test_a_job_gets_a_variant_for_each_flavor() -> None:
    world = await begun()
    parent, found = world.workload(), variants(world)
    assert parent["metadata"]["labels"][PARENT_LABEL] == "true"
    assert set(found) == set(FLAVORS)
    for flavor, variant in found.items():
        assert variant["metadata"]["ownerReferences"][0]["uid"] == parent["metadata"]["uid"]
        assert variant["metadata"]["name"].startswith(f"job-job-variant-{flavor}-")
        assert PARENT_LABEL not in variant["metadata"]["labels"]
        assert [gate["name"] for gate in variant["spec"]["preemptionGates"]] == [GATE]
    assert world.errors == []


async def test_with_the_gate_off_it_gets_none() -> None:
    world = await begun(rules=Quota())
    assert variants(world) == {}
    assert PARENT_LABEL not in world.workload()["metadata"].get("labels", {})
    assert flavor_of(world) == "reserved"


async def test_the_preferred_one_is_admitted_and_the_others_end() -> None:
    world = await begun()
    assert states(world) == {"reserved": "Admitted", "spot": "off"}
    assert flavor_of(world) == "reserved"


async def test_where_that_has_no_room_another_one_is() -> None:
    world = await begun(reserved=0)
    assert states(world) == {"reserved": "waits", "spot": "Admitted"}
    assert flavor_of(world) == "spot"


async def test_the_parent_is_dispatched_and_no_variant() -> None:
    world = await begun()
    assert world.copies() == ["w1", "w2", "w3"]
    for cluster in world.workers.values():
        (copy,) = cluster.all(kinds.WORKLOADS)
        assert copy["metadata"]["name"] == world.workload()["metadata"]["name"]
        assert PARENT_LABEL not in copy["metadata"]["labels"]
    assert all(not v["status"].get("admissionChecks") for v in variants(world).values())


async def test_it_runs_where_it_wins_and_its_end_is_that_of_all() -> None:
    world = await running()
    assert world.runs_on() == ["w1"]
    assert (world.condition("Admitted") or {})["status"] == "True"
    world.finish("w1")
    await world.settle()
    assert (world.condition("Finished") or {})["status"] == "True"
    assert set(states(world).values()) == {"Finished"}
    assert world.engine.view.queue_usage("cq").reserving == 0
    assert world.errors == []


async def test_at_rest_nothing_is_written() -> None:
    world = await running(reserved=0)
    before = len(world.manager.calls)
    for key in [ObjectKey(NAMESPACE, w["metadata"]["name"]) for w in world.manager.all(kinds.WORKLOADS)]:
        world.queues.workloads.add(key)
    await world.settle()
    assert len(world.manager.calls) == before


async def test_its_quota_counts_once() -> None:
    world = await running()
    usage = world.engine.view.queue_usage("cq")
    assert (usage.reserving, usage.admitted, dict(usage.usage)) == (1, 1, {("reserved", "cpu"): 1000})


async def test_what_is_not_dispatched_runs_on_the_manager_cluster_by_its_variant() -> None:
    world = concurrent(reserved=0)
    set_quota(world, reserved=0, spot=9, admissionChecksStrategy=None)
    world.manager.put(kinds.JOBS, job_body("job", managed=False))
    await world.settle()
    assert (world.condition("Admitted") or {})["status"] == "True"
    assert flavor_of(world) == "spot"
    assert not (world.manager.find(kinds.JOBS, ObjectKey(NAMESPACE, "job")) or {})["spec"]["suspend"]
    assert world.errors == []


# Migration.


async def test_it_moves_to_the_preferred_flavor_once_that_has_room() -> None:
    world = await running(reserved=0)
    set_quota(world, reserved=10, spot=10)
    await later(world)
    assert (world.condition("Evicted") or {})["reason"] == "VariantEvicted"
    assert states(world) == {"reserved": "waits", "spot": "Admitted"}  # until nothing runs on w1
    world.evict("w1")
    await world.settle()
    assert states(world) == {"reserved": "Admitted", "spot": "off"}
    assert flavor_of(world) == "reserved"
    assert world.runs_on() == []
    world.admit("w2")
    await world.settle()
    assert world.runs_on() == ["w2"]
    assert world.engine.view.queue_usage("cq").reserving == 1
    assert world.errors == []


async def test_it_stays_where_its_queue_retains_the_first_admission() -> None:
    retain = {"mode": "RetainFirstAdmission"}
    world = await running(reserved=0, migration=retain)
    assert states(world) == {"reserved": "off", "spot": "Admitted"}
    set_quota(world, reserved=10, spot=10, migration=retain)
    await later(world)
    assert (flavor_of(world), world.runs_on()) == ("spot", ["w1"])


async def test_a_restart_in_the_middle_of_a_migration_loses_nothing() -> None:
    world = await running(reserved=0)
    set_quota(world, reserved=10, spot=10)
    await later(world)
    world.start()
    await later(world)
    assert world.runs_on() == ["w1"]
    world.evict("w1")
    world.start()
    await world.settle()
    world.admit("w3")
    world.start()
    await world.settle()
    assert (flavor_of(world), world.runs_on()) == ("reserved", ["w3"])
    assert states(world) == {"reserved": "Admitted", "spot": "off"}
    assert world.errors == []


RESTARTS = ["before the variants", "before the admission", "before the win", "while it runs"]


@pytest.mark.parametrize("when", RESTARTS)
async def test_a_restart_doubles_nothing(when: str) -> None:
    world = concurrent(reserved=0)
    for step in RESTARTS:
        if step == when:
            world.start()
        if step == "before the variants":
            world.submit()
        if step == "before the win":
            world.admit("w1")
        await world.settle()
    assert states(world) == {"reserved": "waits", "spot": "Admitted"}
    assert (world.runs_on(), len(world.manager.all(kinds.WORKLOADS))) == (["w1"], 3)
    world.finish("w1")
    await world.settle()
    assert set(states(world).values()) == {"Finished"}
    assert world.errors == []


# What goes wrong.


async def test_what_its_worker_evicts_waits_with_all_its_variants_and_comes_again() -> None:
    world = await running(reserved=0)
    world.evict("w1")
    await world.settle()
    assert (world.condition("Evicted") or {})["reason"] == "AdmissionCheck"
    assert states(world) == {"reserved": "off", "spot": "off"}
    assert world.engine.view.queue_usage("cq").reserving == 0
    await later(world, minutes=2)
    assert states(world) == {"reserved": "waits", "spot": "Admitted"}
    world.admit("w2")
    await world.settle()
    assert world.runs_on() == ["w2"]
    assert world.errors == []


async def preempted() -> Table:
    world = await begun(reserved=0, spot=1)
    set_quota(world, reserved=0, spot=1, preemption={"withinClusterQueue": "LowerPriority"})
    submit_urgent(world)
    await later(world)
    return world


def submit_urgent(world: Table, queue: str = "main") -> None:
    world.manager.put(kinds.WORKLOAD_PRIORITY_CLASSES, {"metadata": {"name": "high"}, "value": 9})
    urgent = job_body("urgent", queue=queue)
    urgent["metadata"]["labels"]["kueue.x-k8s.io/priority-class"] = "high"
    world.manager.put(kinds.JOBS, urgent)


async def test_what_is_preempted_gives_its_quota_to_others_and_waits() -> None:
    world = await preempted()
    assert [c["reason"] for c in world.status()["conditions"] if c["type"] == "Evicted"] == ["VariantEvicted"]
    assert world.status("urgent")["admission"]["podSetAssignments"][0]["flavors"] == {"cpu": "spot"}
    assert flavor_of(world) == ""
    assert world.engine.view.queue_usage("cq").reserving == 1
    assert world.errors == []


async def test_one_of_its_variants_preempts_at_a_time() -> None:
    world = await begun(reserved=1, spot=1)
    world.submit("second")
    await world.settle()
    set_quota(world, reserved=1, spot=1, preemption={"withinClusterQueue": "LowerPriority"})
    submit_urgent(world)
    await later(world)
    assert world.status("urgent")["admission"]["podSetAssignments"][0]["flavors"] == {"cpu": "reserved"}
    assert flavor_of(world) == ""
    assert world.status("second")["admission"]["podSetAssignments"][0]["flavors"] == {"cpu": "spot"}
    assert "PreemptionUngatedVariant" in [reason for reason, _ in world.said()]
    assert world.errors == []


def with_check(world: Table, *, reserved: int, spot: int) -> None:
    """The reserved flavor has a check of another controller, too."""
    status = {
        "conditions": [
            {"type": "Active", "status": "True", "reason": "Active", "message": "", "lastTransitionTime": SINCE}
        ]
    }
    check = {"metadata": {"name": "prov", "generation": 1}, "spec": {"controllerName": "x/y"}, "status": status}
    world.manager.put(kinds.ADMISSION_CHECKS, check)
    checks = [{"name": "mk"}, {"name": "prov", "onFlavors": ["reserved"]}]
    set_quota(world, reserved=reserved, spot=spot, admissionChecksStrategy={"admissionChecks": checks})


def named(world: Table, flavor: str) -> ObjectKey:
    """The key of a variant."""
    return ObjectKey(NAMESPACE, variants(world)[flavor]["metadata"]["name"])


@pytest.mark.parametrize(("spot", "other"), [(5, "Admitted"), (0, "waits")])
async def test_a_variant_whose_check_says_rejected_ends_at_once_and_the_others_go_on(spot: int, other: str) -> None:
    world = concurrent(reserved=5, spot=spot)
    with_check(world, reserved=5, spot=spot)
    world.submit()
    await world.settle()
    said = [{"name": "prov", "state": "Rejected", "message": "no", "lastTransitionTime": SINCE}]
    world.manager.change(kinds.WORKLOADS, named(world, "reserved"), {"status": {"admissionChecks": said}})
    await world.settle()
    assert states(world) == {"reserved": "off", "spot": other}
    assert world.errors == []


async def test_a_variant_whose_name_is_taken_does_not_keep_the_others_from_coming() -> None:
    world = await begun(reserved=0, spot=5)
    taken = named(world, "reserved")
    for flavor in FLAVORS:
        world.manager.drop(kinds.WORKLOADS, named(world, flavor))
    spec = {"queueName": "nope", "podSets": world.workload()["spec"]["podSets"]}
    world.manager.put(kinds.WORKLOADS, {"metadata": {"name": taken.name, "namespace": NAMESPACE}, "spec": spec})
    await world.settle()
    assert states(world) == {"spot": "Admitted"}
    assert {type(error) for error in world.errors} == {AlreadyExists}


async def test_a_class_that_a_variant_with_quota_cannot_take_reaches_the_others() -> None:
    world = concurrent(reserved=5, spot=0)
    with_check(world, reserved=5, spot=0)
    world.submit()
    await world.settle()
    assert states(world) == {"reserved": "QuotaReserved", "spot": "waits"}
    world.manager.put(kinds.WORKLOAD_PRIORITY_CLASSES, {"metadata": {"name": "high"}, "value": 9})
    labels = {"kueue.x-k8s.io/priority-class": "high"}
    world.manager.change(kinds.JOBS, ObjectKey(NAMESPACE, "job"), {"metadata": {"labels": labels}})
    await world.settle()
    assert {flavor: v["spec"].get("priority", 0) for flavor, v in variants(world).items()} == {"reserved": 0, "spot": 9}
    assert world.errors == []


async def test_who_deactivates_the_job_deactivates_all() -> None:
    world = await running()
    world.manager.change(kinds.WORKLOADS, world.key(), {"spec": {"active": False}})
    await world.settle()
    world.evict("w1")
    await world.settle()
    assert states(world) == {"reserved": "off", "spot": "off"}
    assert (flavor_of(world), world.runs_on()) == ("", [])
    world.manager.change(kinds.WORKLOADS, world.key(), {"spec": {"active": True}})
    await later(world)
    assert states(world)["reserved"] == "Admitted"
    assert flavor_of(world) == "reserved"
    assert world.errors == []


async def test_a_variant_that_somebody_deletes_is_made_again_and_the_job_starts_over() -> None:
    world = await running()
    gone = variants(world)["reserved"]["metadata"]
    world.manager.drop(kinds.WORKLOADS, ObjectKey(NAMESPACE, gone["name"]))
    await world.settle()
    assert (world.condition("Evicted") or {})["reason"] == "ConcurrentAdmission"
    world.evict("w1")
    await world.settle()
    assert variants(world)["reserved"]["metadata"]["uid"] != gone["uid"]
    assert flavor_of(world) == "reserved"
    assert world.errors == []


async def test_the_quota_of_a_variant_that_somebody_deletes_is_free_only_once_the_job_has_stopped() -> None:
    world = await running(reserved=1, spot=0)
    gone = named(world, "reserved")
    world.submit("second")
    await later(world)
    world.manager.drop(kinds.WORKLOADS, gone)
    await later(world)
    assert (world.runs_on(), world.status("second").get("admission")) == (["w1"], None)
    assert world.engine.view.queue_usage("cq").reserving == 1
    world.evict("w1")
    for _ in range(2):  # quota is looked at again a second after it is free
        await later(world)
    assert world.runs_on() == []
    assert world.engine.view.queue_usage("cq").reserving == 1
    assert world.errors == []


async def test_a_second_variant_of_its_flavor_goes_and_the_job_runs_on() -> None:
    world = await running(reserved=0)
    one = variants(world)["spot"]
    by_hand = {"name": "aaa"} | {k: one["metadata"][k] for k in ("namespace", "annotations", "ownerReferences")}
    world.manager.put(kinds.WORKLOADS, {"metadata": by_hand, "spec": world.workload()["spec"]})
    await later(world)
    assert states(world) == {"reserved": "waits", "spot": "Admitted"}
    assert world.manager.find(kinds.WORKLOADS, ObjectKey(NAMESPACE, "aaa")) is None
    assert (world.runs_on(), world.condition("Evicted")) == (["w1"], None)
    assert world.errors == []


async def test_variants_go_with_their_job() -> None:
    world = await begun()
    name = world.workload()["metadata"]["name"]
    world.manager.drop(kinds.JOBS, ObjectKey(NAMESPACE, "job"))
    world.manager.drop(kinds.WORKLOADS, ObjectKey(NAMESPACE, name))
    await world.settle()
    assert world.manager.all(kinds.WORKLOADS) == []
    assert [cluster.all(kinds.WORKLOADS) for cluster in world.workers.values()] == [[], [], []]
    assert world.engine.view.queue_usage("cq").reserving == 0
    assert world.errors == []


# What changes.


async def test_a_new_flavor_gets_a_variant_and_one_that_left_takes_it_along() -> None:
    world = await running(reserved=0)
    quotas = [{"name": n, "resources": [{"name": "cpu", "nominalQuota": "9"}]} for n in ("default", "spot")]
    set_quota(world, reserved=0, spot=0, resourceGroups=[{"coveredResources": ["cpu"], "flavors": quotas}])
    await later(world)
    assert set(variants(world)) == {"default", "spot"}
    assert "DeletedVariant" in [reason for reason, _ in world.said()]
    assert world.errors == []


async def test_without_the_policy_it_queues_by_itself_again() -> None:
    world = await begun(reserved=0, spot=0)
    assert states(world) == {"reserved": "waits", "spot": "waits"}
    set_quota(world, reserved=9, spot=9, concurrentAdmissionPolicy=None)
    await later(world)
    assert variants(world) == {}
    assert flavor_of(world) == "reserved"
    assert world.errors == []


async def test_what_loses_its_local_queue_gives_its_quota_away_only_once_it_has_stopped() -> None:
    world = await running(reserved=0, spot=1)
    set_quota(world, reserved=0, spot=1, preemption={"withinClusterQueue": "LowerPriority"})
    world.manager.put(
        kinds.LOCAL_QUEUES, {"metadata": {"name": "other", "namespace": NAMESPACE}, "spec": {"clusterQueue": "cq"}}
    )
    world.manager.drop(kinds.LOCAL_QUEUES, ObjectKey(NAMESPACE, "main"))
    submit_urgent(world, "other")
    await later(world)
    assert (world.condition("Evicted") or {})["reason"] == "VariantEvicted"
    assert (world.runs_on(), world.status("urgent").get("admission")) == (["w1"], None)
    world.evict("w1")
    await later(world)
    assert (world.runs_on(), flavor_of(world)) == ([], "")
    assert world.status("urgent").get("admission") is not None
    assert world.errors == []


async def test_without_the_policy_what_was_preempted_queues_by_itself_again() -> None:
    world = await preempted()
    set_quota(world, reserved=5, spot=5, concurrentAdmissionPolicy=None)
    await later(world)
    assert flavor_of(world) == "reserved"
    assert world.errors == []


async def test_without_the_policy_what_runs_keeps_its_quota_and_others_wait() -> None:
    world = await running(reserved=1, spot=0)
    set_quota(world, reserved=1, spot=0, concurrentAdmissionPolicy=None)
    world.submit("second")
    await later(world)
    assert (world.runs_on(), flavor_of(world), variants(world)) == (["w1"], "reserved", {})
    assert world.status("second").get("admission") is None
    assert world.errors == []


async def test_a_queue_that_is_made_again_gives_quota_to_variants_only() -> None:
    world = await begun(reserved=0, spot=0)
    key = ObjectKey(NAMESPACE, "main")
    old = world.manager.find(kinds.LOCAL_QUEUES, key)
    assert old is not None
    world.manager.drop(kinds.LOCAL_QUEUES, key)
    await later(world)
    set_quota(world, reserved=1, spot=0)
    await later(world)
    world.manager.put(kinds.LOCAL_QUEUES, {"metadata": {"name": "main", "namespace": NAMESPACE}, "spec": old["spec"]})
    await later(world)
    assert states(world) == {"reserved": "Admitted", "spot": "off"}
    assert (flavor_of(world), world.engine.view.queue_usage("cq").reserving) == ("reserved", 1)
    assert world.errors == []


async def later(world: Table, *, minutes: int = 0) -> None:
    world.time += timedelta(minutes=minutes) if minutes else SECONDS
    for key in [ObjectKey(NAMESPACE, w["metadata"]["name"]) for w in world.manager.all(kinds.WORKLOADS)]:
        world.queues.workloads.add(key)
    await world.settle()
