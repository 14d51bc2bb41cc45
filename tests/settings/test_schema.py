"""Each setting is in the schema and in the file to begin with, with its meaning and its default."""

from __future__ import annotations

from typing import Any

import pytest

from multikueue.settings.describe import written
from multikueue.settings.schema import schema, template
from multikueue.settings.tree import leaves

SCHEMA = schema()
TEMPLATE = template()


def resolved(node: dict[str, Any]) -> dict[str, Any]:
    return {**SCHEMA["$defs"][node["$ref"].rpartition("/")[2]], **node} if "$ref" in node else node


@pytest.mark.parametrize("leaf", leaves(), ids=lambda leaf: leaf.name)
def test_each_setting_is_there(leaf: Any) -> None:
    node: dict[str, Any] = SCHEMA
    for part in leaf.path:
        node = resolved(node)["properties"][part]

    assert node["description"]
    if "default" in node:
        assert node["default"] == written(leaf.field.get_default(call_default_factory=True))
    assert f" {leaf.path[-1]}:" in TEMPLATE


def test_no_other_names_are_taken() -> None:
    assert SCHEMA["additionalProperties"] is False
    assert all(each["additionalProperties"] is False for each in SCHEMA["$defs"].values() if "properties" in each)
