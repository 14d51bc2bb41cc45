"""What is wrong with clusters, by cause, of what the manager cluster tells."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from multikueue.api.multikueue.clusters import CORDON_ANNOTATION, MultiKueueCluster, MultiKueueConfig
from multikueue_console.model.clusters import cluster_rows
from multikueue_console.model.findings import found_causes
from multikueue_console.model.objects import SeenObjects
from multikueue_console.model.tallies import Load
from tests.builders.clusters import multikueue_cluster, multikueue_config

ALL = multikueue_config("all", "one", "two").build()
ONE, TWO = multikueue_cluster("one").active(), multikueue_cluster("two").active()
EXPIRES = "its credential ends in 2 days"


def causes(
    clusters: Sequence[MultiKueueCluster] | None, configs: Sequence[MultiKueueConfig] | None = (ALL,)
) -> list[tuple[str, str, tuple[str, ...]]]:
    seen = SeenObjects(
        clusters=None if clusters is None else {each.key: each for each in clusters},
        configs=None if configs is None else {each.key: each for each in configs},
    )
    rows = cluster_rows(seen, {"three": Load(running=1)})
    return [
        (each.level, each.subject, each.clusters) for each in found_causes(seen, rows) if "three" not in each.clusters
    ]


def noted(name: str) -> MultiKueueCluster:
    return multikueue_cluster(name).active(message=f"Connected; {EXPIRES}").build()


@pytest.mark.parametrize(
    ("clusters", "expected"),
    [
        ([ONE.build(), TWO.build()], []),
        ([noted("one"), noted("two")], [("warning", "told by the manager", ("one", "two"))]),
        (
            [ONE.annotations({CORDON_ANNOTATION: "true"}).build(), TWO.active(False, message="no route").build()],
            [("failed", "manager's connection", ("two",)), ("warning", "cordoned", ("one",))],
        ),
        ([ONE.build(), multikueue_cluster("four").active().build()], [("warning", "configs", ("four",))]),
    ],
    ids=["nothing", "one cause of two clusters", "what keeps from work comes first", "a cluster in no configuration"],
)
def test_what_is_wrong_is_told_by_cause(
    clusters: Sequence[MultiKueueCluster], expected: list[tuple[str, str, tuple[str, ...]]]
) -> None:
    assert causes(clusters) == expected


def test_of_what_may_not_be_listed_nothing_is_told() -> None:
    assert causes([ONE.build()], configs=None) == []
    assert causes(None) == []


def test_a_cluster_that_is_gone_while_work_is_there_is_a_failure() -> None:
    seen = SeenObjects(clusters={}, configs={})
    (found,) = found_causes(seen, cluster_rows(seen, {"three": Load(running=1)}))
    assert (found.level, found.clusters) == ("failed", ("three",))
