from __future__ import annotations

from typing import Any

import pytest

from fakekube.front_end.attributes import Attributes
from fakekube.front_end.rbac import Authorizer, refusal
from fakekube.front_end.users import ANONYMOUS, AUTHENTICATED
from fakekube.model.storage import Storage
from fakekube.model.wire import Object, User
from tests.fakekube.front_ends import item, stored

GROUP = "rbac.authorization.k8s.io"
ANNE = User("anne", ("staff", AUTHENTICATED))
GET_JOBS = Attributes("get", "", "batch", "v1", "jobs", "", "team", "one")


def role(*rules: Object, name: str = "r", namespace: str = "") -> Object:
    return item(name, namespace, rules=list(rules))


def rule(verbs: str = "get", groups: str = "batch", resources: str = "jobs", **more: Any) -> Object:
    lists = {"verbs": verbs, "apiGroups": groups, "resources": resources}
    return {key: value.split(",") for key, value in lists.items()} | more


def binding(*subjects: Object, role: str = "r", kind: str = "ClusterRole", namespace: str = "") -> Object:
    return item("b", namespace, roleRef={"kind": kind, "name": role}, subjects=list(subjects))


USER, STAFF = {"kind": "User", "name": "anne"}, {"kind": "Group", "name": "staff"}


def allowed(asked: Attributes, *rules: Object, user: User = ANNE, subject: Object = USER) -> bool:
    storage = Storage()
    stored(storage, "clusterroles", GROUP, role(*rules))
    stored(storage, "clusterrolebindings", GROUP, binding(subject))
    return Authorizer(storage, enforced=True).decide(user, asked).allowed


def test_without_a_binding_little_is_allowed() -> None:
    authorizer = Authorizer(Storage(), enforced=True)
    assert not authorizer.decide(ANNE, GET_JOBS).allowed
    for path in ("/api", "/apis/batch/v1", "/openapi/v3/apis/batch/v1", "/version", "/healthz"):
        assert authorizer.decide(ANNE, Attributes("get", path)).allowed
    assert not authorizer.decide(ANNE, Attributes("get", "/metrics")).allowed
    assert not authorizer.decide(ANNE, Attributes("post", "/api")).allowed
    review = Attributes("create", "", "authorization.k8s.io", "v1", "selfsubjectaccessreviews")
    assert authorizer.decide(ANNE, review).allowed
    assert not authorizer.decide(ANONYMOUS, review).allowed
    assert not authorizer.decide(ANONYMOUS, Attributes("get", "/api")).allowed
    assert authorizer.decide(ANONYMOUS, Attributes("get", "/readyz")).allowed


def test_masters_may_do_everything() -> None:
    authorizer = Authorizer(Storage(), enforced=True)
    assert authorizer.decide(User("root", ("system:masters",)), GET_JOBS).allowed


def test_everybody_may_do_everything_unless_it_is_enforced() -> None:
    assert Authorizer(Storage(), enforced=False).decide(ANONYMOUS, GET_JOBS).allowed


@pytest.mark.parametrize(
    ("asked", "rules", "expected"),
    [
        pytest.param(GET_JOBS, [rule()], True, id="the rule says so"),
        pytest.param(GET_JOBS, [rule("list"), rule()], True, id="one of the rules says so"),
        pytest.param(GET_JOBS, [rule("list,watch")], False, id="another verb"),
        pytest.param(GET_JOBS, [rule(groups="")], False, id="another group"),
        pytest.param(GET_JOBS, [rule(resources="jobs/status")], False, id="only the subresource"),
        pytest.param(GET_JOBS._replace(subresource="status"), [rule()], False, id="not the subresource"),
        pytest.param(
            GET_JOBS._replace(subresource="status"), [rule(resources="jobs/status")], True, id="the subresource"
        ),
        pytest.param(GET_JOBS._replace(subresource="status"), [rule(resources="*/status")], True, id="every status"),
        pytest.param(GET_JOBS._replace(subresource="scale"), [rule(resources="*/status")], False, id="but not scale"),
        pytest.param(GET_JOBS, [rule("*", "*", "*")], True, id="everything"),
        pytest.param(GET_JOBS, [rule(resourceNames=["one"])], True, id="this object"),
        pytest.param(GET_JOBS, [rule(resourceNames=["two"])], False, id="another object"),
        pytest.param(
            GET_JOBS._replace(name=""), [rule(resourceNames=["one"])], False, id="no name where one is demanded"
        ),
        pytest.param(
            Attributes("get", "/metrics"), [{"verbs": ["get"], "nonResourceURLs": ["/metrics"]}], True, id="a path"
        ),
        pytest.param(
            Attributes("get", "/logs/a"), [{"verbs": ["get"], "nonResourceURLs": ["/logs/*"]}], True, id="a path below"
        ),
        pytest.param(Attributes("get", "/metrics"), [rule("*", "*", "*")], False, id="a path is no resource"),
        pytest.param(GET_JOBS, [{"verbs": ["*"], "nonResourceURLs": ["*"]}], False, id="a resource is no path"),
    ],
)
def test_rules(asked: Attributes, rules: list[Object], expected: bool) -> None:
    assert allowed(asked, *rules) is expected


@pytest.mark.parametrize(
    ("subject", "user", "expected"),
    [
        pytest.param(USER, ANNE, True, id="a user"),
        pytest.param(USER, User("bob"), False, id="another user"),
        pytest.param(STAFF, ANNE, True, id="a group"),
        pytest.param({"kind": "Group", "name": "anne"}, ANNE, False, id="a group called like the user"),
        pytest.param(
            {"kind": "ServiceAccount", "name": "a", "namespace": "n"},
            User("system:serviceaccount:n:a", (AUTHENTICATED,)),
            True,
            id="a service account",
        ),
    ],
)
def test_subjects(subject: Object, user: User, expected: bool) -> None:
    user = User(user.name, tuple(group for group in user.groups if group != "system:masters"))
    assert allowed(GET_JOBS, rule(), user=user, subject=subject) is expected


def test_a_role_binding_holds_in_its_namespace() -> None:
    storage = Storage()
    authorizer = Authorizer(storage, enforced=True)
    stored(storage, "roles", GROUP, role(rule(), namespace="team"))
    account = {"kind": "ServiceAccount", "name": "a"}  # of the binding's own namespace
    stored(storage, "rolebindings", GROUP, binding(USER, account, kind="Role", namespace="team"))
    assert authorizer.decide(ANNE, GET_JOBS).allowed
    assert authorizer.decide(User("system:serviceaccount:team:a", ()), GET_JOBS).allowed
    assert not authorizer.decide(ANNE, GET_JOBS._replace(namespace="other")).allowed
    assert not authorizer.decide(ANNE, GET_JOBS._replace(namespace="")).allowed


def test_changes_count_at_once() -> None:
    storage = Storage()
    authorizer = Authorizer(storage, enforced=True)
    stored(storage, "clusterrolebindings", GROUP, binding(USER))
    assert not authorizer.decide(ANNE, GET_JOBS).allowed
    stored(storage, "clusterroles", GROUP, role(rule()))
    assert authorizer.decide(ANNE, GET_JOBS).allowed
    storage.remove(f"clusterrolebindings.{GROUP}", "b")
    assert not authorizer.decide(ANNE, GET_JOBS).allowed


def test_cluster_admin_needs_no_role() -> None:
    storage = Storage()
    stored(storage, "clusterrolebindings", GROUP, binding(USER, role="cluster-admin"))
    assert Authorizer(storage, enforced=True).decide(ANNE, GET_JOBS).allowed


def test_a_decision_names_its_binding() -> None:
    storage = Storage()
    stored(storage, "clusterroles", GROUP, role(rule()))
    stored(storage, "clusterrolebindings", GROUP, binding(USER))
    reason = Authorizer(storage, enforced=True).decide(ANNE, GET_JOBS).reason
    assert reason == 'RBAC: allowed by ClusterRoleBinding "b" of ClusterRole "r" to User "anne"'


def test_all_rules_of_a_user() -> None:
    storage = Storage()
    stored(storage, "clusterroles", GROUP, role(rule()))
    stored(storage, "rolebindings", GROUP, binding(STAFF, namespace="team"))
    authorizer = Authorizer(storage, enforced=True)
    assert rule() in list(authorizer.rules(ANNE, "team"))
    assert rule() not in list(authorizer.rules(ANNE, "other"))
    everything = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}
    assert everything in list(authorizer.rules(User("root", ("system:masters",)), "team"))


@pytest.mark.parametrize(
    ("asked", "message", "details"),
    [
        (
            GET_JOBS,
            'jobs.batch "one" is forbidden: User "anne" cannot get resource "jobs" in API group "batch" in the namespace '
            '"team"',
            {"name": "one", "group": "batch", "kind": "jobs"},
        ),
        (
            GET_JOBS._replace(subresource="status"),
            'jobs.batch "one" is forbidden: User "anne" cannot get resource "jobs/status" in API group "batch" in the '
            'namespace "team"',
            {"name": "one", "group": "batch", "kind": "jobs"},
        ),
        (
            Attributes("create", "", "", "v1", "namespaces"),
            'namespaces is forbidden: User "anne" cannot create resource "namespaces" in API group "" at the cluster scope',
            {"kind": "namespaces"},
        ),
        (Attributes("get", "/metrics"), 'forbidden: User "anne" cannot get path "/metrics"', {}),
    ],
)
def test_a_refusal_reads_like_the_real_one(asked: Attributes, message: str, details: Object) -> None:
    refused = refusal(ANNE, asked)
    assert (refused.code, refused.reason, refused.message, refused.details) == (403, "Forbidden", message, details)


def aggregated(*selected: str, name: str, **labels: str) -> Object:
    selectors = [{"matchLabels": {"into": each}} for each in selected]
    return item(name, metadata={"labels": labels}, aggregationRule={"clusterRoleSelectors": selectors}, rules=[])


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        pytest.param({"into": "user"}, True, id="selected"),
        pytest.param({"into": "editor"}, True, id="selected by one that is selected"),
        pytest.param({"into": "admin"}, False, id="of another one"),
        pytest.param({}, False, id="of none"),
    ],
)
def test_a_role_has_the_rules_of_those_that_it_selects(labels: dict[str, str], expected: bool) -> None:
    storage = Storage()
    for each in (
        aggregated("user", name="r"),
        aggregated("editor", "user", name="e", into="user"),
        role(rule(), name="part") | {"metadata": {"name": "part", "labels": labels}},
    ):
        stored(storage, "clusterroles", GROUP, each)
    stored(storage, "clusterrolebindings", GROUP, binding(USER))

    assert Authorizer(storage, enforced=True).decide(ANNE, GET_JOBS).allowed is expected
