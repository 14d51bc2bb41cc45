"""What must hold at the end of every scenario, whatever happened in it: no queue uses less than nothing, and no worker runs
what the manager does not count."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

import aiohttp

from multikueue.api.values.quantity import parse
from testbed.client import Client, eventually
from testbed.objects import CLUSTER_QUEUE, MULTIKUEUE_CLUSTER, WORKLOAD, Object, condition
from tests.real.harness import ORIGIN_LABEL, Team

__all__ = ["balanced", "below_zero", "uncounted"]

SETTLED = 40.0
"""Seconds. What is on its way, as an eviction, is over by then."""


async def balanced(members: Team) -> None:
    """Waits until both hold: one list per cluster, and as many again as long as something is on its way."""

    async def holds() -> bool:
        queues = await members.manager.list(CLUSTER_QUEUE)
        known = {
            body["metadata"]["name"] for body in await members.manager.list(MULTIKUEUE_CLUSTER) if _is_active(body)
        }
        there = [
            body
            for worker, client in members.clients.items()
            if members.cluster(worker) in known  # another one may be lost, and run what counts no more
            for body in await _copies(client, members.namespace)
        ]
        here = await members.manager.list(WORKLOAD, members.namespace)
        wrong = [*below_zero(queues), *uncounted(here, there)]
        assert not wrong, "; ".join(wrong)
        return True

    await eventually(holds, timeout=SETTLED, interval=0.25)


async def _copies(client: Client, namespace: str) -> list[Object]:
    """None on a cluster that is down."""
    try:
        return await client.list(WORKLOAD, namespace, labels=ORIGIN_LABEL)
    except (aiohttp.ClientError, OSError):
        return []


def below_zero(queues: Iterable[Object]) -> Iterator[str]:
    """The amounts below zero in the statuses of ClusterQueues."""
    for queue in queues:
        for field in ("flavorsReservation", "flavorsUsage"):
            for flavor in queue.get("status", {}).get(field) or ():
                for each in flavor["resources"]:
                    if parse(each.get("total", "0")) < 0:
                        yield f"{queue['metadata']['name']}: {field}[{flavor['name']}] {each['name']} {each['total']}"


def uncounted(here: Iterable[Object], there: Iterable[Object]) -> Iterator[str]:
    """The pods that run by copies, of all workers together, beyond those that the Workload of that name has quota for."""
    counted = {body["metadata"]["name"]: _pods(body) for body in here if _is(body, "QuotaReserved")}
    run: dict[str, Counter[str]] = {}
    for copy in there:
        if _runs(copy):
            run.setdefault(copy["metadata"]["name"], Counter()).update(_pods(copy))
    for name, pods in run.items():
        room = counted.get(name, Counter())
        if any(count > room[pod_set] for pod_set, count in pods.items()):
            yield f"of {name} run {dict(pods)}, and {dict(room)} are counted"


def _runs(copy: Object) -> bool:
    """Whether it has a job, and quota for it."""
    return bool(copy["metadata"].get("ownerReferences")) and _is(copy, "Admitted") and not _is(copy, "Finished")


def _pods(workload: Object) -> Counter[str]:
    """The admitted pods of each pod set. What of them is over counts on both sides, or comes home later."""
    admission = workload.get("status", {}).get("admission") or {}
    return Counter({each["name"]: each.get("count", 0) for each in admission.get("podSetAssignments") or ()})


def _is(body: Object, type_: str) -> bool:
    return (condition(body, type_) or {}).get("status") == "True"


def _is_active(cluster: Object) -> bool:
    return _is(cluster, "Active")
