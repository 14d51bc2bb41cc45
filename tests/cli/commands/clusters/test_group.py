"""`clusters list` and `show`, and the manager's own settings."""

from __future__ import annotations

import json
from datetime import timedelta
from functools import partial
from pathlib import Path

import anyio
import pytest
import yaml

from multikueue.api.kinds import MULTIKUEUE_CLUSTERS, MULTIKUEUE_CONFIGS, SECRETS, WORKLOADS
from multikueue.api.multikueue.clusters import CORDON_ANNOTATION
from multikueue.cli.access.connection import ContextChoice
from multikueue.cli.commands.clusters.group import watch_clusters
from multikueue.registration.plan import CLUSTER_ROLES
from testbed.client import eventually
from tests.builders import multikueue_cluster, multikueue_config, secret, workload
from tests.cli.commands.clusters.registering import REGISTER, token_until
from tests.cli.conftest import Run, World
from tests.cli.field import MERGE, Field

# --- list and show ---------------------------------------------------------------------------------------------------


@pytest.fixture
def members(world: World) -> World:
    """Three clusters: connected, refused, and fresh with its kubeconfig in a file."""
    manager = world.manager
    manager.add(MULTIKUEUE_CLUSTERS, multikueue_cluster("w1").secret("multikueue-w1").active().build())
    broken = multikueue_cluster("w2").active(False, reason="BadKubeConfig", message="load client config failed: x")
    manager.add(MULTIKUEUE_CLUSTERS, broken.build())
    manager.add(MULTIKUEUE_CLUSTERS, multikueue_cluster("w3").path("/etc/kubeconfigs/w3").build())
    manager.add(MULTIKUEUE_CONFIGS, multikueue_config("all", "w1", "w2").build())
    good = secret("multikueue-w1", namespace="kueue-system").kubeconfig(token_until(timedelta(days=10, hours=12)))
    manager.add(SECRETS, good.build())
    return world


def test_list_shows_who_is_connected(members: World, cli: Run) -> None:
    result = cli("clusters", "list")

    assert result.code == 0
    assert [line.split()[:3] for line in result.lines] == [
        ["NAME", "CONNECTED", "REASON"],
        ["w1", "True", "Active"],
        ["w2", "False", "BadKubeConfig"],
        ["w3", "Unknown", "-"],
    ]


def test_a_list_says_if_no_manager_has_spoken_yet(world: World, cli: Run) -> None:
    world.manager.add(MULTIKUEUE_CLUSTERS, multikueue_cluster("w1").build())
    assert cli("clusters", "list").err == "No manager has looked at these clusters yet: `multikueue run` starts one.\n"

    world.manager.add(MULTIKUEUE_CLUSTERS, multikueue_cluster("w2").active().build())
    assert cli("clusters", "list").err == ""


def test_list_wide_tells_of_credentials_and_configs(members: World, cli: Run) -> None:
    header, *rows = cli("clusters", "list", "-o", "wide").lines

    assert header.split() == [
        *("NAME", "CONNECTED", "REASON", "CORDONED", "AGE", "SINCE", "JOBS", "VERSION", "LATENCY"),
        *("SERVER", "CREDENTIAL", "EXPIRES", "CONFIGS", "MESSAGE"),
    ]
    assert "https://w1.example" in rows[0]
    assert "in 10d" in rows[0]
    assert "Secret kueue-system/w2 is missing" in rows[1]
    assert "only the manager has the file /etc/kubeconfigs/w3" in rows[2]


def test_list_wide_asks_the_workers(joined: World, cli: Run) -> None:
    running = workload("busy", namespace="team-a").queue("main").reserved("cq").cluster_name("w1")
    joined.manager.add(WORKLOADS, running.build())
    joined.manager.add(WORKLOADS, workload("over").queue("main").cluster_name("w1").finished().build())

    header, row = cli("clusters", "list", "-o", "wide").lines

    jobs, version, latency = (row[header.index(title) :].split()[0] for title in ("JOBS", "VERSION", "LATENCY"))
    assert (jobs, version[0], latency[-2:]) == ("1", "v", "ms")
    assert "VERSION" not in cli("clusters", "list").out


def test_list_for_programs(members: World, cli: Run) -> None:
    items = json.loads(cli("clusters", "list", "-o", "json").out)["items"]
    names = cli("clusters", "list", "-o", "name").lines

    assert [(item["kind"], item["metadata"]["name"]) for item in items] == [
        ("MultiKueueCluster", name) for name in ("w1", "w2", "w3")
    ]
    assert names == [f"multikueuecluster.kueue.x-k8s.io/{name}" for name in ("w1", "w2", "w3")]


@pytest.mark.parametrize(
    ("written", "shown"),
    [("true", "yes"), ("false", "no"), ("yes", "no ('yes' is not 'true')")],
    ids=["a cordon", "none", "what somebody took for one"],
)
def test_a_cordon_is_seen_and_so_is_what_is_none(members: World, cli: Run, written: str, shown: str) -> None:
    members.manager.add(
        MULTIKUEUE_CLUSTERS,
        multikueue_cluster("w1").secret("w1").annotations({CORDON_ANNOTATION: written}).build(),
    )

    path = "custom-columns=N:.metadata.name"
    assert cli("clusters", "list", "-o", path).lines[1] == "w1"
    assert f"  Cordoned:    {shown}" in cli("clusters", "show", "w1").lines
    assert shown in cli("clusters", "list").lines[1]
    assert ("cordoned" in cli("clusters", "check", "w1").out) is (shown != "no")


@pytest.mark.anyio
async def test_each_change_of_a_cluster_is_a_row(field: Field, capsys: pytest.CaptureFixture[str]) -> None:
    rows = list[list[str]]()

    async def seen(number: int) -> None:
        async def yet() -> bool:
            rows.extend(line.split() for line in capsys.readouterr().out.splitlines())
            return len(rows) >= number

        await eventually(yet)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(partial(watch_clusters, has_headers=False), ContextChoice(field.kubeconfig, None))
        await seen(2)
        path = "/apis/kueue.x-k8s.io/v1beta2/multikueueclusters/worker1"
        cordon = {"metadata": {"annotations": {CORDON_ANNOTATION: "true"}}}
        await field.manager.request("PATCH", path, body=cordon, content_type=MERGE)
        await seen(3)
        tasks.cancel_scope.cancel()

    assert [(row[0], row[3]) for row in rows] == [("worker1", "no"), ("worker2", "no"), ("worker1", "yes")]


def test_a_check_of_nothing_is_no_success(world: World, cli: Run) -> None:
    ended = cli("clusters", "check")

    assert (ended.code, ended.out) == (1, "")
    assert ended.err == "error: there are no clusters to check: multikueue clusters register --help\n"


def test_an_empty_list_says_how_to_go_on(world: World, cli: Run) -> None:
    result = cli("clusters", "list")

    assert (result.code, result.out) == (0, "")
    assert "clusters register" in result.err


def test_show_tells_all_about_one(members: World, cli: Run) -> None:
    result = cli("clusters", "show", "w1")

    assert result.code == 0
    assert result.lines[0] == "MultiKueueCluster w1"
    assert "Connected:   True (Active)" in result.out
    assert "Credential:  Secret kueue-system/multikueue-w1" in result.out
    assert "in 10d" in result.out
    assert "Configs:     all" in result.out
    assert "Problem:" in cli("clusters", "show", "w2").out
    assert yaml.safe_load(cli("clusters", "show", "w1", "-o", "yaml").out)["metadata"]["name"] == "w1"
    assert cli("clusters", "show", "w1", "-o", "name").out == "multikueuecluster.kueue.x-k8s.io/w1\n"


WAYS_TO_LOOK = [("list", "-o", "wide"), ("show", "w1"), ("check",)]


def test_several_are_shown_in_the_order_of_their_numbers(members: World, cli: Run) -> None:
    members.manager.add(MULTIKUEUE_CLUSTERS, multikueue_cluster("w10").build())

    assert cli("clusters", "list", "-o", "name").lines[-1].endswith("/w10")
    shown = cli("clusters", "show", "w10", "w9", "w2")
    titles = [line for line in shown.lines if line.startswith("MultiKueueCluster")]
    assert (shown.code, titles) == (1, ["MultiKueueCluster w2", "MultiKueueCluster w10"])
    assert "there is no MultiKueueCluster 'w9'" in shown.err
    both = json.loads(cli("clusters", "show", "w1", "w2", "-o", "json").out)
    assert [each["metadata"]["name"] for each in both["items"]] == ["w1", "w2"]


def test_a_check_of_some_says_how_many_are_ready(members: World, cli: Run) -> None:
    checked = cli("clusters", "check", "w2", "w3")

    assert {line.split()[0] for line in checked.lines[1:]} - {"(manager)"} == {"w2", "w3"}
    assert checked.err.splitlines()[-1].startswith("0 of 2 workers are ready")


@pytest.mark.parametrize("words", WAYS_TO_LOOK, ids=lambda words: words[0])
def test_a_file_that_a_cluster_names_is_not_read(
    world: World, cli: Run, tmp_path: Path, words: tuple[str, ...]
) -> None:
    local = tmp_path / "local"
    local.write_bytes(token_until(timedelta(days=10, hours=12)))
    world.manager.add(MULTIKUEUE_CLUSTERS, multikueue_cluster("w1").path(str(local)).build())

    result = cli("clusters", *words)

    assert f"only the manager has the file {local}" in result.out
    assert "w1.example" not in result.out
    assert " in 10d" not in result.out


@pytest.mark.parametrize("words", WAYS_TO_LOOK, ids=lambda words: words[0])
def test_a_path_that_is_none_is_shown(world: World, cli: Run, words: tuple[str, ...]) -> None:
    world.manager.add(MULTIKUEUE_CLUSTERS, multikueue_cluster("w1").path("/a\0b").build())

    assert r"only the manager has the file /a\x00b" in cli("clusters", *words).out


@pytest.mark.parametrize("command", ["show", "check", "remove"])
def test_an_unknown_name_lists_the_known_ones(members: World, cli: Run, command: str) -> None:
    result = cli("clusters", command, "w9")

    assert result.code == 1
    assert result.err.splitlines()[-1] == "error: there is no MultiKueueCluster 'w9'; there are: w1, w2, w3"


@pytest.mark.parametrize("command", [("list",), ("check",), ("show", "w1")], ids=lambda words: words[0])
def test_an_unreachable_manager_is_3(world: World, cli: Run, command: tuple[str, ...]) -> None:
    result = cli("clusters", *command, "--context", "gone")

    assert result.code == 3
    assert result.err.startswith("error: cluster manager is unreachable")


# --- the manager's own settings ---------------------------------------------------------------------------------------


def test_the_managers_file_says_where_and_by_what_name(
    world: World, cli: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "settings.yaml"
    file.write_text("cluster: {context: manager, namespace: other}\ndispatch: {origin: prod}\n")
    tree = yaml.safe_load(world.kubeconfig.read_text())
    world.kubeconfig.write_text(yaml.safe_dump(tree | {"current-context": "gone"}))

    assert cli(*REGISTER, "--config", str(file)).code == 0
    assert world.manager.named(SECRETS, "multikueue-w1", "other") is not None
    assert world.worker.named(CLUSTER_ROLES, "multikueue-prod") is not None
    monkeypatch.setenv("MULTIKUEUE_CONFIG", str(file))
    assert "Secret other/multikueue-w1" in cli("clusters", "show", "w1").out
    assert "Secret mine/multikueue-w1" in cli("clusters", "show", "w1", "--namespace", "mine").out
    monkeypatch.setenv("MULTIKUEUE_CLUSTER__NAMESPACE", "env")
    assert "Secret env/multikueue-w1" in cli("clusters", "show", "w1").out
    assert cli("workloads", "list").code == 0
    assert cli("workloads", "list").err == "No jobs found in namespace default.\n"


def test_a_wrong_file_of_the_manager_is_wrong_usage(world: World, cli: Run, tmp_path: Path) -> None:
    file = tmp_path / "settings.yaml"
    file.write_text("cluster: {nonsense: 1}\n")

    result = cli("clusters", "list", "--config", str(file))

    assert result.code == 2
    assert f"error: {file}: cluster.nonsense: expected" in result.err
