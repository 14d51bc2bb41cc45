from __future__ import annotations

from base64 import b64decode
from typing import Any

import pytest

from multikueue.api.meta import ObjectKey
from multikueue.errors import ConfigurationError
from multikueue.jobs.integrations.frameworks import FRAMEWORKS
from multikueue.quota.visibility.differences import COMPARED
from multikueue.registration.plan import (
    COMPARED_RIGHTS,
    GRANTED,
    JOB_KINDS,
    MANAGER_UID_ANNOTATION,
    OPTIONAL_KINDS,
    RIGHTS,
    ROLES,
    RUN_PODS,
    Registration,
    Right,
    manager_objects,
    role_rules,
    worker_objects,
)
from multikueue.store.workers.watch_scope import NAMESPACES_ANNOTATION

KUBEFLOW = ("pytorchjobs", "tfjobs", "xgboostjobs", "paddlejobs", "jaxjobs", "mpijobs")
OURS = {"app.kubernetes.io/managed-by": "multikueue"}


def test_the_worker_gets_an_account_with_the_rights_of_the_contract_and_no_more() -> None:
    namespace, account, role, binding, *_ = (one.manifest for one in worker_objects(Registration(cluster="w1")))

    assert namespace == {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kueue-system"}}
    assert account == {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": "multikueue", "namespace": "kueue-system", "labels": OURS},
    }
    assert role["metadata"] == {"name": "multikueue", "labels": OURS}
    made = ["get", "list", "watch", "create", "delete"]
    assert role["rules"] == [
        {"apiGroups": [""], "resources": ["namespaces"], "verbs": ["get"], "resourceNames": ["kube-system"]},
        {"apiGroups": [""], "resources": ["limitranges"], "verbs": ["list"]},
        {"apiGroups": ["node.k8s.io"], "resources": ["runtimeclasses"], "verbs": ["list"]},
        {"apiGroups": ["scheduling.k8s.io"], "resources": ["priorityclasses"], "verbs": ["list"]},
        {"apiGroups": ["kueue.x-k8s.io"], "resources": ["workloadpriorityclasses"], "verbs": ["list"]},
        {"apiGroups": ["resource.k8s.io"], "resources": ["resourceclaimtemplates", "deviceclasses"], "verbs": ["list"]},
        {"apiGroups": ["kueue.x-k8s.io"], "resources": ["clusterqueues", "localqueues"], "verbs": ["watch"]},
        {"apiGroups": ["kueue.x-k8s.io"], "resources": ["cohorts", "resourceflavors"], "verbs": ["list", "watch"]},
        {"apiGroups": ["kueue.x-k8s.io"], "resources": ["workloads"], "verbs": [*made, "patch"]},
        {"apiGroups": ["kueue.x-k8s.io"], "resources": ["workloads/status"], "verbs": ["patch"]},
        {"apiGroups": ["kueue.x-k8s.io"], "resources": ["clusterqueues", "localqueues"], "verbs": ["list"]},
        {"apiGroups": ["batch"], "resources": ["jobs"], "verbs": [*made, "patch"]},
        {"apiGroups": ["apps"], "resources": ["statefulsets"], "verbs": made},
        {"apiGroups": ["jobset.x-k8s.io"], "resources": ["jobsets"], "verbs": made},
        {"apiGroups": ["kubeflow.org"], "resources": list(KUBEFLOW), "verbs": made},
        {"apiGroups": ["ray.io"], "resources": ["rayclusters"], "verbs": [*made, "patch"]},
        {"apiGroups": ["ray.io"], "resources": ["rayjobs", "rayservices"], "verbs": made},
        {"apiGroups": ["trainer.kubeflow.org"], "resources": ["trainjobs"], "verbs": made},
        {"apiGroups": ["workload.codeflare.dev"], "resources": ["appwrappers"], "verbs": made},
    ]
    assert binding["roleRef"] == {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "multikueue"}
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": "multikueue", "namespace": "kueue-system"}]


@pytest.mark.parametrize("run_in", [(), ("a", "kueue-system")], ids=["everywhere", "in some namespaces"])
def test_the_account_may_renew_its_own_token_and_no_other(run_in: tuple[str, ...]) -> None:
    role, binding = worker_objects(Registration(cluster="w1", run_in=run_in, origin="prod"), has_user=True)[-2:]

    assert (role.kind, role.key) == (ROLES, ObjectKey("kueue-system", "multikueue-prod:renewal"))
    assert role.body["rules"] == [
        {
            "apiGroups": [""],
            "resources": ["serviceaccounts/token"],
            "verbs": ["create"],
            "resourceNames": ["multikueue-prod"],
        }
    ]
    assert binding.body["roleRef"] == {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": role.key.name}
    assert len({(one.kind, one.key) for one in worker_objects(Registration(cluster="w1", run_in=run_in))}) == len(
        worker_objects(Registration(cluster="w1", run_in=run_in))
    )


def test_in_some_namespaces_only_the_rights_are_roles_there() -> None:
    everywhere = worker_objects(Registration(cluster="w1"))[2].body["rules"]
    limited = Registration(cluster="w1", run_in=("b", "a", "b"))
    roles = {(one.kind.kind, one.key.namespace): one.body for one in worker_objects(limited, manager_uid="u")[2:-2]}

    assert [*roles] == [
        ("Role", "a"),
        ("RoleBinding", "a"),
        ("Role", "b"),
        ("RoleBinding", "b"),
        ("ClusterRole", ""),
        ("ClusterRoleBinding", ""),
    ]
    identity, limit_ranges, *classes, devices, followed, room, workloads, status, queues = everywhere[:11]
    assert roles["ClusterRole", ""]["rules"] == [
        identity,
        *classes,
        {**devices, "resources": ["deviceclasses"]},
        {**followed, "resources": ["clusterqueues"]},
        room,
        {**queues, "resources": ["clusterqueues"]},
    ]
    assert roles["ClusterRole", ""]["metadata"]["annotations"] == {MANAGER_UID_ANNOTATION: "u"}
    assert roles["Role", "a"]["rules"] == roles["Role", "b"]["rules"]
    assert roles["Role", "a"]["rules"] == [
        limit_ranges,
        {**devices, "resources": ["resourceclaimtemplates"]},
        {**followed, "resources": ["localqueues"]},
        workloads,
        status,
        {**queues, "resources": ["localqueues"]},
        *everywhere[11:],
    ]
    assert roles["RoleBinding", "a"]["roleRef"] == {
        "apiGroup": "rbac.authorization.k8s.io",
        "kind": "Role",
        "name": "multikueue",
    }
    assert all(
        body["subjects"] == roles["RoleBinding", "a"]["subjects"] for body in roles.values() if "subjects" in body
    )


def test_the_manager_is_told_of_the_namespaces() -> None:
    everywhere, limited = (
        manager_objects(Registration(cluster="w1", run_in=names))[-1] for names in ((), ("b", "a", "b"))
    )

    assert limited.manifest["metadata"]["annotations"] == {NAMESPACES_ANNOTATION: "a,b"}
    assert everywhere.body["metadata"]["annotations"] == {NAMESPACES_ANNOTATION: None}, "an earlier one is taken away"
    assert "annotations" not in everywhere.manifest["metadata"]


def test_pods_may_be_made_only_if_that_was_asked_for() -> None:
    rules = [worker_objects(Registration(cluster="w1", may_run_pods=run))[2].body["rules"] for run in (False, True)]

    assert rules[1][len(rules[0]) :] == [
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch", "create", "delete", "patch"]},
    ]


def test_jobs_of_other_kinds_may_be_made_only_if_they_were_named() -> None:
    kinds = ("simulations.example.com", "others.example.com")
    plain, named = (
        worker_objects(Registration(cluster="w1", run_kinds=names))[2].body["rules"] for names in ((), kinds)
    )
    verbs = ["get", "list", "watch", "create", "delete"]
    assert [rule for rule in named if rule not in plain] == [
        {"apiGroups": ["example.com"], "resources": ["simulations", "others"], "verbs": verbs},
    ]
    for wrong in ("simulations", "Simulation.example.com"):
        with pytest.raises(ConfigurationError, match="expected its plural and its group"):
            Registration(cluster="w1", run_kinds=(wrong,))


def test_of_the_known_kinds_only_those_that_were_named_may_be_made() -> None:
    every, some = (
        worker_objects(Registration(cluster="w1", frameworks=names))[2].body["rules"]
        for names in ((), ("ray.io/rayjob", "jobset.x-k8s.io/jobset"))
    )
    verbs = ["get", "list", "watch", "create", "delete"]
    assert some == [
        *every[:12],
        {"apiGroups": ["jobset.x-k8s.io"], "resources": ["jobsets"], "verbs": verbs},
        {"apiGroups": ["ray.io"], "resources": ["rayjobs"], "verbs": verbs},
    ], "and Jobs, which every worker must take"
    with pytest.raises(ConfigurationError, match="framework 'jobset': expected some of batch/job, "):
        Registration(cluster="w1", frameworks=("jobset",))
    with pytest.raises(ConfigurationError, match="framework 'pod': the right to make Pods is --run-pods"):
        Registration(cluster="w1", frameworks=("pod",))


def test_pods_may_be_looked_at_only_if_that_was_asked_for() -> None:
    rules = [worker_objects(Registration(cluster="w1", may_view_pods=view))[2].body["rules"] for view in (False, True)]

    assert rules[1][: len(rules[0])] == rules[0]
    assert rules[1][len(rules[0]) :] == [
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch"]},
        {"apiGroups": [""], "resources": ["pods/log"], "verbs": ["get"]},
        {"apiGroups": [""], "resources": ["events"], "verbs": ["list", "watch"]},
    ]


@pytest.mark.parametrize("run_in", [(), ("team-a",)], ids=["everywhere", "in some namespaces"])
def test_queues_may_be_made_only_if_that_was_asked_for(run_in: tuple[str, ...]) -> None:
    def granted(*, make: bool) -> list[object]:
        objects = worker_objects(Registration(cluster="w1", may_make_queues=make, run_in=run_in))
        return [rule for each in objects for rule in each.body.get("rules", ())]

    more = [rule for rule in granted(make=True) if rule not in granted(make=False)]
    queues = {"apiGroups": ["kueue.x-k8s.io"], "resources": ["localqueues"], "verbs": ["get", "create"]}
    spaces = {"apiGroups": [""], "resources": ["namespaces"], "verbs": ["get", "create"]}
    assert more == ([queues] if run_in else [spaces, queues])


def test_a_certificate_speaks_for_a_user_who_is_bound_beside_the_account() -> None:
    binding = worker_objects(Registration(cluster="w1", origin="prod"), has_user=True)[3].body

    assert [subject["name"] for subject in binding["subjects"]] == ["multikueue-prod", "multikueue:prod"]


def test_the_manager_gets_a_secret_and_a_cluster_that_names_it() -> None:
    _, secret, cluster = (one.manifest for one in manager_objects(Registration(cluster="w1"), b"a kubeconfig"))

    assert secret["metadata"] == {"name": "multikueue-w1", "namespace": "kueue-system", "labels": OURS}
    assert b64decode(secret["data"]["kubeconfig"]) == b"a kubeconfig"
    assert cluster["apiVersion"] == "kueue.x-k8s.io/v1beta2"
    assert cluster["metadata"] == {"name": "w1", "labels": OURS}
    assert cluster["spec"] == {"clusterSource": {"kubeConfig": {"location": "multikueue-w1", "locationType": "Secret"}}}


def test_each_kind_of_jobs_has_its_rights() -> None:
    assert {*JOB_KINDS, *OPTIONAL_KINDS} == {adapter.kind for adapter in FRAMEWORKS.values()}
    assert set(RIGHTS) <= set(GRANTED)
    for kind in (*JOB_KINDS, *OPTIONAL_KINDS):
        verbs = {right.resource: set(right.verbs) for right in (*GRANTED, *RUN_PODS) if right.group == kind.group}
        assert verbs[kind.plural] >= {"get", "list", "watch", "create", "delete"}


def test_what_is_compared_may_be_listed() -> None:
    compared = {(kind.group, kind.plural, kind.namespaced) for kind in COMPARED.values()}
    assert {(each.group, each.resource, each.is_namespaced) for each in COMPARED_RIGHTS} == compared
    assert {each.verbs for each in COMPARED_RIGHTS} == {("list",)}


def test_neighbours_with_the_same_verbs_share_a_rule() -> None:
    rules = role_rules([Right("g", "a", ("get",)), Right("g", "b", ("get",)), Right("h", "c", ("get",))])

    assert [rule["resources"] for rule in rules] == [["a", "b"], ["c"]]


@pytest.mark.parametrize(
    ("origin", "name"),
    [("multikueue", "multikueue"), ("prod", "multikueue-prod"), ("prod.eu", "multikueue-prod.eu")],
    ids=["the default", "another", "with a dot"],
)
def test_the_account_is_named_after_the_origin(origin: str, name: str) -> None:
    assert Registration(cluster="w1", origin=origin).account == ObjectKey("kueue-system", name)


def test_origins_that_are_no_names_do_not_meet_those_that_are() -> None:
    names = {Registration(cluster="w1", origin=origin).account.name for origin in ("a_b", "a-b", "A-b", "a_B", "a._b")}

    assert len(names) == 5
    assert all(name == name.lower() and "_" not in name for name in names)


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"cluster": "W1"}, "cluster name 'W1'"),
        ({"cluster": ""}, "cluster name ''"),
        ({"cluster": "a/b"}, "cluster name 'a/b'"),
        ({"cluster": "a" * 243}, "cluster name 'aaa"),
        ({"cluster": "w1", "namespace": "a.b"}, "namespace 'a.b'"),
        ({"cluster": "w1", "run_in": ("a", "*")}, "namespace '*'"),
        ({"cluster": "w1", "origin": "-x"}, "origin '-x'"),
    ],
    ids=[
        "capitals",
        "empty",
        "a path",
        "too long for its Secret",
        "a namespace with a dot",
        "all of them",
        "an origin with a dash",
    ],
)
def test_names_that_kubernetes_would_refuse_are_refused_before(wrong: dict[str, Any], field: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        Registration(**wrong)

    assert field in str(caught.value)
