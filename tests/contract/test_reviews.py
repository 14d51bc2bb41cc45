"""Who may do what, and how one asks."""

from __future__ import annotations

from typing import Any

import pytest

from tests.contract.builders import config_map, unique
from tests.contract.server import Answer, Object, Server
from tests.contract.space import Collection, Space, eventually

pytestmark = pytest.mark.anyio

AUTHORIZATION = "/apis/authorization.k8s.io/v1"
AUTHENTICATION = "/apis/authentication.k8s.io/v1"


async def review(server: Server, path: str, kind: str, spec: Object, *, user: str = "admin") -> Object:
    """The status of a review."""
    root = path.removeprefix("/apis/").rpartition("/")[0]
    body = {"apiVersion": root, "kind": kind, "spec": spec}
    answered = (await server.call("POST", path, body=body, user=user)).good(201)
    assert (answered["kind"], answered["apiVersion"]) == (kind, root)
    status: Object = answered["status"]
    return status


async def may(server: Server, user: str, **attributes: str) -> bool:
    """Whether the user may, in its own words."""
    path = f"{AUTHORIZATION}/selfsubjectaccessreviews"
    status = await review(server, path, "SelfSubjectAccessReview", {"resourceAttributes": attributes}, user=user)
    assert isinstance(status["allowed"], bool)
    return status["allowed"]


async def test_an_administrator_may_do_everything(server: Server) -> None:
    assert await may(server, "admin", verb="delete", group="anything", resource="at-all")


async def test_one_can_ask_what_one_may_not(server: Server) -> None:
    assert not await may(server, "manager", verb="create", resource="pods", namespace="default")


async def test_one_can_ask_for_somebody_else(server: Server) -> None:
    path = f"{AUTHORIZATION}/subjectaccessreviews"
    attributes = {"verb": "create", "resource": "pods", "namespace": "default"}

    async def allowed(**subject: Any) -> bool:
        spec = {**subject, "resourceAttributes": attributes}
        return bool((await review(server, path, "SubjectAccessReview", spec))["allowed"])

    assert await allowed(user="somebody", groups=["system:masters"])
    assert not await allowed(user="somebody")


async def test_one_can_ask_for_paths_that_are_no_resources(server: Server) -> None:
    path = f"{AUTHORIZATION}/selfsubjectaccessreviews"
    spec = {"nonResourceAttributes": {"path": "/metrics", "verb": "get"}}
    assert (await review(server, path, "SelfSubjectAccessReview", spec))["allowed"] is True
    assert (await review(server, path, "SelfSubjectAccessReview", spec, user="manager"))["allowed"] is False


async def test_a_review_asks_for_something(server: Server) -> None:
    body = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "spec": {}}
    answer = await server.call("POST", f"{AUTHORIZATION}/selfsubjectaccessreviews", body=body)
    answer.refused(422, "Invalid")


async def test_the_rules_of_a_namespace_are_listed(server: Server) -> None:
    path = f"{AUTHORIZATION}/selfsubjectrulesreviews"
    status = await review(server, path, "SelfSubjectRulesReview", {"namespace": "default"})
    assert {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]} in status["resourceRules"]


@pytest.mark.parametrize(
    ("user", "groups"),
    [("admin", ["system:masters", "system:authenticated"]), ("manager", ["system:authenticated"])],
)
async def test_one_can_ask_who_one_is(server: Server, user: str, groups: list[str]) -> None:
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    answer = await server.call("POST", f"{AUTHENTICATION}/selfsubjectreviews", body=body, user=user)
    info = answer.good(201)["status"]["userInfo"]
    # The testbed's file of tokens gives a user without groups an empty one.
    assert (info["username"], [each for each in info["groups"] if each]) == (user, groups)


async def test_a_token_of_a_service_account_means_that_account(server: Server, space: Space) -> None:
    accounts = space.core("serviceaccounts")
    account = await accounts.made({"metadata": {"name": "a"}})
    asked = {"spec": {"expirationSeconds": 600}}
    made = (await server.call("POST", accounts.item("a", "token"), body=asked)).good(201)
    path = f"{AUTHENTICATION}/tokenreviews"
    status = await review(server, path, "TokenReview", {"token": made["status"]["token"]})
    assert status["authenticated"] is True
    assert status["user"]["username"] == f"system:serviceaccount:{space.namespace}:a"
    assert status["user"]["uid"] == account["metadata"]["uid"]
    assert set(status["user"]["groups"]) == {
        "system:serviceaccounts",
        f"system:serviceaccounts:{space.namespace}",
        "system:authenticated",
    }


async def test_a_token_of_nobody_means_nobody(server: Server) -> None:
    status = await review(server, f"{AUTHENTICATION}/tokenreviews", "TokenReview", {"token": "nonsense"})
    assert not status.get("authenticated")
    assert status["error"] == "invalid bearer token"


# --- roles -----------------------------------------------------------------------------------------------------------


async def as_manager(server: Server, method: str, path: str, body: Object | None = None) -> Answer:
    return await server.call(method, path, body=body, user="manager")


FORBIDDEN: dict[str, tuple[str, str, str, Object]] = {
    "list": (
        "GET",
        "/api/v1/namespaces/default/pods",
        'pods is forbidden: User "manager" cannot list resource "pods" in API group "" in the namespace "default"',
        {"kind": "pods"},
    ),
    "get": (
        "GET",
        "/apis/batch/v1/namespaces/default/jobs/a",
        'jobs.batch "a" is forbidden: User "manager" cannot get resource "jobs" in API group "batch" '
        'in the namespace "default"',
        {"name": "a", "group": "batch", "kind": "jobs"},
    ),
    "list everywhere": (
        "GET",
        "/api/v1/pods",
        'pods is forbidden: User "manager" cannot list resource "pods" in API group "" at the cluster scope',
        {"kind": "pods"},
    ),
    "patch status": (
        "PATCH",
        "/apis/contract.multikueue.dev/v1/namespaces/default/widgets/a/status",
        'widgets.contract.multikueue.dev "a" is forbidden: User "manager" cannot patch resource "widgets/status" '
        'in API group "contract.multikueue.dev" in the namespace "default"',
        {"name": "a", "group": "contract.multikueue.dev", "kind": "widgets"},
    ),
    "get a path": ("GET", "/metrics", 'forbidden: User "manager" cannot get path "/metrics"', {}),
}


@pytest.mark.parametrize("what", FORBIDDEN)
async def test_who_was_granted_nothing_may_not(server: Server, what: str) -> None:
    method, path, message, details = FORBIDDEN[what]
    body: Object | None = {} if method == "PATCH" else None
    content_type = "application/merge-patch+json" if body is not None else "application/json"
    answer = await server.call(method, path, body=body, content_type=content_type, user="manager")
    refusal = answer.refused(403, "Forbidden")
    assert (refusal["message"], refusal.get("details", {})) == (message, details)


@pytest.mark.parametrize("path", ["/api", "/apis", "/version", "/openapi/v3", "/apis/batch/v1", "/healthz"])
async def test_whoever_is_known_may_look_around(server: Server, path: str) -> None:
    assert (await as_manager(server, "GET", path)).status == 200


async def test_a_role_grants_within_its_namespace(server: Server, space: Space) -> None:
    rules = [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "create"], "resourceNames": []}]
    await grant(space, "role", rules)
    maps = space.maps

    async def granted() -> bool:
        return (await as_manager(server, "POST", maps.path, config_map("a"))).status == 201

    await eventually(granted)
    assert (await as_manager(server, "GET", maps.item("a"))).status == 200
    (await as_manager(server, "DELETE", maps.item("a"))).refused(403, "Forbidden")
    (await as_manager(server, "GET", "/api/v1/namespaces/default/configmaps/a")).refused(403, "Forbidden")
    assert await may(server, "manager", verb="get", resource="configmaps", namespace=space.namespace)


async def test_a_role_may_name_its_objects(server: Server, space: Space) -> None:
    rules = [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"], "resourceNames": ["a"]}]
    await grant(space, "role", rules)
    for name in "ab":
        await space.maps.made(config_map(name))

    async def granted() -> bool:
        return (await as_manager(server, "GET", space.maps.item("a"))).status == 200

    await eventually(granted)
    (await as_manager(server, "GET", space.maps.item("b"))).refused(403, "Forbidden")


async def test_a_cluster_role_grants_everywhere(server: Server, space: Space) -> None:
    name = unique("role")
    root = "/apis/rbac.authorization.k8s.io/v1"
    rules = [{"apiGroups": ["contract.multikueue.dev"], "resources": ["gadgets", "gadgets/status"], "verbs": ["*"]}]
    roles, bindings = Collection(server, f"{root}/clusterroles"), Collection(server, f"{root}/clusterrolebindings")
    await roles.made({"metadata": {"name": name}, "rules": rules})
    await bindings.made({"metadata": {"name": name}, **bound("ClusterRole", name)})

    async def granted() -> bool:
        return (await as_manager(server, "GET", "/apis/contract.multikueue.dev/v1/gadgets")).status == 200

    await eventually(granted)
    (await bindings.delete(name)).good()

    async def withdrawn() -> bool:
        return not await granted()

    await eventually(withdrawn)


def bound(kind: str, role: str) -> Object:
    return {
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": role},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "manager"}],
    }


async def grant(space: Space, role: str, rules: list[Object]) -> None:
    """Let the user `manager` do that in the namespace."""
    group = "rbac.authorization.k8s.io/v1"
    await space.of(group, "roles").made({"metadata": {"name": role}, "rules": rules})
    await space.of(group, "rolebindings").made({"metadata": {"name": role}, **bound("Role", role)})


# --- credentials -----------------------------------------------------------------------------------------------------


@pytest.fixture
def wire(server: Server) -> Server:
    """A server that asks for proof: within a process everybody is who they say."""
    return server


@pytest.mark.parametrize("path", ["/api", "/api/v1/pods", "/version"])
async def test_a_token_of_nobody_is_not_let_in(wire: Server, path: str) -> None:
    refusal = (await wire.call("GET", path, user="stranger")).refused(401, "Unauthorized")
    assert refusal["message"] == "Unauthorized"


async def test_a_watch_is_not_let_in_either(wire: Server) -> None:
    answer = await wire.call("GET", "/api/v1/pods", query={"watch": "true"}, user="stranger")
    answer.refused(401, "Unauthorized")


async def test_answers_are_json_and_say_so(wire: Server) -> None:
    answer = await wire.call("GET", "/api/v1/namespaces/default")
    assert answer.headers["Content-Type"] == "application/json"
    assert answer.headers["Cache-Control"] == "no-cache, private"
