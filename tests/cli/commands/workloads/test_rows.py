"""What passes the filters of a list, and what no object can."""

from __future__ import annotations

import pytest

from multikueue.api.kinds import MULTIKUEUE_CLUSTERS
from tests.builders import multikueue_cluster
from tests.cli.conftest import Run, World


@pytest.mark.parametrize("watch", [(), ("-w",)], ids=["once", "in a watch"])
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("-q", "mian"), "there is no LocalQueue 'mian'; did you mean 'main'? there are: main"),
        (("--cluster", "w11"), "there is no MultiKueueCluster 'w11'; did you mean 'w1'? there are: w1, w2"),
    ],
    ids=["a queue", "a cluster"],
)
def test_a_filter_that_is_misspelt_is_an_error_with_the_nearest(
    full: World, cli: Run, words: tuple[str, ...], message: str, watch: tuple[str, ...]
) -> None:
    for name in ("w1", "w2"):
        full.manager.add(MULTIKUEUE_CLUSTERS, multikueue_cluster(name).build())

    ended = cli("workloads", "list", "-A", *words, *watch)

    assert (ended.code, ended.out, ended.err) == (1, "", f"error: {message}\n")


def test_a_filter_by_what_exists_and_has_nothing_is_none(full: World, cli: Run) -> None:
    full.manager.add(MULTIKUEUE_CLUSTERS, multikueue_cluster("w1").build())

    ended = cli("workloads", "list", "-A", "-q", "main", "--cluster", "w1")

    assert (ended.code, ended.err) == (0, "No jobs found.\n")


def test_a_name_that_nobody_has_is_an_error_with_the_nearest(full: World, cli: Run) -> None:
    ended = cli("workloads", "list", "-n", "a", "offerd")

    assert (ended.code, ended.out) == (1, "")
    assert "did you mean 'offered'? there are: offered, job/train" in ended.err
