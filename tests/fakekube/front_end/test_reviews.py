from __future__ import annotations

from typing import Any

import pytest

from fakekube.front_end.rbac import Authorizer
from fakekube.front_end.reviews import AUTHENTICATION, AUTHORIZATION, reviews, token_request
from fakekube.front_end.users import AUTHENTICATED, Users
from fakekube.model.storage import Storage
from fakekube.model.wire import Object, Refused, Request, User
from tests.fakekube.front_ends import NOW, item, stored

RBAC = "rbac.authorization.k8s.io"
ANNE = User("anne", ("staff", AUTHENTICATED), "u1")
GET_JOBS = {"verb": "get", "group": "batch", "resource": "jobs", "namespace": "team"}


class World:
    """A cluster where anne may get jobs, and nobody else anything."""

    def __init__(self) -> None:
        self.storage = Storage()
        rule = {"verbs": ["get"], "apiGroups": ["batch"], "resources": ["jobs"]}
        stored(self.storage, "clusterroles", RBAC, item("r", rules=[rule]))
        subjects = [{"kind": "User", "name": "anne"}]
        reference = {"kind": "ClusterRole", "name": "r"}
        stored(self.storage, "clusterrolebindings", RBAC, item("b", roleRef=reference, subjects=subjects))
        self.users = Users(self.storage, now=lambda: NOW, key=b"k", issuer="https://sandbox")
        self.reviews = reviews(self.users, Authorizer(self.storage, enforced=True), lambda: NOW)

    def ask(
        self, plural: str, group: str = AUTHORIZATION, *, user: User = ANNE, path: str = "/", **spec: Any
    ) -> Object:
        asked = {"kind": "Review", "metadata": {}, "spec": spec}
        return self.reviews[group, plural](asked, Request(method="POST", path=path, user=user))


def test_what_may_i() -> None:
    world = World()
    answer = world.ask("selfsubjectaccessreviews", resourceAttributes=GET_JOBS)
    reason = 'RBAC: allowed by ClusterRoleBinding "b" of ClusterRole "r" to User "anne"'
    assert answer["status"] == {"allowed": True, "reason": reason}
    assert answer["spec"] == {"resourceAttributes": GET_JOBS}
    more = GET_JOBS | {"verb": "delete"}
    assert world.ask("selfsubjectaccessreviews", resourceAttributes=more)["status"] == {"allowed": False}
    path = {"verb": "get", "path": "/metrics"}
    assert world.ask("selfsubjectaccessreviews", nonResourceAttributes=path)["status"] == {"allowed": False}


def test_what_may_somebody_else() -> None:
    world, root = World(), User("root", ("system:masters",))
    anne = world.ask("subjectaccessreviews", user=root, resourceAttributes=GET_JOBS, groups=["a"])
    assert anne["status"] == {"allowed": False}
    anne = world.reviews[AUTHORIZATION, "subjectaccessreviews"](
        {"spec": {"user": "anne", "resourceAttributes": GET_JOBS}}, Request(method="POST", path="/", user=root)
    )
    assert anne["status"]["allowed"] is True


def test_in_one_namespace() -> None:
    world, path = World(), f"/apis/{AUTHORIZATION}/v1/namespaces/team/localsubjectaccessreviews"
    answer = world.ask("localsubjectaccessreviews", path=path, groups=["staff"], resourceAttributes=GET_JOBS)
    assert answer["metadata"] == {"namespace": "team"}
    with pytest.raises(Refused, match=r"must match metadata\.namespace"):
        world.ask(
            "localsubjectaccessreviews",
            path=path,
            groups=["staff"],
            resourceAttributes=GET_JOBS | {"namespace": "other"},
        )


@pytest.mark.parametrize(
    ("plural", "spec", "message"),
    [
        (
            "selfsubjectaccessreviews",
            {},
            "spec.resourceAttributes: Invalid value: null: exactly one of nonResourceAttributes or resourceAttributes must "
            "be specified",
        ),
        (
            "selfsubjectaccessreviews",
            {"resourceAttributes": GET_JOBS, "nonResourceAttributes": {}},
            "cannot be specified in combination with resourceAttributes",
        ),
        (
            "subjectaccessreviews",
            {"resourceAttributes": GET_JOBS},
            'spec.user: Invalid value: "": at least one of user or group must be specified',
        ),
    ],
)
def test_a_question_must_be_one(plural: str, spec: Object, message: str) -> None:
    with pytest.raises(Refused) as caught:
        World().ask(plural, **spec)
    assert caught.value.code == 422
    assert message in caught.value.message


def test_all_that_i_may() -> None:
    status = World().ask("selfsubjectrulesreviews", namespace="team")["status"]
    assert {"verbs": ["get"], "apiGroups": ["batch"], "resources": ["jobs"]} in status["resourceRules"]
    assert all("nonResourceURLs" in rule for rule in status["nonResourceRules"])
    assert status["incomplete"] is False
    with pytest.raises(Refused, match="no namespace on request"):
        World().ask("selfsubjectrulesreviews")


def test_who_am_i() -> None:
    answer = World().ask("selfsubjectreviews", AUTHENTICATION)
    assert answer["metadata"] == {"creationTimestamp": "2026-11-21T12:00:00Z"}
    info = {"username": "anne", "uid": "u1", "groups": ["staff", AUTHENTICATED]}
    assert answer["status"] == {"userInfo": info}


def test_whose_token_is_this() -> None:
    world = World()
    world.users.add("bob", "staff", token="t1")
    status = world.ask("tokenreviews", AUTHENTICATION, token="t1")["status"]
    info = {"username": "bob", "uid": "bob", "groups": ["staff", AUTHENTICATED]}
    assert status == {"authenticated": True, "user": info, "audiences": ["https://sandbox"]}
    status = world.ask("tokenreviews", AUTHENTICATION, token="t2")["status"]
    assert status == {"user": {}, "error": "invalid bearer token"}
    with pytest.raises(Refused, match="token is required for TokenReview"):
        world.ask("tokenreviews", AUTHENTICATION)


def test_a_token_for_a_service_account() -> None:
    world = World()
    account = stored(world.storage, "serviceaccounts", "", item("robot", "team", metadata={"uid": "u7"}))
    asked = {"spec": {"expirationSeconds": 3600}}
    answer = token_request(world.users, account, asked, now=NOW, serial="s")
    assert answer["metadata"]["name"] == "robot"
    assert answer["spec"] == {"audiences": ["https://sandbox"], "expirationSeconds": 3600, "boundObjectRef": None}
    assert answer["status"]["expirationTimestamp"] == "2026-11-21T13:00:00Z"
    user = world.users.by_token(answer["status"]["token"])
    assert user is not None
    assert user.name == "system:serviceaccount:team:robot"
    assert token_request(world.users, account, {}, now=NOW, serial="s")["spec"]["expirationSeconds"] == 3600


@pytest.mark.parametrize(
    ("seconds", "message"),
    [
        (3, "Invalid value: 3: may not specify a duration less than 10 minutes"),
        ("long", "may not specify a duration less than 10 minutes"),
        (2**33, "may not specify a duration larger than 2^32 seconds"),
    ],
)
def test_a_token_lives_neither_too_short_nor_too_long(seconds: Any, message: str) -> None:
    world = World()
    with pytest.raises(Refused) as caught:
        token_request(world.users, item("robot"), {"spec": {"expirationSeconds": seconds}}, now=NOW, serial="s")
    assert message in caught.value.message
