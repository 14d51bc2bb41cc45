"""Fixtures of this folder."""

from __future__ import annotations

import pytest

from multikueue.api.kinds import ADMISSION_CHECKS, CLUSTER_QUEUES, LOCAL_QUEUES
from tests.builders import admission_check, cluster_queue, local_queue
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
