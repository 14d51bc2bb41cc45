"""The clusters of a play over HTTPS: the manager's Secrets lead to the workers, and a dead worker answers nobody."""

from __future__ import annotations

from base64 import b64decode

import pytest
import yaml

from multikueue.api import kinds
from multikueue.errors import ClusterUnreachable
from multikueue.kube.auth.credentials import from_kubeconfig
from multikueue.kube.client import Client
from multikueue.runtime import SystemClock
from multikueue_simulator.demo.scripts.story import story
from multikueue_simulator.demo.stage.scene import scene
from multikueue_simulator.demo.stage.served import serve

pytestmark = pytest.mark.anyio


async def test_the_secrets_of_the_manager_lead_to_the_workers_while_they_live() -> None:
    world = scene(story(workers=2, jobs=2, seed=1), clock=SystemClock(), seed=1, strategy="all-at-once")
    async with serve(world) as served:
        contexts = [each["name"] for each in yaml.safe_load(served.kubeconfig.read_text())["contexts"]]
        assert contexts == ["manager", "small", "medium"]
        for secret in world.manager.all(kinds.SECRETS):
            config = b64decode(secret["data"]["kubeconfig"])
            worker = yaml.safe_load(config)["current-context"]
            credentials = await from_kubeconfig(config)
            async with Client.connect(credentials, cluster=worker) as client:
                (queue,) = (await client.list(kinds.CLUSTER_QUEUES)).items
                assert queue.metadata.name == worker
                await served.close(worker)
                with pytest.raises(ClusterUnreachable):
                    await client.list(kinds.CLUSTER_QUEUES)
                await served.open(worker)
                assert (await client.list(kinds.CLUSTER_QUEUES)).items
