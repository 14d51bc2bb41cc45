from __future__ import annotations

import json
import re
from base64 import b64decode
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest
import yaml

from fakekube.wire import Refused
from multikueue.api.kinds import (
    ADMISSION_CHECKS,
    CLUSTER_QUEUES,
    DEFINITIONS,
    LOCAL_QUEUES,
    MULTIKUEUE_CLUSTERS,
    MULTIKUEUE_CONFIGS,
    NAMESPACES,
    SECRETS,
    WORKLOADS,
)
from multikueue.api.meta import ObjectKey
from multikueue.api.multikueue import CORDON_ANNOTATION
from multikueue.cli.access.connection import Target
from multikueue.cli.commands.clusters.group import watch_clusters
from multikueue.controllers.job_kinds.crd_annotations import KIND_ANNOTATION
from multikueue.registration.credentials import Credential, Endpoint, build_kubeconfig
from multikueue.registration.plan import CLUSTER_ROLES, ROLE_BINDINGS, ROLES
from multikueue.store.sight import NAMESPACES_ANNOTATION
from multikueue.testing import (
    admission_check,
    cluster_queue,
    local_queue,
    multikueue_cluster,
    multikueue_config,
    secret,
    workload,
)
from testbed.client import eventually
from tests.cli.cluster import NOW, json_web_token
from tests.cli.conftest import Run, World
from tests.cli.field import MERGE, Field

REGISTER = ("clusters", "register", "w1", "--context", "worker")


def token_until(expires: timedelta) -> bytes:
    """A kubeconfig whose token ends in that time."""
    credential = Credential(kind="token", user={"token": json_web_token(NOW + expires)}, expires=None)
    return build_kubeconfig("w1", Endpoint(server="https://w1.example"), credential)


def stored(world: World) -> dict[str, Any]:
    found = world.manager.named(SECRETS, "multikueue-w1", "kueue-system")
    assert found is not None
    tree: dict[str, Any] = yaml.safe_load(b64decode(found["data"]["kubeconfig"]))
    return tree


# --- register --------------------------------------------------------------------------------------------------------


def test_register_joins_a_worker_and_tells_what_it_found(world: World, cli: Run) -> None:
    result = cli(*REGISTER, "--config-name", "all")

    assert result.code == 0, result.err
    assert result.lines[0].split() == ["CLUSTER", "RESULT", "CHECK", "DETAIL"]
    assert {line.split()[:2][1] for line in result.lines[1:]} == {"ok"}
    assert "MultiKueueCluster w1 on the manager created" in result.err
    assert re.search(r"UTC, for (30|29)d;", result.err), "the day begins when the test does"
    assert "run the same command again" in result.err
    assert stored(world)["clusters"][0]["cluster"]["server"].startswith("https://127.0.0.1:")


def test_register_again_renews_and_creates_nothing(world: World, cli: Run) -> None:
    cli(*REGISTER)
    first = stored(world)["users"]

    again = cli(*REGISTER)

    assert again.code == 0
    assert "created" not in again.err
    assert stored(world)["users"] != first


def test_register_says_when_the_worker_grants_less(world: World, cli: Run) -> None:
    world.worker.longest = timedelta(hours=1)

    result = cli(*REGISTER, "--validity", "12h")

    assert "(12h were asked for, the worker grants no more)" in result.err


def test_register_with_another_address_for_the_manager(world: World, cli: Run) -> None:
    result = cli(*REGISTER, "--server", "https://10.9.8.7:6443", "--tls-server-name", "127.0.0.1")

    assert result.code == 0, result.err
    place = stored(world)["clusters"][0]["cluster"]
    assert (place["server"], place["tls-server-name"]) == ("https://10.9.8.7:6443", "127.0.0.1")
    assert "https://10.9.8.7:6443 was not tried from here: `multikueue clusters show w1` says" in result.out


def test_register_by_the_managers_own_way_has_tried_it(world: World, cli: Run) -> None:
    assert "was not tried" not in cli(*REGISTER).out


def test_register_with_a_certificate(world: World, cli: Run) -> None:
    # The worker of this test trusts no signer of users: what counts is what is made, and that it is tried before it is stored.
    result = cli(*REGISTER, "--credential", "certificate")

    assert result.code == 3
    assert "cluster w1 is unreachable" in result.err
    assert world.manager.named(SECRETS, "multikueue-w1", "kueue-system") is None


def test_register_reports_what_is_missing_on_the_worker_and_ends_with_1(world: World, cli: Run) -> None:
    world.worker.denied = {("jobs", "delete")}
    world.worker.served = {"/apis/batch/v1": {"jobs"}}

    result = cli(*REGISTER)

    assert result.code == 1
    assert "lacks delete" in result.out
    assert "install Kueue 0.16 or newer there" in result.out
    assert world.manager.named(MULTIKUEUE_CLUSTERS, "w1") is not None


def test_a_dry_run_prints_manifests_and_changes_nothing(world: World, cli: Run) -> None:
    result = cli(*REGISTER, "--dry-run")

    documents = [document for document in yaml.safe_load_all(result.out) if document]
    assert [document["kind"] for document in documents] == [
        *("Namespace", "ServiceAccount", "ClusterRole", "ClusterRoleBinding"),
        *("Namespace", "Secret", "MultiKueueCluster"),
    ]
    assert "ClusterRole multikueue on w1 would be created" in result.err
    assert world.manager.sent == world.worker.sent == []
    assert set(json.loads(cli(*REGISTER, "--dry-run", "-o", "json").out)) == {"worker", "manager"}


def test_register_in_some_namespaces_says_so_and_check_and_show_know_it(world: World, cli: Run) -> None:
    for name in ("team-a", "team-b"):
        world.worker.add(NAMESPACES, {"metadata": {"name": name}})
    limited = (*REGISTER, "--run-in", "team-a", "--run-in", "team-b")

    result = cli(*limited, "--dry-run")
    documents = [document for document in yaml.safe_load_all(result.out) if document]
    assert [document["kind"] for document in documents][2:6] == ["Role", "RoleBinding", "Role", "RoleBinding"]
    assert documents[-1]["metadata"]["annotations"] == {NAMESPACES_ANNOTATION: "team-a,team-b"}

    assert cli(*limited).code == 0
    assert "offers team-a, team-b" in cli("clusters", "check").out
    assert "rights on jobs.batch in team-b" in cli("clusters", "check").out
    assert "Namespaces:  team-a, team-b" in cli("clusters", "show", "w1").out
    assert cli("clusters", "remove", "w1", "--context", "worker").code == 0
    assert [world.worker.names(kind) for kind in (ROLES, ROLE_BINDINGS)] == [[], []]


def test_register_leaves_no_namespace_out_in_which_something_runs(world: World, cli: Run) -> None:
    for name in ("team-a", "team-b"):
        world.worker.add(NAMESPACES, {"metadata": {"name": name}})
    assert cli(*REGISTER).code == 0
    runs = workload("runs", namespace="team-b").queue("main").reserved("cq").cluster_name("w1").build()
    world.manager.add(WORKLOADS, runs)
    world.worker.sent.clear()

    result = cli(*REGISTER, "--run-in", "team-a")
    assert (result.code, "1 workloads run on w1 or wait there: team-b/runs" in result.err) == (1, True)
    assert world.worker.sent == []
    assert cli(*REGISTER, "--run-in", "team-a", "--run-in", "team-b").code == 0
    assert cli(*REGISTER, "--run-in", "team-a", "--force").code == 0
    assert cli(*REGISTER).code == 0


def test_register_refuses_a_namespace_that_is_not_there(world: World, cli: Run) -> None:
    result = cli(*REGISTER, "--run-in", "nowhere")

    assert (result.code, "w1 has no namespace nowhere" in result.err) == (2, True)
    assert world.manager.sent == world.worker.sent == []


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("clusters", "register", "W_1", "--context", "worker"), 2, "cluster name 'W_1'"),
        (("clusters", "register", "w1", "--context", "nowhere"), 2, "there is no context 'nowhere'"),
        (("clusters", "register", "w1", "--context", "manager"), 2, "the same cluster"),
        (("clusters", "register", "w1", "--context", "gone"), 3, "error: cluster w1 is unreachable"),
        ((*REGISTER, "--manager-context", "gone"), 3, "error: cluster manager is unreachable"),
        ((*REGISTER, "--server", "http://plain"), 2, "plain http is not allowed"),
        ((*REGISTER, "--validity", "5m"), 2, "at least 10 minutes"),
        ((*REGISTER, "--validity", "soon"), 2, "expected a duration such as 30d"),
        ((*REGISTER, "--validity", "99999999999d"), 2, "expected a duration such as 30d"),
    ],
    ids=[
        *("a wrong name", "an unknown context", "the manager itself", "an unreachable worker"),
        *("an unreachable manager", "plain http", "too short", "no duration", "too long"),
    ],
)
def test_register_refuses_in_one_line(world: World, cli: Run, words: tuple[str, ...], code: int, said: str) -> None:
    result = cli(*words)

    assert result.code == code
    assert said in result.err
    assert world.manager.named(MULTIKUEUE_CLUSTERS, "w1") is None


def test_register_needs_a_verified_worker(world: World, cli: Run) -> None:
    tree = yaml.safe_load(world.kubeconfig.read_text())
    for entry in tree["clusters"]:
        entry["cluster"] = {"server": entry["cluster"]["server"], "insecure-skip-tls-verify": True}
    world.kubeconfig.write_text(yaml.safe_dump(tree))

    result = cli(*REGISTER)

    assert result.code == 2
    assert "certificate-authority-data" in result.err


def test_register_names_the_stranger_in_its_way(world: World, cli: Run) -> None:
    world.worker.add(CLUSTER_ROLES, {"metadata": {"name": "multikueue"}})

    result = cli(*REGISTER)

    assert result.code == 1
    assert "error: ClusterRole multikueue on w1: metadata.labels: expected" in result.err
    assert world.manager.sent == world.worker.sent == []


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


def test_list_wide_tells_of_credentials_and_configs(members: World, cli: Run) -> None:
    header, *rows = cli("clusters", "list", "-o", "wide").lines

    assert header.split() == [
        *("NAME", "CONNECTED", "REASON", "CORDONED", "AGE"),
        *("SERVER", "CREDENTIAL", "EXPIRES", "CONFIGS", "MESSAGE"),
    ]
    assert "https://w1.example" in rows[0]
    assert "in 10d" in rows[0]
    assert "Secret kueue-system/w2 is missing" in rows[1]
    assert "only the manager has the file /etc/kubeconfigs/w3" in rows[2]


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
        tasks.start_soon(partial(watch_clusters, headers=False), Target(field.kubeconfig, None))
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
    assert cli("workloads", "list").err == "No workloads found in namespace default.\n"


def test_a_wrong_file_of_the_manager_is_wrong_usage(world: World, cli: Run, tmp_path: Path) -> None:
    file = tmp_path / "settings.yaml"
    file.write_text("cluster: {nonsense: 1}\n")

    result = cli("clusters", "list", "--config", str(file))

    assert result.code == 2
    assert f"error: {file}: cluster.nonsense: expected" in result.err


# --- check -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def joined(world: World, cli: Run) -> World:
    """A registered worker that a queue of the manager leads to."""
    assert cli(*REGISTER, "--config-name", "all").code == 0
    world.manager.add(ADMISSION_CHECKS, admission_check("mk").config("all").build())
    world.manager.add(CLUSTER_QUEUES, cluster_queue("cq").checks("mk").build())
    world.manager.add(LOCAL_QUEUES, local_queue("main", "cq", namespace="team-a").build())
    return world


def test_check_finds_a_queue_that_is_missing_on_the_worker(joined: World, cli: Run) -> None:
    result = cli("clusters", "check", "w1")

    assert result.code == 1
    assert "LocalQueue team-a/main" in result.out
    assert "create namespace team-a" in result.out


def test_check_of_a_fit_worker_ends_with_0(joined: World, cli: Run) -> None:
    joined.worker.add(LOCAL_QUEUES, local_queue("main", "cq", namespace="team-a").build())

    result = cli("clusters", "check", "-o", "json")

    levels = {(each["subject"], each["level"]) for each in json.loads(result.out)["items"]}
    assert result.code == 0
    assert ("credential", "ok") in levels
    assert ("configs", "ok") in levels
    assert ("manager's connection", "warning") in levels
    assert ("LocalQueue team-a/main", "warning") in levels
    assert "failed" not in dict(levels).values()


def test_check_looks_for_the_kinds_that_are_declared(joined: World, cli: Run, tmp_path: Path) -> None:
    names = {"plural": "simulations", "kind": "Simulation"}
    joined.manager.add(
        DEFINITIONS,
        {
            "metadata": {
                "name": "simulations.example.com",
                "annotations": {KIND_ANNOTATION: "pods: [{at: spec.workers}]"},
            },
            "spec": {
                "group": "example.com",
                "names": names,
                "scope": "Namespaced",
                "versions": [{"name": "v1", "served": True, "storage": True}],
            },
        },
    )
    settings = tmp_path / "multikueue.yaml"
    settings.write_text(
        "integrations: {declared: [{name: Sweep.v1.example.com, pods: [{at: spec.workers}]}]}", encoding="utf-8"
    )

    result = cli("clusters", "check", "-o", "json", "--config", str(settings))

    found = {each["subject"]: (each["level"], each["detail"]) for each in json.loads(result.out)["items"]}
    words = "example.com/v1 is not served: jobs of this kind cannot go there"
    assert found["kind Simulation"] == found["kind Sweep"] == ("warning", words)


def test_check_of_an_unreachable_worker_ends_with_3_and_says_why(joined: World, cli: Run) -> None:
    credential = Credential(kind="token", user={"token": "t"}, expires=None)
    gone = build_kubeconfig("w1", Endpoint(server="https://127.0.0.1:1"), credential)
    joined.manager.add(SECRETS, secret("multikueue-w1", namespace="kueue-system").kubeconfig(gone).build())

    result = cli("clusters", "check")

    assert result.code == 3
    assert "unreachable" in result.out


@pytest.mark.parametrize(
    ("kubeconfig", "words"),
    [
        (token_until(timedelta(days=-9, hours=-12)), "ended 9d ago"),
        (b"users: [{name: a, user: {tokenFile: /x}}]\nclusters: [{name: c}]", "tokenFile is not allowed"),
        (b"clusters: [{name: c, cluster: {server: 'https://x'}}]", "no current context"),
    ],
    ids=["it has ended", "it is not safe", "it is not complete"],
)
def test_check_does_not_use_a_credential_that_cannot_work(
    joined: World, cli: Run, kubeconfig: bytes, words: str
) -> None:
    joined.manager.add(SECRETS, secret("multikueue-w1", namespace="kueue-system").kubeconfig(kubeconfig).build())

    result = cli("clusters", "check")

    assert result.code == 1
    assert words in result.out
    assert "API server" not in result.out


def test_check_warns_before_a_credential_ends_and_says_who_is_refused(joined: World, cli: Run) -> None:
    (user,) = stored(joined)["users"]
    joined.worker.revoke(user["user"]["token"])

    refused = cli("clusters", "check")

    assert refused.code == 1
    assert "the worker refuses it" in refused.out


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (multikueue_cluster("w1").path("/etc/kubeconfigs/w1"), "only the manager has the file /etc/kubeconfigs/w1"),
        (multikueue_cluster("w1").profile("w1"), "only the manager has the credentials of a ClusterProfile"),
    ],
    ids=["a file", "a ClusterProfile"],
)
def test_check_says_what_cannot_be_checked_from_here_and_ends_with_3(
    joined: World, cli: Run, source: Any, words: str
) -> None:
    joined.manager.add(MULTIKUEUE_CLUSTERS, source.active().build())

    result = cli("clusters", "check", "-o", "json")

    found = {each["subject"]: (each["level"], each["detail"]) for each in json.loads(result.out)["items"]}
    assert found["manager's connection"][0] == "ok"
    assert found["credential"] == ("unchecked", f"not checkable from here: {words}")
    assert "API server" not in found
    assert result.code == 3


def test_check_of_a_secret_that_one_may_not_read_is_none(joined: World, cli: Run) -> None:
    def forbidding(_verb: str, _plural: str) -> Refused | None:
        path = joined.manager.requests[-1].path
        return Refused(403, "Forbidden", "no") if "/secrets/" in path else None

    joined.manager.fault = forbidding

    result = cli("clusters", "check")

    assert "not checkable from here: you may not read Secret kueue-system/multikueue-w1" in result.out
    assert result.code == 3


# --- remove ----------------------------------------------------------------------------------------------------------


def test_remove_takes_the_cluster_out_of_the_manager_only(joined: World, cli: Run) -> None:
    result = cli("clusters", "remove", "w1")

    assert result.code == 0
    assert joined.manager.named(MULTIKUEUE_CLUSTERS, "w1") is None
    assert joined.manager.named(SECRETS, "multikueue-w1", "kueue-system") is None
    assert joined.worker.named(CLUSTER_ROLES, "multikueue") is not None
    assert "still there; with --context of the worker they go too" in result.err
    assert "MultiKueueConfig all on the manager kept: w1 is its only cluster" in result.err


def test_remove_with_the_workers_administrator_takes_its_rights_too(joined: World, cli: Run) -> None:
    result = cli("clusters", "remove", "w1", "--context", "worker")

    assert result.code == 0
    assert joined.worker.named(CLUSTER_ROLES, "multikueue") is None


def test_remove_refuses_while_workloads_are_there_unless_forced(joined: World, cli: Run) -> None:
    running = workload("busy", namespace="team-a").queue("main").reserved("cq").cluster_name("w1")
    joined.manager.add(WORKLOADS, running.build())

    refused = cli("clusters", "remove", "w1")

    assert refused.code == 1
    assert "team-a/busy" in refused.err
    assert joined.manager.named(MULTIKUEUE_CLUSTERS, "w1") is not None
    assert cli("clusters", "remove", "w1", "--force").code == 0
    assert joined.manager.named(MULTIKUEUE_CLUSTERS, "w1") is None


def test_remove_finishes_what_was_half_done(joined: World, cli: Run) -> None:
    joined.manager.drop(MULTIKUEUE_CLUSTERS, ObjectKey("", "w1"))

    assert cli("clusters", "remove", "w1").code == 0
    assert joined.manager.named(SECRETS, "multikueue-w1", "kueue-system") is None


def test_remove_as_a_dry_run_changes_nothing(joined: World, cli: Run) -> None:
    before = list(joined.manager.sent)

    result = cli("clusters", "remove", "w1", "--dry-run")

    assert result.code == 0
    assert "MultiKueueCluster w1 on the manager would be removed" in result.err
    assert joined.manager.sent == before


def test_a_worker_may_be_registered_for_some_frameworks(world: World, cli: Run) -> None:
    plan = cli(*REGISTER, "--framework", "ray.io/rayjob", "--dry-run")
    unknown = cli(*REGISTER, "--framework", "rayjob", "--dry-run")

    assert ("rayjobs" in plan.out, "jobsets" in plan.out) == (True, False)
    assert unknown.code == 2
    assert "framework 'rayjob': expected some of batch/job, " in unknown.err
