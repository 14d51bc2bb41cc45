"""Plays a story: a whole manager on a simulated cluster and virtual time, and whoever else acts in the story.

The workloads of stories have no jobs. For Kueue an evicted workload keeps its quota until whoever runs its pods says that
they are gone, and the story says when that is. Our manager knows itself what runs where, and nothing of such a workload
runs anywhere: so `Pods` stands in for them.
"""

from __future__ import annotations

import copy
import random
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from types import FrameType
from typing import Any

import anyio
import msgspec
from msgspec.structs import replace

from multikueue.api import kinds
from multikueue.api.kind import Kind
from multikueue.api.kueue.compatibility import Release
from multikueue.api.kueue.workload import ADMITTED, EVICTED, FINISHED, QUOTA_RESERVED, Workload, workload_spec
from multikueue.api.meta import ObjectKey, decoder, render_time
from multikueue.controllers.reconcile.conditions import difference, status_patch
from multikueue.manager.engine import engine_of
from multikueue.settings import Cluster, InForce, Quota, Settings, kueue
from multikueue.workload.case import Case
from multikueue.workload.life import rules, transitions
from multikueue_simulator.simulation.faults.partial_injector import Logs
from multikueue_simulator.simulation.runs.recorder import Trace, logs_heard
from multikueue_simulator.time import VirtualClock, run
from multikueue_simulator.world.processes import ManagerProcess
from multikueue_simulator.world.world import ClusterHandle, Layout, World
from tests.parity import seen
from tests.parity.compare import Disagreement, disagreements
from tests.parity.deviations import reason
from tests.parity.story import Object, Step, Story

CALM = 2.5
"""Seconds without a write after which the next element follows."""

REST = 3.5
"""The same at the end of a step: statuses are written a second after what they tell of."""

LOOK = 0.25
"""Seconds between two looks whether anything was written."""

RESTLESS = 600.0
"""Seconds of the story after which something that still writes will never come to rest."""

PATIENCE = 20.0
"""Seconds of the processor that a story may take: how long they last is a matter of what else runs."""

POKE = "parity/completed"
"""An annotation that has the manager look at a workload."""

KINDS: dict[str, Kind[Any]] = {kind.kind: kind for kind in vars(kinds).values() if isinstance(kind, Kind)}


class Crash(Exception):
    """The manager ended, reported an error, or never came to rest."""


class TooLong(BaseException):
    """A story takes too much computing. It is no Exception: whatever happens to run must not catch it."""


@dataclass(slots=True)
class Outcome:
    """What came of a story; `error` is why it was not played to its end."""

    story: str
    features: frozenset[str] = frozenset()
    disagreements: list[Disagreement] = field(default_factory=list)
    hints: list[Disagreement] = field(default_factory=list)
    deviations: list[str] = field(default_factory=list)
    """Why we differ on purpose, each reason once."""
    error: str = ""
    steps: int = 0
    """How many were played."""

    @property
    def agrees(self) -> bool:
        return not self.error and not self.disagreements


def play(story: Story) -> Outcome:
    """Play it to its end, or as far as it goes."""
    outcome = Outcome(story.name, story.features)
    random.seed(story.name)
    try:
        with _time_limit(PATIENCE):
            run(lambda: _play(story, outcome))
    except (Exception, BaseExceptionGroup, TooLong) as error:  # noqa: BLE001  # whatever it is: the next has its turn
        outcome.error = _told(error)
    return outcome


async def _play(story: Story, outcome: Outcome) -> None:
    world = World(Layout(queues=(), workers=()), clock=VirtualClock(), seed=1)
    manager = world.add_manager("manager", InForce(settings(story.config, story.release)))
    errors: list[str] = []
    pods = Pods()
    with logs_heard(Trace(), Logs(), errors.append), pods.in_place_of_ours():
        async with anyio.create_task_group() as tasks:
            await manager.begin(tasks).wait()
            stage = Stage(world.manager, manager, pods, errors)
            for number, step in enumerate(story.steps, 1):
                await stage.act(step)
                _compare(story, number, step, stage, outcome)
                outcome.steps = number
            tasks.cancel_scope.cancel()


def _compare(story: Story, number: int, step: Step, stage: Stage, outcome: Outcome) -> None:
    found = disagreements(
        story.name,
        number,
        step,
        got=seen.state(stage.site),
        completed=tuple(stage.completed),
        messages=seen.messages(stage.site),
    )
    for each in found:
        if each.is_hint:
            outcome.hints.append(each)
        elif not (why := reason(each)):
            outcome.disagreements.append(each)
        elif why not in outcome.deviations:
            outcome.deviations.append(why)


def settings(config: Object, release: Release) -> Settings:
    """Ours for a Configuration of that release. That an evicted workload waits is ours alone, so it does not wait."""
    header = {"apiVersion": f"{kueue.GROUP}/{kueue.VERSIONS[-1]}", "kind": "Configuration"}
    values = kueue.translate(header | config, Path("config")).values
    ours = Settings.model_validate({**values, "cluster": Cluster(namespace=Layout().secrets)})
    quota: Quota = ours.quota.model_copy(
        update={"compatibility": release, "requeue_first": timedelta(), "requeue_cap": timedelta()}
    )
    return ours.model_copy(update={"quota": quota})


@dataclass(slots=True)
class Pods:
    """Runs what is admitted, and stops only when the story says so."""

    gone: set[ObjectKey] = field(default_factory=set)

    @contextmanager
    def in_place_of_ours(self) -> Iterator[None]:
        """In this block it is these that an evicted workload waits for."""
        real = rules.step

        def step(case: Case) -> rules.Step:
            workload = case.local
            holding = workload.key not in self.gone and not _is_taken_back(case)
            job = replace(case.job, may_run=holding, is_run_by_others=False)
            found = real(replace(case, job=job))
            if not any(each.type == QUOTA_RESERVED and each.status == "True" for each in found.status.conditions):
                self.gone.discard(workload.key)
            return found

        rules.step = step
        try:
            yield
        finally:
            rules.step = real


def _is_taken_back(case: Case) -> bool:
    """Whether a stopped queue takes back a reservation that was never admitted: that needs no eviction (5.3)."""
    workload = case.local
    if workload.has(ADMITTED) or workload.has(EVICTED) or not workload_spec(workload).active:
        return False
    queues = (case.queues.local_queue, case.queues.cluster_queue)
    return any(q is None or q.spec.stop_policy != "None" or q.metadata.deletion_timestamp is not None for q in queues)


class Stage:
    """The cluster, and everybody in the story but the manager. `completed` is told by the last step."""

    def __init__(self, site: ClusterHandle, manager: ManagerProcess, pods: Pods, errors: list[str]) -> None:
        self.site, self.manager, self.pods, self.errors = site, manager, pods, errors
        self.completed: list[str] = []
        self._workloads: dict[str, ObjectKey] = {}
        self._pokes = 0

    async def act(self, step: Step) -> None:
        """Do what the step says, and wait until nothing changes any more. Raises Crash and Refused."""
        self.completed = []
        if step.action == "complete_evictions":
            await self._complete_evictions()
        else:
            for element in step.elements:
                getattr(self, f"_{step.action}")(element)
                if step.action == "wait":
                    await anyio.sleep(element)
                elif step.action != "apply" or self._workloads:
                    await self.settle(CALM)
        await self.settle(REST)

    async def settle(self, calm: float) -> None:
        """Until nothing was written for so many seconds. Raises Crash."""
        storage = self.site.cluster.storage
        began = since = anyio.current_time()
        version = storage.rv
        while anyio.current_time() < since + calm:
            await anyio.sleep(LOOK)
            if self.manager.error is not None:
                raise Crash(f"the manager ended: {_told(self.manager.error)}")
            if self.errors:
                raise Crash(f"the manager reports: {self.errors[0]}")
            if storage.rv != version:
                version, since = storage.rv, anyio.current_time()
            if since > began + RESTLESS:
                raise Crash("it writes and writes")

    # --- what happens in stories ---

    def _apply(self, body: Object) -> None:
        kind, key = KINDS[body["kind"]], _key(body["metadata"])
        stored = self.site.find(kind, key)
        if stored is None:
            self.site.create(kind, body)
            return
        metadata = stored["metadata"] | {"labels": body["metadata"].get("labels", {})}
        status = {"status": stored["status"]} if "status" in stored else {}
        self.site.call("PUT", kind.path(key), {**body, "metadata": metadata, **status})

    def _create(self, body: Object) -> None:
        self._workloads[body["metadata"]["name"]] = _key(body["metadata"])
        self.site.create(kinds.WORKLOADS, body)

    def _finish(self, name: str) -> None:
        self._put_condition(
            kinds.WORKLOADS, self._workloads[name], "Finished", "True", reason="Succeeded", message="Job finished"
        )

    async def _complete_evictions(self) -> None:
        """The pods of evicted workloads are gone, of one after the other; those evicted meanwhile have time."""
        evicted = [name for name in sorted(self._workloads) if self._is_being_evicted(name)]
        for name in evicted:
            if not self._is_being_evicted(name):
                continue
            self.completed.append(name)
            key = self._workloads[name]
            if self._workload(key).has(FINISHED):
                self._release_finished(key)
            else:
                self.pods.gone.add(key)
                self._pokes += 1
                self.site.patch(kinds.WORKLOADS, key, {"metadata": {"annotations": {POKE: str(self._pokes)}}})
            await self.settle(CALM)
            self.pods.gone.discard(key)

    def _is_being_evicted(self, name: str) -> bool:
        workload = self._workload(self._workloads[name])
        return workload.has(EVICTED) and workload.has(QUOTA_RESERVED)

    def _release_finished(self, key: ObjectKey) -> None:
        """For a manager this is over: only who recorded the story wrote it all the same."""
        old = self._workload(key)
        reasons = engine_of(self.manager.in_force.settings.quota).rules.reasons
        now = self.manager.clock.now()
        new = transitions.release(old.status, generation=old.metadata.generation, now=now, reasons=reasons)
        self.site.patch(kinds.WORKLOADS, key, status_patch(old, difference(old.status, new)), subresource="status")

    def _workload(self, key: ObjectKey) -> Workload:
        stored = self.site.find(kinds.WORKLOADS, key)
        if stored is None:
            raise Crash(f"there is no Workload {key.name}")
        return decoder(Workload)(msgspec.json.encode(stored))

    def _delete(self, element: Object) -> None:
        name = element["name"]
        key = self._workloads.pop(name) if element["kind"] == "Workload" else _key(element)
        self.site.delete(KINDS[element["kind"]], key)

    def _patch(self, element: Object) -> None:
        name = element["name"]
        key = self._workloads[name] if element["kind"] == "Workload" else _key(element)
        self.site.patch(KINDS[element["kind"]], key, element["patch"])

    def _deactivate(self, name: str) -> None:
        self.site.patch(kinds.WORKLOADS, self._workloads[name], {"spec": {"active": False}})

    def _activate(self, name: str) -> None:
        self.site.patch(kinds.WORKLOADS, self._workloads[name], {"spec": {"active": True}})

    def _check_active(self, element: Object) -> None:
        value = "True" if element["active"] else "False"
        key = ObjectKey("", element["name"])
        self._put_condition(kinds.ADMISSION_CHECKS, key, "Active", value, reason="Test", message="By its controller")

    def _set_check(self, element: Object) -> None:
        def entry(old: Object) -> Object:
            new = {**old, "state": element["state"], "message": element.get("message", ""), "lastTransitionTime": now}
            if "requeueAfterSeconds" in element:
                new["requeueAfterSeconds"] = element["requeueAfterSeconds"]
            return new

        now = self._now()
        self._put_entry(self._workloads[element["workload"]], "admissionChecks", element["check"], entry)

    def _reclaim(self, element: Object) -> None:
        key = self._workloads[element["workload"]]
        self._put_entry(key, "reclaimablePods", element["podSet"], lambda old: {**old, "count": element["count"]})

    def _wait(self, seconds: float) -> None:
        """`act` does."""

    # --- how it is written ---

    def _put_condition(
        self, kind: Kind[Any], key: ObjectKey, type_: str, value: str, *, reason: str, message: str
    ) -> None:
        condition = {
            "type": type_,
            "status": value,
            "reason": reason,
            "message": message,
            "lastTransitionTime": self._now(),
        }
        status = self._status(kind, key)
        others = [each for each in status.get("conditions", ()) if each["type"] != type_]
        self.site.patch(kind, key, {"status": {"conditions": [*others, condition]}}, subresource="status")

    def _put_entry(self, key: ObjectKey, field: str, name: str, change: Callable[[Object], Object]) -> None:
        """Change the entry of that name in a list of a workload's status, or add it."""
        entries: list[Object] = self._status(kinds.WORKLOADS, key).get(field, [])
        new = [change(each) if each["name"] == name else each for each in entries]
        if all(each["name"] != name for each in entries):
            new.append(change({"name": name}))
        self.site.patch(kinds.WORKLOADS, key, {"status": {field: new}}, subresource="status")

    def _status(self, kind: Kind[Any], key: ObjectKey) -> Object:
        stored = self.site.find(kind, key)
        if stored is None:
            raise Crash(f"there is no {kind.kind} {key.name}")
        return copy.deepcopy(stored.get("status", {}))

    def _now(self) -> str:
        return render_time(self.manager.clock.now())


def _key(metadata: Object) -> ObjectKey:
    return ObjectKey(metadata.get("namespace", ""), metadata["name"])


def _told(error: BaseException) -> str:
    """The first error in a group of them, in one line."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return " ".join(f"{type(error).__name__}: {error}".split())


@contextmanager
def _time_limit(seconds: float) -> Iterator[None]:
    def over(_signal: int, _frame: FrameType | None) -> None:
        raise TooLong(f"more than {seconds:g} seconds")

    handler = signal.signal(signal.SIGVTALRM, over)
    others = signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, *others)
        signal.signal(signal.SIGVTALRM, handler)
