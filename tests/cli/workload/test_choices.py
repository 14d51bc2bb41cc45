"""What a strategy thinks of workers before there is a job."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from multikueue.api.kinds import (
    ADMISSION_CHECKS,
    CLUSTER_QUEUES,
    LOCAL_QUEUES,
    MULTIKUEUE_CLUSTERS,
    MULTIKUEUE_CONFIGS,
    NAMESPACES,
)
from multikueue.api.multikueue.strategies import OPTIONS_ANNOTATION, STRATEGY_ANNOTATION
from tests.builders import (
    admission_check,
    cluster_queue,
    local_queue,
    multikueue_cluster,
    multikueue_config,
    namespace,
)
from tests.cli.conftest import Run, World


def queue_by(world: World, annotations: dict[str, str]) -> None:
    """A queue whose check has the annotations, over a cheap cluster and a dear one, which is cordoned."""
    manager = world.manager
    manager.add(NAMESPACES, namespace("a").build())
    manager.add(LOCAL_QUEUES, local_queue("batch", "shared", namespace="a").build())
    manager.add(CLUSTER_QUEUES, cluster_queue("shared").checks("everywhere").build())
    check = admission_check("everywhere").config("all").annotations(annotations)
    manager.add(ADMISSION_CHECKS, check.active().build())
    manager.add(MULTIKUEUE_CONFIGS, multikueue_config("all", "east", "west").build())
    cheap, dear = {"multikueue.dev/prices": "cpu=0.04"}, {"multikueue.dev/prices": "cpu=4"}
    east, west = multikueue_cluster("east").active(), multikueue_cluster("west").active()
    manager.add(MULTIKUEUE_CLUSTERS, east.labels(zone="us").annotations(cheap).build())
    cordon = {"multikueue.dev/cordon": "true"}
    manager.add(MULTIKUEUE_CLUSTERS, west.labels(zone="eu").annotations(dear | cordon).build())


@pytest.fixture
def file(tmp_path: Path) -> str:
    main = {"name": "main", "image": "x", "resources": {"requests": {"cpu": "1"}}}
    template = {"spec": {"restartPolicy": "Never", "containers": [main]}}
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"generateName": "train-"},
        "spec": {"template": template},
    }
    path = tmp_path / "job.yaml"
    path.write_text(yaml.safe_dump(job))
    return str(path)


@pytest.mark.parametrize(
    ("strategy", "options", "told"),
    [
        pytest.param(
            "composed",
            {"scorers": ["price"]},
            [
                "Strategy composed",
                "WORKER COPY TOTAL WHY",
                "east yes 1.00 price 1.00: 0.04 an hour",
                "west - 0.01 cordoned",
            ],
            id="scorers by prices and labels of the clusters",
        ),
        pytest.param(
            "composed",
            {"filters": [{"labels": {"match": {"zone": ["eu"]}}}]},
            [
                "Strategy composed",
                "WORKER COPY TOTAL WHY",
                "west - 1.00 cordoned",
                "east - - refused by labels: label zone is us",
            ],
            id="a filter that refuses",
        ),
        pytest.param(
            "composed",
            {"scorers": ["room"]},
            [
                "Strategy composed",
                "WORKER COPY TOTAL WHY",
                "east yes 0.50 room -: room unknown",
                "west - 0.50 cordoned",
            ],
            id="what only the manager knows is neutral",
        ),
        pytest.param(
            "all-at-once",
            {},
            ["Strategy all-at-once", "WORKER COPY TOTAL WHY", "east yes - -", "west - - cordoned"],
            id="a strategy without opinions tells who gets a copy first",
        ),
    ],
)
def test_a_dry_run_tells_what_the_strategy_of_the_queue_would_choose(
    world: World, cli: Run, file: str, strategy: str, options: dict[str, object], told: list[str]
) -> None:
    queue_by(world, {STRATEGY_ANNOTATION: strategy, OPTIONS_ANNOTATION: json.dumps(options)})

    done = cli("submit", "-f", file, "-q", "batch", "-n", "a", "--dry-run")

    lines = [" ".join(line.split()) for line in done.lines]
    assert lines[lines.index(f"Strategy {strategy}") :] == told
    document = json.loads(cli("submit", "-f", file, "-q", "batch", "-n", "a", "--dry-run", "-o", "json").out)
    assert document["items"][0]["choice"]["strategy"] == strategy


@pytest.mark.parametrize(
    ("annotations", "problem"),
    [
        ({STRATEGY_ANNOTATION: "external"}, "it follows a Placement, which the manager reads once there is a job"),
        ({STRATEGY_ANNOTATION: "nope"}, "strategy 'nope': expected one that is installed"),
        ({OPTIONS_ANNOTATION: "{}"}, "expected annotation multikueue.dev/strategy beside it"),
    ],
    ids=["a Placement", "a strategy that is not installed here", "options alone"],
)
def test_a_dry_run_tells_why_the_strategy_cannot_be_asked(
    world: World, cli: Run, file: str, annotations: dict[str, str], problem: str
) -> None:
    queue_by(world, annotations)
    done = cli("submit", "-f", file, "-q", "batch", "-n", "a", "--dry-run")
    assert problem in done.err
    assert done.code == 0
