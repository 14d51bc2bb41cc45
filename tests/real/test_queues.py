"""The queues on the manager: who gets quota, what stops a queue, what its status says; one file, one set of clusters."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import anyio
import pytest

from testbed import objects, queues
from testbed.client import ApiError, Kind, eventually
from testbed.jobs import complete_job, start_job
from testbed.objects import (
    ADMISSION_CHECK,
    CLUSTER_QUEUE,
    JOB,
    LOCAL_QUEUE,
    NAMESPACE,
    RESOURCE_FLAVOR,
    WORKLOAD,
    Object,
)
from tests.real.harness import Manager, Team, complaints, starts
from tests.real.skipping import needs_testbed

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.real,
    pytest.mark.timeout(120),
    pytest.mark.usefixtures("history"),
]

FOREIGN = "example.com/approval"
"""The controller of admission checks that are not ours."""


async def queue(crew: Team, name: str, *, checks: Sequence[str] | None = None, **spec: Any) -> str:
    """A LocalQueue of that name on all clusters. On the manager it has a ClusterQueue of its own with that spec, whose
    name is the answer; on the workers it leads to the team's."""
    wanted = [crew.namespace] if checks is None else checks
    body = objects.cluster_queue(f"{crew.namespace}-{name}", checks=wanted)
    body["spec"] |= spec
    await queues.setup_queue(crew.manager, namespace=crew.namespace, queue=name, cluster_queue=body)
    for client in crew.clients.values():
        await client.create(objects.local_queue(name, crew.namespace, cluster_queue=crew.namespace))
    return str(body["metadata"]["name"])


def group(*flavors: str, **quota: str) -> Object:
    """A resource group with that nominal quota in each flavor."""
    amounts = [{"name": name, "nominalQuota": amount} for name, amount in quota.items()]
    return {"coveredResources": list(quota), "flavors": [{"name": f, "resources": amounts} for f in flavors]}


async def foreign_check(crew: Team, name: str) -> str:
    """An active admission check of another controller on the manager."""
    body = objects.admission_check(f"{crew.namespace}-{name}", config="any", controller=FOREIGN)
    del body["spec"]["parameters"]
    made = await crew.manager.create(body)
    await set_active(crew, made["metadata"]["name"])
    return str(made["metadata"]["name"])


async def set_active(crew: Team, check: str, status: str = "True") -> None:
    stamp = {"lastTransitionTime": "2026-01-01T00:00:00Z", "reason": "Test", "message": ""}
    condition = {"type": "Active", "status": status, **stamp}
    await crew.manager.patch_status(ADMISSION_CHECK, check, {"conditions": [condition]})


async def set_check(crew: Team, check: str, state: str, name: str = "job") -> None:
    """Play another controller, or a user: give a check of a workload that state."""
    while True:
        workload = await crew.workload(name)
        meta, checks = workload["metadata"], workload["status"]["admissionChecks"]
        changed = [c | ({"state": state, "message": "by hand"} if c["name"] == check else {}) for c in checks]
        assert changed != checks
        patch = {"metadata": {"resourceVersion": meta["resourceVersion"]}, "status": {"admissionChecks": changed}}
        try:
            await crew.manager.patch(WORKLOAD, meta["name"], patch, crew.namespace, subresource="status")
        except ApiError as error:
            if error.reason != "Conflict":
                raise
        else:
            return


async def waits(crew: Team, name: str = "job", *, reason: str, message: str = "") -> bool:
    condition = await crew.condition("QuotaReserved", name)
    assert condition is not None, "nobody judged it yet"
    assert (condition["status"], condition["reason"]) == ("False", reason), condition
    assert message in condition["message"], condition
    return True


async def runs_through(crew: Team, name: str = "job") -> None:
    await crew.complete(await crew.runs_on(name), name)
    await crew.finished(name)


# --- quota -------------------------------------------------------------------------------------------------------------


async def test_quota_says_how_many_are_dispatched_and_what_is_freed_goes_on(crew: Team) -> None:
    await queue(crew, "small", resourceGroups=[group("default", cpu="2", memory="2Gi")])
    for number in range(3):
        await crew.submit(f"job{number}", queue="small", requests={"cpu": "1", "memory": "1Gi"})
        if number < 2:
            await eventually(partial(crew.is_true, "QuotaReserved", f"job{number}"))
    first = await crew.runs_on("job0")
    await crew.runs_on("job1")
    await eventually(lambda: waits(crew, "job2", reason="Pending", message="insufficient unused quota"))
    assert await crew.copies("job2") == {}
    await crew.complete(first, "job0")
    for name in ("job1", "job2"):
        await runs_through(crew, name)


@pytest.mark.parametrize("strategy", ["StrictFIFO", "BestEffortFIFO"])
async def test_the_strategy_of_a_queue_says_whether_a_small_job_may_pass_a_big_one(crew: Team, strategy: str) -> None:
    name = await queue(
        crew, "line", resourceGroups=[group("default", cpu="10", memory="10Gi")], queueingStrategy=strategy
    )
    await crew.submit("running", queue="line", requests={"cpu": "5"})
    worker = await crew.runs_on("running")
    await crew.submit("big", queue="line", requests={"cpu": "8"})
    await eventually(lambda: waits(crew, "big", reason="Pending"))
    await anyio.sleep(1.0 - time.time() % 1)  # the order of a queue goes by seconds
    await crew.submit("small", queue="line", requests={"cpu": "1"})
    if strategy == "BestEffortFIFO":
        await crew.runs_on("small")
    else:
        await eventually(lambda: crew.counts(CLUSTER_QUEUE, name, pendingWorkloads=2))
        assert not await crew.is_true("QuotaReserved", "small")
    await crew.complete(worker, "running")
    if strategy == "BestEffortFIFO":
        await runs_through(crew, "small")
    await runs_through(crew, "big")
    if strategy == "StrictFIFO":
        await runs_through(crew, "small")


@pytest.mark.parametrize("kind", [CLUSTER_QUEUE, LOCAL_QUEUE], ids=["ClusterQueue", "LocalQueue"])
async def test_a_status_that_somebody_else_wrote_is_put_right(crew: Team, kind: Kind) -> None:
    name, namespace = ("main", crew.namespace) if kind == LOCAL_QUEUE else (crew.namespace, None)
    await eventually(partial(crew.counts, kind, name, pendingWorkloads=0))
    await crew.manager.patch_status(kind, name, {"pendingWorkloads": 7}, namespace)
    await eventually(partial(crew.counts, kind, name, pendingWorkloads=0))


async def test_a_queue_serves_the_namespaces_it_selects(crew: Team) -> None:
    await queue(crew, "picky", namespaceSelector={"matchLabels": {"tier": crew.namespace}})
    await crew.submit(queue="picky")
    await eventually(lambda: waits(crew, reason="Pending", message="namespace doesn't match"))
    await crew.manager.patch(NAMESPACE, crew.namespace, {"metadata": {"labels": {"tier": crew.namespace}}})
    await runs_through(crew)


async def test_a_queue_without_our_check_runs_its_jobs_on_the_manager(crew: Team) -> None:
    await queue(crew, "here", checks=[])
    await crew.submit(queue="here", managed_by=None)

    async def runs() -> bool:
        return (await crew.job())["spec"]["suspend"] is False

    await eventually(runs)
    assert await crew.remote_jobs() == {} == await crew.copies()
    await complete_job(crew.manager, crew.namespace, "job")
    await eventually(lambda: crew.is_true("Finished"))
    assert (await crew.condition("Finished"))["reason"] == "Succeeded"  # type: ignore[index]


async def test_what_does_not_fit_one_flavor_goes_to_the_next(crew: Team) -> None:
    for flavor in ("small", "large"):
        await crew.manager.apply(objects.resource_flavor(f"{crew.namespace}-{flavor}"))
    small, large = f"{crew.namespace}-small", f"{crew.namespace}-large"
    compute = {
        "coveredResources": ["cpu"],
        "flavors": [
            {"name": small, "resources": [{"name": "cpu", "nominalQuota": "2"}]},
            {"name": large, "resources": [{"name": "cpu", "nominalQuota": "20"}]},
        ],
    }
    name = await queue(crew, "two", resourceGroups=[compute, group("default", memory="10Gi")])
    for job, cpu, flavor in (("modest", "2", small), ("greedy", "15", large)):
        await crew.submit(job, queue="two", requests={"cpu": cpu, "memory": "1Gi"})
        await crew.runs_on(job)
        (pods,) = (await crew.workload(job))["status"]["admission"]["podSetAssignments"]
        assert pods["flavors"] == {"cpu": flavor, "memory": "default"}
    used = {(small, "cpu"): "2", (large, "cpu"): "15", ("default", "memory"): "2Gi"}
    await eventually(lambda: reserves(crew, name, used))
    for job in ("modest", "greedy"):
        await runs_through(crew, job)
    await eventually(lambda: reserves(crew, name, dict.fromkeys(used, "0")))


CLAIMS = Kind("resource.k8s.io/v1", "ResourceClaimTemplate")
GPUS = '[{"name": "example.com/gpu", "device_class_names": ["gpu.example.com"]}]'


async def test_devices_that_pods_claim_count_once_their_template_is_there(crew: Team, manager: Manager) -> None:
    async with manager.reborn(QUOTA__DRA__DEVICE_CLASS_MAPPINGS=GPUS):
        await manager.ready()
        quota = {"cpu": "2", "memory": "2Gi", "example.com/gpu": "2"}
        await queue(crew, "devices", resourceGroups=[group("default", **quota)])
        body = objects.job("job", crew.namespace, queue="devices", managed_by=objects.MULTIKUEUE_CONTROLLER)
        claim = {"name": "it", "resourceClaimTemplateName": "two"}
        body["spec"]["template"]["spec"]["resourceClaims"] = [claim]
        await crew.manager.create(body)
        await eventually(lambda: waits(crew, reason="Inadmissible", message="ResourceClaimTemplate two of podset main"))
        assert not await crew.is_true("Requeued")

        requests = [{"name": "it", "exactly": {"deviceClassName": "gpu.example.com", "count": 2}}]
        template = {
            "apiVersion": CLAIMS.api_version,
            "kind": CLAIMS.kind,
            "spec": {"spec": {"devices": {"requests": requests}}},
        }
        await crew.manager.create({**template, "metadata": {"name": "two", "namespace": crew.namespace}})
        await eventually(partial(crew.is_true, "QuotaReserved"))
        (pods,) = (await crew.workload())["status"]["admission"]["podSetAssignments"]
        assert pods["resourceUsage"]["example.com/gpu"] == "2"
        await crew.manager.delete(JOB, "job", crew.namespace)
        await eventually(lambda: is_empty(crew), timeout=40)


async def is_empty(crew: Team) -> bool:
    """Whether no Workload is left, on the manager or a worker."""
    for client in (crew.manager, *crew.clients.values()):
        left = [each["metadata"]["name"] for each in await client.list(WORKLOAD, crew.namespace)]
        assert left == []
    return True


async def reserves(crew: Team, name: str, expected: Mapping[tuple[str, str], str]) -> bool:
    """Whether the status of a ClusterQueue tells these totals, reserved and used."""
    status = (await crew.manager.get(CLUSTER_QUEUE, name)).get("status", {})
    for field in ("flavorsReservation", "flavorsUsage"):
        found = {(f["name"], r["name"]): r["total"] for f in status.get(field, ()) for r in f["resources"]}
        assert found == expected, field
    return True


# --- queues that are stopped -------------------------------------------------------------------------------------------


async def stop(crew: Team, kind: str, policy: str) -> None:
    """Returns once the manager knows: jobs come to it by another watch."""
    change = {"spec": {"stopPolicy": policy}}
    if kind == "ClusterQueue":
        await crew.manager.patch(CLUSTER_QUEUE, crew.namespace, change)
        await eventually(lambda: is_active(crew, CLUSTER_QUEUE, crew.namespace, policy == "None"))
    else:
        await crew.manager.patch(LOCAL_QUEUE, "main", change, crew.namespace)
        await eventually(lambda: is_active(crew, LOCAL_QUEUE, "main", policy == "None"))


async def is_active(crew: Team, kind: Kind, name: str, active: bool) -> bool:
    body = await crew.manager.get(kind, name, crew.namespace if kind == LOCAL_QUEUE else None)
    condition = objects.condition(body, "Active")
    return condition is not None and condition["status"] == str(active)


@pytest.mark.parametrize("kind", ["ClusterQueue", "LocalQueue"])
async def test_a_queue_on_hold_admits_nothing_new_and_keeps_what_runs(crew: Team, kind: str) -> None:
    await crew.submit("running")
    worker = await crew.runs_on("running")
    await eventually(lambda: crew.is_true("Admitted", "running"))
    await stop(crew, kind, "Hold")
    await crew.submit("later")
    await eventually(lambda: waits(crew, "later", reason="Inadmissible", message=f"{kind} "))
    await crew.complete(worker, "running")
    await crew.finished("running")
    await stop(crew, kind, "None")
    await runs_through(crew, "later")


@needs_testbed("the test plays its pods, and no Job controller may")
@pytest.mark.parametrize("kind", ["ClusterQueue", "LocalQueue"])
async def test_a_drained_queue_stops_what_runs_and_runs_it_again_later(crew: Team, kind: str) -> None:
    async with starts(crew) as started:
        await crew.submit()
        worker = await started.first()
        await start_job(crew.clients[worker], crew.namespace, "job")
        await eventually(lambda: crew.is_true("Admitted"))
        await stop(crew, kind, "HoldAndDrain")
        # There is no kubelet: the pods end when the test says so.
        await eventually(lambda: is_suspended_on(crew, worker))
        assert await crew.is_true("QuotaReserved"), "its pods still run"
        await pods_ended(crew, worker)

        async def quota_is_back() -> bool:
            assert not await crew.is_true("QuotaReserved")
            job, evicted = await crew.job(), await crew.condition("Evicted")
            assert evicted is not None
            assert evicted["reason"] == f"{kind}Stopped"
            return bool(job["spec"]["suspend"] and not job["status"].get("active"))

        await eventually(quota_is_back, timeout=20)
        await crew.clean()
        await stop(crew, kind, "None")
        await crew.complete((await started.times(2))[-1])
        await crew.finished()


async def test_a_queue_and_its_flavor_that_are_deleted_stay_until_the_work_in_them_has_ended(crew: Team) -> None:
    flavor = f"{crew.namespace}-own"
    await crew.manager.create(objects.resource_flavor(flavor))
    name = await queue(crew, "leaving", resourceGroups=[group(flavor, cpu="9", memory="9Gi")])
    kept = {RESOURCE_FLAVOR: flavor, CLUSTER_QUEUE: name}
    await crew.submit("running", queue="leaving")
    worker = await crew.runs_on("running")
    await eventually(lambda: crew.is_true("Admitted", "running"))
    for kind, each in kept.items():
        await eventually(lambda kind=kind, each=each: has_finalizer(crew, kind, each))  # type: ignore[misc]
        await crew.manager.delete(kind, each)
    await eventually(lambda: is_active(crew, CLUSTER_QUEUE, name, False))
    await crew.submit("late", queue="leaving")
    await eventually(lambda: waits(crew, "late", reason="Inadmissible", message=f"ClusterQueue {name} is inactive"))
    for kind, each in kept.items():
        assert (await crew.manager.get(kind, each))["metadata"]["deletionTimestamp"]
    await crew.complete(worker, "running")
    await crew.finished("running")

    async def are_gone() -> bool:
        return [await crew.manager.find(kind, each) for kind, each in kept.items()] == [None, None]

    await eventually(are_gone)


async def has_finalizer(crew: Team, kind: Kind, name: str) -> bool:
    metadata = (await crew.manager.get(kind, name))["metadata"]
    return "kueue.x-k8s.io/resource-in-use" in metadata.get("finalizers", ())


async def is_suspended_on(crew: Team, worker: str) -> bool:
    return bool((await crew.remote_jobs())[worker]["spec"]["suspend"])


async def pods_ended(crew: Team, worker: str, name: str = "job") -> None:
    status = {"active": None, "ready": 0, "terminating": 0, "startTime": None}
    await crew.clients[worker].patch_status(JOB, name, status, crew.namespace)


# --- what a user switches off and on -----------------------------------------------------------------------------------


async def set_workload_active(crew: Team, active: bool) -> None:
    name = (await crew.workload())["metadata"]["name"]
    await crew.manager.patch(WORKLOAD, name, {"spec": {"active": active}}, crew.namespace)


@pytest.mark.parametrize("stage", ["waiting on the workers", "running"])
async def test_a_workload_that_is_switched_off_stops_until_it_is_switched_on(crew: Team, stage: str) -> None:
    if stage == "waiting on the workers":
        await crew.stop()
    async with starts(crew) as started:
        await crew.submit()
        if stage == "running":
            await started.first()
            await eventually(lambda: crew.is_true("Admitted"))
        else:
            await crew.waiting()
        await set_workload_active(crew, False)

        async def off() -> bool:
            assert not await crew.is_true("QuotaReserved")
            evicted = await crew.condition("Evicted")
            assert evicted is not None
            assert evicted["reason"] == "Deactivated"
            return bool((await crew.job())["spec"]["suspend"])

        await eventually(off, timeout=20)
        await crew.clean()
        await eventually(lambda: crew.counts(CLUSTER_QUEUE, crew.namespace, reservingWorkloads=0, pendingWorkloads=0))
        await crew.go()
        await set_workload_active(crew, True)
        await crew.complete((await started.times(2 if stage == "running" else 1))[-1])
        await crew.finished()


async def test_a_gated_job_waits_until_its_gates_are_open(crew: Team) -> None:
    gate = "kueue.x-k8s.io/admission-gated-by"
    body = objects.job("job", crew.namespace, managed_by=objects.MULTIKUEUE_CONTROLLER)
    body["metadata"]["annotations"] = {gate: "example.com/budget"}
    await crew.manager.create(body)

    async def held() -> bool:
        condition = await crew.condition("QuotaReserved")
        assert condition is not None
        return bool(condition["message"] == "Admission is gated by: example.com/budget")

    await eventually(held)
    assert await crew.copies() == {}
    await crew.manager.patch(JOB, "job", {"metadata": {"annotations": {gate: None}}}, crew.namespace)
    await crew.complete(await crew.runs_on())
    await crew.finished()


# --- admission checks --------------------------------------------------------------------------------------------------


async def test_no_copy_is_made_until_the_other_checks_are_ready(crew: Team) -> None:
    other = await foreign_check(crew, "other")
    await queue(crew, "checked", checks=[crew.namespace, other])
    await crew.submit(queue="checked")
    await eventually(lambda: crew.is_true("QuotaReserved"))
    await crew.submit("meanwhile")
    await runs_through(crew, "meanwhile")
    workload = await crew.workload()
    assert {c["name"]: c["state"] for c in workload["status"]["admissionChecks"]} == {
        other: "Pending",
        crew.namespace: "Pending",
    }
    assert not workload["status"].get("nominatedClusterNames")
    assert await crew.copies() == {}
    await set_check(crew, other, "Ready")
    await runs_through(crew)


async def test_a_job_waits_with_its_copies_gone_when_another_check_takes_its_yes_back(crew: Team) -> None:
    other = await foreign_check(crew, "other")
    await queue(crew, "checked", checks=[crew.namespace, other])
    await crew.stop()
    await crew.submit(queue="checked")
    await eventually(lambda: crew.is_true("QuotaReserved"))
    await set_check(crew, other, "Ready")
    await crew.waiting()
    await set_check(crew, other, "Pending")
    await crew.waiting(0)
    await crew.go()
    await set_check(crew, other, "Ready")
    await runs_through(crew)


@pytest.mark.parametrize("whose", ["ours", "another"])
async def test_a_check_that_says_retry_costs_the_reservation_and_the_copies(crew: Team, whose: str) -> None:
    other = await foreign_check(crew, "other")
    await queue(crew, "checked", checks=[crew.namespace, other])
    await crew.stop()
    await crew.submit(queue="checked")
    await eventually(lambda: crew.is_true("QuotaReserved"))
    await set_check(crew, other, "Ready")
    old = {copy["metadata"]["uid"] for copy in (await crew.waiting()).values()}
    check = crew.namespace if whose == "ours" else other
    await set_check(crew, check, "Retry")

    async def tried_again() -> bool:
        evicted = await crew.condition("Evicted")
        assert evicted is not None
        assert evicted["status"] == "False", "the last attempt is not over"
        checks = {c["name"]: c for c in (await crew.workload())["status"]["admissionChecks"]}
        assert checks[check].get("retryCount") == 1
        return await crew.is_true("QuotaReserved")

    await eventually(tried_again, timeout=20)
    await set_check(crew, other, "Ready")
    new = {copy["metadata"]["uid"] for copy in (await eventually(lambda: all_new(crew, old))).values()}
    assert len(new) == 3
    await crew.go()
    await runs_through(crew)


async def all_new(crew: Team, old: set[str]) -> dict[str, Object]:
    copies = await crew.waiting()
    assert not old & {copy["metadata"]["uid"] for copy in copies.values()}
    return copies


@pytest.mark.parametrize("stage", ["waiting on the workers", "running"])
async def test_a_check_that_says_no_ends_it_and_leaves_nothing_on_the_workers(crew: Team, stage: str) -> None:
    if stage == "waiting on the workers":
        await crew.stop()
    await crew.submit()
    if stage == "running":
        await crew.runs_on()
        await eventually(lambda: crew.is_true("Admitted"))
    else:
        await crew.waiting()
    await set_check(crew, crew.namespace, "Rejected")

    async def given_up() -> bool:
        workload, evicted = await crew.workload(), await crew.condition("Evicted")
        assert workload["spec"]["active"] is False
        assert evicted is not None
        assert evicted["reason"] == "DeactivatedDueToAdmissionCheck"
        assert not await crew.is_true("QuotaReserved")
        return bool((await crew.job())["spec"]["suspend"])

    await eventually(given_up, timeout=20)
    await crew.clean()


# --- what the status says ----------------------------------------------------------------------------------------------


async def test_queues_count_their_workloads(crew: Team) -> None:
    await crew.submit("running", requests={"cpu": "10", "memory": "10Gi"})
    worker = await crew.runs_on("running")
    await crew.stop()
    await crew.submit("reserving", requests={"cpu": "20", "memory": "20Gi"})
    await eventually(lambda: crew.is_true("QuotaReserved", "reserving"))  # within a second nobody is the first
    await crew.submit("pending", requests={"cpu": "90"})
    expected = {"pendingWorkloads": 1, "reservingWorkloads": 2, "admittedWorkloads": 1}
    for kind, name in ((CLUSTER_QUEUE, crew.namespace), (LOCAL_QUEUE, "main")):
        await eventually(partial(crew.counts, kind, name, **expected))
        body = await crew.manager.get(kind, name, crew.namespace if kind == LOCAL_QUEUE else None)
        reserved, used = (
            {r["name"]: r["total"] for r in body["status"][f][0]["resources"]}
            for f in ("flavorsReservation", "flavorsUsage")
        )
        assert (reserved, used) == ({"cpu": "30", "memory": "30Gi"}, {"cpu": "10", "memory": "10Gi"})
        active = objects.condition(body, "Active")
        assert active is not None
        assert (active["status"], active["reason"]) == ("True", "Ready")
        assert active["observedGeneration"] == body["metadata"]["generation"]
    await crew.complete(worker, "running")
    await crew.manager.delete(JOB, "reserving", crew.namespace)
    await eventually(lambda: crew.counts(CLUSTER_QUEUE, crew.namespace, pendingWorkloads=0, reservingWorkloads=1))
    await crew.manager.delete(JOB, "pending", crew.namespace)
    nobody = dict.fromkeys(expected, 0)
    for kind, name in ((CLUSTER_QUEUE, crew.namespace), (LOCAL_QUEUE, "main")):
        await eventually(partial(crew.counts, kind, name, **nobody))


async def _second_of_ours(crew: Team) -> Object:
    await crew.manager.create(objects.admission_check(f"{crew.namespace}-second", config=crew.namespace))
    return {"admissionChecksStrategy": _checks(crew.namespace, f"{crew.namespace}-second")}


async def _per_flavor(crew: Team) -> Object:
    return {"admissionChecksStrategy": {"admissionChecks": [{"name": crew.namespace, "onFlavors": ["another"]}]}}


async def _with_provisioning(crew: Team) -> Object:
    body = objects.admission_check(
        f"{crew.namespace}-prov", config="x", controller="kueue.x-k8s.io/provisioning-request"
    )
    del body["spec"]["parameters"]
    await crew.manager.create(body)
    await set_active(crew, body["metadata"]["name"])
    return {"admissionChecksStrategy": _checks(crew.namespace, body["metadata"]["name"])}


async def _inactive(crew: Team) -> Object:
    name = await foreign_check(crew, "off")
    await set_active(crew, name, "False")
    return {"admissionChecksStrategy": _checks(crew.namespace, name)}


async def _missing_check(crew: Team) -> Object:
    return {"admissionChecksStrategy": _checks(crew.namespace, f"{crew.namespace}-nowhere")}


async def _missing_flavor(crew: Team) -> Object:
    return {"resourceGroups": [group(f"{crew.namespace}-nowhere", cpu="10", memory="10Gi")]}


async def _stopped(_: Team) -> Object:
    return {"stopPolicy": "Hold"}


def _checks(*names: str) -> Object:
    return {"admissionChecks": [{"name": name} for name in names]}


@pytest.mark.parametrize(
    ("fault", "reason", "words"),
    [
        pytest.param(_second_of_ours, "MultipleMultiKueueAdmissionChecks", "-second", id="two checks of ours"),
        pytest.param(_per_flavor, "MultiKueueAdmissionCheckAppliedPerFlavor", "per flavor", id="ours per flavor"),
        pytest.param(_with_provisioning, "MultiKueueWithProvisioningRequest", "-prov", id="ours with provisioning"),
        pytest.param(_inactive, "AdmissionCheckInactive", "-off", id="an inactive check"),
        pytest.param(_missing_check, "AdmissionCheckNotFound", "-nowhere", id="a check that is not there"),
        pytest.param(_missing_flavor, "FlavorNotFound", "-nowhere", id="a flavor that is not there"),
        pytest.param(_stopped, "Stopped", "stopped", id="stopped"),
    ],
)
async def test_a_queue_that_cannot_work_says_why_and_works_once_corrected(  # type: ignore[no-untyped-def]
    crew: Team, fault, reason: str, words: str
) -> None:
    name = await queue(crew, "odd")
    good = (await crew.manager.get(CLUSTER_QUEUE, name))["spec"]
    broken = await fault(crew)
    await crew.manager.patch(CLUSTER_QUEUE, name, {"spec": broken})

    async def says(kind: Any, queue_name: str, expected: str, words: str) -> bool:
        body = await crew.manager.get(kind, queue_name, crew.namespace if kind == LOCAL_QUEUE else None)
        active = objects.condition(body, "Active")
        assert active is not None
        assert active["reason"] == expected, active
        assert active["status"] == ("True" if expected == "Ready" else "False")
        return words in active["message"]

    await eventually(lambda: says(CLUSTER_QUEUE, name, reason, words))
    await eventually(lambda: says(LOCAL_QUEUE, "odd", "ClusterQueueIsInactive", "Can't submit new workloads"))
    await crew.submit(queue="odd")
    await eventually(lambda: waits(crew, reason="Inadmissible", message=f"ClusterQueue {name} is inactive"))
    corrected = {field: good.get(field) for field in broken}
    await crew.manager.patch(CLUSTER_QUEUE, name, {"spec": corrected})
    await eventually(lambda: says(CLUSTER_QUEUE, name, "Ready", "Can admit new workloads"))
    await runs_through(crew)


async def test_no_error_was_logged_for_what_users_and_workers_did(manager: Manager) -> None:
    """The last of the module, so the log tells of all tests before."""
    assert complaints(manager) == []
