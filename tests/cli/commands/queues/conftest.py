"""Fixtures of this folder."""

from __future__ import annotations

import pytest
import yaml

from multikueue.api.kinds import ADMISSION_CHECKS, CLUSTER_QUEUES, LOCAL_QUEUES, MULTIKUEUE_CLUSTERS, MULTIKUEUE_CONFIGS
from tests.builders import admission_check, cluster_queue, local_queue, multikueue_cluster, multikueue_config
from tests.cli.conftest import World


@pytest.fixture
def fleet(world: World) -> World:
    """Two LocalQueues of the manager lead to w1, of which the kubeconfig has a context, and to w2, which is gone."""
    config = yaml.safe_load(world.kubeconfig.read_text())
    for name, place in (("w1", "worker"), ("w2", "gone")):
        config["contexts"].append({"name": name, "context": {"cluster": place, "user": "admin"}})
        world.manager.add(MULTIKUEUE_CLUSTERS, multikueue_cluster(name).labels(zone=name).build())
    world.kubeconfig.write_text(yaml.safe_dump(config))
    manager = world.manager
    manager.add(MULTIKUEUE_CONFIGS, multikueue_config("all", "w1", "w2").build())
    manager.add(ADMISSION_CHECKS, admission_check("mk").config("all").build())
    manager.add(CLUSTER_QUEUES, cluster_queue("cq").checks("mk").build())
    for name, namespace in (("main", "team-a"), ("side", "team-b")):
        manager.add(LOCAL_QUEUES, local_queue(name, "cq", namespace=namespace).build())
    world.worker.add(CLUSTER_QUEUES, cluster_queue("cq").build())
    return world
