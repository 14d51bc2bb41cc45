"""What queues are on workers, beside what they are on the manager."""

from __future__ import annotations

import json

import pytest

from multikueue.api.kinds import LOCAL_QUEUES
from tests.builders import local_queue
from tests.cli.conftest import Run, World


def test_the_list_shows_what_queues_are_on_workers(fleet: World, cli: Run) -> None:
    fleet.worker.add(LOCAL_QUEUES, local_queue("main", "theirs", namespace="team-a").build())

    told = cli("queues", "list", "-A", "--workers")

    rows = [line.split()[:4] for line in told.lines[1:]]
    assert rows == [
        ["team-a", "main", "-", "cq"],
        ["team-a", "main", "w1", "theirs"],
        ["team-b", "side", "-", "cq"],
        ["team-b", "side", "w1", "-"],
    ]
    assert "Missing" in told.lines[4]
    assert "Not seen: cluster w2 is unreachable" in told.err


def test_a_queue_shows_what_it_is_on_workers(fleet: World, cli: Run) -> None:
    fleet.worker.add(LOCAL_QUEUES, local_queue("main", "cq", namespace="team-a").build())

    shown = cli("queues", "show", "-n", "team-a", "main", "--workers")
    document = json.loads(cli("queues", "show", "-n", "team-a", "main", "--workers", "-o", "json").out)

    assert shown.lines[shown.lines.index("On the workers") + 2].split()[:2] == ["w1", "cq"]
    assert document["kind"] == "LocalQueue"
    (there,) = document["workers"]
    assert (there["worker"], there["clusterQueue"]["metadata"]["name"]) == ("w1", "cq")


@pytest.mark.parametrize(
    "words",
    [("show", "cq/cq"), ("list", "--cluster-queues"), ("list", "-w")],
    ids=["a ClusterQueue", "ClusterQueues", "with changes"],
)
def test_only_local_queues_are_shown_on_workers(fleet: World, cli: Run, words: tuple[str, ...]) -> None:
    assert cli("queues", *words, "--workers").code == 2
