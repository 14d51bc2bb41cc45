"""`clusters register`, step by step, against two API servers: one file, one command."""

from __future__ import annotations

from base64 import b64decode, b64encode
from datetime import timedelta
from typing import Any

import pytest
import yaml

from fakekube.model.wire import Request, Response, Watch
from multikueue.api.kinds import (
    MULTIKUEUE_CLUSTERS,
    MULTIKUEUE_CONFIGS,
    NAMESPACES,
    SECRETS,
    SERVICE_ACCOUNTS,
    WORKLOADS,
)
from multikueue.api.meta import ObjectKey
from multikueue.api.multikueue.clusters import CLUSTER_UID_ANNOTATION, OTHER_THAN_ANNOTATION
from multikueue.errors import ConfigurationError, Forbidden, InvalidObject, Unauthorized
from multikueue.kube.auth.kubeconfig import InsecureKubeconfig
from multikueue.registration import join as joining
from multikueue.registration.choices import CredentialKind
from multikueue.registration.credentials import Endpoint
from multikueue.registration.join import busy, leave
from multikueue.registration.plan import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    MANAGER_UID_ANNOTATION,
    ROLE_BINDINGS,
    ROLES,
    Registration,
)
from multikueue.store.workers.watch_scope import NAMESPACES_ANNOTATION
from tests.builders import workload
from tests.cli.cluster import Cluster
from tests.registration.builders import ENDPOINT, World

pytestmark = pytest.mark.anyio

W1 = Registration(cluster="w1")


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setattr(joining, "SETTLE_PAUSE", timedelta())
    return World()


def kubeconfig(world: World) -> dict[str, object]:
    secret = world.manager.named(SECRETS, "multikueue-w1", "kueue-system")
    assert secret is not None
    tree: dict[str, object] = yaml.safe_load(b64decode(secret["data"]["kubeconfig"]))
    return tree


async def test_joining_makes_everything_on_both_sides_and_looks_at_the_worker(world: World) -> None:
    joined = await world.join(config="all")

    assert world.done() == [
        "Namespace kueue-system on worker created",
        "ServiceAccount kueue-system/multikueue on worker created",
        "ClusterRole multikueue on worker created",
        "ClusterRoleBinding multikueue on worker created",
        "Role kueue-system/multikueue:renewal on worker created",
        "RoleBinding kueue-system/multikueue:renewal on worker created",
        "Namespace kueue-system on manager created",
        "Secret kueue-system/multikueue-w1 on manager created",
        "MultiKueueCluster w1 on manager created",
        "MultiKueueConfig all on manager created",
    ]
    assert joined.credential.kind == "token"
    assert {finding.level for finding in joined.findings} == {"ok"}


async def test_joining_again_renews_the_token_and_leaves_the_rest(world: World) -> None:
    await world.join()
    first = kubeconfig(world)
    world.done()

    await world.join()

    changed = [words for words in world.done() if not words.endswith("unchanged")]
    assert changed == ["Secret kueue-system/multikueue-w1 on manager updated"]
    assert kubeconfig(world) != first


async def test_the_manager_gets_another_address_than_the_one_tried_from_here(world: World) -> None:
    await world.join(endpoint=Endpoint(server="https://internal:6443"))

    assert "https://internal:6443" in str(kubeconfig(world))
    assert "worker.example" not in str(kubeconfig(world))


@pytest.mark.parametrize(
    ("side", "kind", "name", "namespace"),
    [
        ("worker", SERVICE_ACCOUNTS, "multikueue", "kueue-system"),
        ("worker", CLUSTER_ROLES, "multikueue", ""),
        ("manager", SECRETS, "multikueue-w1", "kueue-system"),
        ("manager", MULTIKUEUE_CLUSTERS, "w1", ""),
    ],
    ids=["account", "role", "secret", "cluster"],
)
async def test_a_strangers_object_stops_it_before_the_first_write(
    world: World, side: str, kind: object, name: str, namespace: str
) -> None:
    taken: Cluster = getattr(world, side)
    taken.add(kind, {"metadata": {"name": name, "namespace": namespace}})  # type: ignore[arg-type]

    with pytest.raises(InvalidObject, match=name):
        await world.join()

    assert world.worker.sent == world.manager.sent == []


async def test_a_cluster_cannot_be_its_own_worker(world: World) -> None:
    world.worker = world.manager

    with pytest.raises(ConfigurationError, match="same cluster"):
        await world.join()

    assert world.manager.sent == []


@pytest.mark.parametrize("known", [True, False], ids=["by its identity", "by its address"])
async def test_a_second_name_for_a_worker_is_refused_before_the_first_write(world: World, known: bool) -> None:
    await world.join()
    if known:
        identified(world, "w1")
    for cluster in (world.worker, world.manager):
        cluster.sent.clear()

    address = Endpoint(server="https://elsewhere:6443") if known else ENDPOINT
    with pytest.raises(ConfigurationError, match="registered already, as w1"):
        await world.join(Registration(cluster="alias"), endpoint=address)

    assert world.manager.sent == []
    assert len(world.worker.sent) == (2 if known else 0), "a nonce, which is removed"
    assert all("/namespaces/kube-system/workloads" in sent for sent in world.worker.sent)
    assert world.worker.all(WORKLOADS) == []


async def squatted(world: World) -> Cluster:
    """A hostile cluster is registered as w1, and shows the identity of the honest one that is registered next."""
    await world.join()
    honest, world.worker = world.worker, Cluster("squatter")
    world.squatter = world.worker
    await world.join(endpoint=Endpoint(server="https://squatter:6443"))
    world.worker = honest
    identified(world, "w1")
    honest.sent.clear()
    return honest


async def test_a_cluster_that_shows_the_identity_of_another_one_does_not_keep_it_from_registering(world: World) -> None:
    await squatted(world)
    await world.join(Registration(cluster="honest"))
    assert world.manager.named(MULTIKUEUE_CLUSTERS, "honest") is not None
    assert any("is another cluster" in said for said in world.said)
    assert world.worker.all(WORKLOADS) == []


@pytest.mark.parametrize(
    "why", ["it refuses us", "its Secret is gone", "it is a dry run", "a rule forbids its kubeconfig"]
)
async def test_a_cluster_that_cannot_be_looked_at_keeps_no_other_one_from_registering(world: World, why: str) -> None:
    """Is it the same all the same, the manager uses one of the two names."""
    await squatted(world)
    if why == "it refuses us":
        assert world.squatter is not None
        world.squatter.fault = lambda verb, _: Unauthorized(401, "Unauthorized", "no") if verb == "get" else None
    if why == "its Secret is gone":
        world.manager.drop(SECRETS, ObjectKey("kueue-system", "multikueue-w1"))
    if why == "a rule forbids its kubeconfig":
        wrong = {"data": {"kubeconfig": b64encode(b"{users: [{user: {exec: {command: x}}}], clusters: [{}]}").decode()}}
        world.manager.change(SECRETS, ObjectKey("kueue-system", "multikueue-w1"), wrong)
    is_dry = why == "it is a dry run"
    await world.join(Registration(cluster="honest"), dry_run=is_dry)
    assert (world.manager.named(MULTIKUEUE_CLUSTERS, "honest") is None) is is_dry
    assert any("the manager will use one name only" in said for said in world.said)


async def test_a_name_that_is_proven_to_be_another_cluster_is_not_asked_about_again(world: World) -> None:
    honest = await squatted(world)
    await world.join(Registration(cluster="honest"))
    mark = {"metadata": {"annotations": {CLUSTER_UID_ANNOTATION: "worker-1", OTHER_THAN_ANNOTATION: "w1"}}}
    world.manager.change(MULTIKUEUE_CLUSTERS, ObjectKey("", "honest"), mark)
    honest.sent.clear()
    await world.join(Registration(cluster="honest"))
    assert not any("workloads" in sent for sent in honest.sent)
    await leave(Registration(cluster="honest"), manager=world.side(world.manager), worker=world.side(honest))
    assert honest.named(CLUSTER_ROLES, "multikueue") is None, "its account is of no use to the other one"


def identified(world: World, name: str) -> None:
    """A manager has recorded that the name stands for the worker."""
    mark = {"metadata": {"annotations": {CLUSTER_UID_ANNOTATION: "worker-1"}}}
    world.manager.change(MULTIKUEUE_CLUSTERS, ObjectKey("", name), mark)


async def test_a_worker_of_another_manager_with_the_same_origin_is_refused_and_left_alone(world: World) -> None:
    await world.join()
    first, world.manager = world.manager, Cluster("another")
    world.worker.sent.clear()

    with pytest.raises(ConfigurationError, match=r"UID manager-1.*dispatch.origin.*manager-uid-"):
        await world.join()
    assert world.worker.sent == world.manager.sent == []
    await leave(W1, manager=world.side(world.manager), worker=world.side(world.worker))
    assert world.worker.sent == []

    await world.join(Registration(cluster="w1", origin="another"))
    world.manager = first
    await leave(W1, manager=world.side(first), worker=world.side(world.worker))
    assert world.worker.named(CLUSTER_ROLES, "multikueue") is None
    assert world.worker.named(CLUSTER_ROLES, "multikueue-another") is not None


async def test_a_worker_whose_manager_is_gone_for_good_may_get_another(world: World) -> None:
    await world.join()
    world.worker.change(CLUSTER_ROLES, ObjectKey("", "multikueue"), {"metadata": {"annotations": None}})
    world.manager = Cluster("another")
    await world.join()
    assert world.worker.named(CLUSTER_ROLES, "multikueue")["metadata"]["annotations"] == {  # type: ignore[index]
        MANAGER_UID_ANNOTATION: "another-1"
    }


async def test_an_address_the_manager_would_refuse_is_refused_before_the_first_write(world: World) -> None:
    with pytest.raises(InsecureKubeconfig, match="plain http"):
        await world.join(endpoint=Endpoint(server="http://worker:80"))

    assert world.worker.sent == world.manager.sent == []


async def test_a_dry_run_changes_nothing(world: World) -> None:
    await world.join(dry_run=True, config="all")

    assert world.worker.sent == world.manager.sent == []
    assert all("would be created" in words for words in world.done())


async def test_a_dry_run_tells_that_a_credential_is_renewed(world: World) -> None:
    await world.join()
    world.done()

    await world.join(dry_run=True)

    assert [words for words in world.done() if not words.endswith("unchanged")] == [
        "Secret kueue-system/multikueue-w1 on manager would be updated"
    ]


async def test_without_tokens_it_falls_back_to_a_certificate_and_says_so(world: World) -> None:
    world.worker.longest = None

    joined = await world.join()

    assert joined.credential.kind == "certificate"
    assert "client-key-data" in str(kubeconfig(world))
    assert "worker gives no token" in world.said[1]
    binding = world.worker.named(CLUSTER_ROLE_BINDINGS, "multikueue")
    assert binding is not None
    assert [subject["kind"] for subject in binding["subjects"]] == ["ServiceAccount", "User"]


async def test_a_token_that_was_asked_for_is_not_replaced_by_a_certificate(world: World) -> None:
    world.worker.longest = None

    with pytest.raises(Forbidden, match="no tokens here"):
        await world.join(credential=CredentialKind.TOKEN)


async def test_going_back_to_a_token_takes_the_rights_from_the_certificates_user(world: World) -> None:
    await world.join(credential=CredentialKind.CERTIFICATE)
    await world.join(credential=CredentialKind.TOKEN)

    binding = world.worker.named(CLUSTER_ROLE_BINDINGS, "multikueue")
    assert binding is not None
    assert [subject["kind"] for subject in binding["subjects"]] == ["ServiceAccount"]


async def test_a_credential_the_worker_does_not_take_never_reaches_the_manager(world: World) -> None:
    class Forgetful(Cluster):
        async def _token(self, request: Request) -> Response | Watch:
            answer = await super()._token(request)
            self.revoke()
            return answer

    world.worker = Forgetful("worker")

    with pytest.raises(Unauthorized):
        await world.join()

    assert world.manager.named(MULTIKUEUE_CLUSTERS, "w1") is None


async def test_missing_rights_are_found_and_the_worker_joins_all_the_same(world: World) -> None:
    world.worker.denied = {("jobs", "create")}

    joined = await world.join()

    assert [finding.subject for finding in joined.findings if finding.level == "failed"] == ["rights on jobs.batch"]
    assert world.manager.named(MULTIKUEUE_CLUSTERS, "w1") is not None


@pytest.mark.parametrize(
    "wrong", [{"validity": timedelta(minutes=9)}, {"config": "../x"}], ids=["too short", "no name of a config"]
)
async def test_what_no_server_grants_is_not_asked_for(world: World, wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError):
        await world.join(**wrong)

    assert world.worker.sent == []


# --- some namespaces only --------------------------------------------------------------------------------------------


def with_namespaces(world: World, *names: str) -> None:
    for name in names:
        world.worker.add(NAMESPACES, {"metadata": {"name": name}})


def granted(world: World) -> list[str]:
    """Where the account has rights on the worker, and whether the kinds of jobs are among those of the cluster."""
    role = world.worker.named(CLUSTER_ROLES, "multikueue")
    assert role is not None
    everywhere = ["everywhere"] if any(rule["apiGroups"] == ["batch"] for rule in role["rules"]) else []
    pairs = [
        [namespace for namespace, name in world.worker.names(kind) if name == "multikueue"]
        for kind in (ROLES, ROLE_BINDINGS)
    ]
    assert sorted(pairs[0]) == sorted(pairs[1])
    return sorted(pairs[0]) + everywhere


def offered(world: World) -> str | None:
    cluster = world.manager.named(MULTIKUEUE_CLUSTERS, "w1")
    assert cluster is not None
    text: str | None = cluster["metadata"].get("annotations", {}).get(NAMESPACES_ANNOTATION)
    return text


async def test_each_registration_grants_what_it_says_and_takes_back_what_the_one_before_granted(world: World) -> None:
    with_namespaces(world, "a", "b", "c")
    steps: list[tuple[tuple[str, ...], list[str], str | None]] = [
        (("a", "b"), ["a", "b"], "a,b"),
        (("b", "c"), ["b", "c"], "b,c"),
        ((), ["everywhere"], None),
        (("c",), ["c"], "c"),
    ]
    for names, rights, told in steps:
        joined = await world.join(Registration(cluster="w1", run_in=names))
        assert (granted(world), offered(world)) == (rights, told)
        assert {finding.level for finding in joined.findings} == {"ok"}
    world.done()
    await world.join(Registration(cluster="w1", run_in=("c",)))
    changed = [words for words in world.done() if not words.endswith("unchanged")]
    assert changed == ["Secret kueue-system/multikueue-w1 on manager updated"]


async def test_a_namespace_that_the_worker_has_not_is_refused_before_the_first_write(world: World) -> None:
    with_namespaces(world, "a")
    world.worker.sent.clear()

    with pytest.raises(ConfigurationError, match="worker has no namespace b: create it first"):
        await world.join(Registration(cluster="w1", run_in=("a", "b")))

    assert world.worker.sent == world.manager.sent == []


async def test_roles_of_strangers_stay_and_stop_it_where_they_have_the_name(world: World) -> None:
    with_namespaces(world, "a", "b")
    world.worker.add(ROLES, {"metadata": {"name": "multikueue", "namespace": "b"}, "rules": []})
    await world.join(Registration(cluster="w1", run_in=("a",)))
    assert world.worker.named(ROLES, "multikueue", "b") is not None

    with pytest.raises(InvalidObject, match="Role b/multikueue"):
        await world.join(Registration(cluster="w1", run_in=("b",)))


async def test_a_certificate_gets_the_rights_in_each_namespace(world: World) -> None:
    with_namespaces(world, "a", "b")
    world.worker.longest = None

    await world.join(Registration(cluster="w1", run_in=("a", "b")))

    for namespace in ("a", "b"):
        binding = world.worker.named(ROLE_BINDINGS, "multikueue", namespace)
        assert binding is not None
        assert [subject["kind"] for subject in binding["subjects"]] == ["ServiceAccount", "User"]


async def test_leaving_takes_back_the_rights_in_all_namespaces(world: World) -> None:
    with_namespaces(world, "a", "b")
    await world.join(Registration(cluster="w1", run_in=("a", "b")))
    world.done()

    await leave(W1, manager=world.side(world.manager), worker=world.side(world.worker))

    assert [words for words in world.done() if " on worker " in words] == [
        "RoleBinding a/multikueue on worker removed",
        "RoleBinding b/multikueue on worker removed",
        "Role a/multikueue on worker removed",
        "Role b/multikueue on worker removed",
        "RoleBinding kueue-system/multikueue:renewal on worker removed",
        "Role kueue-system/multikueue:renewal on worker removed",
        "ClusterRoleBinding multikueue on worker removed",
        "ClusterRole multikueue on worker removed",
        "ServiceAccount kueue-system/multikueue on worker removed",
    ]


async def test_another_manager_is_refused_by_the_mark_of_the_first_in_some_namespaces_too(world: World) -> None:
    with_namespaces(world, "a")
    limited = Registration(cluster="w1", run_in=("a",))
    await world.join(limited)
    world.manager = Cluster("another")

    with pytest.raises(ConfigurationError, match=r"UID manager-1"):
        await world.join(limited)
    await leave(limited, manager=world.side(world.manager), worker=world.side(world.worker))

    assert granted(world) == ["a"]


# --- leaving ---------------------------------------------------------------------------------------------------------


async def test_leaving_takes_back_what_joining_made_and_can_be_repeated(world: World) -> None:
    await world.join(config="all")
    await world.join(Registration(cluster="w2"), config="all", endpoint=Endpoint(server="https://w2.example:6443"))
    world.done()

    for _ in range(2):
        await leave(W1, manager=world.side(world.manager), worker=world.side(world.worker))

    first, second = world.done()[:8], world.done()
    assert second == []
    assert first == [
        "MultiKueueConfig all on manager updated",
        "MultiKueueCluster w1 on manager removed",
        "Secret kueue-system/multikueue-w1 on manager removed",
        "RoleBinding kueue-system/multikueue:renewal on worker removed",
        "Role kueue-system/multikueue:renewal on worker removed",
        "ClusterRoleBinding multikueue on worker removed",
        "ClusterRole multikueue on worker removed",
        "ServiceAccount kueue-system/multikueue on worker removed",
    ]
    assert world.manager.named(MULTIKUEUE_CLUSTERS, "w2") is not None
    config = world.manager.named(MULTIKUEUE_CONFIGS, "all")
    assert config is not None
    assert config["spec"]["clusters"] == ["w2"]


@pytest.mark.parametrize("known", [True, False], ids=["by its identity", "by its address"])
async def test_a_second_name_leaves_the_account_to_the_first(world: World, known: bool) -> None:
    alias = Registration(cluster="alias")
    await world.join(alias)
    second = [
        world.manager.named(MULTIKUEUE_CLUSTERS, "alias"),
        world.manager.named(SECRETS, alias.secret.name, "kueue-system"),
    ]
    await leave(alias, manager=world.side(world.manager))
    await world.join(endpoint=Endpoint(server="https://elsewhere:6443") if known else ENDPOINT)
    for kind, body in zip((MULTIKUEUE_CLUSTERS, SECRETS), second, strict=True):
        assert body is not None
        world.manager.add(kind, body)
    if known:
        identified(world, "w1")
    world.done()

    await leave(alias, manager=world.side(world.manager), worker=world.side(world.worker))

    kept = "kept: w1 leads to the same cluster"
    assert world.done() == [
        "MultiKueueCluster alias on manager removed",
        "Secret kueue-system/multikueue-alias on manager removed",
        f"RoleBinding kueue-system/multikueue:renewal on worker {kept}",
        f"Role kueue-system/multikueue:renewal on worker {kept}",
        f"ClusterRoleBinding multikueue on worker {kept}",
        f"ClusterRole multikueue on worker {kept}",
        f"ServiceAccount kueue-system/multikueue on worker {kept}",
    ]


async def test_leaving_without_the_workers_administrator_leaves_the_worker_alone(world: World) -> None:
    await world.join()
    before = list(world.worker.sent)

    await leave(W1, manager=world.side(world.manager))

    assert world.worker.sent == before
    assert world.manager.named(SECRETS, "multikueue-w1", "kueue-system") is None


async def test_a_strangers_cluster_does_not_leave(world: World) -> None:
    world.manager.add(MULTIKUEUE_CLUSTERS, {"metadata": {"name": "w1"}, "spec": {}})

    with pytest.raises(InvalidObject, match="MultiKueueCluster w1"):
        await leave(W1, manager=world.side(world.manager))


def test_workloads_that_run_or_wait_on_a_cluster_hold_it() -> None:
    waiting = workload("waiting").queue("main").reserved("cq")
    workloads = [
        waiting.nominated("w1", "w2").build(),
        workload("runs").queue("main").reserved("cq").cluster_name("w1").build(),
        workload("done").queue("main").reserved("cq").cluster_name("w1").finished().build(),
        workload("elsewhere").queue("main").reserved("cq").cluster_name("w2").build(),
    ]

    assert busy("w1", workloads) == (ObjectKey("default", "runs"), ObjectKey("default", "waiting"))
