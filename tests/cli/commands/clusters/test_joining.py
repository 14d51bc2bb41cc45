"""`clusters register`: what it makes, says and refuses."""

from __future__ import annotations

import io
import json
import re
from datetime import datetime, timedelta

import pytest
import yaml

from multikueue.api.kinds import MULTIKUEUE_CLUSTERS, NAMESPACES, SECRETS, WORKLOADS
from multikueue.api.kueue.workload import LOGS_UNTIL
from multikueue.api.meta import ObjectKey, render_time
from multikueue.registration.plan import CLUSTER_ROLES, LABELS, ROLE_BINDINGS, ROLES
from multikueue.store.workers.watch_scope import NAMESPACES_ANNOTATION
from tests.builders import multikueue_cluster, secret, workload
from tests.cli.cluster import NOW
from tests.cli.commands.clusters.registering import REGISTER, stored, token_until
from tests.cli.conftest import Run, World

# --- register --------------------------------------------------------------------------------------------------------


def test_register_joins_a_worker_and_tells_what_it_found(world: World, cli: Run) -> None:
    result = cli(*REGISTER, "--config-name", "all")

    assert result.code == 0, result.err
    assert result.lines[0].split() == ["CLUSTER", "RESULT", "CHECK", "DETAIL"]
    assert {line.split()[:2][1] for line in result.lines[1:]} == {"ok"}
    assert "MultiKueueCluster w1 on the manager created" in result.err
    assert re.search(r"UTC, for (30|29)d;", result.err), "the day begins when the test does"
    assert "the manager renews it before that" in result.err
    assert stored(world)["clusters"][0]["cluster"]["server"].startswith("https://127.0.0.1:")


def test_register_again_changes_nothing(world: World, cli: Run) -> None:
    cli(*REGISTER)
    first, writes = stored(world)["users"], len(world.manager.sent)

    again = cli(*REGISTER)

    assert (again.code, len(world.manager.sent)) == (0, writes), again.err
    assert {line.rsplit(" ", 1)[-1] for line in again.err.splitlines() if " on " in line} == {"unchanged"}
    assert stored(world)["users"] == first


def test_register_again_renews_a_credential_if_its_validity_is_named(world: World, cli: Run) -> None:
    cli(*REGISTER)
    first = stored(world)["users"]

    again = cli(*REGISTER, "--validity", "20d")

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
        *("Namespace", "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"),
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


def test_a_worker_may_be_registered_for_some_frameworks(world: World, cli: Run) -> None:
    plan = cli(*REGISTER, "--framework", "ray.io/rayjob", "--dry-run")
    unknown = cli(*REGISTER, "--framework", "rayjob", "--dry-run")

    assert ("rayjobs" in plan.out, "jobsets" in plan.out) == (True, False)
    assert unknown.code == 2
    assert "framework 'rayjob': expected some of batch/job, " in unknown.err


# --- rotate ----------------------------------------------------------------------------------------------------------


def test_a_worker_gets_a_new_token_without_its_administrator(joined: World, cli: Run) -> None:
    before = stored(joined)
    joined.worker.sent.clear()

    done = cli("clusters", "rotate", "w1")

    after = stored(joined)
    assert (done.code, done.lines) == (0, ["w1 rotated"]), done.err
    assert joined.worker.sent == ["POST /api/v1/namespaces/kueue-system/serviceaccounts/multikueue/token"]
    assert before["users"] != after["users"]
    assert before["clusters"] == after["clusters"]


def test_what_cannot_be_rotated_says_why_and_keeps_no_other_from_it(joined: World, cli: Run) -> None:
    joined.manager.add(MULTIKUEUE_CLUSTERS, multikueue_cluster("file").path("/etc/file").build())
    joined.manager.add(MULTIKUEUE_CLUSTERS, multikueue_cluster("odd").secret("odd").build())
    joined.manager.add(SECRETS, secret("odd").kubeconfig(token_until(timedelta(days=9))).build())

    done = cli("clusters", "rotate", "--all")

    assert (done.code, done.lines) == (1, ["w1 rotated"])
    assert "1 of 3 workers rotated." in done.err
    assert "file cannot be rotated: only the manager has the file /etc/file" in done.err
    assert "odd has no token that can be renewed" in done.err


def test_a_worker_that_does_not_let_its_token_be_renewed_is_registered_again(joined: World, cli: Run) -> None:
    joined.worker.longest = None

    done = cli("clusters", "rotate", "w1")

    assert done.code == 1
    assert "w1 does not let its token be renewed" in done.err


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


def test_remove_says_what_stays_on_the_worker_and_how_it_goes(joined: World, cli: Run) -> None:
    def ended(name: str, until: datetime, api_version: str, kind: str, cluster: str = "w1") -> None:
        made = workload(name, namespace="team-a").queue("main").reserved("cq").cluster_name(cluster).finished()
        kept = made.condition(LOGS_UNTIL, "True", reason="Finished", message=render_time(until))
        owned = kept.owned_by(api_version=api_version, kind=kind, name=name, uid=name)
        joined.manager.add(WORKLOADS, owned.build())

    later, before = NOW + timedelta(hours=2), NOW - timedelta(hours=2)
    ended("one", later, "batch/v1", "Job")
    ended("two", later, "jobset.x-k8s.io/v1alpha2", "JobSet")
    ended("over", before, "ray.io/v1", "RayJob")
    ended("elsewhere", later, "ray.io/v1", "RayJob", cluster="w2")

    dry = cli("clusters", "remove", "w1", "--dry-run")
    told = cli("clusters", "remove", "w1", "--context", "worker")

    what = "jobs.batch,jobsets.jobset.x-k8s.io,workloads.kueue.x-k8s.io"
    removes = f"delete {what} -A -l kueue.x-k8s.io/multikueue-origin=multikueue`."
    stays = "The jobs of 2 workloads stay on w1, and no manager removes what is there"
    assert f"{stays}: `kubectl --context W1 {removes}" in dry.err
    assert f"{stays}: `kubectl --context worker {removes} team-a/one, team-a/two." in told.err


def test_remove_of_a_worker_without_kept_jobs_speaks_of_none(joined: World, cli: Run) -> None:
    assert "stay" not in cli("clusters", "remove", "w1", "--context", "worker").err


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


def test_several_are_removed_at_once_and_one_that_is_in_use_stays(
    joined: World, cli: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("n\n"))
    for name in ("w2", "w3"):
        joined.manager.add(MULTIKUEUE_CLUSTERS, multikueue_cluster(name).labels(LABELS).build())
    running = workload("busy", namespace="team-a").queue("main").reserved("cq").cluster_name("w2")
    joined.manager.add(WORKLOADS, running.build())

    unsure = cli("clusters", "remove", "--all")
    assert len(joined.manager.names(MULTIKUEUE_CLUSTERS)) == 3
    done = cli("clusters", "remove", "--all", "--yes")

    assert unsure.code == 1
    assert (done.code, joined.manager.names(MULTIKUEUE_CLUSTERS)) == (1, [("", "w2")])
    assert "2 of 3 workers removed." in done.err
    assert "team-a/busy" in done.err


def test_the_administrator_of_one_worker_is_none_of_several(joined: World, cli: Run) -> None:
    assert cli("clusters", "remove", "w1", "w2", "--context", "worker").code == 2
