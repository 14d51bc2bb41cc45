from __future__ import annotations

import copy
import tracemalloc
from typing import Any

import pytest
from hypothesis import given

from multikueue.api.meta import encode
from multikueue.api.values.canonical import canonical
from multikueue.jobs.trees.templates import (
    in_workload,
    is_pruned_copy,
    is_same_template,
    merge_patch,
    merged,
    metadata_problems,
    with_single_entries,
)
from tests.api.values.trees import OBJECTS


def template(**spec: Any) -> dict[str, Any]:
    return {"spec": {"containers": [{"name": "c", "image": "x", **spec.pop("container", {})}], **spec}}


def same(job: dict[str, Any], workload: dict[str, Any], *, ignore_tolerations: bool = False) -> bool:
    return is_same_template(encode(job), encode(workload), ignore_tolerations)


def test_of_two_variables_of_one_name_the_last_counts() -> None:
    twice = [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}, {"name": "A", "value": "3"}]
    spec = template(container={"env": twice})["spec"]
    (container,) = with_single_entries(spec)["containers"]
    assert container["env"] == [{"name": "A", "value": "3"}, {"name": "B", "value": "2"}]


def test_templates_differ_by_their_containers() -> None:
    assert same(template(), template())
    assert not same(template(), template(container={"image": "y"}))
    assert not same(template(), {"spec": {}})


ASKING: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "an overhead": ({"overhead": {"cpu": "250m"}}, {"overhead": {"cpu": "0.25"}}),
    "resources of the pod": ({"resources": {"limits": {"cpu": "4"}}}, {"resources": {"limits": {"cpu": "4000m"}}}),
    "a runtime class": ({"runtimeClassName": "kata"}, {"runtimeClassName": "kata"}),
    "a claim": ({"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "one"}]},) * 2,
    "a sidecar": ({"initContainers": [{"name": "s", "restartPolicy": "Always"}]},) * 2,
}


@pytest.mark.parametrize(("asking", "as_written"), ASKING.values(), ids=ASKING)
def test_templates_differ_by_all_that_decides_about_amounts(asking: dict[str, Any], as_written: dict[str, Any]) -> None:
    assert same(template(**asking), template(**as_written))
    assert not same(template(**asking), template())
    assert not same(template(), template(**asking))


def test_tolerations_count_unless_they_are_ignored() -> None:
    tolerating = template(tolerations=[{"key": "gpu"}])
    assert not same(template(), tolerating)
    assert same(template(), tolerating, ignore_tolerations=True)


def test_what_the_schema_of_workloads_does_not_know_is_no_difference() -> None:
    assert same(template(container={"brandNew": {"x": 1}}), template())
    assert not same(template(), template(container={"brandNew": {"x": 1}}))


def test_the_protocol_of_a_port_that_only_the_schema_of_workloads_fills_in_is_no_difference() -> None:
    port, filled = {"containerPort": 80}, {"containerPort": 80, "protocol": "TCP"}
    assert same(template(container={"ports": [port]}), template(container={"ports": [filled]}))
    assert not same(
        template(container={"ports": [port]}), template(container={"ports": [filled | {"protocol": "UDP"}]})
    )


def test_in_a_workload_a_template_has_the_empty_parts_that_kueue_writes() -> None:
    bare = {"spec": {"containers": [{"name": "c"}], "initContainers": [{"name": "i", "resources": {"limits": {}}}]}}
    assert in_workload(bare) == {
        "metadata": {},
        "spec": {
            "containers": [{"name": "c", "resources": {}}],
            "initContainers": [{"name": "i", "resources": {"limits": {}}}],
        },
    }
    assert in_workload({}) == {"metadata": {}}


def test_what_was_asked_about_is_not_kept() -> None:
    """Templates may be large, and of jobs that are long gone."""
    size = 100_000
    same(template(), template())
    tracemalloc.start()
    for number in range(50):
        large = template(container={"args": [f"{number}" + "x" * size]})
        assert same(large, large)
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept < 10 * size


Tree = dict[str, Any]


def said(**metadata: Any) -> list[str]:
    return list(metadata_problems({"name": "worker", "template": {"metadata": metadata}}))


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
    assert list(metadata_problems({"name": "main", "template": {"metadata": metadata}})) == []


def env(names: str, value: str) -> list[Tree]:
    return [{"name": name, "value": value} for name in names]


@pytest.mark.parametrize(
    ("names", "expected"),
    [("C", "CAB"), ("B", "AB"), ("BC", "ABC"), ("CB", "CAB"), ("BA", "BA"), ("", "AB")],
)
def test_lists_are_merged_in_the_order_of_kubernetes(names: str, expected: str) -> None:
    found = merged({"env": env("AB", "old")}, {"env": env(names, "new")})["env"]
    assert "".join(each["name"] for each in found) == expected
    assert {each["name"] for each in found if each["value"] == "new"} == set(names)


@pytest.mark.parametrize(
    ("ours", "theirs", "expected"),
    [
        pytest.param({"a": 1, "b": 2}, {"b": 3}, {"a": 1, "b": 3}, id="the later word counts"),
        pytest.param({"a": {"x": 1}}, {"a": {"y": 2}}, {"a": {"x": 1, "y": 2}}, id="objects are merged"),
        pytest.param({"a": [1]}, {"a": {"y": 2}}, {"a": {"y": 2}}, id="but not with what is none"),
        pytest.param({"args": ["a"]}, {"args": ["b"]}, {"args": ["b"]}, id="other lists are replaced"),
        pytest.param(
            {"volumeMounts": [{"mountPath": "/a", "name": "v"}]},
            {"volumeMounts": [{"mountPath": "/a", "readOnly": True}]},
            {"volumeMounts": [{"mountPath": "/a", "name": "v", "readOnly": True}]},
            id="what is alike by its key is one",
        ),
    ],
)
def test_the_tree_after_a_patch(ours: Tree, theirs: Tree, expected: Tree) -> None:
    before = copy.deepcopy((ours, theirs))
    assert merged(ours, theirs) == expected
    assert (ours, theirs) == before


@pytest.mark.parametrize(
    ("copy", "verdict"),
    [
        pytest.param({"image": "i", "env": [{"name": "A", "valueFrom": {"new": 1}}], "newer": 1}, True, id="the same"),
        pytest.param(
            {"image": "i", "env": [{"name": "A", "valueFrom": {"new": 1}}]}, True, id="an unknown field pruned"
        ),
        pytest.param({"image": "i", "env": [{"name": "A"}], "newer": 1}, True, id="an unknown field pruned deep down"),
        pytest.param({"image": "i", "newer": 1}, False, id="a field that all know is missing"),
        pytest.param({"image": "i", "env": [], "newer": 1}, False, id="a list is shorter"),
        pytest.param({"image": "j", "env": [{"name": "A"}]}, False, id="another value"),
        pytest.param({"image": "i", "env": [{"name": "A"}], "more": 1}, False, id="a field that the original lacks"),
    ],
)
def test_pruned_copy(copy: Any, verdict: bool) -> None:
    original = {"image": "i", "env": [{"name": "A", "valueFrom": {"new": 1}}], "newer": 1}
    assert is_pruned_copy(copy, original) is verdict


@pytest.mark.parametrize("side", ["copy", "original"])
def test_no_resource_is_ever_pruned(side: str) -> None:
    more, fewer = {"resources": {"requests": {"cpu": 1, "gpu": 1}}}, {"resources": {"requests": {"cpu": 1}}}
    copy, original = (more, fewer) if side == "copy" else (fewer, more)
    assert not is_pruned_copy(copy, original)


@given(tree=OBJECTS)
def test_every_tree_is_a_copy_of_itself(tree: dict[str, Any]) -> None:
    assert is_pruned_copy(canonical(tree), canonical(tree))


@given(old=OBJECTS, new=OBJECTS)
def test_merge_patch_leads_from_old_to_new(old: dict[str, Any], new: dict[str, Any]) -> None:
    old, new = _without_nulls(old), _without_nulls(new)
    assert _apply(old, merge_patch(old, new)) == new


@given(tree=OBJECTS)
def test_merge_patch_of_no_change_is_empty(tree: dict[str, Any]) -> None:
    assert merge_patch(tree, tree) == {}


def _apply(target: Any, patch: Any) -> Any:
    """RFC 7386, section 2."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = _apply(result.get(key), value)
    return result


def _without_nulls(tree: Any) -> Any:
    if isinstance(tree, dict):
        return {key: _without_nulls(value) for key, value in tree.items() if value is not None}
    return tree
