"""One cluster without workers: the rate at which local jobs get quota, beside Kueue on the same cluster.

Each side gets a burst of jobs in several queues, and is measured from the first submission to the last condition
Admitted that a watch shows. Kueue comes twice: as it is shipped, and with the limits of its client and its workers
lifted.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import anyio
import msgspec

from benchmarks.events import workload_event
from benchmarks.sides import QUOTA, Lifted, Ours, Peer, Side
from benchmarks.wire import Wire
from testbed import objects, queues
from testbed.bed import Testbed
from testbed.client import ApiError, Client, eventually

__all__ = ["Rate", "as_text", "measure_all"]

NAME, QUEUE = b"NAME-OF-THE-JOB", b"NAME-OF-THE-QUEUE"
PATIENCE_SECONDS = 120
START_SECONDS = 120
WARM_UPS = 3


@dataclass(frozen=True, slots=True)
class Rate:
    """The number of admitted jobs, and the seconds that they took."""

    name: str
    jobs: int
    seconds: float

    @property
    def per_second(self) -> float:
        return self.jobs / self.seconds


async def measure_all(bed: Testbed, *, jobs: int, lines: int, say: Callable[[str], None]) -> list[Rate]:
    """Measure ours, Kueue as shipped and Kueue without limits in turn. Raises TimeoutError if a side never ends."""
    return [await _measure(side, jobs=jobs, lines=lines, say=say) for side in (Ours(bed), Peer(bed), Lifted(bed))]


async def _measure(side: Side, *, jobs: int, lines: int, say: Callable[[str], None]) -> Rate:
    say(f"{side.name}: starting")
    await side.start()
    names = [f"line-{number}" for number in range(lines)]
    try:
        async with side.bed.manager.client() as client:
            for name in names:
                body = objects.cluster_queue(name, quota=QUOTA)
                await queues.setup_queue(client, namespace=side.namespace, queue=name, cluster_queue=body)
            await eventually(lambda: _is_ready(side, client), timeout=START_SECONDS, interval=0.5)
        async with Wire.open(side.bed.manager) as wire:
            burst = _Burst(wire, side.namespace, names)
            await burst.play("warm", WARM_UPS)
            say(f"{side.name}: {jobs} jobs in {lines} queues")
            return Rate(side.name, jobs, await burst.play("job", jobs))
    except BaseException as error:
        error.add_note(f"the log of {side.name} ends with:\n{side.process.tail(5)}")
        raise
    finally:
        with anyio.CancelScope(shield=True):
            await side.take_down()


async def _is_ready(side: Side, client: Client) -> bool:
    try:
        return await side.is_active(client)
    except ApiError as error:
        if error.status != 429:  # which the API server answers for kinds installed a moment ago
            raise
        return False


class _Burst:
    """Submits jobs to the queues in turn, and watches until all are admitted."""

    def __init__(self, wire: Wire, namespace: str, lines: Sequence[str]) -> None:
        self._wire, self._lines = wire, lines
        self._jobs = f"/apis/batch/v1/namespaces/{namespace}/jobs"
        self._workloads = f"/apis/{objects.KUEUE_VERSION}/namespaces/{namespace}/workloads"
        self._body = msgspec.json.encode(objects.job(NAME.decode(), namespace, queue=QUEUE.decode()))
        self._admitted: set[str] = set()
        self._wanted, self._done = 0, anyio.Event()

    async def play(self, prefix: str, jobs: int) -> float:
        """Submit that many jobs; returns the seconds until all are admitted."""
        self._wanted, self._done = len(self._admitted) + jobs, anyio.Event()
        async with anyio.create_task_group() as tasks:
            await tasks.start(
                lambda task_status: self._wire.watch(self._workloads, self._on_event, task_status=task_status)
            )
            began = time.monotonic()
            await self._wire.post_all(self._jobs, (self._job(prefix, number) for number in range(jobs)))
            with anyio.fail_after(PATIENCE_SECONDS):
                await self._done.wait()
            tasks.cancel_scope.cancel()
        return time.monotonic() - began

    def _job(self, prefix: str, number: int) -> bytes:
        """The next job, for the next queue in turn."""
        queue = self._lines[number % len(self._lines)]
        return self._body.replace(NAME, f"{prefix}-{number}".encode()).replace(QUEUE, queue.encode())

    def _on_event(self, line: bytes) -> str:
        event = workload_event(line)
        if event.has("Admitted"):
            self._admitted.add(event.object.metadata.name)
            if len(self._admitted) >= self._wanted:
                self._done.set()
        return event.object.metadata.resource_version


def as_text(rates: Sequence[Rate]) -> str:
    """A line per side, with the ratio of our rate to its rate."""
    ours = rates[0].per_second
    return "\n".join(
        f"{each.name:<8}{each.per_second:>8.1f} jobs/s  {f'ours: {ours / each.per_second:.2f} x' if number else ''}"
        for number, each in enumerate(rates)
    )
