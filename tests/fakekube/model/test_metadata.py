"""What is taken as metadata."""

from __future__ import annotations

from typing import Any

import pytest

from fakekube.model.metadata import cleaned, problems, unknown_fields, update_problems, warnings
from fakekube.model.values.names import dns_subdomain
from fakekube.model.wire import Refused
from tests.fakekube.front_ends import CONFIG_MAPS


def of(**metadata: Any) -> dict[str, Any]:
    return {"metadata": metadata}


def test_what_is_right_is_not_copied() -> None:
    item = of(name="a", labels={"x": "y"}, deletionGracePeriodSeconds=0)
    assert cleaned(item, CONFIG_MAPS) is item


def test_what_is_empty_or_unknown_goes() -> None:
    item = of(name="a", labels={}, finalizers=[], creationTimestamp=None, generation=0, foo="bar", managedFields=[])
    assert cleaned(item, CONFIG_MAPS)["metadata"] == {"name": "a", "managedFields": []}
    assert unknown_fields(item) == ["metadata.foo"]


def test_labels_of_nothing_are_empty() -> None:
    assert cleaned(of(labels={"x": None}), CONFIG_MAPS)["metadata"] == {"labels": {"x": ""}}


def test_no_metadata_is_empty_metadata() -> None:
    assert cleaned({"data": {}}, CONFIG_MAPS) == {"data": {}, "metadata": {}}


@pytest.mark.parametrize(
    "metadata", [{"labels": {"a": 1}}, {"name": 7}, {"finalizers": "x"}, {"ownerReferences": [{"uid": 1}]}, "text"]
)
def test_wrong_types_are_refused(metadata: Any) -> None:
    with pytest.raises(Refused) as refused:
        cleaned({"metadata": metadata}, CONFIG_MAPS)
    assert refused.value.message.startswith('ConfigMap in version "v1" cannot be handled as a ConfigMap: ')


OWNER = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "1"}

BAD: dict[str, tuple[dict[str, Any], list[str]]] = {
    "no name": ({}, ["metadata.name"]),
    "a name with capitals": ({"name": "A"}, ["metadata.name"]),
    "a prefix that begins badly": ({"generateName": "-x", "name": "x"}, ["metadata.generateName"]),
    "labels that are none": ({"labels": {"a b": "c d"}}, ["metadata.labels"] * 2),
    "annotations that are none": ({"annotations": {"a b": "c d"}}, ["metadata.annotations"]),
    "far too many annotations": ({"annotations": {"a": "x" * 270_000}}, ["metadata.annotations"]),
    "an owner without a name": ({"ownerReferences": [{**OWNER, "name": ""}]}, ["metadata.ownerReferences[0].name"]),
    "an owner without a version": (
        {"ownerReferences": [{**OWNER, "apiVersion": ""}]},
        ["metadata.ownerReferences[0].apiVersion"],
    ),
    "two controllers": (
        {"ownerReferences": [{**OWNER, "controller": True}, {**OWNER, "uid": "2", "controller": True}]},
        ["metadata.ownerReferences"],
    ),
    "a finalizer without a domain": ({"finalizers": ["plain"]}, ["metadata.finalizers[0]"]),
    "a finalizer that is none": ({"finalizers": ["a b/c"]}, ["metadata.finalizers"]),
    "two wishes for dependents": ({"finalizers": ["orphan", "foregroundDeletion"]}, ["metadata.finalizers"]),
}


@pytest.mark.parametrize(("metadata", "fields"), BAD.values(), ids=BAD.keys())
def test_bad_metadata(metadata: dict[str, Any], fields: list[str]) -> None:
    whole = metadata if "name" in metadata or not metadata else {"name": "a", **metadata}
    found = problems(whole, rule=dns_subdomain, namespaced=False, plain_finalizers=False)
    assert [problem.field for problem in found] == fields


def test_good_metadata() -> None:
    metadata = {
        "name": "a",
        "namespace": "n",
        "generateName": "a-",
        "labels": {"example.com/x": "y"},
        "annotations": {"Example.com/X": "anything: at all"},
        "ownerReferences": [OWNER],
        "finalizers": ["example.com/x", "orphan"],
    }
    assert problems(metadata, rule=dns_subdomain, namespaced=True, plain_finalizers=False) == []


def test_custom_kinds_may_have_plain_finalizers_and_are_warned() -> None:
    metadata = {"name": "a", "finalizers": ["plain"]}
    assert problems(metadata, rule=dns_subdomain, namespaced=False, plain_finalizers=True) == []
    assert len(warnings(metadata)) == 1
    assert warnings(metadata, metadata) == [], "what was there before is no news"


@pytest.mark.parametrize("field", ["uid", "deletionTimestamp", "deletionGracePeriodSeconds"])
def test_what_an_update_may_not_change(field: str) -> None:
    [problem] = update_problems({field: "new"}, {field: "old"}, plain_finalizers=False)
    assert (problem.field, problem.message) == (f"metadata.{field}", 'Invalid value: "new": field is immutable')


def test_old_faults_are_forgiven() -> None:
    old = {"uid": "1", "labels": {"a b": "c"}}
    assert (
        update_problems({"uid": "1", "labels": {"a b": "c"}, "annotations": {"x": "y"}}, old, plain_finalizers=False)
        == []
    )
    assert update_problems({"uid": "1", "labels": {"a b": "d"}}, old, plain_finalizers=False) != []
