"""What is written is what is read: numbers, texts, nothing and emptiness."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.contract.builders import config_map, gadget, job, unique, widget
from tests.contract.server import Object, Server
from tests.contract.space import Collection, Space

pytestmark = pytest.mark.anyio

VALUES: dict[str, Any] = {
    "a large number": 2**53 + 1,
    "the largest number": 2**63 - 1,
    "a negative number": -5,
    "a fraction": 0.5,
    "true": True,
    "nothing": None,
    "an empty text": "",
    "an empty list": [],
    "an empty mapping": {},
    "text of all sorts": 'ä → "quoted" \\ <tag> & \u2028 \U0001f600 \t\n',
    "deep nesting": {"a": [{"b": [[1, {"c": None}]]}]},
    "a mixed list": [1, "x", None, True, {"y": []}],
}


@pytest.mark.parametrize("what", VALUES)
async def test_a_custom_object_keeps(space: Space, what: str) -> None:
    made = await space.gadgets.made(gadget("a", value=VALUES[what]))
    assert made["value"] == VALUES[what]
    assert type(made["value"]) is type(VALUES[what])
    found = await space.gadgets.got("a")
    assert found == made


async def test_a_custom_object_keeps_emptiness_of_declared_fields(widgets: Collection) -> None:
    made = await widgets.made(widget("a", notes={}, parts=[], tags=[]))
    assert (made["spec"]["notes"], made["spec"]["parts"], made["spec"]["tags"]) == ({}, [], [])


EMPTY: dict[str, Object] = {
    "labels": {"labels": {}},
    "annotations": {"annotations": {}},
    "finalizers": {"finalizers": []},
    "owners": {"ownerReferences": []},
    "labels that are null": {"labels": None},
    "a generation of none": {"generation": 0},
}


@pytest.mark.parametrize("kind", ["maps", "widgets"])
@pytest.mark.parametrize("what", EMPTY)
async def test_metadata_leaves_out_what_is_empty(space: Space, kind: str, what: str) -> None:
    body = {"maps": config_map("a"), "widgets": widget("a")}[kind]
    body["metadata"] |= EMPTY[what]
    made = await getattr(space, kind).made(body)
    allowed = {"name", "namespace", "uid", "resourceVersion", "creationTimestamp", "managedFields"}
    assert set(made["metadata"]) <= (allowed if kind == "maps" else allowed | {"generation"})


async def test_built_in_kinds_leave_out_what_is_empty(space: Space) -> None:
    made = await space.maps.made({"metadata": {"name": "a"}, "data": {}, "binaryData": None, "immutable": None})
    assert set(made) == {"kind", "apiVersion", "metadata"}


async def test_the_spec_of_a_pod_leaves_out_what_says_nothing(jobs: Collection) -> None:
    body = job("a")
    spec = body["spec"]["template"]["spec"]
    spec |= {"nodeSelector": {}, "hostNetwork": False, "priorityClassName": "", "tolerations": []}
    spec["containers"][0] |= {"workingDir": "", "tty": False, "command": [], "env": [{"name": "A", "value": ""}]}
    made = (await jobs.made(body))["spec"]["template"]["spec"]
    assert not {"nodeSelector", "hostNetwork", "priorityClassName", "tolerations"} & set(made)
    [container] = made["containers"]
    assert not {"workingDir", "tty", "command"} & set(container)
    assert container["env"] == [{"name": "A"}]


async def test_built_in_kinds_keep_false_and_zero_where_they_mean_something(jobs: Collection) -> None:
    made = await jobs.made(job("a", suspend=False, backoffLimit=0, parallelism=0))
    assert (made["spec"]["suspend"], made["spec"]["backoffLimit"], made["spec"]["parallelism"]) == (False, 0, 0)


async def test_text_survives_in_a_config_map(maps: Collection) -> None:
    text = VALUES["text of all sorts"]
    made = await maps.made(config_map("a", {"x": ""}, key=text, empty=""))
    assert made["data"] == {"key": text, "empty": ""}
    assert made["metadata"]["labels"] == {"x": ""}


async def test_bytes_of_a_config_map_are_base64(maps: Collection) -> None:
    made = await maps.made({"metadata": {"name": "a"}, "binaryData": {"x": "AAEC"}})
    assert made["binaryData"] == {"x": "AAEC"}


async def test_the_time_of_creation_is_now(maps: Collection) -> None:
    made = await maps.made(config_map("a"))
    when = datetime.fromisoformat(made["metadata"]["creationTimestamp"])
    assert abs(datetime.now(UTC) - when) < timedelta(minutes=1)


async def test_times_of_a_status_are_kept_to_the_second(jobs: Collection) -> None:
    await jobs.made(job("a", suspend=False))
    patched = (await jobs.patch("a", {"status": {"startTime": "2026-01-02T03:04:05Z"}}, "status")).good(200)
    assert patched["status"]["startTime"] == "2026-01-02T03:04:05Z"


async def test_times_of_built_in_kinds_are_given_in_utc(jobs: Collection) -> None:
    await jobs.made(job("a", suspend=False))
    patched = (await jobs.patch("a", {"status": {"startTime": "2026-01-02T03:04:05+02:00"}}, "status")).good(200)
    assert patched["status"]["startTime"] == "2026-01-02T01:04:05Z"


async def test_a_time_that_is_none_is_refused(jobs: Collection) -> None:
    await jobs.made(job("a", suspend=False))
    (await jobs.patch("a", {"status": {"startTime": "yesterday"}}, "status")).refused(422, "Invalid")
    body = job("b")
    body["spec"]["template"]["metadata"] = {"creationTimestamp": "yesterday"}
    (await jobs.create(body)).refused(400, "BadRequest")


async def test_names_may_have_colons_where_paths_allow(server: Server) -> None:
    roles = Collection(server, "/apis/rbac.authorization.k8s.io/v1/clusterroles")
    name = f"contract:{unique('role')}:x"
    await roles.made({"metadata": {"name": name}, "rules": []})
    assert (await roles.got(name))["metadata"]["name"] == name
    assert await roles.names(fieldSelector=f"metadata.name={name}") == [name]
    (await roles.delete(name)).good(200)


async def test_of_a_key_given_twice_the_last_counts(server: Server, space: Space) -> None:
    body = b'{"metadata": {"name": "a"}, "data": {"x": "1", "x": "2"}}'
    made = (await server.call("POST", space.maps.path, body=body)).good(201)
    assert made["data"] == {"x": "2"}


async def test_a_large_object_is_kept(maps: Collection) -> None:
    text = "x" * 900_000
    await maps.made(config_map("a", key=text))
    assert (await maps.got("a"))["data"]["key"] == text


async def test_an_object_can_be_too_large(maps: Collection) -> None:
    refusal = (await maps.create(config_map("a", key="x" * 1_100_000))).refused(422, "Invalid")
    assert refusal["message"] == 'ConfigMap "a" is invalid: []: Too long: may not be more than 1048576 bytes'
