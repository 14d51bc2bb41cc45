from __future__ import annotations

import pytest

from fakekube.builtins.columns import BUILT_IN
from fakekube.model.resources import Column
from fakekube.model.wire import Refused
from fakekube.server.printers import tables
from fakekube.server.printers.tables import PLAIN, Form, Lines, wanted
from tests.fakekube.front_ends import JOBS, NOW, TOYS, ago, item, resource

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
PARTIAL = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
YAML = "application/yaml"


@pytest.mark.parametrize(
    ("accept", "form"),
    [
        pytest.param("", PLAIN, id="nothing said"),
        pytest.param("application/json", PLAIN, id="JSON"),
        pytest.param("*/*", PLAIN, id="anything"),
        pytest.param("application/json, */*", PLAIN, id="JSON or else anything"),
        pytest.param("application/vnd.kubernetes.protobuf,application/json", PLAIN, id="protobuf or else JSON"),
        pytest.param(f"{TABLE},application/json", Form(kind="Table"), id="a table"),
        pytest.param(TABLE.replace("v1", "v1beta1"), Form(kind="Table", version="v1beta1"), id="an old table"),
        pytest.param(f"{TABLE.replace('v=v1', 'v=v9')},application/json", PLAIN, id="a table of the future"),
        pytest.param("application/json;as=Song;v=v1;g=meta.k8s.io,application/yaml", Form(YAML), id="no such kind"),
        pytest.param("application/yaml", Form(YAML), id="YAML"),
        pytest.param("application/yaml;q=0.5,application/json", PLAIN, id="preferences"),
        pytest.param("application/yaml;q=0.9,application/json;q=0.1", Form(YAML), id="other preferences"),
        pytest.param("application/json;charset=utf-8", PLAIN, id="parameters that do not matter"),
        pytest.param(PARTIAL, Form(kind="PartialObjectMetadata"), id="metadata only"),
    ],
)
def test_the_accept_header(accept: str, form: Form) -> None:
    assert wanted(accept) == form


def test_the_plain_form_is_known_by_identity() -> None:
    assert wanted("application/json") is wanted("") is wanted("*/*") is PLAIN


@pytest.mark.parametrize("accept", ["application/xml", "application/vnd.kubernetes.protobuf", "application/json;q=0"])
def test_what_we_do_not_have_is_refused(accept: str) -> None:
    with pytest.raises(Refused) as caught:
        wanted(accept)
    assert (caught.value.code, caught.value.reason) == (406, "NotAcceptable")
    assert caught.value.message.startswith("only the following media types are accepted: application/json")


def test_a_table_of_a_built_in_kind() -> None:
    body = item("one", "team", spec={"completions": 1}, status={})
    made = tables.table(JOBS, [body], now=NOW, list_metadata={"resourceVersion": "9"})
    assert (made["kind"], made["apiVersion"], made["metadata"]) == ("Table", "meta.k8s.io/v1", {"resourceVersion": "9"})
    columns = [(each["name"], each["type"], each["priority"]) for each in made["columnDefinitions"]]
    assert columns[:5] == [(name, "string", 0) for name in ("Name", "Status", "Completions", "Duration", "Age")]
    assert columns[5:] == [(name, "string", 1) for name in ("Containers", "Images", "Selector")]
    (row,) = made["rows"]
    assert row["cells"] == ["one", "Running", "0/1", "", "5m13s", "", "", "<none>"]
    assert row["object"] == {
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": body["metadata"],
    }


def test_a_table_of_a_custom_kind() -> None:
    body = item("bear", "team", spec={"size": 3}, status={"conditions": [{"type": "Ready", "status": "True"}]})
    made = tables.table(TOYS, [body, item("ball")], now=NOW, list_metadata={})
    assert [each["name"] for each in made["columnDefinitions"]] == ["Name", "Size", "Ready", "Age"]
    assert [row["cells"] for row in made["rows"]] == [["bear", 3, "True", "5m13s"], ["ball", None, None, "5m13s"]]


@pytest.mark.parametrize(
    ("type_", "value", "cell"),
    [
        ("string", 3, "3"),
        ("string", ["a"], '["a"]'),
        ("integer", 3, 3),
        ("integer", 3.7, 3),
        ("integer", "3", None),
        ("number", 3.5, 3.5),
        ("boolean", True, True),
        ("boolean", "true", None),
        ("date", ago(minutes=3), "3m"),
        ("date", "soon", "<invalid>"),
        ("date", 7, None),
        ("string", None, None),
    ],
)
def test_cells_have_the_type_of_their_column(type_: str, value: object, cell: object) -> None:
    toys = resource("toys", "Toy", "example.com", custom=True, columns=(Column("X", ".x", type_),))
    made = tables.table(toys, [item("a", x=value)], now=NOW, list_metadata={})
    assert made["rows"][0]["cells"] == ["a", cell]


def test_a_column_with_a_strange_path_stays_empty() -> None:
    toys = resource("toys", "Toy", "example.com", custom=True, columns=(Column("X", "oops"),))
    assert tables.table(toys, [item("a")], now=NOW, list_metadata={})["rows"][0]["cells"] == ["a", None]


def test_a_custom_kind_without_columns_shows_its_age() -> None:
    toys = resource("toys", "Toy", "example.com", custom=True)
    made = tables.table(toys, [item("a")], now=NOW, list_metadata={})
    assert [(each["name"], each["type"]) for each in made["columnDefinitions"]] == [("Name", "string"), ("Age", "date")]
    assert made["rows"][0]["cells"] == ["a", "5m13s"]


def test_an_unknown_built_in_kind_shows_when_it_was_created() -> None:
    roles = resource("roles", "Role", "rbac.authorization.k8s.io")
    assert roles.storage not in BUILT_IN
    made = tables.table(roles, [item("a")], now=NOW, list_metadata={})
    assert [each["name"] for each in made["columnDefinitions"]] == ["Name", "Created At"]
    assert made["rows"][0]["cells"] == ["a", ago(minutes=5, seconds=13)]


def test_rows_carry_what_was_asked_for() -> None:
    body = item("one")
    carried = {
        asked: tables.one(JOBS, body, wanted(TABLE), now=NOW, include=asked)["rows"][0]["object"]
        for asked in ("None", "Metadata", "Object")
    }
    assert (carried["None"], carried["Object"]) == (None, body)
    assert carried["Metadata"]["kind"] == "PartialObjectMetadata"
    with pytest.raises(Refused, match="unrecognized includeObject value"):
        tables.one(JOBS, body, wanted(TABLE), now=NOW, include="Everything")


def test_one_object_in_each_form() -> None:
    body = item("one")
    assert tables.one(JOBS, body, PLAIN, now=NOW) is body
    assert tables.one(JOBS, body, wanted(PARTIAL), now=NOW) == tables.partial(body)
    assert tables.one(JOBS, body, wanted(TABLE), now=NOW)["metadata"] == {"resourceVersion": "7"}
    with pytest.raises(Refused, match="but the requested object is not a list"):
        tables.one(JOBS, body, wanted(PARTIAL.replace("Metadata", "MetadataList")), now=NOW)


def test_a_list_in_each_form() -> None:
    metadata, body = {"resourceVersion": "9"}, item("one")
    plain = tables.many(JOBS, [body], PLAIN, now=NOW, list_metadata=metadata)
    assert plain == {"kind": "JobList", "apiVersion": "batch/v1", "metadata": metadata, "items": [body]}
    form = wanted(PARTIAL.replace("Metadata", "MetadataList"))
    assert tables.many(JOBS, [body], form, now=NOW, list_metadata=metadata) == {
        "kind": "PartialObjectMetadataList",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": metadata,
        "items": [tables.partial(body)],
    }
    with pytest.raises(Refused, match=r"but the requested object is a list \(JobList\)"):
        tables.many(JOBS, [body], wanted(PARTIAL), now=NOW, list_metadata=metadata)


def test_a_watch_of_tables_names_its_columns_once() -> None:
    lines = Lines(JOBS, wanted(TABLE))
    first, second = (lines.object("ADDED", item(name), NOW) for name in ("a", "b"))
    assert len(first["columnDefinitions"]) == 8
    assert second["columnDefinitions"] is None
    assert [each["rows"][0]["cells"][0] for each in (first, second)] == ["a", "b"]
    mark = lines.object("BOOKMARK", {"kind": "Job", "metadata": {"resourceVersion": "12"}}, NOW)
    assert mark["metadata"] == {"resourceVersion": "12"}
    assert mark["rows"] == [{"cells": [""] * 8, "object": tables.partial({"metadata": {"resourceVersion": "12"}})}]


def test_a_watch_in_other_forms() -> None:
    body, status = item("a"), {"kind": "Status"}
    assert Lines(JOBS, wanted(PARTIAL)).object("ADDED", body, NOW) == tables.partial(body)
    assert Lines(JOBS, wanted(YAML)).object("ADDED", body, NOW) is body
    assert Lines(JOBS, wanted(TABLE)).object("ERROR", status, NOW) is status
    with pytest.raises(Refused):
        Lines(JOBS, wanted(PARTIAL.replace("Metadata", "MetadataList")))
