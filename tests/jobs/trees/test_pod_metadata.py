from __future__ import annotations

from typing import Any

import pytest

from multikueue.jobs.trees.pod_metadata import problems

Tree = dict[str, Any]


def said(**metadata: Any) -> list[str]:
    return list(problems({"name": "worker", "template": {"metadata": metadata}}))


KEYS = [
    pytest.param("team", True, id="a name"),
    pytest.param("example.com/team", True, id="with a prefix"),
    pytest.param("A-b_c.D", True, id="of all characters"),
    pytest.param("n" * 63, True, id="of 63 characters"),
    pytest.param(f"{'p' * 253}/{'n' * 63}", True, id="as long as can be"),
    pytest.param("n" * 64, False, id="too long"),
    pytest.param(f"{'p' * 254}/n", False, id="prefix too long"),
    pytest.param("", False, id="empty"),
    pytest.param("a b", False, id="with a space"),
    pytest.param("-a", False, id="begins with a dash"),
    pytest.param("a/b/c", False, id="two slashes"),
    pytest.param("/a", False, id="empty prefix"),
    pytest.param("a/", False, id="empty name"),
    pytest.param("a_b/c", False, id="prefix is no domain"),
    pytest.param("a\n", False, id="ends with a line"),
    pytest.param("ключ", False, id="letters of another alphabet"),
]


@pytest.mark.parametrize(("key", "is_possible"), KEYS)
def test_keys_are_qualified_names(key: str, is_possible: bool) -> None:
    for field in ("labels", "annotations"):
        found = said(**{field: {key: "x"}})
        assert (not found) is is_possible
        assert all(f"pods worker: metadata.{field}: expected a key" in each for each in found)


def test_only_annotations_may_have_a_prefix_in_capitals() -> None:
    assert said(annotations={"Example.COM/a": ""}) == []
    assert len(said(labels={"Example.COM/a": ""})) == 1


POSSIBLE: list[Any] = ["", "a", "A.b_c-1", "v" * 63]
IMPOSSIBLE: list[Any] = ["v" * 64, "a b", "-a", "a.", "a/b", "a\n", "é", 1, None, True, {}, []]


@pytest.mark.parametrize("value", [*POSSIBLE, *IMPOSSIBLE])
def test_values_of_labels_are_short_words(value: Any) -> None:
    found = said(labels={"team": value})
    assert (not found) is (value in POSSIBLE)
    assert all(len(each) < 300 and "pods worker: metadata.labels[team]: expected at most 63" in each for each in found)


def test_annotations_are_any_text_up_to_256_kib() -> None:
    assert said(annotations={"a": "any text, é \n" * 100}) == []
    assert said(annotations={"a": "x" * (2**18 - 1)}) == []
    assert said(annotations={"a": "x" * 2**18}) == [
        "pods worker: metadata.annotations: expected at most 256 KiB in all"
    ]
    assert said(annotations={"a": 1}) == ["pods worker: metadata.annotations[a]: expected text, got 1"]


@pytest.mark.parametrize("metadata", [None, [], "x", {"labels": None}, {"labels": []}, {"annotations": "x"}, {}])
def test_a_template_without_any_has_no_problem(metadata: Any) -> None:
    assert list(problems({"name": "main", "template": {"metadata": metadata}})) == []
