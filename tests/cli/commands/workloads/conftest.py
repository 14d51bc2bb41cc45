"""A manager with workloads in two namespaces and two queues."""

from __future__ import annotations

import pytest

from multikueue.api.kinds import LOCAL_QUEUES, WORKLOADS
from tests.builders import local_queue, workload
from tests.cli.conftest import World


@pytest.fixture
def full(world: World) -> World:
    """Workloads in two namespaces and two queues."""
    waiting = workload("waiting", namespace="a").queue("main").unreserved(message="no quota\nleft").owner_job("train")
    offered = workload("offered", namespace="a").queue("side").priority(5).reserved("cq").nominated("w1", "w2")
    running = (
        workload("running", namespace="b")
        .labels(team="vision")
        .queue("main")
        .reserved("cq")
        .admitted()
        .cluster_name("w2")
    )
    for each in (waiting, offered, running):
        world.manager.add(WORKLOADS, each.build())
    world.manager.add(LOCAL_QUEUES, local_queue("main", "cq", namespace="a").build())
    return world
