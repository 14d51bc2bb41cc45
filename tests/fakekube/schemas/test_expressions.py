"""When a rule is asked, about what, and what it says."""

from __future__ import annotations

from typing import Any

import pytest

from fakekube.schemas.expressions import ABSENT, MapKey, Rule, unchanged


def rule(text: str, /, **more: Any) -> Rule:
    return Rule({"rule": text, "message": "no", **more}, kind="object")


def holds(text: str, new: Any, old: Any = ABSENT, **more: Any) -> bool:
    made = rule(text, **more)
    return not made.must_be_asked(new, old) or made.problem(new, old, ()) is None


@pytest.mark.parametrize(
    ("text", "value", "expected"),
    [
        ("self.a > 1", {"a": 2}, True),
        ("self.a > 1", {"a": 1}, False),
        ("!has(self.a) || self.a == 'x'", {}, True),
        ("has(self.a) ? self.a == 'x' : true", {"a": "y"}, False),
        ("self.all(x, x.n > 0)", [{"n": 1}, {"n": 0}], False),
        ("self.list.filter(x, x.a == 1).size() == 1", {"list": [{"a": 1}, {"a": 2}], "more": 1}, True),
        ("self.exists(k, k == 'a')", {"a": 1}, True),
        ("self == 'oldSelf.x'", "oldSelf.x", True),
        ("size(self.a) == size(self.b)", {"a": [1], "b": [2]}, True),
        ("self.__namespace__ == 'x'", {"namespace": "x"}, True),
        ("self.a__dash__b == 'x'", {"a-b": "x"}, True),
        ("self.refs.all(r, r.__namespace__ == 'x')", {"refs": [{"namespace": "x"}]}, True),
        ("self.name.lowerAscii() == 'x'", {"name": "X"}, True),
        ("'a' in self.names", {"names": ["b"]}, False),
    ],
)
def test_a_rule_holds_or_not(text: str, value: Any, expected: bool) -> None:
    assert holds(text, value) is expected


@pytest.mark.parametrize(
    ("new", "old", "expected"),
    [
        pytest.param({"a": 1}, {"a": 1}, True, id="it is as it was"),
        pytest.param({"a": 2}, {"a": 1}, False, id="it changed"),
        pytest.param({}, {"a": 1}, False, id="it went"),
        pytest.param({"a": 1}, {}, False, id="it came"),
        pytest.param({}, {}, True, id="it was never there"),
        pytest.param({"a": 1}, ABSENT, True, id="there was nothing before"),
    ],
)
def test_what_must_stay_unchanged(new: Any, old: Any, expected: bool) -> None:
    assert holds(unchanged("a"), new, old) is expected


def test_what_must_stay_unchanged_may_change_for_a_reason() -> None:
    text = f"{unchanged('spec.queue')} || !self.held"
    assert holds(text, {"spec": {"queue": "b"}, "held": False}, {"spec": {"queue": "a"}, "held": False})
    assert not holds(text, {"spec": {"queue": "b"}, "held": True}, {"spec": {"queue": "a"}, "held": True})


@pytest.mark.parametrize(
    ("text", "new", "old"),
    [
        pytest.param("self.a > 1", {"a": 0, "b": 2}, {"a": 0, "b": 1}, id="nothing it reads changed"),
        pytest.param(
            "has(self.a) && self.b > 1", {"a": 2, "b": 0}, {"a": 1, "b": 0}, id="what it asks for is still there"
        ),
        pytest.param(
            f"{unchanged('a')} || self.b > 1", {"a": 1, "b": 0}, {"a": 1, "b": 2}, id="the field is unchanged"
        ),
        pytest.param(
            "self.a == oldSelf.a || self.b > 1", {"a": 1, "b": 0}, {"a": 1, "b": 2}, id="the field is the same"
        ),
        pytest.param("self == oldSelf", {"a": 1}, {"a": 1}, id="all is the same"),
        pytest.param("!has(self.a) || self.a > 1", {"b": 1}, {"b": 2}, id="the field is missing"),
        pytest.param("!has(oldSelf.a) || self.a > 1", {"a": 1}, {"b": 2}, id="the field was missing"),
        pytest.param("has(self.b) || self.a > 1", {"b": 1}, ABSENT, id="the other field is there"),
        pytest.param(
            "size(self.a) == size(self.b) || self.c", {"a": [1], "b": [2]}, ABSENT, id="two lists are equally long"
        ),
        pytest.param("size(self.a) == 0 || self.c", {"a": []}, ABSENT, id="a list is empty"),
        pytest.param("self.a == oldSelf.a", {"a": 1}, ABSENT, id="there is nothing to compare with"),
    ],
)
def test_a_rule_whose_answer_is_known_is_not_asked(text: str, new: Any, old: Any) -> None:
    assert not rule(text).must_be_asked(new, old)


@pytest.mark.parametrize(
    ("text", "new", "old"),
    [
        pytest.param("self.a > 1", {"a": 0}, {"a": 1}, id="what it reads changed"),
        pytest.param("self.a > 1", {"a": 0}, ABSENT, id="the value is new"),
        pytest.param("self.a > oldSelf.a", {"a": 1}, {"a": 1}, id="it demands a change"),
        pytest.param("!has(self.a.b) || self.c", {}, ABSENT, id="not even the object around the field is there"),
        pytest.param("self.a == oldSelf.a && self.b", {"a": 1}, {"a": 1}, id="more is demanded"),
        pytest.param("self.c ? self.a == oldSelf.a || true : false", {"a": 1}, {"a": 1}, id="it is a conditional"),
        pytest.param(
            "(self.a == oldSelf.a || true) && self.b", {"a": 1}, {"a": 1}, id="the alternative is inside brackets"
        ),
        pytest.param("self.a == oldSelf.a || self.b", {}, {}, id="the same field is missing on both sides"),
    ],
)
def test_a_rule_whose_answer_is_not_known_is_asked(text: str, new: Any, old: Any) -> None:
    assert rule(text).must_be_asked(new, old)


def test_whoever_wants_to_know_whether_there_was_a_value_is_asked_always() -> None:
    text = "oldSelf.hasValue() ? self == oldSelf.value() : self != 'x'"
    assert holds(text, "y", optionalOldSelf=True)
    assert not holds(text, "x", optionalOldSelf=True)
    assert not holds(text, "b", "a", optionalOldSelf=True)


@pytest.mark.parametrize(
    ("declared", "value", "path", "expected"),
    [
        ({}, {"a": 0}, ("spec", "b", 1), ("FieldValueInvalid", "spec.b[1]", "Invalid value: no")),
        ({}, {"a": 0}, (), ("FieldValueInvalid", "<nil>", "Invalid value: no")),
        ({}, {"a": 0}, ("spec", MapKey("a-b")), ("FieldValueInvalid", "spec[a-b]", "Invalid value: no")),
        ({"message": None}, {"a": 0}, ("s",), ("FieldValueInvalid", "s", "Invalid value: failed rule: self.a == 1")),
        ({"fieldPath": ".a"}, {"a": 0}, ("s",), ("FieldValueInvalid", "s.a", "Invalid value: no")),
        ({"fieldPath": ".a"}, {"a": 0}, (), ("FieldValueInvalid", "a", "Invalid value: no")),
        ({"reason": "FieldValueForbidden"}, {"a": 0}, ("s",), ("FieldValueForbidden", "s", "Forbidden: no")),
        ({"reason": "FieldValueRequired"}, {"a": 0}, ("s",), ("FieldValueRequired", "s", "Required value: no")),
        ({"reason": "FieldValueDuplicate"}, {"a": 0}, ("s",), ("FieldValueDuplicate", "s", "Duplicate value")),
        (
            {"messageExpression": "'a is ' + string(self.a)"},
            {"a": 0},
            ("s",),
            ("FieldValueInvalid", "s", "Invalid value: a is 0"),
        ),
        ({"messageExpression": "self.nothing"}, {"a": 0}, ("s",), ("FieldValueInvalid", "s", "Invalid value: no")),
        ({}, {}, ("s",), ("FieldValueInvalid", "s", 'Invalid value: "object": no such key: a evaluating rule: no')),
    ],
)
def test_a_broken_rule_is_told_as_the_real_server_tells_it(
    declared: dict[str, Any], value: Any, path: tuple[str | int, ...], expected: tuple[str, str, str]
) -> None:
    assert rule("self.a == 1", **declared).problem(value, ABSENT, path) == expected


def test_a_scalar_is_told_with_its_value() -> None:
    assert rule("self != 3").problem(3, ABSENT, ("n",)) == ("FieldValueInvalid", "n", "Invalid value: 3: no")
