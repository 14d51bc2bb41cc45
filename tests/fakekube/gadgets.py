"""A custom kind of the tests' own, with every type of list and map there is."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

__all__ = ["CRD", "GADGET", "GROUP", "OBJECTS", "VERSIONS", "Untouchable", "port"]

Object = dict[str, Any]

STRING = {"type": "string"}
CONDITION = {"type": "object", "properties": dict.fromkeys(("type", "status", "reason"), STRING)}
PORT = {
    "type": "object",
    "required": ["number"],
    "properties": {
        "number": {"type": "integer"},
        "protocol": {"type": "string", "default": "TCP"},
        "name": STRING,
        "tags": {"type": "array", "items": STRING, "x-kubernetes-list-type": "set"},
    },
}
GADGET: Object = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "properties": {
                "color": STRING,
                "size": {"type": "integer"},
                "weight": {"type": "number"},
                "limit": {"x-kubernetes-int-or-string": True},
                "note": {"type": "string", "nullable": True},
                "options": {"type": "object", "additionalProperties": STRING},
                "whole": {
                    "type": "object",
                    "x-kubernetes-map-type": "atomic",
                    "properties": {"a": STRING, "b": {"type": "object", "properties": {"c": STRING}}},
                },
                "parts": {
                    "type": "object",
                    "properties": {
                        "left": STRING,
                        "right": STRING,
                        "inner": {"type": "object", "properties": {"x": STRING}},
                    },
                },
                "words": {"type": "array", "items": STRING, "x-kubernetes-list-type": "set"},
                "numbers": {"type": "array", "items": {"type": "integer"}, "x-kubernetes-list-type": "set"},
                "steps": {"type": "array", "items": STRING},
                "things": {"type": "array", "items": {"type": "object", "properties": {"x": STRING}}},
                "ports": {
                    "type": "array",
                    "items": PORT,
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["number", "protocol"],
                },
                "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
            },
        },
        "status": {
            "type": "object",
            "properties": {
                "phase": STRING,
                "count": {"type": "integer"},
                "conditions": {
                    "type": "array",
                    "items": {**CONDITION, "required": ["type"]},
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["type"],
                },
            },
        },
    },
}
GROUP = "parity.example.com"
VERSIONS = ("v1", "v2")
CRD = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": f"gadgets.{GROUP}"},
    "spec": {
        "group": GROUP,
        "scope": "Namespaced",
        "names": {"plural": "gadgets", "singular": "gadget", "kind": "Gadget"},
        "versions": [
            {
                "name": version,
                "served": True,
                "storage": version == "v1",
                "schema": {"openAPIV3Schema": GADGET},
                "subresources": {"status": {}},
            }
            for version in VERSIONS
        ],
    },
}

WORDS = st.sampled_from("abc")
TEXTS = st.dictionaries(WORDS, WORDS, max_size=2)
PORTS = st.lists(
    st.fixed_dictionaries(
        {"number": st.sampled_from([80, 443])},
        optional={"protocol": st.sampled_from(["TCP", "UDP"]), "name": WORDS, "tags": st.lists(WORDS, unique=True)},
    ),
    max_size=3,
    unique_by=lambda port: (port["number"], port.get("protocol", "TCP")),
)
SPECS = st.fixed_dictionaries(
    {},
    optional={
        "color": WORDS,
        "options": TEXTS,
        "whole": st.fixed_dictionaries({}, optional={"a": WORDS}),
        "parts": st.fixed_dictionaries(
            {}, optional={"left": WORDS, "inner": st.fixed_dictionaries({}, optional={"x": WORDS})}
        ),
        "words": st.lists(WORDS, unique=True),
        "steps": st.lists(WORDS),
        "ports": PORTS,
        "free": st.dictionaries(WORDS, st.one_of(WORDS, TEXTS, st.lists(WORDS)), max_size=2),
    },
)
OBJECTS: st.SearchStrategy[Object] = st.fixed_dictionaries({}, optional={"spec": SPECS})
"""Objects with a spec of few words, so that two of them have much in common."""


def port(number: int, **more: Any) -> Object:
    return {"number": number, "protocol": "TCP"} | more


class Untouchable(dict[str, Any]):
    """A part of an object that nobody may look at."""

    def __eq__(self, other: object) -> bool:
        raise AssertionError("it was compared")

    def items(self) -> Any:
        raise AssertionError("it was walked")
