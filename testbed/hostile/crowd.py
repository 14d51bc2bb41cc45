"""Forty workers of which four are hostile at once, each in another manner; innocent jobs are dispatched meanwhile.

Two honest workers and one hostile one are those of the stage, real if that is. The other 37 are simulated in one process:
forty control planes would take more memory than most machines have. Hostile is the server before a worker (`liars`).
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Self

import anyio
import anyio.to_thread

from testbed import objects, queues
from testbed.bed import Plan
from testbed.client import ApiError, eventually
from testbed.hostile.report import Row
from testbed.hostile.stage import HOSTILE, INNOCENT, LIAR, QUEUE, Stage
from testbed.hostile.workers import LIES
from testbed.kubeconfig import dump
from testbed.objects import MULTIKUEUE_CLUSTER
from testbed.plane import ControlPlane
from testbed.process import Process
from testbed.sandbox import SandboxBed

__all__ = ["CROWD", "Crowd", "rounds"]

CROWD, LIARS = 40, 4
IN_A_CHECK = 20
"""Workers that a MultiKueueConfig may name."""

CONTROLS = 4
ROUND_SECONDS = 12.0
PATIENCE_SECONDS = 30.0

Manners = Sequence[str]
"""What the hostile ones do, one each."""


def rounds() -> Sequence[Manners]:
    """All that a worker may answer, four at a time, in an order that is the same each time."""
    drawn = sorted(LIES)
    random.Random(0).shuffle(drawn)
    drawn += drawn[: -len(drawn) % LIARS]
    return [drawn[start : start + LIARS] for start in range(0, len(drawn), LIARS)]


class Crowd:
    """The workers beyond those of the stage, and the liars before four."""

    def __init__(self, stage: Stage, bed: SandboxBed, liars: Process) -> None:
        self._stage, self._bed, self._liars = stage, bed, liars
        self._urls: dict[str, str] = {}
        self._planes: dict[str, ControlPlane] = {}

    @classmethod
    @asynccontextmanager
    async def around(cls, stage: Stage) -> AsyncIterator[Self]:
        """The stage with CROWD workers, LIARS of them behind liars that still tell the truth."""
        bed = SandboxBed(Plan(workers=CROWD - len(stage.bed.workers)))
        command = [sys.executable, "-m", "testbed.hostile.liars"]
        liars = Process("liars", command, log=stage.bed.folder / "liars.log", converses=True)
        try:
            await bed.open()
            liars.start()
            crowd = cls(stage, bed, liars)
            await crowd._gather()
            yield crowd
        finally:
            await liars.kill()
            await bed.close()

    @property
    def hostile(self) -> Sequence[str]:
        """Their names as MultiKueueClusters."""
        return tuple(self._urls)

    async def _gather(self) -> None:
        others = {f"simulated{place}": plane for place, plane in enumerate(self._bed.workers, 1)}
        names = list(others)
        for namespace in (INNOCENT, HOSTILE):
            await queues.workers_setup(others.values(), namespace=namespace, queue=QUEUE)
        self._planes = {LIAR: self._stage.bed.workers[-1], **{name: others[name] for name in names[: LIARS - 1]}}
        for name, plane in self._planes.items():
            self._urls[name] = await self._stand(plane)
            async with plane.client() as client:
                await client.patch(objects.CLUSTER_QUEUE, INNOCENT, {"spec": {"stopPolicy": "Hold"}})
        for name in names[LIARS - 1 :]:
            await self._stage.introduce(name, dump(others[name].kubeconfig()))
            await self._stage.welcome(name, others[name])
        await self.introduce_liars()
        known = [*self.hostile, *self._stage.honest]
        for namespace, part in ((INNOCENT, known[:IN_A_CHECK]), (HOSTILE, [*self.hostile, *known[IN_A_CHECK:]])):
            await self._stage.manager.apply(objects.multikueue_config(namespace, clusters=part[:IN_A_CHECK]))
        await self._stage.ready()

    async def _stand(self, plane: ControlPlane) -> str:
        certificate, key = plane.identity.authority.issue("liar", "127.0.0.1").write(self._stage.bed.folder / "liars")
        return await self._order(
            do="stand", url=plane.url, ca=plane.ca.decode(), certificate=str(certificate), key=str(key)
        )

    async def tell(self, manners: Manners) -> None:
        """Have each of the four be hostile in its manner from now on."""
        for url, what in zip(self._urls.values(), manners, strict=True):
            await self._order(do="tell", url=url, what=what)

    async def introduce_liars(self) -> None:
        """Have the liars tell the truth, and register them again, so that the manager forgets what they did."""
        await self.tell([""] * LIARS)
        for name in self.hostile:
            with suppress(ApiError):
                await self._stage.manager.delete(MULTIKUEUE_CLUSTER, name)
        for name, plane in self._planes.items():
            await self._stage.introduce(name, dump(plane.kubeconfig(server=self._urls[name])))
        with suppress(AssertionError):  # the innocent jobs will show the cost
            await eventually(self._are_active, timeout=PATIENCE_SECONDS)

    async def _are_active(self) -> bool:
        return all([await self._stage.is_active(name) for name in self.hostile])

    async def _order(self, **order: str) -> str:
        def asked() -> str:
            self._liars.tell(json.dumps(order))
            return self._liars.hear()

        answer = await anyio.to_thread.run_sync(asked)
        if not answer:
            raise self._liars.failure("ended")
        said: str = json.loads(answer)
        return said

    async def calm(self) -> None:
        """Innocent jobs for as long as in a round, with nobody hostile."""
        await self._innocents()

    async def _innocents(self) -> list[float | None]:
        times, until = list[float | None](), anyio.current_time() + ROUND_SECONDS
        while anyio.current_time() < until or len(times) < CONTROLS:
            times.append(await self._stage.innocent())
        return times

    async def round(self, manners: Manners) -> Row:
        """Innocent jobs one after another without and with four that are hostile. Those that took longest count."""
        control = _longest([await self._stage.innocent() for _ in range(CONTROLS)])
        await self._stage.vitals.take()
        await self.tell(manners)
        times = await self._innocents()
        said = [await self._stage.cluster_says(name) for name in self.hostile]
        taken, harm = await self._stage.vitals.take(), []
        if not await self._stage.bystander_runs():
            harm.append("the bystander's job was ended")
        if ended := await self._stage.revive():
            harm.append(ended)
        await self.introduce_liars()
        became = f"{len(times)} innocent jobs; " + "; ".join(said)
        return Row("crowd", " + ".join(manners), " ".join(became.split()), control, _longest(times), harm, taken)


def _longest(times: Sequence[float | None]) -> float | None:
    """None if one did not run."""
    found = [each for each in times if each is not None]
    return max(found) if len(found) == len(times) else None
