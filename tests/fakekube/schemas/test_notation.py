"""What the notation makes of a type and of what is said beside it."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

import msgspec
import pytest

from fakekube.schemas.notation import (
    UNTYPED,
    Kind,
    Version,
    array,
    column,
    defined,
    flag,
    number,
    of,
    quantity,
    record,
    rule,
    table,
    text,
    time,
)


class Value(msgspec.Struct, frozen=True, rename="camel"):
    """A type as one may have it for one's own kinds."""


class Inner(Value, frozen=True):
    name: str = ""


class Outer(Value, frozen=True):
    some_text: str = ""
    count: int | None = None
    is_on: bool = False
    since: datetime | None = None
    choice: Literal["A", "B"] = "A"
    names: tuple[str, ...] = ()
    inner: Inner = Inner()
    inners: tuple[Inner, ...] = ()
    labels: dict[str, str] = {}
    amount: str | int | float = 0


def test_a_type_says_most_of_its_schema() -> None:
    properties = of(Outer)["properties"]
    assert properties["someText"] == text()
    assert properties["count"] == number()
    assert properties["isOn"] == flag()
    assert properties["since"] == time()
    assert properties["choice"] == text(one_of=("A", "B"))
    assert properties["names"] == array(text())
    assert properties["inner"] == record(name=text())
    assert properties["inners"] == array(record(name=text()))
    assert properties["labels"] == table(text())
    assert properties["amount"] == quantity()


def test_what_is_said_of_a_field_adds_to_its_type() -> None:
    properties = of(Outer, needs=("count",), count=number(0), inners=array(keys=("name",), most=8))["properties"]
    assert properties["count"] == {"type": "integer", "format": "int32", "minimum": 0}
    assert properties["inners"] == {
        "type": "array",
        "items": record(name=text()),
        "maxItems": 8,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["name"],
    }


def test_what_is_said_in_full_takes_the_place_of_the_type() -> None:
    inner = record(other=number())
    assert of(Outer, inner=inner)["properties"]["inner"] == inner
    assert of(Outer, inner=record() | UNTYPED)["properties"]["inner"] == record() | UNTYPED
    assert of(Outer, some_more=flag())["properties"]["some_more"] == flag()


def test_a_field_of_another_kind_is_not_mixed_with_its_type() -> None:
    assert of(Outer, someText=number(0))["properties"]["someText"] == number(0)


def test_a_field_may_be_left_out() -> None:
    assert "inner" not in of(Outer, inner=None)["properties"]


class Carried(Value, frozen=True):
    spec: msgspec.Raw = msgspec.Raw(b"{}")


def test_what_is_only_carried_must_be_declared() -> None:
    with pytest.raises(TypeError, match="declare it"):
        of(Carried)
    assert of(Carried, spec=record(a=text()))["properties"]["spec"] == record(a=text())


def test_a_definition_has_the_names_and_versions_of_its_kind() -> None:
    version = Version(
        name="v1",
        storage=True,
        schema=record(spec=record(a=text())),
        columns=(column("A", ".spec.a"),),
        selectable=(".spec.a",),
    )
    older = Version(name="v1beta1", schema=record(), status=False, deprecated=True)
    kind = Kind(
        group="example.com",
        kind="Thing",
        plural="things",
        namespaced=True,
        short_names=("th",),
        categories=("all",),
        versions=(older, version),
    )
    made = defined(kind)
    assert made["metadata"] == {"name": "things.example.com"}
    assert made["spec"]["scope"] == "Namespaced"
    assert made["spec"]["names"] == {
        "kind": "Thing",
        "listKind": "ThingList",
        "plural": "things",
        "singular": "thing",
        "shortNames": ["th"],
        "categories": ["all"],
    }
    first, second = made["spec"]["versions"]
    assert first["deprecated"]
    assert "subresources" not in first
    assert second["subresources"] == {"status": {}}
    assert second["additionalPrinterColumns"] == [{"name": "A", "type": "string", "jsonPath": ".spec.a"}]
    assert second["selectableFields"] == [{"jsonPath": ".spec.a"}]
    assert list(second["schema"]["openAPIV3Schema"]["properties"]) == ["apiVersion", "kind", "metadata", "spec"]


def test_a_rule_says_no_more_than_it_was_given() -> None:
    assert rule("a", "b") == {"rule": "a", "message": "b"}
    assert rule("a", "b", field_path=".c", optional=True) == {
        "rule": "a",
        "message": "b",
        "fieldPath": ".c",
        "optionalOldSelf": True,
    }
