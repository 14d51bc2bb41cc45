"""Two clusters in memory, seen as the two sides of a registration."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import yaml

from multikueue.kube.cluster_client import ClusterClient
from multikueue.registration.credentials import Endpoint
from multikueue.registration.join import Joined, Request, join
from multikueue.registration.ownership import OwnershipStep, Side
from multikueue.registration.plan import Registration
from tests.cli.cluster import Cluster, Fake

ENDPOINT = Endpoint(server="https://worker.example:6443", ca=b"the authority")


@dataclass
class World:
    """A manager, a worker, and what was reported. A `squatter` is where a kubeconfig for that host leads."""

    manager: Cluster = field(default_factory=lambda: Cluster("manager"))
    worker: Cluster = field(default_factory=lambda: Cluster("worker"))
    squatter: Cluster | None = None
    steps: list[OwnershipStep] = field(default_factory=list)
    said: list[str] = field(default_factory=list)

    def side(self, cluster: Cluster, *, dry_run: bool = False) -> Side:
        return Side(client=Fake(cluster), where=cluster.name, report=self.steps.append, dry_run=dry_run)

    def done(self) -> list[str]:
        """What was reported since the last call, in words."""
        words = [str(step) for step in self.steps]
        self.steps.clear()
        return words

    async def join(self, registration: Registration | None = None, *, dry_run: bool = False, **asked: Any) -> Joined:
        registration = registration or Registration(cluster="w1")
        request = Request(registration=registration, **{"endpoint": ENDPOINT, "here": ENDPOINT, **asked})
        joined = await join(
            request,
            worker=self.side(self.worker, dry_run=dry_run),
            manager=self.side(self.manager, dry_run=dry_run),
            connect=self.connect,
            say=self.said.append,
        )
        return joined or Joined(None, ())  # type: ignore[arg-type]  # a dry run has no credential

    @asynccontextmanager
    async def connect(self, kubeconfig: bytes) -> AsyncIterator[ClusterClient]:
        """The worker by a kubeconfig: a certificate is as good as a token here."""
        config = yaml.safe_load(kubeconfig)
        ((user,), (cluster,)) = config["users"], config["clusters"]
        leads_astray = self.squatter is not None and "squatter" in cluster["cluster"]["server"]
        where = self.squatter if leads_astray and self.squatter is not None else self.worker
        yield Fake(where, user["user"].get("token", "admin"))
