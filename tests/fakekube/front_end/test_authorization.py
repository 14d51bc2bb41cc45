from __future__ import annotations

import msgspec
import pytest

from fakekube.front_end.authorization import AuthorizationFilter
from fakekube.front_end.rbac import Authorizer
from fakekube.front_end.users import ANONYMOUS, AUTHENTICATED
from fakekube.model.storage import Storage
from fakekube.model.wire import Refused, Request, Response, User, Watch
from tests.fakekube.front_ends import item, stored

pytestmark = pytest.mark.anyio

ANNE = User("anne", (AUTHENTICATED,))
ROOT = User("root", ("system:masters", AUTHENTICATED))


class Api:
    """Answers everything with the path."""

    async def handle(self, request: Request) -> Response | Watch:
        return Response(body=request.path.encode())


def authorization(*, enforced: bool, storage: Storage | None = None) -> AuthorizationFilter:
    return AuthorizationFilter(Api(), Authorizer(storage or Storage(), enforced=enforced))


async def ask(before: AuthorizationFilter, path: str, user: User) -> Response:
    answer = await before.handle(Request(method="GET", path=path, user=user))
    assert isinstance(answer, Response)
    return answer


@pytest.mark.parametrize("enforced", [False, True])
@pytest.mark.parametrize("path", ["/healthz", "/livez", "/readyz"])
async def test_health_is_for_everybody(path: str, enforced: bool) -> None:
    answer = await ask(authorization(enforced=enforced), path, ANONYMOUS)
    assert (answer.status, answer.body) == (200, b"ok")


@pytest.mark.parametrize("enforced", [False, True])
async def test_nobody_else_may_go_without_a_name(enforced: bool) -> None:
    assert (await ask(authorization(enforced=enforced), "/version", ANONYMOUS)).status == 200
    answer = await ask(authorization(enforced=enforced), "/api/v1/namespaces", ANONYMOUS)
    message = msgspec.json.decode(answer.body)["message"]
    assert answer.status == 403
    assert message == (
        'namespaces is forbidden: User "system:anonymous" cannot list resource "namespaces" in API group "" at the '
        "cluster scope"
    )


async def test_every_user_may_do_everything_unless_rules_are_enforced() -> None:
    assert (await ask(authorization(enforced=False), "/api/v1/pods", ANNE)).body == b"/api/v1/pods"
    assert (await ask(authorization(enforced=True), "/api/v1/pods", ANNE)).status == 403
    assert (await ask(authorization(enforced=True), "/api/v1/pods", ROOT)).status == 200


def test_one_may_act_for_others_if_allowed_to() -> None:
    assert authorization(enforced=True).acting(ROOT, "anne", ["staff"]) == User("anne", ("staff", AUTHENTICATED))
    with pytest.raises(Refused, match='users "bob" is forbidden: User "anne" cannot impersonate resource "users"'):
        authorization(enforced=True).acting(ANNE, "bob", [])


def test_acting_for_a_group_is_allowed_by_group() -> None:
    storage, group = Storage(), "rbac.authorization.k8s.io"
    rule = {"verbs": ["impersonate"], "apiGroups": [""], "resources": ["users"]}
    stored(storage, "clusterroles", group, item("r", rules=[rule]))
    subjects, reference = [{"kind": "User", "name": "anne"}], {"kind": "ClusterRole", "name": "r"}
    stored(storage, "clusterrolebindings", group, item("b", roleRef=reference, subjects=subjects))
    before = authorization(enforced=True, storage=storage)
    assert before.acting(ANNE, "bob", []).name == "bob"
    with pytest.raises(Refused, match='groups "system:masters" is forbidden'):
        before.acting(ANNE, "bob", ["system:masters"])
