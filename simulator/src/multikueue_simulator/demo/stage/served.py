"""The clusters of a play over HTTPS, for kubectl and our own commands, from the start to the end of the demo.

The manager's Secrets name these ports, so who reads them gets to the workers. The manager of the demo asks the same URLs,
over the simulated links.
"""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

import anyio
import yaml

from fakekube.front_end.authority import Authority
from fakekube.front_end.authorization import AuthorizationFilter
from fakekube.front_end.http import FrontEnd
from fakekube.front_end.rbac import MASTERS
from multikueue_simulator.serving.serve import merged
from multikueue_simulator.world.world import MANAGER, ClusterHandle, World, token

__all__ = ["Served", "serve"]


@dataclass(frozen=True, slots=True)
class Served:
    """The kubeconfig with a context for each cluster, of its name, and the ports of the clusters."""

    kubeconfig: Path
    front_ends: dict[str, FrontEnd] = field(default_factory=dict)

    async def close(self, worker: str) -> None:
        """Close the port of a worker that died."""
        await self.front_ends[worker].stop()

    async def open(self, worker: str) -> None:
        """Open the port again."""
        await self.front_ends[worker].start()


@asynccontextmanager
async def serve(world: World) -> AsyncIterator[Served]:
    """Serve all clusters, and point the manager's Secrets to them."""
    authority = Authority()
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="multikueue-demo-")))
        served = Served(folder / "kubeconfig")
        for site in world.sites:
            front_end = served.front_ends[site.name] = _front_end(world, site, authority)
            await front_end.start()
            stack.push_async_callback(front_end.stop)
            if site.name != MANAGER:
                _lead_to(world, site, front_end)
        config = merged([front_end.kubeconfig("admin") for front_end in served.front_ends.values()])
        await anyio.Path(served.kubeconfig).write_text(yaml.safe_dump(config, sort_keys=False))
        yield served


def _front_end(world: World, site: ClusterHandle, authority: Authority) -> FrontEnd:
    users = site.cluster.users
    users.add("admin", MASTERS, token=secrets.token_hex(16))
    authorization = AuthorizationFilter(site.cluster.api, site.cluster.authorizer)
    return FrontEnd(authorization, users, authority=authority, now=world.clock.now, name=site.name)


def _lead_to(world: World, site: ClusterHandle, front_end: FrontEnd) -> None:
    """The manager's kubeconfig of a worker: this port, by the token that the worker takes."""
    site.cluster.users.add("multikueue", MASTERS, token=token(site.name))
    world.network.aliases[f"{front_end.host}:{front_end.port}"] = site.name
    world.trust(site.name, token(site.name), server=front_end.url, ca=front_end.ca)
