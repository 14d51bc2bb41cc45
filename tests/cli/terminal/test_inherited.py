"""Options before the command, between its group and itself, and with it: the nearest counts."""

from __future__ import annotations

import json

import pytest
import yaml

from multikueue.api.kinds import WORKLOADS
from tests.builders import workload
from tests.cli.conftest import Run, World


@pytest.fixture
def two(world: World, monkeypatch: pytest.MonkeyPatch) -> World:
    """A workload `w` in namespace a, and one in b; the environment names a cluster that is not there."""
    for namespace in ("a", "b"):
        world.manager.add(WORKLOADS, workload("w", namespace=namespace).build())
    monkeypatch.setenv("MULTIKUEUE_CLUSTER__CONTEXT", "gone")
    return world


@pytest.mark.parametrize(
    "words",
    [
        "workloads list --context manager -n b",
        "--context manager -n b workloads list",
        "workloads --context manager -n b list",
        "--context gone -n a workloads --context manager list -n b",
        "--manager-context manager workloads -n b list",
    ],
)
def test_where_an_option_stands_does_not_matter(two: World, cli: Run, words: str) -> None:
    found = json.loads(cli(*words.split(), "-o", "json").out)["items"]

    assert [each["metadata"]["namespace"] for each in found] == ["b"]


def test_a_file_may_stand_anywhere_too(two: World, cli: Run) -> None:
    config = two.kubeconfig.with_name("settings.yaml")
    config.write_text(yaml.safe_dump({"cluster": {"context": "gone"}}))

    assert cli("--config", str(config), "workloads", "list").code == 3
    assert cli("--config", str(config), "--context", "manager", "workloads", "list", "-n", "a").code == 0


def test_of_a_command_about_two_clusters_it_is_the_manager(two: World, cli: Run) -> None:
    ended = cli("--context", "gone", "clusters", "register", "w", "--context", "worker", "--dry-run")

    assert ended.code == 3
    assert "cluster manager is unreachable" in ended.err


def test_a_command_without_a_cluster_does_not_mind(cli: Run) -> None:
    assert cli("--context", "nowhere", "version").code == 0
