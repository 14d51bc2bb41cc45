"""What `kubectl get` shows: the server makes the rows."""

from __future__ import annotations

import re

import pytest

from tests.contract.builders import condition, config_map, gadget, job, namespace, unique, widget
from tests.contract.server import JSON, Object, Server
from tests.contract.space import Collection, Space

pytestmark = pytest.mark.anyio

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
KUBECTL = f"{TABLE},application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json"
PARTIAL = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
PARTIAL_LIST = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"

AGE = re.compile(r"\d+[sm]")


def columns(table: Object) -> dict[str, int]:
    """Names of the columns and their priorities."""
    return {each["name"]: each["priority"] for each in table["columnDefinitions"]}


def cells(table: Object) -> list[list[object]]:
    return [row["cells"] for row in table["rows"]]


async def test_a_table_has_the_columns_that_the_definition_names(widgets: Collection) -> None:
    await widgets.made(widget("a", size=3, title="title"))
    table = (await widgets.list(accept=KUBECTL)).good(200)
    assert (table["kind"], table["apiVersion"]) == ("Table", "meta.k8s.io/v1")
    assert columns(table) == {"Name": 0, "Size": 0, "Mode": 0, "Ready": 0, "Title": 1, "Age": 0}
    by_name = {each["name"]: each for each in table["columnDefinitions"]}
    assert (by_name["Name"]["type"], by_name["Name"]["format"]) == ("string", "name")
    assert by_name["Size"] == {
        "name": "Size",
        "type": "integer",
        "format": "",
        "description": "How large it is",
        "priority": 0,
    }
    assert by_name["Mode"]["description"] == "Custom resource definition column (in JSONPath format): .spec.mode"
    assert by_name["Age"]["type"] == "date"
    [row] = cells(table)
    assert row[:-1] == ["a", 3, "Fast", None, "title"]
    assert AGE.fullmatch(str(row[-1]))


async def test_a_column_finds_the_entry_it_asks_for(widgets: Collection) -> None:
    await widgets.made(widget("a"))
    conditions = [condition("Other", "True"), condition("Ready", "False")]
    await widgets.patch("a", {"status": {"conditions": conditions}}, "status")
    assert cells((await widgets.list(accept=TABLE)).good(200))[0][3] == "False"


async def test_rows_carry_the_metadata(widgets: Collection) -> None:
    made = await widgets.made(widget("a"))
    [row] = (await widgets.list(accept=TABLE)).good(200)["rows"]
    assert row["object"] == {
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": made["metadata"],
    }


@pytest.mark.parametrize("include", ["Metadata", "Object", "None"])
async def test_rows_carry_what_is_asked_for(widgets: Collection, include: str) -> None:
    made = await widgets.made(widget("a"))
    [row] = (await widgets.get("a", accept=TABLE, includeObject=include)).good(200)["rows"]
    if include == "Metadata":
        assert row["object"]["metadata"] == made["metadata"]
    else:
        assert row["object"] == (made if include == "Object" else None)


async def test_a_table_of_one_object(widgets: Collection) -> None:
    made = await widgets.made(widget("a"))
    table = (await widgets.get("a", accept=KUBECTL)).good(200)
    assert [row[0] for row in cells(table)] == ["a"]
    assert table["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]


async def test_a_table_goes_on_in_pages(widgets: Collection) -> None:
    for name in "abc":
        await widgets.made(widget(name))
    first = (await widgets.list(accept=TABLE, limit="2")).good(200)
    assert [row[0] for row in cells(first)] == ["a", "b"]
    assert first["metadata"]["remainingItemCount"] == 1
    rest = (await widgets.list(accept=TABLE, **{"continue": first["metadata"]["continue"]})).good(200)
    assert [row[0] for row in cells(rest)] == ["c"]


async def test_a_kind_that_names_no_columns_shows_names_and_ages(space: Space) -> None:
    await space.gadgets.made(gadget("a"))
    table = (await space.gadgets.list(accept=TABLE)).good(200)
    assert columns(table) == {"Name": 0, "Age": 0}


async def test_config_maps_show_how_much_they_hold(maps: Collection) -> None:
    await maps.made(config_map("a", one="1", two="2"))
    table = (await maps.list(accept=KUBECTL)).good(200)
    assert columns(table) == {"Name": 0, "Data": 0, "Age": 0}
    [row] = cells(table)
    assert row[:2] == ["a", 2]


async def test_jobs_show_how_far_they_are(jobs: Collection) -> None:
    await jobs.made(job("a", completions=4, parallelism=2))
    table = (await jobs.list(accept=KUBECTL)).good(200)
    assert columns(table) == {
        "Name": 0,
        "Status": 0,
        "Completions": 0,
        "Duration": 0,
        "Age": 0,
        "Containers": 1,
        "Images": 1,
        "Selector": 1,
    }
    [row] = cells(table)
    assert [*row[:4], *row[5:7]] == ["a", "Running", "0/4", "", "main", "pause"]


async def test_a_suspended_job_says_so(jobs: Collection) -> None:
    await jobs.made(job("a"))
    await jobs.patch("a", {"status": {"conditions": [condition("Suspended", "True")]}}, "status")
    assert cells((await jobs.list(accept=TABLE)).good())[0][1] == "Suspended"


async def test_secrets_show_their_type(space: Space) -> None:
    secrets = space.core("secrets")
    await secrets.made({"metadata": {"name": "a"}, "stringData": {"x": "y"}})
    table = (await secrets.list(accept=TABLE)).good(200)
    assert list(columns(table)) == ["Name", "Type", "Data", "Age"]
    assert cells(table)[0][:3] == ["a", "Opaque", 1]


async def test_namespaces_show_their_phase(server: Server) -> None:
    namespaces = Collection(server, "/api/v1/namespaces")
    name = unique("contract")
    await namespaces.made(namespace(name))
    table = (await namespaces.get(name, accept=TABLE)).good(200)
    assert list(columns(table)) == ["Name", "Status", "Age"]
    assert cells(table)[0][:2] == [name, "Active"]


async def test_events_show_what_happened(space: Space) -> None:
    events = space.core("events")
    about = {"kind": "Job", "namespace": space.namespace, "name": "j"}
    body = {
        "metadata": {"name": "e"},
        "involvedObject": about,
        "type": "Warning",
        "reason": "Tested",
        "message": "some words",
        "firstTimestamp": "2026-01-02T03:04:05Z",
        "lastTimestamp": "2026-01-02T03:04:05Z",
        "count": 1,
    }
    await events.made(body)
    table = (await events.list(accept=TABLE)).good(200)
    assert list(columns(table))[:5] == ["Last Seen", "Type", "Reason", "Object", "Subobject"]
    assert cells(table)[0][1:4] == ["Warning", "Tested", "job/j"]
    assert "some words" in cells(table)[0]


async def test_leases_show_who_holds_them(space: Space) -> None:
    leases = space.of("coordination.k8s.io/v1", "leases")
    await leases.made({"metadata": {"name": "a"}, "spec": {"holderIdentity": "me"}})
    table = (await leases.list(accept=TABLE)).good(200)
    assert list(columns(table)) == ["Name", "Holder", "Age"]
    assert cells(table)[0][:2] == ["a", "me"]


async def test_what_is_not_there_is_no_table(widgets: Collection) -> None:
    (await widgets.get("a", accept=TABLE)).refused(404, "NotFound")


async def test_partial_objects_are_metadata_only(widgets: Collection) -> None:
    made = await widgets.made(widget("a", size=3))
    partial = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": made["metadata"]}
    assert (await widgets.get("a", accept=PARTIAL)).good(200) == partial
    listed = (await widgets.list(accept=PARTIAL_LIST)).good(200)
    assert (listed["kind"], listed["items"]) == ("PartialObjectMetadataList", [partial])


async def test_the_first_type_that_can_be_served_is_taken(widgets: Collection) -> None:
    await widgets.made(widget("a"))
    found = (await widgets.get("a", accept=f"application/nonsense,{JSON}")).good(200)
    assert found["kind"] == "Widget"
    assert (await widgets.get("a", accept="*/*")).good(200)["kind"] == "Widget"


async def test_what_cannot_be_served_is_refused(widgets: Collection) -> None:
    await widgets.made(widget("a"))
    (await widgets.get("a", accept="text/xml")).refused(406, "NotAcceptable")


async def test_an_answer_may_be_yaml(maps: Collection) -> None:
    await maps.made(config_map("a", key="value"))
    answer = await maps.get("a", accept="application/yaml")
    assert answer.status == 200
    assert answer.headers["Content-Type"] == "application/yaml"
    assert "data:\n  key: value\n" in answer.body
