"""Fixtures of this folder."""

from __future__ import annotations

import pytest

from multikueue.api.kinds import ADMISSION_CHECKS, CLUSTER_QUEUES, LOCAL_QUEUES, MULTIKUEUE_CLUSTERS
from tests.builders import admission_check, cluster_queue, local_queue, multikueue_cluster
from tests.cli.commands.clusters.registering import REGISTER
from tests.cli.conftest import Run, World


@pytest.fixture
def joined(world: World, cli: Run) -> World:
    """A registered worker that a queue of the manager leads to."""
    assert cli(*REGISTER, "--config-name", "all").code == 0
    world.manager.add(ADMISSION_CHECKS, admission_check("mk").config("all").build())
    world.manager.add(CLUSTER_QUEUES, cluster_queue("cq").checks("mk").build())
    world.manager.add(LOCAL_QUEUES, local_queue("main", "cq", namespace="team-a").build())
    return world


@pytest.fixture
def fleet(world: World) -> World:
    """Four workers, of which two have a label; one is connected."""
    for name in ("w10", "w2", "w1", "other"):
        made = multikueue_cluster(name).labels({"zone": "eu"} if name in ("w2", "w10") else {})
        world.manager.add(MULTIKUEUE_CLUSTERS, (made.active() if name == "w1" else made).build())
    return world
