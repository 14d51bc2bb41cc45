"""What the TAB key offers, by the script that a shell runs."""

from __future__ import annotations

import pytest

from multikueue.api.kinds import CLUSTER_QUEUES, LOCAL_QUEUES, MULTIKUEUE_CLUSTERS, WORKLOADS
from tests.builders import cluster_queue, local_queue, multikueue_cluster, workload
from tests.cli.conftest import Run, World


@pytest.fixture
def known(world: World) -> World:
    world.manager.add(WORKLOADS, workload("job-train-1", namespace="a").owner_job("train").build())
    world.manager.add(WORKLOADS, workload("alone", namespace="a").build())
    world.manager.add(WORKLOADS, workload("other", namespace="b").build())
    world.manager.add(MULTIKUEUE_CLUSTERS, multikueue_cluster("east").build())
    world.manager.add(MULTIKUEUE_CLUSTERS, multikueue_cluster("west").build())
    world.manager.add(LOCAL_QUEUES, local_queue("batch", namespace="a").build())
    world.manager.add(CLUSTER_QUEUES, cluster_queue("shared").build())
    return world


CASES = {
    "multikueue cl": {"clusters"},
    "multikueue logs -n a ": {"train", "alone"},
    "multikueue -n a logs ": {"train", "alone"},
    "multikueue logs -n a tr": {"train"},
    "multikueue logs -n a job/": {"job/train"},
    "multikueue workloads show -n b ": {"other"},
    "multikueue workloads list -n a -q ": {"batch"},
    "multikueue clusters show ": {"east", "west"},
    "multikueue clusters show w": {"west"},
    "multikueue clusters capacity ": {"shared"},
    "multikueue clusters list --context ": {"manager", "worker", "gone"},
    "multikueue --context w": {"worker"},
    "multikueue logs --context gone ": set(),
    "multikueue logs --kubeconfig /nowhere ": set(),
}


@pytest.mark.parametrize(("line", "expected"), CASES.items(), ids=CASES.keys())
def test_names(known: World, cli: Run, monkeypatch: pytest.MonkeyPatch, line: str, expected: set[str]) -> None:
    monkeypatch.setenv("_MULTIKUEUE_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", line)
    monkeypatch.setenv("COMP_CWORD", str(len(line.split()) - (0 if line.endswith(" ") else 1)))

    ended = cli()

    assert set(ended.lines) - {""} == expected
    assert ended.err == ""
