"""The manager over many idle workers: what its start asks of them, what it keeps for each, and what it does at rest.

The manager cluster is a simulated one, the workers are `idle_servers`, and the manager is the program that ships, each in a
process of its own. A figure per worker is the difference to the same manager without workers.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import anyio

from benchmarks.fleet.idle_servers import Asked
from benchmarks.fleet.idle_workers import Servers, idle_servers, make_known
from benchmarks.meters import cpu_seconds, memory
from benchmarks.sides import Observed
from testbed import objects
from testbed.bed import Testbed
from testbed.sandbox import SandboxBed

__all__ = ["QUIET_SECONDS", "Rest", "Sizes", "measure", "per_worker"]

Say = Callable[[str], None]

NAMESPACE = "fleet"
FIRST_SECONDS = 600
QUIET_SECONDS = 70
"""Longer than the longest distance between two heartbeats of a worker: the first one opens a connection."""

REST_SECONDS = 60
POLL_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class Sizes:
    """How many workers, and for how many seconds the manager is watched at rest."""

    workers: int
    seconds: float = REST_SECONDS


@dataclass(frozen=True, slots=True)
class Rest:
    """One point. Seconds and CPU seconds until all workers are active; requests to workers by then, and how many of them
    were under way at once; then at rest: CPU as a share of a core, requests and watches per worker and minute, MiB; and the
    longest turn of the event loop since the start, in milliseconds of its own."""

    workers: int
    start_seconds: float
    start_cpu: float
    start_requests: int
    start_at_once: int
    cpu: float
    requests: float
    watches: float
    resident: float
    peak: float
    turn: float


def per_worker(found: Rest, alone: Rest) -> float:
    """KiB that each worker adds to the manager's resident memory."""
    return 1024 * (found.resident - alone.resident) / max(1, found.workers - alone.workers)


async def measure(sizes: Sizes, say: Say) -> Rest:
    """One point, on clusters of its own."""
    async with SandboxBed.start(workers=0, kueue=False) as bed, idle_servers(bed) as servers:
        say(f"{sizes.workers} workers: making them known")
        await make_known(bed, servers, sizes.workers, namespace=NAMESPACE)
        side = Observed(bed)
        servers.asked()
        began = time.monotonic()
        await side.start()
        try:
            await _all_active(bed, side, sizes.workers)
            start_seconds, start_cpu = time.monotonic() - began, cpu_seconds(side.process.pid)
            start = servers.asked()
            say(f"{sizes.workers} workers: active after {start_seconds:.0f} s; now at rest")
            return await _rest(side, servers, sizes, Start(start_seconds, start_cpu, start))
        finally:
            await side.stop()


@dataclass(frozen=True, slots=True)
class Start:
    """Seconds, CPU seconds, and what the workers were asked."""

    seconds: float
    cpu: float
    asked: Asked


async def _rest(side: Observed, servers: Servers, sizes: Sizes, start: Start) -> Rest:
    await anyio.sleep(QUIET_SECONDS)
    servers.asked()
    before, began = cpu_seconds(side.process.pid), time.monotonic()
    await anyio.sleep(sizes.seconds)
    used, passed = cpu_seconds(side.process.pid) - before, time.monotonic() - began
    asked, kept = servers.asked(), memory(side.process.pid)
    each = 60 / passed / max(1, sizes.workers)
    return Rest(
        workers=sizes.workers,
        start_seconds=start.seconds,
        start_cpu=start.cpu,
        start_requests=start.asked.requests,
        start_at_once=start.asked.most_at_once,
        cpu=used / passed,
        requests=asked.requests * each,
        watches=asked.watches * each,
        resident=kept.resident,
        peak=kept.peak,
        turn=await side.longest_turn(),
    )


async def _all_active(bed: Testbed, side: Observed, workers: int) -> None:
    """Until each worker is called active. Raises TimeoutError."""
    async with bed.manager.client() as client:
        with anyio.fail_after(FIRST_SECONDS):
            while True:
                assert side.process.running, side.process.tail()
                found = await client.list(objects.MULTIKUEUE_CLUSTER)
                conditions = [objects.condition(body, "Active") for body in found]
                if sum(each is not None and each["status"] == "True" for each in conditions) == workers:
                    return
                await anyio.sleep(POLL_SECONDS)
