"""The core of a real Kueue beside us, as far as it touches what we write: it applies, and clears by leaving out.

Only what matters for sharing is played (contract 3.11, 3.13). When it does a thing, the test says; what a reconcile of
Kueue's does by itself, `settle` does.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import msgspec

from multikueue.api import kinds
from multikueue.api.kueue.shared_status import KUEUE_ADMISSION, SHARED_CONDITIONS
from multikueue.api.meta import ObjectKey, decoder, encode
from multikueue.jobs.framework.priority import Priority
from multikueue.jobs.kinds.batch_job.adapter import BATCH_JOB
from multikueue_simulator.world.world import ClusterHandle
from tests.cluster import plain
from tests.controllers.table import CHECK, NAMESPACE, Body, Table

APPLY = "application/apply-patch+yaml"
SHARED_FIELDS = frozenset(
    {"admission", "requeueState", "resourceRequests", "admissionChecks", "clusterName", "nominatedClusterNames"}
)


class Core:
    """Kueue beside the manager of a table."""

    def __init__(self, table: Table) -> None:
        self.table, self.cluster = table, table.manager
        self.site = ClusterHandle(table.manager.server, "manager")

    async def submit(self, name: str = "job", **spec: Any) -> None:
        """A user submits a job; Kueue makes its workload and reserves quota."""
        self.table.submit(name, **spec)
        self.make(name)
        self.reserve(name)
        await self.settle()

    def make(self, name: str = "job", *, workload: str = "") -> None:
        """Kueue makes the workload, under a name longer than ours if one is given: its own are cut later."""
        job = decoder(kinds.JOBS.type)(encode(self.job(name)))
        body = plain(BATCH_JOB.workload_body(job, priority=Priority()))
        body["metadata"] |= {"namespace": NAMESPACE, "generation": 1} | ({"name": workload} if workload else {})
        self.cluster.put(kinds.WORKLOADS, body)

    def reserve(self, name: str = "job") -> None:
        def change(status: Body) -> None:
            status["admission"] = {"clusterQueue": "cq", "podSetAssignments": [{"name": "main", "count": 1}]}
            status.setdefault("admissionChecks", [self.check_state("Pending", "")])
            self.condition(status, "QuotaReserved", "True")
            self.condition(status, "Evicted", "False", only_if_there=True)

        self.apply(name, change)

    def evict(self, name: str = "job", *, reason: str = "Preempted") -> None:
        def change(status: Body) -> None:
            self.condition(status, "Evicted", "True", reason=reason)
            status.pop("clusterName", None)
            status.pop("nominatedClusterNames", None)
            status["admissionChecks"] = [self.check_state("Pending", "Reset to Pending after eviction")]

        self.apply(name, change)

    def requeue(self, name: str = "job") -> None:
        """The back-off is over."""
        self.apply(name, lambda status: status.pop("requeueState"))

    def drop_checks(self, name: str = "job") -> None:
        """The queue of an admitted workload has no checks any more."""
        self.apply(name, lambda status: status.update(admissionChecks=[]))

    def apply(self, name: str, change: Callable[[Body], None]) -> None:
        key = self.table.key(name)
        body = copy.deepcopy(self.table.workload(name))
        status = {part: value for part, value in body.get("status", {}).items() if part in SHARED_FIELDS}
        conditions = body.get("status", {}).get("conditions", [])
        status["conditions"] = [c for c in conditions if c["type"] in SHARED_CONDITIONS]
        change(status)
        self.site.call(
            "PATCH",
            kinds.WORKLOADS.path(key, subresource="status"),
            {"apiVersion": body["apiVersion"], "kind": body["kind"], "metadata": {}, "status": status},
            content_type=APPLY,
            query={"fieldManager": KUEUE_ADMISSION, "force": "true"},
        )

    @property
    def applied(self) -> list[tuple[str, Body]]:
        """What the manager applied so far: in whose name, and what."""
        applies = [request for request in self.cluster.requests if request.content_type == APPLY]
        return [(request.query["fieldManager"], msgspec.json.decode(request.body)) for request in applies]

    def owners(self, part: str, entry: str = "") -> set[str]:
        """Who owns a part of the workload's status, or of a condition there if one is named."""
        field = [f"f:{part}", *([f'k:{{"type":"{entry}"}}'] if entry else [])]
        found = set()
        for entry_ in self.table.workload()["metadata"]["managedFields"]:
            fields = entry_["fieldsV1"].get("f:status", {})
            if all((fields := fields.get(step)) is not None for step in field):
                found.add(entry_["manager"])
        return found

    def job(self, name: str = "job") -> Body:
        found = self.cluster.find(kinds.JOBS, ObjectKey(NAMESPACE, name))
        assert found is not None
        return found

    def check_state(self, state: str, message: str) -> Body:
        return {"name": CHECK, "state": state, "message": message, "lastTransitionTime": self.stamp()}

    def stamp(self) -> str:
        return self.table.now().strftime("%Y-%m-%dT%H:%M:%SZ")

    def made(self, type_: str) -> Body:
        """A condition that is True."""
        return {
            "type": type_,
            "status": "True",
            "reason": type_,
            "message": "by Kueue",
            "lastTransitionTime": self.stamp(),
        }

    def condition(self, status: Body, type_: str, value: str, *, reason: str = "", only_if_there: bool = False) -> None:
        conditions = status.setdefault("conditions", [])
        there = [c for c in conditions if c["type"] == type_]
        if (there and there[0]["status"] == value) or (only_if_there and not there):
            return
        new = {"type": type_, "status": value, "reason": reason or type_, "message": "by Kueue"}
        status["conditions"] = [c for c in conditions if c["type"] != type_] + [
            new | {"lastTransitionTime": self.stamp()}
        ]

    async def settle(self) -> None:
        """Both sides, until neither has anything left to do."""
        for _ in range(50):
            await self.table.settle()
            if not sum(self._step(body) for body in self.cluster.all(kinds.WORKLOADS)):
                return
        raise AssertionError("the two do not come to rest")

    def _step(self, workload: Body) -> bool:
        """What Kueue does for a workload by itself; whether there was anything."""
        name = workload["metadata"]["ownerReferences"][0]["name"]
        before = self._versions_of(name)
        self._do(name, self.job(name), {c["type"] for c in self._true(name)})
        return self._versions_of(name) != before

    def _versions_of(self, name: str) -> list[str]:
        return [body["metadata"]["resourceVersion"] for body in (self.table.workload(name), self.job(name))]

    def _true(self, name: str) -> list[Body]:
        return [c for c in self.table.status(name).get("conditions", []) if c["status"] == "True"]

    def _do(self, name: str, job: Body, true: set[str]) -> None:
        checks = self.table.status(name).get("admissionChecks", [])
        states = {check["state"] for check in checks}
        if "Finished" in true:
            return
        if any(c["type"] == "Complete" for c in job.get("status", {}).get("conditions", [])):
            self.apply(name, lambda status: self.condition(status, "Finished", "True", reason="Succeeded"))
        elif "Evicted" in true and "QuotaReserved" in true:
            self._hold(job)
            if not self.job(name).get("status", {}).get("active"):
                self.apply(name, self._release)
        elif "Retry" in states:
            if not any(check.get("requeueAfterSeconds") for check in checks):  # else it keeps the quota until then
                self.evict(name, reason="AdmissionCheck")
        elif "QuotaReserved" in true and states == {"Ready"} and "Admitted" not in true:
            self.apply(name, lambda status: self.condition(status, "Admitted", "True"))
            self.cluster.change(kinds.JOBS, ObjectKey(NAMESPACE, name), {"spec": {"suspend": False}})

    def _hold(self, job: Body) -> None:
        if not job["spec"]["suspend"]:
            key = ObjectKey(NAMESPACE, job["metadata"]["name"])
            self.cluster.change(kinds.JOBS, key, {"spec": {"suspend": True}, "status": {"startTime": None}})

    def _release(self, status: Body) -> None:
        del status["admission"]
        self.condition(status, "QuotaReserved", "False", reason="Pending")
        self.condition(status, "Admitted", "False", only_if_there=True)
