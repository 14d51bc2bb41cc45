"""Records stories on a real Kueue, many side by side, and what it decided after each step: one file, one recorder.

Kueue alone, without job controllers and kubelets: workloads are objects, and who runs the pods of an evicted one, or
answers its checks, is played here. Stories cannot touch each other as long as the first part of their names differs.

A step is over when Kueue has come to rest. Nobody says when that is, and a slow machine may make any pause too short. So
besides that nothing was decided for a while there must have been a whole heartbeat since: small workloads of a queue
apart that are judged, admitted, and woken from waiting, by the same loops and through the same queues.
"""

from __future__ import annotations

import copy
import itertools
import random
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import anyio

from testbed import objects
from testbed.bed import unique
from testbed.client import ApiError, Client, Kind, eventually
from tests.parity import seen
from tests.parity.draw import IfIdle, Some
from tests.parity.story import ACTIONS, Object

CALM = 2.3
"""Seconds without a decision after which the next element follows: what is parked is woken after one second."""

CALM_AFTER_CREATION = 1.1
"""The same after a creation, which wakes nobody. Creation times have whole seconds, and no two may be alike."""

REST = 3.0
"""The same at the end of a step: counts are written a second after what they tell of."""

RESTLESS = 180.0
"""Seconds after which a story that does not come to rest is given up."""

TOUCH = "parity/counted"
"""An annotation that has Kueue count again what is in the status of a queue."""

LOOK = 0.1
AT_ONCE = 64
"""How many stories are played side by side."""

HEARTS = 2

V = "kueue.x-k8s.io/v1beta2"
WATCHED = {kind: Kind(V, kind) for kind in ("Workload", "ClusterQueue", "LocalQueue", "Cohort")}
KINDS = WATCHED | {kind: Kind(V, kind) for kind in ("ResourceFlavor", "AdmissionCheck", "WorkloadPriorityClass")}
KINDS |= {kind: Kind("v1", kind) for kind in ("Namespace", "LimitRange")}
KINDS["ResourceClaimTemplate"] = Kind("resource.k8s.io/v1", "ResourceClaimTemplate")
WORKLOAD = WATCHED["Workload"]

JUDGED = ("QuotaReserved", "Admitted", "Evicted", "Finished")


REASONS, PENDING_EVALUATION = "UnadmittedWorkloadsObservability", "PendingEvaluation"
"""The gate by which Kueue says why work waits, and the reason of work that no cycle has looked at yet."""


class Unfit(Exception):
    """A story that cannot be recorded: it was refused, or never came to rest."""


async def record(client: Client, stories: Sequence[Object], *, told: Callable[[str], None]) -> list[Object]:
    """The stories as they went, in their order; one that could not be played is told and left out."""
    recorded: dict[str, Object] = {}
    limit = anyio.CapacityLimiter(AT_ONCE)

    async def one(story: Object) -> None:
        async with limit:
            try:
                recorded[story["name"]] = await Recording(view, client, story).played()
            except (Unfit, ApiError) as error:
                told(f"{story['name']}, not recorded: {error}")

    async with watched(client) as view, anyio.create_task_group() as tasks:
        for story in stories:
            tasks.start_soon(one, story)
    return [recorded[story["name"]] for story in stories if story["name"] in recorded]


# --- what is seen of Kueue, and when it rests ---


@dataclass(slots=True)
class View:
    """What was last heard of all objects; per story when anything was decided, and when the newest whole beat began.

    Writes that decide nothing may go on and on: a head that is tried again and again is told another reason each time, and
    is left out of its LocalQueue's pending count as long as it is looked at.
    """

    objects: dict[str, dict[tuple[str, str], Object]] = field(default_factory=lambda: {kind: {} for kind in WATCHED})
    changed: dict[str, float] = field(default_factory=dict)
    beat: float = float("-inf")

    def hear(self, kind: str, event: str, body: Object) -> None:
        metadata = body["metadata"]
        key = (metadata.get("namespace", ""), metadata["name"])
        old = self.objects[kind].get(key)
        if event == "DELETED":
            self.objects[kind].pop(key, None)
        else:
            self.objects[kind][key] = body
        if event == "DELETED" or old is None or seen.one(kind, old) != seen.one(kind, body):
            self.changed[prefix(metadata["name"])] = anyio.current_time()

    def of(self, story: str) -> seen.Shot:
        """All that is there of a story."""
        return seen.Shot(
            {
                kind: [each for each in found.values() if prefix(each["metadata"]["name"]) == story]
                for kind, found in self.objects.items()
            }
        )


def prefix(name: str) -> str:
    return name.split("-", 1)[0]


@asynccontextmanager
async def watched(client: Client) -> AsyncIterator[View]:
    """The view is kept up to date in this block, and hearts beat."""
    view = View()

    async def listen(kind: str) -> None:
        async for event, body in client.watch(WATCHED[kind]):
            view.hear(kind, event, body)

    async with anyio.create_task_group() as tasks:
        for kind in WATCHED:
            tasks.start_soon(listen, kind)
        for _ in range(HEARTS):
            tasks.start_soon(_heart, client, view, unique("heart"))
        yield view
        tasks.cancel_scope.cancel()


async def _heart(client: Client, view: View, name: str) -> None:
    """Beats on and on: one whole turn of a queue of its own goes through all of Kueue's controllers that others wait for.

    The quota is a Cohort's, which has no status that would show that Kueue took it in.
    """
    await client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    await client.create(objects.resource_flavor(name))
    await client.create({"apiVersion": V, "kind": "Cohort", "metadata": {"name": name}, "spec": _room(name, 1)})
    queue = objects.cluster_queue(name, flavor=name, quota={"cpu": "0"})
    await client.create({**queue, "spec": {**queue["spec"], "cohortName": name}})
    await client.create(objects.local_queue(name, namespace=name, cluster_queue=name))
    for number in itertools.count():
        began = anyio.current_time()
        await _beat(client, view, name, [f"{name}-{number}-{each}" for each in "abc"])
        view.beat = max(view.beat, began)


async def _beat(client: Client, view: View, name: str, workloads: Sequence[str]) -> None:
    """One is admitted, one waits until its Cohort has more, one until another is finished; the counts follow."""
    first, second, third = workloads
    await _create(client, first, queue=name)
    await _until(view, name, first, "Admitted", "True")
    await _create(client, second, queue=name)
    await _until(view, name, second, "QuotaReserved", "False")
    await client.patch(WATCHED["Cohort"], name, {"spec": _room(name, 2)})
    await _until(view, name, second, "Admitted", "True")
    await _create(client, third, queue=name)
    await _until(view, name, third, "QuotaReserved", "False")
    await _finish(client, first, name)
    await _until(view, name, third, "Admitted", "True")
    await _until_counted(view, name, running=2)
    for each in (second, third):
        await _finish(client, each, name)
    await client.patch(WATCHED["Cohort"], name, {"spec": _room(name, 1)})
    await _until_counted(view, name, running=0)
    for each in workloads:
        await client.delete(WORKLOAD, each, name)


def _room(flavor: str, workloads: int) -> Object:
    """A Cohort's spec with quota for so many."""
    quota = {"name": flavor, "resources": [{"name": "cpu", "nominalQuota": str(workloads)}]}
    return {"resourceGroups": [{"coveredResources": ["cpu"], "flavors": [quota]}]}


async def _create(client: Client, name: str, *, queue: str) -> None:
    container = {"name": "c", "image": "busybox", "resources": {"requests": {"cpu": "1"}}}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    spec = {"queueName": queue, "podSets": [{"name": "main", "count": 1, "template": template}]}
    metadata = {"name": name, "namespace": queue}
    await client.create({"apiVersion": V, "kind": "Workload", "metadata": metadata, "spec": spec})


async def _until(view: View, namespace: str, name: str, condition: str, value: str) -> None:
    async def reached() -> bool:
        return _holds(view.objects["Workload"].get((namespace, name), {}), condition, value)

    await eventually(reached, timeout=RESTLESS)


async def _until_counted(view: View, name: str, *, running: int) -> None:
    """Until both queues say so."""

    async def counted() -> bool:
        kept = (view.objects["ClusterQueue"][("", name)], view.objects["LocalQueue"][(name, name)])
        return all(each.get("status", {}).get("admittedWorkloads", 0) == running for each in kept)

    await eventually(counted, timeout=RESTLESS)


async def _finish(client: Client, name: str, namespace: str) -> None:
    await _put_condition(client, WORKLOAD, name, namespace, _condition("Finished", "True", "Succeeded", "Job finished"))


# --- a story ---


class Recording:
    """One story as it is played. What it writes down is the story with what was seen after each step."""

    def __init__(self, view: View, client: Client, story: Object) -> None:
        self.view, self.client, self.story = view, client, story
        self.prefix = prefix(story["name"])
        self.namespaces: dict[str, str] = {}
        self.completed: list[str] = []
        self.is_granular = bool(story["config"].get("featureGates", {}).get(REASONS))

    async def played(self) -> Object:
        """Raises Unfit, and ApiError where the server refuses a step."""
        return {**self.story, "steps": [await self._step(each) for each in self.story["steps"]]}

    async def _step(self, step: Object) -> Object:
        (action,) = (each for each in ACTIONS if each in step)
        self.completed = []
        done: Any = step[action]
        if action == "complete_evictions":
            await self._complete_evictions()
        elif isinstance(done, list):
            done = [each for each in [await self._element(action, each) for each in step[action]] if each is not None]
        else:
            await anyio.sleep(done)
        await self._settle(REST)
        told = _short(seen.state(self.view.of(self.prefix)))
        completed = {"completed": self.completed} if action == "complete_evictions" else {}
        return {action: done, **completed, "expect": told}

    async def _element(self, action: str, element: Any) -> Any:
        """Do it; the element with names in the place of `Some`, or None if there was nobody."""
        element = self._with_names(action, element)
        if element is None:
            return None
        await getattr(self, f"_{action}")(element)
        if action == "create":
            await self._settle(CALM_AFTER_CREATION, judged=element["metadata"]["name"])
        elif action != "apply" or self.namespaces:
            await self._settle(CALM)
        return element

    async def _settle(self, calm: float, *, judged: str = "") -> None:
        """Until nothing was decided for so long, and a beat that began after the last decision is over.

        What was just created needs no beat once it is judged: nothing else is to be expected of it.
        """
        began = anyio.current_time()
        while True:
            await anyio.sleep(LOOK)
            now, since = anyio.current_time(), max(began, self.view.changed.get(self.prefix, began))
            if now >= since + calm and (self.view.beat > since or (judged and self._is_judged(judged))):
                return
            if now > began + RESTLESS:
                raise Unfit("it does not come to rest")

    def _is_judged(self, name: str) -> bool:
        conditions = self._workload(name).get("status", {}).get("conditions", ())
        return any(each["type"] == "QuotaReserved" and each["reason"] != PENDING_EVALUATION for each in conditions)

    # --- whom it happens to ---

    def _with_names(self, action: str, element: Any) -> Any:
        if isinstance(element, Some):
            return self._chosen(element)
        if isinstance(element, dict) and isinstance(element.get("name"), IfIdle):
            queue = element["name"].name
            return None if self._is_waited_in(queue) else {**element, "name": queue}
        for field_ in ("workload", "name"):
            if isinstance(element, dict) and isinstance(element.get(field_), Some):
                name = self._chosen(element[field_])
                return None if name is None else self._fitted(action, {**element, field_: name})
        return element

    def _fitted(self, action: str, element: Object) -> Object:
        """How many pods are no longer needed is a matter of how many there are."""
        if action != "reclaim":
            return element
        workload = self._workload(element["workload"])
        pods = workload["status"]["admission"]["podSetAssignments"][0]
        before = {each["name"]: each["count"] for each in workload["status"].get("reclaimablePods", ())}
        count = min(pods["count"], before.get(pods["name"], 0) + element["count"])
        return {**element, "podSet": pods["name"], "count": count}

    def _chosen(self, some: Some) -> str | None:
        names = [name for name in sorted(self.namespaces) if STATES[some.state](self._workload(name))]
        return random.Random(some.pick).choice(names) if names else None

    def _is_waited_in(self, queue: str) -> bool:
        """Queues of both kinds have the same names in drawn stories."""
        workloads = map(self._workload, self.namespaces)
        return any(each["spec"]["queueName"] == queue and _waits(each) for each in workloads)

    def _workload(self, name: str) -> Object:
        return self.view.objects["Workload"][(self.namespaces[name], name)]

    # --- what happens ---

    async def _apply(self, body: Object) -> None:
        metadata = body["metadata"]
        kind = KINDS[body["kind"]]
        old = await self.client.find(kind, metadata["name"], metadata.get("namespace"))
        if old is None:
            await self.client.create(body)
            return
        status = {"status": old["status"]} if "status" in old else {}
        merged = old["metadata"] | {"labels": metadata.get("labels", {})}
        await self.client.replace({**body, "metadata": merged, **status})

    async def _create(self, body: Object) -> None:
        metadata = body["metadata"]
        await self.client.create(body)
        self.namespaces[metadata["name"]] = metadata["namespace"]
        await eventually(lambda: self._is_there(metadata["name"]), timeout=RESTLESS)

    async def _is_there(self, name: str) -> bool:
        return (self.namespaces[name], name) in self.view.objects["Workload"]

    async def _finish(self, name: str) -> None:
        await _finish(self.client, name, self.namespaces[name])

    async def _deactivate(self, name: str) -> None:
        await self.client.patch(WORKLOAD, name, {"spec": {"active": False}}, self.namespaces[name])

    async def _activate(self, name: str) -> None:
        await self.client.patch(WORKLOAD, name, {"spec": {"active": True}}, self.namespaces[name])

    async def _delete(self, element: Object) -> None:
        name = element["name"]
        is_workload = element["kind"] == "Workload"
        namespace = self.namespaces.pop(name) if is_workload else element.get("namespace")
        await self.client.delete(KINDS[element["kind"]], name, namespace)

    async def _patch(self, element: Object) -> None:
        name = element["name"]
        namespace = self.namespaces[name] if element["kind"] == "Workload" else element.get("namespace")
        policy = element["patch"].get("spec", {}).get("stopPolicy")
        if element["kind"] == "LocalQueue" and policy is not None:
            await self._have_counted((namespace or "", name), policy)
        await self.client.patch(KINDS[element["kind"]], name, element["patch"], namespace)

    async def _have_counted(self, local_queue: tuple[str, str], policy: str) -> None:
        """Touch the ClusterQueue of a LocalQueue that is stopped or let go: Kueue would leave figures in its status as
        they were, that had grown old since others in its cohort changed (docs/parity.md)."""
        spec = self.view.objects["LocalQueue"][local_queue]["spec"]
        if spec.get("stopPolicy", "None") != policy:
            touch = {"metadata": {"annotations": {TOUCH: policy}}}
            await self.client.patch(WATCHED["ClusterQueue"], spec["clusterQueue"], touch)

    async def _check_active(self, element: Object) -> None:
        value = "True" if element["active"] else "False"
        condition = _condition("Active", value, "Test", "By its controller")
        await _put_condition(self.client, KINDS["AdmissionCheck"], element["name"], None, condition)

    async def _set_check(self, element: Object) -> None:
        def entry(old: Object) -> Object:
            asked: Object = {
                field_: element[field_] for field_ in ("state", "requeueAfterSeconds") if field_ in element
            }
            return {**old, **asked, "message": element.get("message", ""), "lastTransitionTime": _now()}

        await self._put_entry(element["workload"], "admissionChecks", element["check"], entry)

    async def _reclaim(self, element: Object) -> None:
        count = element["count"]
        await self._put_entry(
            element["workload"], "reclaimablePods", element["podSet"], lambda old: {**old, "count": count}
        )

    async def _put_entry(self, name: str, field_: str, entry: str, change: Callable[[Object], Object]) -> None:
        namespace = self.namespaces[name]
        old = (await self.client.get(WORKLOAD, name, namespace)).get("status", {}).get(field_, [])
        others = {each["name"]: each for each in old}
        others[entry] = change(copy.deepcopy(others.get(entry, {"name": entry})))
        await self.client.patch_status(WORKLOAD, name, {field_: list(others.values())}, namespace)

    async def _complete_evictions(self) -> None:
        """The pods of evicted workloads are gone, of one after the other; those evicted meanwhile have time."""
        for name in [each for each in sorted(self.namespaces) if _is_being_evicted(self._workload(each))]:
            workload = await self.client.get(WORKLOAD, name, self.namespaces[name])
            if not _is_being_evicted(workload):
                continue
            self.completed.append(name)
            patch = released(workload["status"], is_granular=self.is_granular)
            await self.client.patch_status(WORKLOAD, name, patch, self.namespaces[name])
            await self._settle(CALM)


def _short(told: Object) -> Object:
    """As stories tell it: usage only where it differs from what is reserved, cohorts only with a share."""
    for queue in told["clusterQueues"].values():
        if queue["usage"] == queue["reservation"]:
            del queue["usage"]
    return {**told, "cohorts": {name: cohort for name, cohort in told["cohorts"].items() if cohort}}


def released(status: Object, *, is_granular: bool = False) -> Object:
    """The patch of an evicted workload's status by whoever ran its pods: it has no quota any more. With granular reasons it
    waits for its evaluation."""
    found = {each["type"]: each for each in status["conditions"]}
    reason, message = found["Evicted"]["reason"], found["Evicted"]["message"]
    again = "True" if reason in ("Preempted", "NodeFailures") else "False"
    found["Requeued"] = _condition("Requeued", again, reason, message)
    waits = PENDING_EVALUATION if is_granular else "Pending"
    found["QuotaReserved"] = _condition("QuotaReserved", "False", waits, message)
    if found.get("Admitted", {}).get("status") == "True":
        ready = all(each["state"] == "Ready" for each in status.get("admissionChecks", ()))
        why = "NoReservation" if ready or is_granular else "NoReservationUnsatisfiedChecks"
        found["Admitted"] = _condition("Admitted", "False", why, "The workload has no reservation")
    return {"conditions": list(found.values()), "admission": None}


def _holds(workload: Object, condition: str, value: str = "True") -> bool:
    conditions = workload.get("status", {}).get("conditions", ())
    return any(each["type"] == condition and each["status"] == value for each in conditions)


def _is_being_evicted(workload: Object) -> bool:
    return _holds(workload, "Evicted") and _holds(workload, "QuotaReserved")


def _is_unfinished(workload: Object) -> bool:
    return not _holds(workload, "Finished")


def _is_active(workload: Object) -> bool:
    return bool(workload["spec"].get("active", True))


def _runs(workload: Object) -> bool:
    return _is_unfinished(workload) and _holds(workload, "Admitted") and not _holds(workload, "Evicted")


def _waits(workload: Object) -> bool:
    return _is_unfinished(workload) and _is_active(workload) and not _holds(workload, "QuotaReserved")


def _is_given_up(workload: Object) -> bool:
    """Whether Kueue itself switched it off: it would leave it waiting for ever, were it switched on again."""
    conditions = workload.get("status", {}).get("conditions", ())
    return any(each["type"] == "Evicted" and each["reason"].startswith("DeactivatedDueTo") for each in conditions)


def _is_scalable(workload: Object) -> bool:
    """Whether pods of its first pod set can have ended."""
    if not _runs(workload):
        return False
    pods = workload["status"]["admission"]["podSetAssignments"][0]
    before = {each["name"]: each["count"] for each in workload["status"].get("reclaimablePods", ())}
    return bool(pods.get("count", 0) > before.get(pods["name"], 0) + 1)


STATES: dict[str, Callable[[Object], bool]] = {
    "any": lambda _workload: True,
    "admitted": _runs,
    "waiting": _waits,
    "unfinished": lambda workload: _is_unfinished(workload) and _is_active(workload),
    "inactive": lambda workload: (
        _is_unfinished(workload)
        and not _is_active(workload)
        and not _holds(workload, "QuotaReserved")
        and not _is_given_up(workload)
    ),
    "scalable": _is_scalable,
    "checked": lambda workload: (
        _is_unfinished(workload)
        and _holds(workload, "QuotaReserved")
        and not _holds(workload, "Evicted")
        and bool(workload["status"].get("admissionChecks"))
    ),
}


# --- how it is written ---


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _condition(type_: str, value: str, reason: str, message: str) -> Object:
    return {"type": type_, "status": value, "reason": reason, "message": message, "lastTransitionTime": _now()}


async def _put_condition(client: Client, kind: Kind, name: str, namespace: str | None, condition: Object) -> None:
    old = (await client.get(kind, name, namespace)).get("status", {}).get("conditions", [])
    others = [each for each in old if each["type"] != condition["type"]]
    await client.patch_status(kind, name, {"conditions": [*others, condition]}, namespace)
