"""Attacks of a tenant, who may write Jobs, Pods and Workloads in one namespace: one file, as it is a table of cases.

Acts that a tenant has no right to (on the status of a Workload, a LimitRange) are here as well: some clusters grant it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from multikueue.api.kinds import JOBS
from multikueue.api.meta import ObjectMeta
from multikueue.jobs.framework.workloads import workload_name
from testbed import objects
from testbed.client import Kind
from testbed.hostile.case import Account, Case, Harm, Play
from testbed.hostile.stage import BYSTANDER, GROUP_LABEL, HOSTILE, INNOCENT, POD, QUEUE, Stage
from testbed.objects import JOB, WORKLOAD, Object

__all__ = ["CASES"]

NAME = "odd"
DIGITS = "9" * 5000
LONG = "x" * 53
MOST = 2**31 - 1
GROUP = 1000
LANES = 8
CROWD = 150

Make = Callable[[], Object]


def job(name: str = NAME, **more: Any) -> Object:
    """A Job as a user writes it."""
    return objects.job(name, HOSTILE, suspend=False, **more)


def workload(name: str = NAME, *, count: int = 1, **requests: str) -> Object:
    """A Workload as a user makes it by hand."""
    container = {"name": "main", "image": "x", "resources": {"requests": requests or {"cpu": "100m"}}}
    pods = {"name": "main", "count": count, "template": {"spec": {"restartPolicy": "Never", "containers": [container]}}}
    return {
        "apiVersion": WORKLOAD.api_version,
        "kind": WORKLOAD.kind,
        "metadata": {"name": name, "namespace": HOSTILE},
        "spec": {"queueName": QUEUE, "podSets": [pods]},
    }


def marked(body: Object, *, labels: dict[str, str] | None = None, annotations: dict[str, str] | None = None) -> Object:
    body["metadata"].setdefault("labels", {}).update(labels or {})
    body["metadata"].setdefault("annotations", {}).update(annotations or {})
    return body


def pods_of(body: Object) -> Object:
    """The spec of a Job's pods."""
    spec: Object = body["spec"]["template"]["spec"]
    return spec


def made(make: Make) -> Play:
    """Create the object; the account is its fate."""

    async def play(stage: Stage) -> Account:
        body = make()
        await stage.manager.create(body)
        name = body["metadata"]["name"]
        stage.undo.push_async_callback(stage.release, Kind(body["apiVersion"], body["kind"]), name)
        return lambda: stage.became(name)

    return play


def deep(make: Make, depth: int) -> Play:
    """Create the object with managedFields of that depth, as text: JSON libraries give up on such depth."""

    async def play(stage: Stage) -> Account:
        body = make()
        entry = {"manager": "m", "operation": "Update", "apiVersion": body["apiVersion"], "fieldsType": "FieldsV1"}
        body["metadata"]["managedFields"] = [{**entry, "time": "2026-01-01T00:00:00Z", "fieldsV1": "DEEP"}]
        nested = '{"f:a":' * (depth - 3) + "{}" + "}" * (depth - 3)
        await stage.post(body["kind"], json.dumps(body).replace('"DEEP"', nested).encode())
        return lambda: stage.became(NAME)

    return play


def with_status(status: Object) -> Play:
    """Create a Workload by hand, and write its status."""

    async def play(stage: Stage) -> Account:
        await stage.manager.create(workload())
        stage.undo.push_async_callback(stage.release, WORKLOAD, NAME)
        await stage.manager.patch_status(WORKLOAD, NAME, status, HOSTILE)
        return lambda: stage.became(NAME)

    return play


def condition(type_: str, status: str = "True", *, message: str = "", at: str = "2026-01-01T00:00:00Z") -> Object:
    return {"type": type_, "status": status, "reason": "Odd", "message": message, "lastTransitionTime": at}


async def name_that_is_taken(stage: Stage) -> Account:
    """A foreign Workload has the name that a job's Workload needs, as when two long names share 53 characters and the
    rest of their hashes."""
    body = objects.job(f"{LONG}-1", HOSTILE, queue=None, managed_by=objects.MULTIKUEUE_CONTROLLER)
    meta = (await stage.manager.create(body))["metadata"]
    taken = workload(workload_name(JOBS, ObjectMeta(name=meta["name"], uid=meta["uid"])))
    await stage.manager.create(taken)
    stage.undo.push_async_callback(stage.release, WORKLOAD, taken["metadata"]["name"])
    labels = {objects.QUEUE_LABEL: QUEUE}
    await stage.manager.patch(JOB, meta["name"], {"metadata": {"labels": labels}}, HOSTILE)

    async def account() -> str:
        try:
            return f"dispatched to {await stage.runs(meta['name'])}"
        except AssertionError:
            raise Harm(f"the job never ran: {await stage.became(meta['name'])}") from None

    return account


async def names_alike(stage: Stage) -> Account:
    """Jobs whose long names differ at the end only: all must run."""
    names = [f"{LONG}-{number}" for number in range(8)]
    await stage.at_once(stage.manager.create(job(name)) for name in names)

    async def account() -> str:
        running = [said for name in names if (said := await stage.became(name)).startswith("dispatched")]
        return f"{len(running)} of {len(names)} dispatched"

    return account


async def prebuilt_of_the_bystander(stage: Stage) -> Account:
    theirs = await stage.workload_of(BYSTANDER, INNOCENT)
    assert theirs is not None
    await stage.manager.create(job(labels={PREBUILT: theirs["metadata"]["name"]}))
    return lambda: stage.became(NAME)


async def prebuilt_of_a_neighbour(stage: Stage) -> Account:
    """A job claims the Workload of a neighbour in its namespace as prebuilt: the neighbour must keep it."""
    await stage.manager.create(job("neighbour"))
    worker = await stage.runs("neighbour")
    theirs = await stage.workload_of("neighbour")
    assert theirs is not None
    await stage.manager.create(job(labels={PREBUILT: theirs["metadata"]["name"]}))

    async def account() -> str:
        if not await stage.runs_still("neighbour", worker):
            raise Harm("the neighbour's job was ended")
        return await stage.became(NAME)

    return account


def owned_by_the_bystander(make: Make) -> Play:
    """Create the object with an owner reference to the bystander's job and its right UID."""

    async def play(stage: Stage) -> Account:
        theirs = await stage.manager.get(JOB, BYSTANDER, INNOCENT)
        body = make()
        body["metadata"]["ownerReferences"] = [
            {
                "apiVersion": JOB.api_version,
                "kind": JOB.kind,
                "name": BYSTANDER,
                "uid": theirs["metadata"]["uid"],
                "controller": True,
                "blockOwnerDeletion": True,
            }
        ]
        await stage.manager.create(body)
        return lambda: stage.became(NAME)

    return play


def flood(make: Make, patch: Callable[[int], Object], *, subresource: str | None = None) -> Play:
    """Create the object, and patch it without pause until the end of the turn."""

    async def play(stage: Stage) -> Account:
        body = make()
        await stage.manager.create(body)
        kind = WORKLOAD if body["kind"] == WORKLOAD.kind else JOB
        count = 0

        async def patches() -> None:
            nonlocal count
            while True:
                count += 1
                await stage.manager.patch(kind, NAME, patch(count), HOSTILE, subresource=subresource)

        await stage.meanwhile(*[patches] * LANES)

        async def account() -> str:
            return f"{count} patches; {await stage.became(NAME)}"

        return account

    return play


async def come_and_go(stage: Stage) -> Account:
    """Create and delete jobs without pause."""
    count = 0

    async def comes_and_goes() -> None:
        nonlocal count
        while True:
            count += 1
            name = f"{NAME}-brief-{count}"  # no name of another case: one may be made as this turn ends
            await stage.manager.create(job(name))
            await stage.manager.delete(JOB, name, HOSTILE)

    await stage.meanwhile(*[comes_and_goes] * LANES)

    async def account() -> str:
        return f"{count} jobs came and went"

    return account


async def crowd(stage: Stage) -> Account:
    """A crowd of pending jobs: running ones would cost the workers more than the manager."""
    names = [f"{NAME}-{number}" for number in range(CROWD)]
    await stage.at_once(stage.manager.create(job(name, requests={"cpu": "1000"})) for name in names)

    async def account() -> str:
        return f"{len(await stage.manager.list(WORKLOAD, HOSTILE))} Workloads for {len(names)} jobs"

    return account


async def group(stage: Stage) -> Account:
    await stage.at_once(stage.manager.create(member(number, str(GROUP))) for number in range(GROUP))
    return lambda: stage.became(NAME)


def member(number: int, total: str) -> Object:
    """One Pod of a group."""
    return {
        "apiVersion": POD.api_version,
        "kind": POD.kind,
        "metadata": {
            "name": f"{NAME}-{number}",
            "namespace": HOSTILE,
            "labels": {objects.QUEUE_LABEL: QUEUE, GROUP_LABEL: NAME},
            "annotations": {"kueue.x-k8s.io/pod-group-total-count": total},
        },
        "spec": pods_of(job()),
    }


def odd_total(total: str) -> Play:
    async def play(stage: Stage) -> Account:
        await stage.manager.create(member(0, total))
        return lambda: stage.became(NAME)

    return play


def of_the_namespace(body: Object, make: Make) -> Play:
    """Create an object in the tenant's namespace that affects the job created after it."""

    async def play(stage: Stage) -> Account:
        kind = Kind(body["apiVersion"], body["kind"])
        stage.undo.push_async_callback(stage.manager.delete, kind, body["metadata"]["name"], HOSTILE)
        await stage.manager.create(body)
        await stage.manager.create(make())
        return lambda: stage.became(NAME)

    return play


def limit_range(amount: str) -> Object:
    limits = [{"type": "Container", "defaultRequest": {"cpu": amount}, "default": {"cpu": amount}}]
    metadata = {"name": NAME, "namespace": HOSTILE}
    return {"apiVersion": "v1", "kind": "LimitRange", "metadata": metadata, "spec": {"limits": limits}}


def large_job() -> Object:
    """A Job about as large as etcd takes."""
    body = job()
    pods_of(body)["containers"][0]["env"] = [{"name": f"V{number}", "value": "v" * 10_000} for number in range(100)]
    return body


def many_containers() -> Object:
    body = job()
    (container,) = pods_of(body)["containers"]
    pods_of(body)["containers"] = [{**container, "name": f"c{number}"} for number in range(1000)]
    return body


def many_pod_sets() -> Object:
    body = workload()
    (pods,) = body["spec"]["podSets"]
    body["spec"]["podSets"] = [{**pods, "name": f"p{number}", "count": MOST} for number in range(8)]
    return body


def with_overhead() -> Object:
    body = workload()
    body["spec"]["podSets"][0]["template"]["spec"]["overhead"] = {"cpu": DIGITS}
    return body


def prioritised() -> Object:
    body = workload()
    body["spec"]["priority"] = MOST
    return body


def held() -> Object:
    body = job()
    body["metadata"]["finalizers"] = ["example.com/never"]
    return body


PREBUILT = "kueue.x-k8s.io/prebuilt-workload-name"
NESTED = '{"step":' * 5000 + "1" + "}" * 5000
FAR = "9999-12-31T23:59:59Z"
ADMISSION = {
    "clusterQueue": INNOCENT,
    "podSetAssignments": [{"name": "main", "count": 1, "flavors": {"cpu": "default"}, "resourceUsage": {"cpu": "0"}}],
}
CHECKED = {"name": HOSTILE, "state": "Ready", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}


def _cases(*rows: tuple[str, Play] | tuple[str, Play, str]) -> Sequence[Case]:
    return [Case("tenant", *row) for row in rows]


CASES = _cases(
    ("a Job that asks for 5,000 digits of cpu", made(lambda: job(requests={"cpu": DIGITS}))),
    ("a Job that asks for 1e10000000 cpu", made(lambda: job(requests={"cpu": "1e10000000"}))),
    ("a Job that asks for less than nothing", made(lambda: job(requests={"cpu": "-1"}))),
    ("a Job that asks for cpu in Arabic digits", made(lambda: job(requests={"cpu": "\u0661\u0662"}))),
    ("a Job that asks for 99999999 Ei of memory", made(lambda: job(requests={"memory": "99999999Ei"}))),
    ("a Job of 2147483647 pods", made(lambda: job(parallelism=MOST))),
    ("a Workload that asks for 5,000 digits of cpu", made(lambda: workload(cpu=DIGITS))),
    ("a Workload that asks for 1e999999999 cpu", made(lambda: workload(cpu="1e999999999"))),
    ("a Workload that asks for 1e-999999999 cpu", made(lambda: workload(cpu="1e-999999999"))),
    ("a Workload that asks for less than nothing", made(lambda: workload(cpu="-1e18"))),
    ("a Workload that asks for cpu in full-width digits", made(lambda: workload(cpu="\uff11\uff12"))),
    ("a Workload that asks for NaN cpu", made(lambda: workload(cpu="NaN"))),
    ("a Workload of 8 times 2147483647 pods", made(many_pod_sets)),
    ("a Workload with an overhead of 5,000 digits", made(with_overhead)),
    ("a Workload of the highest priority there is", made(prioritised)),
    ("a Job without a label, managedFields 1,500 deep", deep(lambda: job(queue=None), 1500)),
    ("a Job in the queue, managedFields 1,500 deep", deep(job, 1500)),
    ("a Job without a label, managedFields 9,998 deep", deep(lambda: job(queue=None), 9998)),
    ("a Job in the queue, managedFields 9,998 deep", deep(job, 9998)),
    ("a Workload with managedFields 9,998 deep", deep(workload, 9998)),
    ("a Pod in the queue, managedFields 1,500 deep", deep(lambda: {**member(0, "1")}, 1500)),
    ("a Workload that has the name of a job's", name_that_is_taken),
    ("8 Jobs whose names share 53 characters", names_alike),
    ("a Job owned by somebody else's", owned_by_the_bystander(job)),
    ("a Workload owned by somebody else's Job", owned_by_the_bystander(workload)),
    ("a Job with somebody else's Workload as prebuilt", prebuilt_of_the_bystander),
    ("a Job with its neighbour's Workload as prebuilt", prebuilt_of_a_neighbour),
    ("a Job with a prebuilt Workload that is not there", made(lambda: job(labels={PREBUILT: "a-b"}))),
    ("a Job with a prebuilt Workload of an odd name", made(lambda: job(labels={PREBUILT: "A" * 63}))),
    ("a Job that another controller manages", made(lambda: job(managed_by="example.com/mine"))),
    (
        "a Job that we manage, in no queue",
        made(lambda: job(queue=None, managed_by=objects.MULTIKUEUE_CONTROLLER)),
        "nobody is asked to run it before it names a queue, which it may at any time, as with Kueue",
    ),
    ("a Job in a queue that is not there", made(lambda: job(queue="nowhere"))),
    ("a Job with an attempt mark", made(lambda: marked(job(), annotations={"multikueue.dev/attempt": FAR}))),
    (
        "a Job with a strategy and options that are nonsense",
        made(
            lambda: marked(
                job(),
                annotations={"multikueue.dev/strategy": "../../x", "multikueue.dev/strategy-options": NESTED},
            )
        ),
    ),
    (
        "a Job with a Placement of another namespace",
        made(lambda: marked(job(), annotations={"multikueue.dev/placement": f"{INNOCENT}/all"})),
    ),
    (
        "a Job with all other annotations of ours",
        made(
            lambda: marked(
                job(),
                annotations={
                    f"multikueue.dev/{name}": "true, "
                    for name in (
                        "clusters",
                        "cordon",
                        "non-preemptible",
                        "undispatchable",
                        "follow-capacity",
                        "job-kind",
                    )
                },
            )
        ),
    ),
    ("a Job with our origin label", made(lambda: job(labels={"kueue.x-k8s.io/multikueue-origin": "multikueue"}))),
    ("a Job of 63 digits of seconds", made(lambda: job(labels={"kueue.x-k8s.io/max-exec-time-seconds": "9" * 63}))),
    ("a Job of a priority class that is not there", made(lambda: job(priority_class="nobody"))),
    (
        "a Job with 5,000 digits of pods at least",
        made(lambda: marked(job(), annotations={"kueue.x-k8s.io/job-min-parallelism": DIGITS})),
    ),
    ("a Workload on whose status is a worker", with_status({"clusterName": "worker1"})),
    ("a Workload on whose status are nominations", with_status({"nominatedClusterNames": ["worker1", "x" * 200]})),
    (
        "a Workload that admits itself to another queue",
        with_status({"admission": ADMISSION, "conditions": [condition("QuotaReserved"), condition("Admitted")]}),
    ),
    ("a Workload whose check is Ready by hand", with_status({"admissionChecks": [CHECKED]})),
    ("a Workload to be queued in the year 9999", with_status({"requeueState": {"count": MOST, "requeueAt": FAR}})),
    (
        "a Workload with conditions of ours and of the year 9999",
        with_status(
            {
                "conditions": [
                    condition(type_, message="m" * 32_768, at=FAR)
                    for type_ in (
                        "multikueue.dev/Nominated",
                        "multikueue.dev/FailedOn",
                        "multikueue.dev/PreemptedAt",
                        "Evicted",
                    )
                ]
            }
        ),
    ),
    ("a Workload with 16 conditions", with_status({"conditions": [condition(f"Odd{n}") for n in range(16)]})),
    ("a Job patched without pause", flood(job, lambda count: {"metadata": {"annotations": {"n": str(count)}}})),
    (
        "a Workload whose status is patched without pause",
        flood(
            workload,
            lambda count: {"status": {"conditions": [condition("Odd", message=str(count))]}},
            subresource="status",
        ),
    ),
    ("Jobs that come and go without pause", come_and_go),
    (f"{CROWD} Jobs at once for which there is no room", crowd),
    (f"a group of {GROUP:,} Pods", group),
    ("a group of Pods of 5,000 digits", odd_total(DIGITS)),
    ("a group of Pods of less than none", odd_total("-1")),
    ("a Job of 1 MiB", made(large_job)),
    ("a Job with 1,000 containers", made(many_containers)),
    ("a Job with annotations of 255 KiB", made(lambda: marked(job(), annotations={"a": "a" * 255 * 1024}))),
    ("a Job with a finalizer of somebody else's", made(held)),
    ("a LimitRange of 5,000 digits, and a Job", of_the_namespace(limit_range(DIGITS), job)),
    ("a LimitRange of 1e10000000, and a Job", of_the_namespace(limit_range("1e10000000"), job)),
    (
        "a LocalQueue before somebody else's ClusterQueue",
        of_the_namespace(objects.local_queue("theirs", HOSTILE, cluster_queue=INNOCENT), lambda: job(queue="theirs")),
    ),
)
