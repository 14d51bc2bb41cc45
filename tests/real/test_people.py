"""What batch users and batch administrators may do by deploy/components/users, as the API server says."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, NamedTuple

import anyio
import pytest
import yaml

from testbed.bed import MANAGER, Testbed
from testbed.client import Client, eventually
from testbed.controllers import ROLES
from tests.project.files import ROOT
from tests.real.skipping import needs_programs

pytestmark = needs_programs("Kubernetes makes the roles of their parts")

TEAM, OTHERS = "people-team", "people-others"
KUEUE, VISIBILITY = "kueue.x-k8s.io", "visibility.kueue.x-k8s.io"


class Ask(NamedTuple):
    """May they, in a namespace?"""

    verb: str
    resource: str
    group: str = KUEUE
    namespace: str = TEAM


def _binding(kind: str, name: str, role: str, namespace: str | None = None) -> dict[str, Any]:
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": f"people-{name}"} | ({"namespace": namespace} if namespace else {}),
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": name}],
    }


BINDINGS = (
    _binding("RoleBinding", "user", "multikueue-batch-user", TEAM),
    _binding("ClusterRoleBinding", "admin", "multikueue-batch-admin"),
)


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
async def manager(anyio_backend: str) -> AsyncIterator[Client]:
    """A manager cluster with the roles, bound to `user` in one namespace, and to `admin` everywhere."""
    roles = [*yaml.safe_load_all((ROOT / "deploy/components/users/rights.yaml").read_text())]
    async with Testbed.start(workers=0, controllers={MANAGER: [ROLES]}) as bed, bed.manager.client() as client:
        for body in (_namespace(TEAM), _namespace(OTHERS), *roles, *BINDINGS):
            await client.apply(body)
        yield client


def _namespace(name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


async def _may(manager: Client, who: str, ask: Ask) -> bool:
    resource, _, subresource = ask.resource.partition("/")
    attributes = {"verb": ask.verb, "group": ask.group, "resource": resource, "namespace": ask.namespace}
    review = await manager.create(
        {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "metadata": {"name": ""},
            "spec": {"user": who, "resourceAttributes": attributes | {"subresource": subresource}},
        }
    )
    return bool(review["status"]["allowed"])


@pytest.mark.parametrize(
    ("who", "allowed", "refused"),
    [
        pytest.param(
            "user",
            [
                Ask("create", "jobs", "batch"),
                Ask("create", "rayjobs", "ray.io"),
                Ask("list", "workloads"),
                Ask("get", "localqueues"),
                Ask("get", "localqueues/pendingworkloads", VISIBILITY),
                Ask("get", "workloads/explanation", "visibility.multikueue.dev"),
                Ask("get", "workloads/pods", "visibility.multikueue.dev"),
                Ask("get", "workloads/events", "visibility.multikueue.dev"),
                Ask("get", "workloads/log", "visibility.multikueue.dev"),
                Ask("get", "pods/log", ""),
                Ask("list", "pods", ""),
            ],
            [
                Ask("create", "jobs", "batch", OTHERS),
                Ask("list", "workloads", namespace=OTHERS),
                Ask("get", "workloads/explanation", "visibility.multikueue.dev", OTHERS),
                Ask("get", "workloads/pods", "visibility.multikueue.dev", OTHERS),
                Ask("list", "pods", "", OTHERS),
                Ask("create", "pods", ""),
                Ask("patch", "workloads/status"),
                Ask("patch", "workloads"),
                Ask("create", "localqueues"),
                Ask("list", "clusterqueues", namespace=""),
                Ask("get", "secrets", ""),
            ],
            id="a batch user, in their namespace",
        ),
        pytest.param(
            "admin",
            [
                Ask("create", "clusterqueues", namespace=""),
                Ask("patch", "localqueues", namespace=OTHERS),
                Ask("patch", "workloads", namespace=OTHERS),
                Ask("list", "multikueueclusters", namespace=""),
                Ask("get", "clusterqueues/pendingworkloads", VISIBILITY, ""),
                Ask("get", "workloads/pods", "visibility.multikueue.dev", OTHERS),
            ],
            [
                Ask("patch", "workloads/status"),
                Ask("create", "multikueueclusters", namespace=""),
                Ask("get", "secrets", ""),
            ],
            id="a batch administrator, everywhere",
        ),
    ],
)
async def test_people_may_do_what_their_role_says(
    manager: Client, who: str, allowed: list[Ask], refused: list[Ask]
) -> None:
    async def is_made() -> bool:
        return all([await _may(manager, who, ask) for ask in allowed])

    with anyio.fail_after(60):
        await eventually(is_made)
    assert [ask for ask in refused if await _may(manager, who, ask)] == []
