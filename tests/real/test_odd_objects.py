"""The simulated API server refuses what the real one refuses: both are asked to create the same odd objects, as dry runs.

`MULTIKUEUE_TEST_ODD_OBJECTS=10000` draws more of them. A difference is closed in fakekube, or has its name below.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import AsyncIterator
from datetime import UTC, datetime

import pytest

from fakekube.model.wire import Request, Response
from testbed.bed import Testbed
from testbed.client import ApiError, Client, eventually
from testbed.objects import Object
from tests.cluster import Cluster
from tests.real.odd_objects import CLUSTERED, ORDINARY, drawn
from tests.real.skipping import needs_programs

pytestmark = [
    pytest.mark.real,
    pytest.mark.anyio,
    pytest.mark.timeout(600),
    needs_programs("its judge is a real API server"),
]

COUNT = int(os.environ.get("MULTIKUEUE_TEST_ODD_OBJECTS", "1500"))

A_POD = "of a pod, types, quantities and keys of lists are checked; what a scheduler or kubelet would meet is not"

NAMED: dict[str, str] = {
    r"^(Pod refused for( spec\.\S+)+|Job refused for( spec\.template\.spec\.\S+)+)$": A_POD,
    r"^Workload refused for( spec\.podSets\[\d+\]\.template\.(spec|metadata)\S*| <nil>)+$": (
        "the pod of a Workload is stored as it is: the job that it comes from was checked"
    ),
    r"^Job refused for( spec\.(pod\w+Policy|successPolicy|template\.spec)\S*)+$": "policies of a Job beyond types",
    r"^LimitRange refused for( spec\.limits\S*)+$": "the amounts of a LimitRange are not compared with each other",
    r"^Pod undecodable: .*the integer value of priority": "the plugin Priority is there for names of classes alone",
    r"^(Pod|Job|Secret|LimitRange) undecodable: .*cannot unmarshal number \d+ into .*int": "numbers have no width",
    r"^\w+ refused for.* (value|spec\.\S+) <nil>$": "an integer of a definition has no width there, and a CEL rule no type",
    r"^\w+ refused for <nil>$": "an integer of a definition has no width there, and a CEL rule no type",
    r"^(ConfigMap|Secret|Job|Pod|LimitRange) accepted; .*\"(array|null)\"": (
        "Go reads a list of numbers as bytes, and null in a list as nothing"
    ),
    r"^(ConfigMap|Secret|Job|Pod|LimitRange|PriorityClass) accepted; .*name or generateName is required": (
        "Go reads an empty list in the place of metadata as nothing"
    ),
}
"""What the real server says where the two differ, and why that is left."""

_FIELD = re.compile(r"(?:^|[ \[])([\w<][\w<>.\[\]/-]*): (?=[A-Z])")


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    async with Testbed.start(workers=0, crds=("kueue",)) as bed, bed.manager.client() as client:
        await eventually(lambda: _serves_all(client), timeout=60)
        yield client


async def _serves_all(client: Client) -> bool:
    """A kind is served a moment after its definition is established."""
    return all([await _verdict(client, path(each), named(each)) == "" for each in ORDINARY])


async def test_both_servers_refuse_the_same_odd_objects(client: Client) -> None:
    ours = Cluster("fakekube", lambda: datetime(2026, 1, 1, tzinfo=UTC))
    unnamed, differing = list[str](), 0
    for number in range(COUNT):
        made, _ = drawn(number)
        body = named(made)
        real, fake = await _verdict(client, path(made), body), await _our_verdict(ours, path(made), body)
        if bool(real) != bool(fake):
            differing += 1
            told = f"{made['kind']} {told_of(real) if real else f'accepted; ours: {fake}'}"
            if not any(re.search(pattern, told) for pattern in NAMED):
                unnamed.append(f"{number}: {told:.300}")
    assert unnamed == []
    assert differing < COUNT / 10, "the names above have grown too wide"


def path(made: Object) -> str:
    kind, version = made["kind"], made["apiVersion"]
    plural = {"PriorityClass": "priorityclasses", "WorkloadPriorityClass": "workloadpriorityclasses"}.get(kind)
    place = "" if kind in CLUSTERED else "/namespaces/default"
    return f"/{'apis' if '/' in version else 'api'}/{version}{place}/{plural or kind.lower() + 's'}"


def named(made: Object) -> bytes:
    metadata = made.get("metadata")
    if isinstance(metadata, dict):
        made = {**made, "metadata": {"name": "odd"} | metadata}
    return json.dumps(made).encode()


async def _verdict(client: Client, where: str, body: bytes) -> str:
    """What the real server refuses it for, empty if it does not."""
    try:
        await client.request("POST", where, body=body, query={"dryRun": "All"})
    except ApiError as error:
        return error.message
    return ""


async def _our_verdict(cluster: Cluster, where: str, body: bytes) -> str:
    answer = await cluster.server.api.handle(Request(method="POST", path=where, query={"dryRun": "All"}, body=body))
    assert isinstance(answer, Response)
    return str(json.loads(answer.body)["message"]) if answer.status >= 400 else ""


def told_of(message: str) -> str:
    """`refused for` the fields that are named, or `undecodable`."""
    _, is_invalid, problems = message.partition(" is invalid: ")
    if not is_invalid:
        return f"undecodable: {message}"
    return "refused for " + " ".join(dict.fromkeys(_FIELD.findall(problems)))
