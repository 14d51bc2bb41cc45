"""The core of a real Kueue beside us, as far as it touches what we write: it applies, and clears by leaving out.

Only what matters for sharing is played (contract 3.11, 3.13). When it does a thing, the test says; what a reconcile of
Kueue's does by itself, `settle` does.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from multikueue.api import kinds
from multikueue.api.kinds import Kind
from multikueue.api.meta import ObjectKey, decoder, encode
from multikueue.api.shared import KUEUE_ADMISSION, SHARED_CONDITIONS
from multikueue.errors import Conflict
from multikueue.jobs.batch_job.adapter import BATCH_JOB
from multikueue.jobs.framework.priority import Priority
from tests.controllers.clusters_in_memory import Body, ClusterInMemory, plain
from tests.controllers.table import CHECK, NAMESPACE, Table

Path = tuple[str, ...]

SHARED_FIELDS = frozenset(
    {"admission", "requeueState", "resourceRequests", "admissionChecks", "clusterName", "nominatedClusterNames"}
)


@dataclass
class SharedCluster(ClusterInMemory):
    """A cluster that keeps who owns which field of a status, as an API server does for what is applied there.

    A field is a member of the status, or in it an entry of a list by its type or name. `applied` lists the calls.
    """

    owned: dict[ObjectKey, dict[str, set[Path]]] = field(default_factory=dict)
    applied: list[tuple[str, Body]] = field(default_factory=list)

    async def apply(
        self, kind: Kind[Any], key: ObjectKey, body: Mapping[str, Any], *, manager: str, force: bool, subresource: str
    ) -> Any:
        self._asked("apply", kind, subresource)
        assert force
        assert subresource == "status"
        self.applied.append((manager, plain(body)))
        return self._value(kind, self.take(kind, key, plain(body), manager))

    def take(self, kind: Kind[Any], key: ObjectKey, body: Body, manager: str) -> Body:
        """The object after that manager applied that body."""
        old = self._existing(kind, key)
        if (
            body["metadata"].get("resourceVersion", old["metadata"]["resourceVersion"])
            != (old["metadata"]["resourceVersion"])
        ):
            raise Conflict(409, "Conflict", "the object has been modified")
        fields, owned = _fields(body["status"]), self.owned.setdefault(key, {})
        others = {path for other, paths in owned.items() if other != manager for path in paths}
        now = _fields(old.get("status", {}))
        kept = {path: value for path, value in now.items() if path not in owned.get(manager, set()) - others}
        owned[manager] = set(fields)
        new = copy.deepcopy(old) | {"status": _tree(kept | fields, order=now)}
        return old if new == old else self._store(kind, key, new)

    def owners(self, key: ObjectKey, *path: str) -> set[str]:
        return {manager for manager, paths in self.owned.get(key, {}).items() if path in paths}


def _fields(status: Body) -> dict[Path, Any]:
    found: dict[Path, Any] = {}
    for name, value in status.items():
        if name in ("conditions", "admissionChecks"):
            found |= {(name, entry.get("type") or entry["name"]): entry for entry in value}
        else:
            found[name,] = value
    return found


def _tree(fields: dict[Path, Any], *, order: Mapping[Path, Any]) -> Body:
    status: Body = {}
    for path in sorted(fields, key=lambda path: list(order).index(path) if path in order else len(order)):
        if len(path) == 1:
            status[path[0]] = fields[path]
        else:
            status.setdefault(path[0], []).append(fields[path])
    return status


class Core:
    """Kueue beside the manager of a table."""

    def __init__(self, table: Table) -> None:
        self.table = table
        assert isinstance(table.manager, SharedCluster)
        self.cluster: SharedCluster = table.manager

    async def submit(self, name: str = "job", **spec: Any) -> None:
        """A user submits a job; Kueue makes its workload and reserves quota."""
        self.table.submit(name, **spec)
        self.make(name)
        self.reserve(name)
        await self.settle()

    def make(self, name: str = "job") -> None:
        job = decoder(kinds.JOBS.type)(encode(self.job(name)))
        body = plain(BATCH_JOB.workload_body(job, priority=Priority()))
        body["metadata"] |= {"namespace": NAMESPACE, "generation": 1}
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
        self.cluster.take(kinds.WORKLOADS, key, {"metadata": {}, "status": status}, KUEUE_ADMISSION)

    def job(self, name: str = "job") -> Body:
        found = self.cluster.find(kinds.JOBS, ObjectKey(NAMESPACE, name))
        assert found is not None
        return found

    def check_state(self, state: str, message: str) -> Body:
        return {"name": CHECK, "state": state, "message": message, "lastTransitionTime": self.stamp()}

    def stamp(self) -> str:
        return self.table.now().strftime("%Y-%m-%dT%H:%M:%SZ")

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
        states = {check["state"] for check in self.table.status(name).get("admissionChecks", [])}
        if "Finished" in true:
            return
        if any(c["type"] == "Complete" for c in job.get("status", {}).get("conditions", [])):
            self.apply(name, lambda status: self.condition(status, "Finished", "True", reason="Succeeded"))
        elif "Evicted" in true and "QuotaReserved" in true:
            self._hold(job)
            if not self.job(name).get("status", {}).get("active"):
                self.apply(name, self._release)
        elif "Retry" in states:
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
