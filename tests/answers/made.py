"""Situations of a job, made by ordinary means on clusters with a manager: one file, one table.

The clusters are simulated ones in the fast tests, real ones in `tests/real/test_answers.py`. Each situation is one of the
table in `situations.py`, by its words there.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from multikueue.answers.codes import Code
from multikueue.api.kueue.workload import ADMISSION_GATED_BY_ANNOTATION
from testbed import objects
from testbed.client import Client, Kind, eventually
from testbed.jobs import complete_job, fail_job
from testbed.objects import JOB, LOCAL_QUEUE, WORKLOAD

__all__ = ["ADMIN", "MADE", "USER", "Ground", "Made", "all_are_true", "come_about", "leave"]

Tree = dict[str, Any]
ADMIN, USER = "admin", "alice"
KUEUE = "kueue.x-k8s.io"
POD = Kind("v1", "Pod")
CLASS = Kind("scheduling.k8s.io/v1", "PriorityClass")
WORKLOAD_CLASS = Kind(f"{KUEUE}/v1beta2", "WorkloadPriorityClass")
STARTED = "2026-01-01T12:00:00Z"
HIGH, LOW, GONE = "answers-high", "answers-low", "answers-gone"


@dataclass(frozen=True)
class Ground:
    """Clusters with a manager and its webhook, and a namespace with LocalQueue `main`, as an administrator sees them.

    `check`: the admission check that is MultiKueue's. `there`: the ClusterQueue of the workers. `run`: runs the program as
    ADMIN or as USER, who has the role of a batch user in the namespace, and returns what it says.
    """

    manager: Client
    workers: Mapping[str, Client]
    namespace: str
    check: str
    there: str
    run: Callable[..., Awaitable[str]]
    folder: Path

    async def why(self, who: str, about: str) -> Tree:
        told: Tree = json.loads(await self.run(who, "why", "-n", self.namespace, about, "-o", "json"))
        return told

    async def submit(self, name: str, job: Tree) -> None:
        await self.manager.create(self.job(name, job))

    def job(self, name: str, job: Tree) -> Tree:
        """`queue` OWN: the one of the situation's name."""
        more = in_main() | job
        tolerations, pods_class = more.pop("tolerations", None), more.pop("pods_class", None)
        gate = more.pop("gate", "")
        own = {"queue": name} if more["queue"] == OWN else {}
        body: Tree = objects.job(name, self.namespace, **(more | own))
        spec = body["spec"]["template"]["spec"]
        spec |= {"tolerations": tolerations} if tolerations else {}
        spec |= {"priorityClassName": pods_class} if pods_class else {}
        body["metadata"] |= {"annotations": {ADMISSION_GATED_BY_ANNOTATION: gate}} if gate else {}
        return body

    async def runs(self, name: str) -> str:
        """The worker that runs the job, once it does."""

        async def yet() -> str | None:
            for worker, client in self.workers.items():
                found = await client.find(JOB, name, self.namespace)
                if found is not None and not found["spec"].get("suspend"):
                    return worker
            return None

        return await eventually(yet, timeout=60)


OWN = "its own"
Step = Callable[[Ground, str], Awaitable[Any]]
"""Something done to the clusters for a job of that name."""


@dataclass(frozen=True)
class Made:
    """`how`: the situation's words. `job`: what is submitted. `before` and `after`: steps beside that. `repair`: what makes
    the job start: TOLD, the commands of the answer, with the job `repaired` where they take a FILE; or a step, where no command
    does it; None where only time does, or nothing is left to start. `ask`: the kind of what is asked about."""

    how: str
    code: Code | None
    job: Tree
    before: tuple[Step, ...] = ()
    after: tuple[Step, ...] = ()
    repair: Step | str | None = None
    repaired: Tree | None = None
    state: str = "Pending"
    ask: str = "job"


TOLD = "told"


# --- what is done ----------------------------------------------------------------------------------------------------


def asks(cpu: str = "100m", **more: Any) -> Tree:
    return {"queue": OWN, "requests": {"cpu": cpu}, "suspend": False, **more}


def in_main(**more: Any) -> Tree:
    return {"queue": "main", "requests": {"cpu": "100m"}, "suspend": False, **more}


def queue(
    cpu: str = "4",
    *,
    local: Tree | None = None,
    is_there: bool = True,
    local_there: Tree | None = None,
    cpu_there: str = "",
    flavor: str = "default",
    other_check: bool = False,
    **spec: Any,
) -> Step:
    """A ClusterQueue and a LocalQueue of the job's name; the LocalQueue on the workers too, with a ClusterQueue of its own if
    there is an amount for that."""

    async def make(ground: Ground, name: str) -> None:
        where = f"{ground.namespace}-{name}"
        checks = (ground.check, where) if other_check else (ground.check,)
        body = objects.cluster_queue(where, quota={"cpu": cpu}, checks=checks, flavor=flavor.format(where))
        await ground.manager.create({**body, "spec": body["spec"] | spec})
        await ground.manager.create(_local(ground, name, where, local))
        for client in ground.workers.values() if is_there else ():
            if cpu_there:
                await client.create(objects.cluster_queue(where, quota={"cpu": cpu_there}))
            await client.create(_local(ground, name, where if cpu_there else ground.there, local_there))
        if not is_there:  # else the calls to workers give the manager the time to hear of it
            with suppress(AssertionError):
                await eventually(lambda: _is_known(ground, name), timeout=5)

    return make


async def _is_known(ground: Ground, name: str) -> bool:
    """Whether the manager has heard of the LocalQueue: its webhook lets a job of an unknown queue pass as it is."""
    body = await ground.manager.get(LOCAL_QUEUE, name, ground.namespace)
    return bool((body.get("status") or {}).get("conditions"))


def _local(ground: Ground, name: str, where: str, spec: Tree | None) -> Tree:
    body = objects.local_queue(name, ground.namespace, cluster_queue=where)
    return {**body, "spec": body["spec"] | (spec or {})}


async def leads_nowhere(ground: Ground, name: str) -> None:
    await ground.manager.create(_local(ground, name, f"{ground.namespace}-{name}", None))
    for client in ground.workers.values():
        await client.create(_local(ground, name, ground.there, None))


async def cluster_queue_appears(ground: Ground, name: str) -> None:
    await ground.manager.create(
        objects.cluster_queue(f"{ground.namespace}-{name}", quota={"cpu": "4"}, checks=(ground.check,))
    )


async def flavor_appears(ground: Ground, name: str) -> None:
    await ground.manager.create(objects.resource_flavor(f"{ground.namespace}-{name}"))


async def flavor_with_a_taint(ground: Ground, name: str) -> None:
    body = objects.resource_flavor(f"{ground.namespace}-{name}")
    taint = {"key": "gpu", "value": "true", "effect": "NoSchedule"}
    await ground.manager.create({**body, "spec": body["spec"] | {"nodeTaints": [taint]}})


def two_flavors(cpu: str, other: str) -> Step:
    """A ClusterQueue with so much of either flavor, and a LocalQueue of the job's name."""

    async def make(ground: Ground, name: str) -> None:
        await flavor_appears(ground, name)
        amounts = {"default": cpu, f"{ground.namespace}-{name}": other}
        flavors = [
            {"name": flavor, "resources": [{"name": "cpu", "nominalQuota": amount}]}
            for flavor, amount in amounts.items()
        ]
        await queue(resourceGroups=[{"coveredResources": ["cpu"], "flavors": flavors}])(ground, name)

    return make


async def gate_opens(ground: Ground, name: str) -> None:
    change = {"metadata": {"annotations": {ADMISSION_GATED_BY_ANNOTATION: None}}}
    await ground.manager.patch(JOB, name, change, ground.namespace)


async def config_map(ground: Ground, name: str) -> None:
    meta = {"name": name, "namespace": ground.namespace}
    await ground.manager.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta})


async def pod_with_a_queue(ground: Ground, name: str) -> None:
    meta = {"name": name, "namespace": ground.namespace, "labels": {f"{KUEUE}/queue-name": "main"}}
    spec = {"containers": [{"name": "main", "image": "x"}]}
    await ground.manager.create({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec})


async def workload_is_deleted(ground: Ground, name: str) -> None:
    uid = (await ground.manager.get(JOB, name, ground.namespace))["metadata"]["uid"]

    async def finished() -> Tree:
        (found,) = [each for each in await ground.manager.list(WORKLOAD, ground.namespace) if _belongs(each, uid)]
        assert objects.condition(found, "Finished")
        return found

    found = await eventually(finished)
    await ground.manager.delete(WORKLOAD, found["metadata"]["name"], ground.namespace)


def _belongs(body: Tree, uid: str) -> bool:
    return any(each["uid"] == uid for each in body["metadata"].get("ownerReferences") or ())


async def other_check_is_active(ground: Ground, name: str) -> None:
    where = f"{ground.namespace}-{name}"
    await ground.manager.create(objects.admission_check(where, config="none", controller="example.com/budget"))
    active = {"type": "Active", "status": "True", "reason": "Active", "message": "", "lastTransitionTime": STARTED}
    await ground.manager.patch_status(objects.ADMISSION_CHECK, where, {"conditions": [active]})


def others(*cpus: str, each_worker: bool = False, **more: Any) -> Step:
    """Jobs before it in its queue, which run."""

    async def fill(ground: Ground, name: str) -> None:
        amounts = cpus * len(ground.workers) if each_worker else cpus
        names = [f"{name}-{number}" for number in range(len(amounts))]
        for each, cpu in zip(names, amounts, strict=True):
            await ground.submit(each, asks(cpu, **more) | {"queue": name})
        for each in names:
            await ground.runs(each)

    return fill


def another(cpu: str, **more: Any) -> Step:
    """A job in its queue that is not waited for."""

    async def submit(ground: Ground, name: str) -> None:
        await ground.submit(f"{name}-other", asks(cpu, **more) | {"queue": name})

    return submit


async def runs(ground: Ground, name: str) -> None:
    await ground.runs(name)


def says(*words: str) -> Step:
    """An administrator runs a command about the job."""

    async def run(ground: Ground, name: str) -> None:
        await ground.run(ADMIN, *words, "-n", ground.namespace, f"job/{name}", "--yes")

    return run


def ends(how: Callable[[Client, str, str], Awaitable[Any]]) -> Step:
    async def end(ground: Ground, name: str) -> None:
        await how(ground.workers[await ground.runs(name)], ground.namespace, name)

    return end


def pod(
    phase: str = "Pending", reason: str = "", message: str = "", *, ready: bool = False, placed: bool = True
) -> Step:
    """Its pod on its worker comes to that state: one that a kubelet or a scheduler would write."""

    async def come(ground: Ground, name: str) -> None:
        client = ground.workers[await ground.runs(name)]
        job = await client.get(JOB, name, ground.namespace)
        uid = job["metadata"]["uid"]
        owned = [each for each in await client.list(POD, ground.namespace) if _owner(each) == uid]
        found = owned[0] if owned else await client.create(_pod_of(job))
        state = {"waiting": {"reason": reason, "message": message}} if reason else {"running": {"startedAt": STARTED}}
        blank = {"name": "main", "image": "x", "imageID": "", "restartCount": 0, "ready": ready, "state": state}
        told = {"status": "False", "reason": "Unschedulable", "message": "0/3 nodes are available"}
        conditions = [] if placed else [{"type": "PodScheduled", "lastTransitionTime": STARTED, **told}]
        status = {"phase": phase, "conditions": conditions, "containerStatuses": [blank] if placed else []}
        await client.patch_status(POD, found["metadata"]["name"], status, ground.namespace)

    return come


def _owner(body: Tree) -> str:
    return next((each["uid"] for each in body["metadata"].get("ownerReferences") or () if each.get("controller")), "")


def _pod_of(job: Tree, name: str = "") -> Tree:
    meta = job["metadata"]
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": meta["name"], "uid": meta["uid"], "controller": True}
    made = {"name": name or f"{meta['name']}-0", "namespace": meta["namespace"], "ownerReferences": [owner]}
    spec = {"containers": [{"name": "main", "image": "x"}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": made, "spec": spec}


async def part_of_it(ground: Ground, name: str) -> None:
    await ground.manager.create(_pod_of(await ground.manager.get(JOB, name, ground.namespace), name))


async def strangers(ground: Ground, name: str) -> None:
    for client in ground.workers.values():
        await client.create(objects.job(name, ground.namespace, queue=None))


async def queues_go_on_there(ground: Ground, name: str) -> None:
    for client in ground.workers.values():
        await client.patch(LOCAL_QUEUE, name, {"spec": {"stopPolicy": "None"}}, ground.namespace)


# --- the table -------------------------------------------------------------------------------------------------------

MADE = (
    Made("a Pod, and a manager that takes no Pods", Code.NoManager, in_main(), (pod_with_a_queue,), ask="pod"),
    Made("a ConfigMap", Code.KindNotDispatched, in_main(), (config_map,), ask="configmap"),
    Made(
        "`kubectl create job` without a queue label",
        Code.NoQueueLabel,
        in_main(queue=None),
        repair=TOLD,
        repaired=in_main(),
    ),
    Made(
        "no queue label, and managedBy is set",
        Code.NoQueueLabel,
        in_main(queue=None, managed_by=objects.MULTIKUEUE_CONTROLLER, suspend=True),
        repair=TOLD,
    ),
    Made("a Pod that a Job has made", Code.PartOfAnother, in_main(), after=(part_of_it,), ask="pod"),
    Made(
        "a misspelt queue in a job that the webhook has not marked",
        Code.QueueNotFound,
        in_main(queue="mian"),
        repair=TOLD,
        repaired=in_main(),
    ),
    Made(
        "a misspelt queue in a job that is marked for dispatch",
        Code.QueueNotFound,
        in_main(queue="mian", managed_by=objects.MULTIKUEUE_CONTROLLER, suspend=True),
        repair=TOLD,
    ),
    Made(
        "a misspelt WorkloadPriorityClass",
        Code.PriorityClassNotFound,
        in_main(priority_class="answers-hihg"),
        repair=TOLD,
    ),
    Made(
        "a WorkloadPriorityClass that does not exist, and none is like it",
        Code.PriorityClassNotFound,
        in_main(priority_class="nonesuch"),
        repair=TOLD,
    ),
    Made(
        "pods with a PriorityClass that does not exist",
        Code.PriorityClassNotFound,
        in_main(pods_class=GONE),
        repair=TOLD,
    ),
    Made(
        "a resource that no flavor has, while others have the CPUs",
        Code.NoFlavorHasResource,
        asks(requests={"cpu": "1", "gpu.example/x": "1"}),
        (queue("1"), others("1")),
    ),
    Made("more CPUs than the ClusterQueue has", Code.MoreThanQueueHas, asks("5"), (queue(),), (), TOLD, asks()),
    Made(
        "more than each of two flavors has",
        Code.MoreThanQueueHas,
        asks("5"),
        (two_flavors("4", "2"),),
        (),
        TOLD,
        asks(),
    ),
    Made(
        "pods that tolerate no taint of any flavor",
        Code.NoFlavorSuits,
        asks(),
        (flavor_with_a_taint, queue(flavor="{}")),
        (),
        TOLD,
        asks(tolerations=[{"key": "gpu", "operator": "Exists"}]),
    ),
    Made(
        "more than any worker has, while the quota is in use",
        Code.NoWorkerCanHold,
        asks("3"),
        (queue("4", cpu_there="2"), others("2")),
        (),
        TOLD,
        asks(),
    ),
    Made(
        "no worker can hold it, told by the manager to a user who may see no worker",
        Code.NoWorkerCanHold,
        asks("200"),
        (queue("300"),),
        (),
        TOLD,
        asks(),
    ),
    Made(
        "the Workload that it names does not exist",
        Code.WorkloadNotMade,
        in_main(labels={f"{KUEUE}/prebuilt-workload-name": "nothing"}),
    ),
    Made(
        "held by `multikueue workloads hold`",
        Code.Held,
        in_main(),
        (),
        (runs, says("workloads", "hold")),
        TOLD,
        state="Held",
    ),
    Made("an admission gate", Code.AdmissionGated, in_main(gate="example.com/budget"), repair=gate_opens),
    Made(
        "it ran for its maximum execution time",
        Code.OutOfTime,
        in_main(labels={f"{KUEUE}/max-exec-time-seconds": "1"}),
        state="Held",
    ),
    Made(
        "a LocalQueue that is stopped",
        Code.LocalQueueStopped,
        asks(),
        (queue(local={"stopPolicy": "Hold"}),),
        (),
        TOLD,
    ),
    Made(
        "a LocalQueue that leads to no ClusterQueue",
        Code.ClusterQueueNotFound,
        asks(managed_by=objects.MULTIKUEUE_CONTROLLER, suspend=True),
        (leads_nowhere,),
        (),
        cluster_queue_appears,
    ),
    Made(
        "a job that was created without managedBy, and moved to a queue that is dispatched",
        Code.CannotBeDispatched,
        asks(),
        (leads_nowhere,),
        (cluster_queue_appears,),
        TOLD,
        asks(),
    ),
    Made("a ClusterQueue that is stopped", Code.ClusterQueueStopped, asks(), (queue(stopPolicy="Hold"),), (), TOLD),
    Made(
        "a ClusterQueue whose flavor is missing",
        Code.ClusterQueueStopped,
        asks(),
        (queue(flavor="{}"),),
        (),
        flavor_appears,
    ),
    Made(
        "a LocalQueue that the workers do not have",
        Code.LocalQueueMissingOnWorkers,
        asks(),
        (queue(is_there=False),),
        (),
        TOLD,
    ),
    Made(
        "a LocalQueue that is stopped on the worker",
        Code.QueueStoppedOnWorkers,
        asks(),
        (queue(local_there={"stopPolicy": "Hold"}),),
        (),
        queues_go_on_there,
    ),
    Made(
        "an object of its name is on the worker already",
        Code.NoWorkerTakesIt,
        in_main(),
        (strangers,),
    ),
    Made(
        "an admission check of somebody else",
        Code.CheckNotReady,
        asks(),
        (other_check_is_active, queue(other_check=True)),
    ),
    Made(
        "two jobs have the quota, and the end of either will do",
        Code.QuotaTaken,
        asks("1"),
        (queue("2"), others("1", "1")),
    ),
    Made(
        "two jobs have the quota, and both have to end",
        Code.QuotaTaken,
        asks("2"),
        (queue("2"), others("1", "1")),
    ),
    Made(
        "one flavor could never hold it, and another is in use",
        Code.QuotaTaken,
        asks("1"),
        (two_flavors("1", "500m"), others("1")),
    ),
    Made(
        "preempted, and waiting again",
        Code.QuotaTaken,
        asks("1", priority_class=LOW),
        (queue("1", preemption={"withinClusterQueue": "LowerPriority"}),),
        (runs, another("1", priority_class=HIGH)),
    ),
    Made(
        "a StrictFIFO queue whose head waits",
        Code.BehindHead,
        asks("1"),
        (queue("2", queueingStrategy="StrictFIFO"), others("1"), another("2", priority_class=HIGH)),
    ),
    Made(
        "its copies wait on workers",
        Code.WaitsOnWorkers,
        asks("1"),
        (queue("20", cpu_there="1"), others("1", each_worker=True)),
    ),
    Made(
        "an image that cannot be pulled",
        Code.ImageNotPulled,
        in_main(),
        after=(pod(reason="ImagePullBackOff", message="not found"),),
        state="Starting",
    ),
    Made(
        "a ConfigMap that the worker does not have",
        Code.ContainerNotCreated,
        in_main(),
        after=(pod(reason="CreateContainerConfigError", message='configmap "settings" not found'),),
        state="Starting",
    ),
    Made(
        "a container that fails at once, again and again",
        Code.ContainerCrashes,
        in_main(),
        after=(pod("Running", "CrashLoopBackOff"),),
        state="Starting",
    ),
    Made(
        "no node of the worker is free", Code.PodNotScheduled, in_main(), after=(pod(placed=False),), state="Starting"
    ),
    Made(
        "its only pod starts", Code.PodsStarting, in_main(), after=(pod(reason="ContainerCreating"),), state="Starting"
    ),
    Made("a pod is ready", None, in_main(), after=(pod("Running", ready=True),), state="Running"),
    Made("it has succeeded", None, in_main(), after=(ends(complete_job),), state="Finished"),
    Made(
        "it has succeeded, as its own status says, and its Workload is deleted",
        None,
        in_main(),
        after=(ends(complete_job), workload_is_deleted),
        state="Finished",
    ),
    Made("it has failed", None, in_main(), after=(ends(fail_job),), state="Failed"),
)


async def come_about(ground: Ground) -> dict[str, Made]:
    """Makes all of them, each for a job of its own, and returns them by its name."""
    for name, value in ((HIGH, 100), (LOW, 1)):
        head = {"apiVersion": WORKLOAD_CLASS.api_version, "kind": WORKLOAD_CLASS.kind}
        await ground.manager.apply({**head, "metadata": {"name": name}, "value": value})
    named = {f"job-{number}": each for number, each in enumerate(MADE)}
    for name, each in named.items():
        for step in each.before:
            await step(ground, name)
        await ground.submit(name, each.job)
    for name, each in named.items():
        for step in each.after:
            await step(ground, name)
    return named


async def leave(ground: Ground) -> None:
    """Takes away what is not in the namespace."""
    for client in (ground.manager, *ground.workers.values()):
        for kind in (objects.CLUSTER_QUEUE, objects.ADMISSION_CHECK, objects.RESOURCE_FLAVOR):
            for body in await client.list(kind):
                if body["metadata"]["name"].startswith(f"{ground.namespace}-"):
                    await client.delete(kind, body["metadata"]["name"])
    for kind, name in ((WORKLOAD_CLASS, HIGH), (WORKLOAD_CLASS, LOW), (CLASS, GONE)):
        await ground.manager.delete(kind, name)


async def _answers(ground: Ground, name: str, made: Made) -> Tree:
    """Both hear it in the end, and the user nothing else than the administrator; returns the user's answer."""
    expected = made.state, made.code.name if made.code else ""
    about = f"{made.ask}/{name}"

    async def yet() -> Tree:
        told, full = [await ground.why(who, about) for who in (USER, ADMIN)]
        for found in (told, full):
            assert _said(found) == expected, f"{made.how}: {found['summary']}"
        return told

    return await eventually(yet, timeout=60, interval=0.3)


def _said(told: Tree) -> tuple[str, str]:
    return told["state"], next((each["code"] for each in told["obstacles"]), "")


async def all_are_true(ground: Ground, named: Mapping[str, Made]) -> None:
    """Each of them is told to both people, and its repair helps."""
    told: dict[str, Tree] = {}
    wrong: list[str] = []
    for name, made in named.items():
        with _noted(wrong):
            told[name] = await _answers(ground, name, made)
    for name, made in named.items():
        if name in told and made.repair is not None:
            with _noted(wrong):
                await _carried_out(ground, name, made, told[name])
    assert not wrong, "\n".join(wrong)


@contextmanager
def _noted(wrong: list[str]) -> Iterator[None]:
    try:
        yield
    except AssertionError as error:
        wrong.append(str(error))


async def _carried_out(ground: Ground, name: str, made: Made, told: Tree) -> None:
    """Does what the answer says, as whom it says, and sees the job start."""
    if callable(made.repair):
        await made.repair(ground, name)
    else:
        repair = told["obstacles"][0]["repair"]
        who = USER if repair["by"] == "anyone who may change the job" else ADMIN
        for command in repair["commands"]:
            await _run(ground, who, command, ground.job(name, made.repaired or {}))

    async def starts() -> bool:
        found = await ground.why(USER, f"job/{name}")
        assert found["state"] in ("Starting", "Running"), f"{made.how}: {found['summary']}"
        return True

    await eventually(starts, timeout=60, interval=0.3)


async def _run(ground: Ground, who: str, command: str, job: Tree) -> None:
    """A command as it is printed, with words for those in capitals. What kubectl would do is done by calls: simulated clusters
    are tried without it."""
    file = ground.folder / "job.yaml"
    file.write_text(yaml.safe_dump(job))
    chosen = {"FILE": str(file), "QUEUE": "main", "CLASS": HIGH, "SECONDS": "600", "VALUE": "7"}
    words = [chosen.get(word, word) for word in shlex.split(command)]
    if words[0] == "multikueue":
        await ground.run(who, *words[1:], *(["--yes"] if "cancel" in words else []))
    elif words[0] == "echo":
        for client in ground.workers.values():
            body = json.loads(words[1])
            await client.create({**body, "spec": {"clusterQueue": ground.there}})
    elif words[1:3] == ["create", "priorityclass"]:
        meta = {"name": words[3]}
        await ground.manager.create({"apiVersion": CLASS.api_version, "kind": CLASS.kind, "metadata": meta, "value": 7})
    else:
        verb, name = words[1], next(word for word in words if word.startswith("job/")).removeprefix("job/")
        if verb == "delete":
            await ground.manager.delete(JOB, name, ground.namespace)
            return
        assert verb == "label", command
        label = next(word for word in words if word.startswith(f"{KUEUE}/"))
        key, _, value = label.partition("=")
        change = {key: chosen.get(value, value)} if value else {key.removesuffix("-"): None}
        await ground.manager.patch(JOB, name, {"metadata": {"labels": change}}, ground.namespace)
