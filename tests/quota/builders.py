"""A cluster in miniature for the tests of this room: an engine, and statuses that are written and seen at once."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

import msgspec
from msgspec.structs import replace

from multikueue.api.kubernetes.builtins import DeviceClass, DeviceClassSpec, ResourceClaimTemplate
from multikueue.api.kueue.queues import ClusterQueue
from multikueue.api.kueue.workload import QUOTA_RESERVED, Workload, workload_spec
from multikueue.api.meta import Object, ObjectKey, ObjectMeta, decoder, encode
from multikueue.quota.engine import Engine
from multikueue.quota.queueing.pending_workload import PendingWorkload
from multikueue.quota.requests.amounts import demand
from multikueue.quota.workload.ordering import queue_rank
from multikueue.workload.case import Case
from multikueue.workload.life import rules
from multikueue.workload.life.rules import Step
from tests.builders import NOW, WorkloadBuilder, cluster_queue, flavor, local_queue, namespace, workload

SECOND = timedelta(seconds=1)


def after(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


def facts_of(now: datetime, **known: Any) -> Case:
    """What is known of a workload besides itself, by the names of the fields of a case and of its parts."""
    nobody = wants("nobody").build()
    return knowing(Case(now=now, key=nobody.key, workload=nobody), **known)


def knowing(case: Case, **known: Any) -> Case:
    """The same, but for what is known besides."""
    for name in ("scheduling", "queues", "job", "rules"):
        part: Any = getattr(case, name)
        own = {each: known.pop(each) for each in part.__struct_fields__ if each in known}
        case = replace(case, **{name: replace(part, **own)}) if own else case
    return replace(case, **known)


def step(workload: Workload, case: Case) -> Step:
    """The next status of that workload."""
    return rules.step(replace(case, key=workload.key, workload=workload))


def wants(
    name: str, *, queue: str = "lq", namespace: str = "default", age: int = 0, **resources: Any
) -> WorkloadBuilder:
    """A pending workload; a higher `age` makes it older by so many seconds."""
    return workload(name, namespace=namespace).queue(queue).request(**resources).created(NOW - timedelta(seconds=age))


def waiting(builder: WorkloadBuilder) -> PendingWorkload:
    return waiting_of(builder.build())


def waiting_of(value: Workload) -> PendingWorkload:
    """The workload as a queue holds it."""
    spec = workload_spec(value)
    return PendingWorkload(value, spec, demand(spec), queue_rank(value, spec.priority))


class Play:
    """An engine with one namespace and flavor, a clock, and the workloads as the API server would show them."""

    def __init__(self, *objects: Object, engine: Engine | None = None) -> None:
        self.engine = engine or Engine()
        self.now = NOW
        self.workloads: dict[ObjectKey, Workload] = {}
        self.engine.observe(None, namespace("default").build(), NOW)
        self.apply(flavor("default").build(), *objects)

    @classmethod
    def with_queue(cls, engine: Engine | None = None, **quota: Any) -> Play:
        """One ClusterQueue cq with this quota of the default flavor, and one LocalQueue lq."""
        queue = cluster_queue("cq").quota("default", **quota).build()
        return cls(queue, local_queue("lq", "cq").build(), engine=engine)

    def apply(self, *objects: Object) -> None:
        """Create or replace queues, cohorts, flavors and checks."""
        for value in objects:
            self.engine.observe(None, value, self.now)

    def submit(self, *builders: WorkloadBuilder) -> None:
        for builder in builders:
            self.see(builder.build())

    def see(self, value: Workload) -> None:
        self.workloads[value.key] = value
        self.engine.observe(None, value, self.now)

    def wait(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)

    def cycle(self) -> tuple[str, ...]:
        """One cycle; the names of those it reserved for. No status is written."""
        return names(self.engine.scheduler.cycle(self.now).reserved)

    def run(self) -> list[str]:
        """Cycles until nothing is left to look at now; the names of those reserved, in order. Statuses stay unwritten."""
        reserved: list[str] = []
        while (due := self.engine.scheduler.next_look(self.now)) is not None and due <= self.now:
            reserved += self.cycle()
        return reserved

    def settle(self) -> list[str]:
        """Run, write all statuses, and again, until nothing changes without time passing."""
        reserved: list[str] = []
        while True:
            reserved += self.run()
            written = [key for key in list(self.workloads) if self.write(key)]
            if not written:
                return reserved

    def write(self, key: ObjectKey, *, is_holding: bool = False) -> bool:
        """Take the next step of a workload and show its new status to the engine; answers whether there was one."""
        old = self.workloads[key]
        outcome = self.step(key, is_holding=is_holding)
        if outcome.status is old.status:
            return False
        self.see(msgspec.structs.replace(old, status=outcome.status))
        return True

    def step(self, key: ObjectKey, *, is_holding: bool = False) -> Step:
        value = self.workloads[key]
        queue = self.engine.view.local_queue(ObjectKey(key.namespace, workload_spec(value).queue_name))
        name = queue.spec.cluster_queue if queue else ""
        assumed, waiting = self.engine.scheduler.assumption(key), self.engine.view.pending_workload(key)
        admission = assumed.admission if assumed else value.status.admission
        facts = facts_of(
            self.now,
            reservation=assumed.admission if assumed else None,
            until=assumed.until if assumed else None,
            preemption=self.engine.scheduler.eviction(key),
            verdict=self.engine.view.verdict(key),
            misconfiguration=self.engine.view.misconfiguration(key),
            uncounted=waiting.uncounted if waiting else "",
            required_checks=self.engine.view.required_checks(name, admission),
            local_queue=queue,
            cluster_queue=self.engine.view.cluster_queue(name),
            is_cluster_queue_active=self.engine.view.is_active(name),
            may_run=is_holding,
            reasons=self.engine.rules.reasons,
        )
        return step(value, facts)

    def finish(self, name: str) -> None:
        value = self.workloads[key_of(name)]
        done = workload(name).finished().build().status.conditions
        status = msgspec.structs.replace(value.status, conditions=(*value.status.conditions, *done))
        self.see(msgspec.structs.replace(value, status=status))

    def reserved(self) -> list[str]:
        """The workloads whose status shows a reservation."""
        return [key.name for key, value in self.workloads.items() if value.has(QUOTA_RESERVED)]

    def verdict(self, name: str) -> str:
        found = self.engine.view.verdict(key_of(name))
        return found.message if found else ""

    def used(self, queue: str = "cq", flavor: str = "default", resource: str = "cpu") -> str:
        """What a ClusterQueue's status says is reserved."""
        reservation = self.engine.view.cluster_queue_status(queue, self.now).flavors_reservation
        return next(r.total for f in reservation if f.name == flavor for r in f.resources if r.name == resource)


def key_of(name: str, namespace: str = "default") -> ObjectKey:
    return ObjectKey(namespace, name)


def names(keys: Iterable[ObjectKey]) -> tuple[str, ...]:
    return tuple(key.name for key in keys)


def two_queues(first: ClusterQueue, second: ClusterQueue) -> Play:
    """LocalQueues a and b lead to the two."""
    return Play(
        first, second, local_queue("a", first.metadata.name).build(), local_queue("b", second.metadata.name).build()
    )


def claiming(*templates: str, named: str = "", extended: int = 0, **requests: str) -> bytes:
    """A pod template that claims devices of these ResourceClaimTemplates, by default beside a cpu."""
    claims: list[dict[str, str]] = [{"name": name, "resourceClaimTemplateName": name} for name in templates]
    claims += [{"name": named, "resourceClaimName": named}] if named else []
    asked = {**requests, **({EXTENDED: str(extended)} if extended else {})}
    container = {"name": "main", "resources": {"requests": asked or {"cpu": "1"}}}
    return encode({"spec": {"containers": [container], "resourceClaims": claims}})


EXTENDED = "example.com/gpu"
"""An extended resource that `device_class` is behind."""


def claim_template(
    name: str, *requests: dict[str, Any], namespace: str = "default", **claim: Any
) -> ResourceClaimTemplate:
    """Device requests as the API server has them, see `devices`."""
    spec = {"spec": {"devices": {"requests": requests, **claim}}}
    meta = {"name": name, "namespace": namespace}
    return decoder(ResourceClaimTemplate)(encode({"metadata": meta, "spec": spec}))


def devices(device_class: str, count: int = 1, **more: Any) -> dict[str, Any]:
    """A request for so many devices of a class."""
    asked = {"deviceClassName": device_class, "allocationMode": "ExactCount", "count": count}
    return {"name": device_class, "exactly": {**asked, **more}}


def device_class(name: str, *, extended: str = EXTENDED) -> DeviceClass:
    return DeviceClass(metadata=ObjectMeta(name=name), spec=DeviceClassSpec(extended_resource_name=extended))
