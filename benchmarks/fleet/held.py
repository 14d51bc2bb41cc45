"""What the manager keeps of workloads: `python -m benchmarks.fleet.held waiting|finished NUMBER`.

A process of its own decodes so many Jobs and Workloads from bytes, as pages of lists have them, and takes them into the
store and the quota engine that ship. Resident memory and CPU are those of that process, less what it had before; pauses are
the collections of garbage, with the thresholds of the manager.
"""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import time
from itertools import count
from typing import Any, Literal

import msgspec

from benchmarks.meters import memory
from multikueue.api.kind import Kind
from multikueue.api.kinds import JOBS, WORKLOADS
from multikueue.controllers.leader_election.standby import Enqueuer
from multikueue.controllers.quota.admission import SchedulerLoop
from multikueue.controllers.reconcile.context import WorkQueues
from multikueue.kube.decode import list_of
from multikueue.manager.process import settle_memory
from multikueue.quota.engine import Engine
from multikueue.store.store import Store
from testbed import objects
from tests.builders import NOW, admission_check, cluster_queue, flavor, local_queue, namespace

__all__ = ["Held", "State", "measure"]

State = Literal["waiting", "finished"]

PAGE = 500
QUEUE = "main"


class Held(msgspec.Struct, frozen=True):
    """MiB resident in all, and added; microseconds of CPU to take in one Job and its Workload; the longest collection of
    garbage in milliseconds, and how many of all generations there were."""

    number: int
    resident: float
    added: float
    each: float
    longest_pause: float
    collections: int


def measure(state: State, number: int) -> Held:
    """One point, in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.fleet.held", state, str(number)]
    done = subprocess.run(command, capture_output=True, check=True)
    return msgspec.json.decode(done.stdout, type=Held)


class Pauses:
    """How long collections of garbage take."""

    def __init__(self) -> None:
        self.longest, self.number, self._began = 0.0, 0, 0.0
        gc.callbacks.append(self._told)

    def _told(self, phase: str, _info: object) -> None:
        if phase == "start":
            self._began = time.thread_time()
        else:
            self.longest = max(self.longest, time.thread_time() - self._began)
            self.number += 1


def _play(state: State, number: int) -> Held:
    store = _store()
    pages = [(JOBS, store.jobs.of(JOBS), _job), (WORKLOADS, store.workloads, _workload)]
    settle_memory()
    before, pauses, began = _resident(), Pauses(), time.process_time()
    made = 0.0
    for kind, cache, body in pages:
        cache.expect_list()
        listed = cache.gathering()
        for first in range(0, number, PAGE):
            making = time.process_time()
            page = _page(kind, [body(n, state) for n in range(first, min(number, first + PAGE))])
            made += time.process_time() - making
            listed.update((item.key, item) for item in list_of(kind)(page).items)
        for _ in cache.replacing(listed, number):
            pass
        del listed
    used = time.process_time() - began - made
    after = _resident()
    assert len(store.workloads) == len(store.jobs.of(JOBS)) == number
    return Held(number, after, after - before, 1e6 * used / number, 1e3 * pauses.longest, pauses.number)


def _resident() -> float:
    return memory(os.getpid()).resident


def _store() -> Store:
    queues = WorkQueues()
    store = Store(Engine(), Enqueuer(queues, SchedulerLoop(), is_acting=False), lambda: NOW)
    store.namespaces.upsert(namespace("default").build())
    store.flavors.upsert(flavor("default").build())
    store.checks.upsert(admission_check("check").config("all").active().build())
    store.cluster_queues.upsert(cluster_queue(QUEUE).quota("default", cpu=1).checks("check").build())
    store.local_queues.upsert(local_queue(QUEUE, QUEUE, namespace="default").build())
    return store


_versions = count(1)


def _page(kind: Kind[Any], items: list[dict[str, Any]]) -> bytes:
    meta = {"resourceVersion": str(next(_versions))}
    return msgspec.json.encode(
        {"kind": f"{kind.kind}List", "apiVersion": kind.api_version, "metadata": meta, "items": items}
    )


def _job(number: int, state: State) -> dict[str, Any]:
    body = objects.job(f"job-{number}", "default", queue=QUEUE, managed_by=objects.MULTIKUEUE_CONTROLLER)
    body["metadata"] |= _meta(f"job-{number}", number)
    if state == "finished":
        done = {"type": "Complete", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
        body["spec"]["suspend"] = False
        body["status"] = {"succeeded": 1, "conditions": [done], "completionTime": "2026-01-01T00:00:00Z"}
    return body


def _workload(number: int, state: State) -> dict[str, Any]:
    job = _job(number, state)
    owner = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "name": f"job-{number}",
        "uid": f"job-{number}",
        "controller": True,
    }
    pod_set = {"name": "main", "count": 1, "template": job["spec"]["template"]}
    return {
        "apiVersion": WORKLOADS.api_version,
        "kind": "Workload",
        "metadata": {"namespace": "default", "ownerReferences": [owner], **_meta(f"job-job-{number}", number)},
        "spec": {"queueName": QUEUE, "active": True, "podSets": [pod_set], "priority": 0},
        "status": {"conditions": _conditions(state)} | (_over() if state == "finished" else {}),
    }


def _meta(name: str, number: int) -> dict[str, Any]:
    made = "2026-01-01T00:00:00Z"
    return {"name": name, "uid": name, "resourceVersion": str(number + 1), "creationTimestamp": made}


def _conditions(state: State) -> list[dict[str, Any]]:
    types = ("QuotaReserved", "Admitted", "Finished") if state == "finished" else ()
    at = {"status": "True", "reason": "Done", "message": "it is done", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    return [{"type": each, **at} for each in types]


def _over() -> dict[str, Any]:
    usage = {"cpu": "100m", "memory": "100Mi"}
    assignment = {"name": "main", "count": 1, "flavors": dict.fromkeys(usage, "default"), "resourceUsage": usage}
    check = {"name": "check", "state": "Ready", "message": "on w1", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    admission = {"clusterQueue": QUEUE, "podSetAssignments": [assignment]}
    return {"admission": admission, "admissionChecks": [check], "clusterName": "w1"}


if __name__ == "__main__":
    chosen: State = "finished" if sys.argv[1] == "finished" else "waiting"
    print(msgspec.json.encode(_play(chosen, int(sys.argv[2]))).decode())
