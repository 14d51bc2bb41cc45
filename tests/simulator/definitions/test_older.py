"""What was different in v1beta1."""

from __future__ import annotations

from typing import Any

from multikueue_simulator.definitions.older import with_v1beta1
from multikueue_simulator.definitions.workloads import PRIORITY_CLASS, WORKLOAD


def versions(kind: Any) -> tuple[Any, Any]:
    older, newest = with_v1beta1(kind).versions
    return older, newest


def test_the_newest_stays_as_it_is_and_is_what_is_stored() -> None:
    older, newest = versions(WORKLOAD)
    assert newest is WORKLOAD.versions[0]
    assert (older.name, older.storage, older.deprecated) == ("v1beta1", False, True)


def test_fields_that_were_not_are_gone_and_those_that_were_are_there() -> None:
    older, newest = versions(WORKLOAD)
    fields, now = (each.schema["properties"]["spec"]["properties"].keys() for each in (older, newest))
    assert fields - now == {"priorityClassName", "priorityClassSource"}
    assert now - fields == {"priorityClassRef"}


def test_a_keyword_may_go_while_the_others_stay() -> None:
    older, newest = versions(PRIORITY_CLASS)
    assert newest.schema["properties"]["description"] == {"type": "string", "maxLength": 2048}
    assert older.schema["properties"]["description"] == {"type": "string"}


def test_what_did_not_change_is_shared() -> None:
    older, newest = versions(WORKLOAD)
    assignment = ["status", "admission", "podSetAssignments"]
    old, new = older.schema, newest.schema
    for name in assignment:
        old, new = old["properties"][name], new["properties"][name]
    assert old["items"]["properties"]["flavors"] is new["items"]["properties"]["flavors"]
    assert old["items"]["properties"]["topologyAssignment"] != new["items"]["properties"]["topologyAssignment"]
