"""The scene of a play: what its administrators made, and the jobs that its users write."""

from __future__ import annotations

import pytest

from multikueue.api import kinds
from multikueue.runtime import SystemClock
from multikueue_simulator.demo.scripts.acts import ACTS
from multikueue_simulator.demo.scripts.story import story
from multikueue_simulator.demo.scripts.values import Play, Submission
from multikueue_simulator.demo.stage.scene import body_of, decide, scene
from multikueue_simulator.world.world import World


def furnished(play: Play, *, strategy: str = "all-at-once") -> World:
    return scene(play, clock=SystemClock(), seed=1, strategy=strategy)


def decided(world: World) -> list[str]:
    (decision,) = world.manager.all(kinds.PLACEMENT_DECISIONS)
    return [each["clusterName"] for each in decision["status"]["decisions"]]


def test_queues_and_priorities_are_as_the_play_wants_them() -> None:
    world = furnished(ACTS["preemption"]())
    (queue,) = world.manager.all(kinds.CLUSTER_QUEUES)
    assert queue["spec"]["preemption"]["withinClusterQueue"] == "LowerPriority"
    assert {each["metadata"]["name"] for each in world.manager.all(kinds.WORKLOAD_PRIORITY_CLASSES)} == {"low", "high"}


def test_ocm_decides_for_some_and_then_for_others() -> None:
    world = furnished(ACTS["ocm"]())
    assert decided(world) == ["east"]
    decide(world, ("west", "north"))
    assert decided(world) == ["west", "north"]


def test_with_the_strategy_external_ocm_decides_for_all() -> None:
    assert decided(furnished(story(workers=2, jobs=2, seed=1), strategy="external")) == ["small", "medium"]


@pytest.mark.parametrize("managed", [True, False])
def test_a_user_writes_a_job_with_its_queue(managed: bool) -> None:
    job = Submission(
        at=0.0, name="j", queue="q", cpu=2, seconds=4.0, pods=2, completions=9, priority="high", elastic=True
    )
    body = body_of(job, speed=2.0, managed=managed)
    assert ("suspend" in body["spec"]) is ("managedBy" in body["spec"]) is managed
    assert (body["spec"]["parallelism"], body["spec"]["completions"]) == (2, 9)
    assert body["metadata"]["labels"] == {"kueue.x-k8s.io/queue-name": "q", "kueue.x-k8s.io/priority-class": "high"}
    assert body["metadata"]["annotations"]["sandbox.multikueue.dev/run-seconds"] == "2"
