"""What selectors choose."""

from __future__ import annotations

from typing import Any

import pytest

from fakekube.model.selectors import (
    EVERYTHING,
    Alias,
    field_selector,
    field_value,
    label_selector,
    selector_of,
)
from fakekube.model.wire import Refused

LABELS = {"app": "web", "tier": "", "count": "5", "example.com/x": "y"}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "   ",
        "app=web",
        "app==web",
        " app = web ",
        "app!=db",
        "absent!=db",
        "app",
        "!absent",
        "! absent",
        "app in (web,db)",
        "app in ( web , db )",
        "app notin (db)",
        "absent notin (db)",
        "tier=",
        "tier in ()",
        "tier in (,x)",
        "count>4",
        "count<6",
        "example.com/x=y",
        "app=web,!absent,count>1",
        "in=",
    ],
)
def test_labels_match(text: str) -> None:
    labels = LABELS | ({"in": ""} if text == "in=" else {})
    assert label_selector(text).matches(labels)


@pytest.mark.parametrize(
    "text",
    [
        "app=db",
        "app!=web",
        "absent",
        "!app",
        "app in (db)",
        "absent in (db)",
        "app notin (web)",
        "count>5",
        "count<5",
        "app>1",
        "absent>1",
        "app=web,absent",
    ],
)
def test_labels_do_not_match(text: str) -> None:
    assert not label_selector(text).matches(LABELS)


def test_an_object_without_labels_matches_what_asks_for_none() -> None:
    assert label_selector("!a,b!=c").matches(None)
    assert not label_selector("a").matches(None)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a in (d", "unable to parse requirement: found '', expected: ',' or ')'"),
        ("a in d", "unable to parse requirement: found 'd', expected: '('"),
        ("a b", "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"),
        ("a=b c", "found 'c', expected: ',' or 'end of string'"),
        ("!a=b", "found '=', expected: ',' or 'end of string'"),
        (",a", "found ',', expected: !, identifier, or 'end of string'"),
        ("a!", "unable to parse requirement: found '!', expected: in, notin, =, ==, !=, gt, lt"),
        ("a>=x", "unable to parse requirement: found '=', expected: identifier"),
        (
            "a>x",
            'unable to parse requirement: values[0]: Invalid value: "x": '
            "for 'Gt', 'Lt' operators, the value must be an integer",
        ),
    ],
)
def test_what_cannot_be_read_is_refused_in_kubernetes_words(text: str, message: str) -> None:
    with pytest.raises(Refused) as refused:
        label_selector(text)
    assert (refused.value.code, refused.value.message) == (400, message)


@pytest.mark.parametrize(("text", "part"), [("-a=b", "name part must consist"), ("a=-b-", "a valid label must be")])
def test_keys_and_values_are_those_of_labels(text: str, part: str) -> None:
    with pytest.raises(Refused) as refused:
        label_selector(text)
    assert part in refused.value.message


@pytest.mark.parametrize(
    ("selector", "labels", "matches"),
    [
        (None, {}, True),
        ({}, {"a": "b"}, True),
        ({"matchLabels": {"a": "b"}}, {"a": "b", "c": "d"}, True),
        ({"matchLabels": {"a": "b"}}, {"a": "c"}, False),
        ({"matchExpressions": [{"key": "a", "operator": "In", "values": ["b", "c"]}]}, {"a": "c"}, True),
        ({"matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["b"]}]}, {}, True),
        ({"matchExpressions": [{"key": "a", "operator": "Exists"}]}, {}, False),
        ({"matchExpressions": [{"key": "a", "operator": "DoesNotExist"}]}, {}, True),
    ],
)
def test_selectors_as_objects(selector: Any, labels: dict[str, str], matches: bool) -> None:
    assert selector_of(selector).matches(labels) == matches


def test_an_operator_that_is_none_is_refused() -> None:
    with pytest.raises(Refused):
        selector_of({"matchExpressions": [{"key": "a", "operator": "Like"}]})


def test_nothing_asked_is_everything() -> None:
    assert label_selector("") is EVERYTHING


ITEM = {"metadata": {"name": "a"}, "spec": {"on": True, "size": 3, "text": "x,y=z"}, "status": {}}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "metadata.name=a",
        "metadata.name==a",
        "metadata.name!=b",
        "spec.on=true,spec.size=3",
        "spec.absent=",
        "spec.absent.deeper=",
        r"spec.text=x\,y\=z",
    ],
)
def test_fields_match(text: str) -> None:
    assert field_selector(text).matches(ITEM)


@pytest.mark.parametrize("text", ["metadata.name=b", "metadata.name!=a", "spec.on=True", "metadata.name=a,spec.size=4"])
def test_fields_do_not_match(text: str) -> None:
    assert not field_selector(text).matches(ITEM)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("foo", "invalid selector: 'foo'; can't understand 'foo'"),
        (r"a=\b", r"invalid field selector: invalid escape sequence: \b"),
    ],
)
def test_a_field_selector_that_cannot_be_read(text: str, message: str) -> None:
    with pytest.raises(Refused) as refused:
        field_selector(text)
    assert refused.value.message == message


def test_a_field_may_be_known_by_another_name() -> None:
    aliases = {"size": Alias("spec.size"), "weight": Alias("spec.weight", "0")}
    assert field_selector("size=3,weight=0").matches(ITEM, aliases)


def test_the_one_value_a_field_must_have() -> None:
    selector = field_selector("metadata.namespace=x,metadata.name!=y")
    assert selector.paths == ("metadata.namespace", "metadata.name")
    assert selector.exactly("metadata.namespace") == "x"
    assert selector.exactly("metadata.name") is None


def test_values_are_compared_as_text() -> None:
    assert [field_value(ITEM, path) for path in ("spec.on", "spec.size", "spec.none")] == ["true", "3", ""]
