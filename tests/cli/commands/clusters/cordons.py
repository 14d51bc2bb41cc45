"""Which workers are cordoned, as tests of several commands look at it."""

from __future__ import annotations

from multikueue.api.kinds import MULTIKUEUE_CLUSTERS
from multikueue.api.multikueue.clusters import CORDON_ANNOTATION
from testbed.objects import MULTIKUEUE_CLUSTER
from tests.cli.conftest import World
from tests.cli.field import Field


async def is_cordoned(field: Field, worker: str = "worker1") -> bool:
    meta = (await field.manager.get(MULTIKUEUE_CLUSTER, worker))["metadata"]
    return bool(meta.get("annotations", {}).get(CORDON_ANNOTATION) == "true")


def cordoned(world: World) -> set[str]:
    return {
        each["metadata"]["name"]
        for each in world.manager.all(MULTIKUEUE_CLUSTERS)
        if CORDON_ANNOTATION in each["metadata"].get("annotations", {})
    }
