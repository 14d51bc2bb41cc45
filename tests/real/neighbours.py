"""A manager cluster of its own on which a real Kueue runs: ours is its neighbour there, in one role or another."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from testbed import objects
from testbed.bed import Testbed, unique
from testbed.client import Kind
from testbed.controllers import GARBAGE, ControllerManager
from testbed.kueue import QUICK_CLIENT, admission_policies
from testbed.objects import KUEUE_NAMESPACE, Object
from testbed.plane import ControlPlane
from testbed.proxy import Link
from tests.real.harness import Manager

__all__ = ["CORE", "EXTERNAL", "OWN", "WEBHOOKS", "Neighbourhood", "held_pods", "neighbourhood", "owners"]

WEBHOOKS = Kind("admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration")
CONFIGURATION = "multikueue-manager"

DISPATCHER = "multikueue.dev/dispatcher"
_CLIENT: Object = {"clientConnection": dict(QUICK_CLIENT)}

CORE: Object = {"configuration": _CLIENT, "feature_gates": {"MultiKueue": False}}
"""Kueue as a queue only."""

OWN: Object = {"configuration": {**_CLIENT, "multiKueue": {"workerLostTimeout": "5m"}}}
"""Kueue with its own MultiKueue."""

EXTERNAL: Object = {"configuration": {**_CLIENT, "multiKueue": {"dispatcherName": DISPATCHER}}}
"""Kueue with its own MultiKueue, and somebody else as its dispatcher."""


def held_pods(plane: ControlPlane, frameworks: Sequence[str] = ("batch/job", "pod")) -> Object:
    """Kueue with the gate that has it hold Pods of MultiKueue queues, and without its MultiKueue controllers."""
    return {
        "configuration": _CLIENT,
        "feature_gates": {"MultiKueue": True},
        "frameworks": frameworks,
        "binary": plane.programs.kueue_without_multikueue,
    }


@dataclass(slots=True)
class Neighbourhood:
    """What a team and a manager need of a testbed, with another manager cluster in it.

    `arrange` says who runs there: one Kueue, and beside it one manager of ours, or none; with `access`, a kubeconfig, as
    another user than the administrator.
    """

    bed: Testbed
    manager: ControlPlane
    ours: Manager | None = None
    access: Mapping[str, Any] | None = None
    _kueue: Object | None = None
    _arranged: tuple[tuple[str, ...], Mapping[str, str]] | None = None

    @property
    def folder(self) -> Path:
        return self.manager.folder

    @property
    def workers(self) -> list[ControlPlane]:
        return self.bed.workers

    @property
    def foreign(self) -> bool:
        return self.bed.foreign

    def link(self, plane: ControlPlane) -> Link:
        return self.bed.link(plane)

    async def arrange(self, kueue: Object, *roles: str, **settings: str) -> Manager | None:
        """Have such a Kueue run, and ours in these roles, if any. What runs like that already goes on.

        Never two who dispatch: ours goes before another Kueue comes, and comes after it.
        """
        if self._kueue is kueue and self._arranged == (roles, settings):
            return self.ours
        await self.retire()
        if self._kueue is not kueue:
            await self.bed.start_kueue(self.manager, **kueue)
            self._kueue = kueue
        self._arranged = roles, settings
        if roles:
            self.ours = self._manager(roles, settings)
            self.ours.start()
            await self.ours.ready()
        return self.ours

    async def retire(self) -> None:
        """Stop ours, and take its webhook's registration away, as one who does not come back does."""
        if self.ours is not None:
            self.ours.kill()
            self.ours, self._arranged = None, None
            async with self.manager.client() as client:
                await client.delete(WEBHOOKS, CONFIGURATION)

    def _manager(self, roles: tuple[str, ...], settings: Mapping[str, str]) -> Manager:
        """With its webhook where Kueue does not mark jobs."""
        chosen = {
            "ROLES": ",".join(roles),
            "WEBHOOK__ENABLED": str("dispatch" in roles).lower(),
            "WEBHOOK__HOST": "127.0.0.1",
            "WEBHOOK__PORT": "0",
            "WEBHOOK__URL": "https://127.0.0.1:9443",
            **settings,
        }
        return Manager(self, access=self.access, **chosen)  # type: ignore[arg-type]  # all that a manager needs of a bed


@asynccontextmanager
async def neighbourhood(bed: Testbed, *, has_policies: bool = False) -> AsyncIterator[Neighbourhood]:
    """A manager cluster with Kubernetes' garbage collector, and no Kueue yet; with `has_policies`, Kueue's admission
    policies are there, if the release has any."""
    plane = await bed.start_plane(unique("neighbour"))
    collector = ControllerManager(plane, [GARBAGE])
    try:
        await collector.start()
        async with plane.client() as client:
            await client.apply(objects.namespace(KUEUE_NAMESPACE))
            for body in admission_policies(plane.release) if has_policies else ():
                await client.apply(body)
        found = Neighbourhood(bed, plane)
        yield found
        await found.retire()
    finally:
        await collector.kill()
        if plane.name in bed.kueues:
            await bed.kueues.pop(plane.name).kill()
        await plane.kill()


def owners(body: Object, *path: str) -> set[str]:
    """The field managers that own a field of the status, say `clusterName`."""
    wanted = ["f:status", *(f"f:{part}" for part in path)]
    return {entry["manager"] for entry in body["metadata"]["managedFields"] if _has(entry["fieldsV1"], wanted)}


def _has(fields: Object, path: list[str]) -> bool:
    for part in path:
        if part not in fields:
            return False
        fields = fields[part]
    return True
