"""Our definitions and schemas against the real ones: what they say, and what an API server does because of them."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from functools import partial
from typing import Any

import pytest

from fakekube.builtins.builtin_schemas import schema_of
from multikueue_simulator import definitions
from testbed import crds
from testbed.bed import Testbed, unique
from testbed.client import ApiError, Client, Kind, eventually
from tests.real import facts
from tests.real.dialect import defined_since, judged_otherwise
from tests.real.skipping import needs_programs
from tests.simulator.verdicts import CASES, Case

pytestmark = [
    pytest.mark.real,
    pytest.mark.anyio,
    pytest.mark.timeout(180),
    needs_programs("it installs definitions and compares them with those of the module cache"),
]

GROUPS = ("kueue", "ocm", "clusterprofile")

OURS: Mapping[str, dict[str, Any]] = {each["metadata"]["name"]: each for each in definitions.all_definitions()}

ON_PURPOSE: Mapping[str, str] = {
    r"^workloads\..*\.preemptionGates\b": "as we read them, whatever the release: they are there before 0.17, too",
    r"^multikueueconfigs\..*\.quotaManagement\b": "we follow it whatever the release: it is there before 0.18, too",
    r"^multikueueclusters\..*\.unschedulable\b": "KEP 8692 proposes it: we read it where a definition has it",
    r"\.template\.spec\b": "of a pod only its shape is read and all is kept: a job brings the pod, defaulted as a job's",
}
"""Facts of definitions that differ, and why."""


def on_purpose(fact: str) -> bool:
    return any(re.search(pattern, fact) for pattern in [*ON_PURPOSE, *defined_since()])


def differing(name: str) -> dict[str, Any]:
    """The facts of a definition that differ from the real one's, each after the definition's name."""
    (real,) = [each for group in GROUPS for each in crds.definitions(group) if each["metadata"]["name"] == name]
    found = facts.different(facts.of_definition(real), facts.of_definition(OURS[name]))
    return {f"{name} {fact}": values for fact, values in found.items()}


@pytest.mark.parametrize("name", OURS)
def test_a_definition_says_what_the_real_one_says(name: str) -> None:
    assert {fact: values for fact, values in differing(name).items() if not on_purpose(fact)} == {}


@pytest.mark.parametrize("pattern", [*ON_PURPOSE, *defined_since()])
def test_what_differs_on_purpose_does_differ(pattern: str) -> None:
    assert [fact for name in OURS for fact in differing(name) if re.search(pattern, fact)] != []


@pytest.fixture(scope="module")
async def bed() -> AsyncIterator[Testbed]:
    """One API server with the real definitions, and nobody who acts on the objects."""
    async with Testbed.start(workers=0, crds=GROUPS) as bed:
        yield bed


@pytest.fixture(scope="module")
async def client(bed: Testbed) -> AsyncIterator[Client]:
    async with bed.manager.client() as client:
        await eventually(lambda: _knows(client), timeout=30)
        yield client


async def _knows(client: Client) -> bool:
    """A kind is served a moment after its definition is established."""
    for kind in {_kind(case) for cases in CASES.values() for case in cases}:
        try:
            await client.list(kind)
        except ApiError:
            return False
    return True


def _kind(case: Case) -> Kind:
    return Kind(case.first["apiVersion"], case.first["kind"])


async def test_a_real_server_takes_our_definitions(bed: Testbed, client: Client) -> None:
    for definition in OURS.values():
        await client.create(_in_another_group(definition), dry_run=True)


def _in_another_group(definition: dict[str, Any]) -> dict[str, Any]:
    """The real one is there already."""
    spec = definition["spec"]
    group = f"ours.{spec['group']}"
    return {
        **definition,
        "metadata": {"name": f"{spec['names']['plural']}.{group}"},
        "spec": {**spec, "group": group},
    }


@pytest.mark.parametrize("case", [case for cases in CASES.values() for case in cases], ids=lambda case: case.sentence)
async def test_a_real_server_gives_the_same_verdict(client: Client, case: Case) -> None:
    assert (await verdict(client, case) == case.refused) != judged_otherwise(case.sentence)


async def verdict(client: Client, case: Case) -> frozenset[str]:
    """The fields that the last step is refused for; nobody if it is accepted."""
    kind, name, namespace = _kind(case), unique("case"), _namespace(case)
    first = {**case.first, "metadata": {"name": name, **({"namespace": namespace} if namespace else {})}}
    steps: list[Callable[[], Awaitable[object]]] = [partial(client.create, first)]
    for part, patch in case.steps:
        subresource = "status" if part == "status" else None
        steps.append(partial(client.patch, kind, name, {part: patch}, namespace, subresource=subresource))
    for step in steps[:-1]:
        await step()
    try:
        await steps[-1]()
    except ApiError as error:
        if error.status == 422:
            return fields_of(error.message)
        raise
    return frozenset()


def _namespace(case: Case) -> str | None:
    scope = next(each["spec"]["scope"] for each in OURS.values() if each["spec"]["names"]["kind"] == case.first["kind"])
    return "default" if scope == "Namespaced" else None


_PROBLEM = re.compile(
    r"(?:^|[ \[])([\w<][\w<>.\[\]/-]*): "
    r"(?=Invalid value|Required value|Unsupported value|Duplicate value|Too long|Too many|Forbidden)"
)
_NOT_ALL = re.compile(r", <nil>: Invalid value: null: some validation rules were not checked.*")


def fields_of(message: str) -> frozenset[str]:
    """The fields that a refusal names."""
    return frozenset(_PROBLEM.findall(_NOT_ALL.sub("", message.split(" is invalid: ", 1)[1])))


BUILT_IN = (
    ("batch", "Job"), ("batch", "CronJob"), ("", "Pod"), ("", "Secret"), ("", "ConfigMap"), ("", "Namespace"),
    ("", "Event"), ("events.k8s.io", "Event"), ("coordination.k8s.io", "Lease"), ("", "ServiceAccount"),
    ("scheduling.k8s.io", "PriorityClass"), ("node.k8s.io", "RuntimeClass"), ("", "LimitRange"),
    ("resource.k8s.io", "DeviceClass"), ("resource.k8s.io", "ResourceClaimTemplate"),
    ("", "ResourceQuota"), ("", "Node"), ("", "Service"), ("rbac.authorization.k8s.io", "Role"),
    ("rbac.authorization.k8s.io", "ClusterRole"), ("rbac.authorization.k8s.io", "RoleBinding"),
    ("rbac.authorization.k8s.io", "ClusterRoleBinding"),
    ("admissionregistration.k8s.io", "MutatingWebhookConfiguration"),
    ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration"), ("apiregistration.k8s.io", "APIService"),
    ("apiextensions.k8s.io", "CustomResourceDefinition"), ("apps", "Deployment"), ("apps", "ReplicaSet"),
    ("apps", "StatefulSet"), ("apps", "DaemonSet"), ("policy", "PodDisruptionBudget"),
)  # fmt: skip

OF_BUILT_IN_ON_PURPOSE: Mapping[str, str] = {
    r"\.(schedulingGroup|workloadRef|volumeStatus|nodeAllocatableResourceClaimStatuses)\b": "the library is of 1.36",
    r"\.allocatedResourcesStatus\[\]\.resources\[\]\.message": "the library is of 1.36",
    r"\.(scheduling|evictionResponders|bindMountOptions|podPreemptionPolicy|derivedAttributes)\b": "the library is of 1.36",
    r"\.(runningInUserNamespace|defaultUser|user|httpGet\.protocol|grpc\.mode|emptyDir\.mode)$": "the library is of 1.36",
    r"\.(volumeHealth|healthStatus)\b": "the library is of 1.36",
    r"\.openAPIV3Schema\.": "a schema in a schema is kept as it is",
    r"\.(subresources\.status|opaque\.parameters)\b": "it is kept as it is",
    r"\.caBundle x-kubernetes-list-type": "a list type of a text says nothing",
    r"\.allocatedResourceStatuses x-kubernetes-map-type": "granular is what a map is anyway",
}
"""Facts of built-in kinds that differ, and why."""


@pytest.mark.parametrize(("group", "kind"), BUILT_IN)
async def test_a_built_in_kind_is_as_the_real_server_says(client: Client, group: str, kind: str) -> None:
    path = f"/openapi/v3/apis/{group}/v1" if group else "/openapi/v3/api/v1"
    components = json.loads(await client.request("GET", path))["components"]["schemas"]
    wanted = {"group": group, "version": "v1", "kind": kind}
    (real,) = [each for each in components.values() if each.get("x-kubernetes-group-version-kind") == [wanted]]
    found = facts.different(facts.of_schema(real, components), facts.of_schema(schema_of(group, "v1", kind), {}))
    left = {
        fact: values
        for fact, values in found.items()
        if not any(re.search(pattern, fact) for pattern in OF_BUILT_IN_ON_PURPOSE)
    }
    assert left == {}
