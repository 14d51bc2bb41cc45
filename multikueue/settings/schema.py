"""The settings as a JSON Schema, for editors, and as a file to begin with. Both follow from the tree."""

from __future__ import annotations

from collections.abc import Iterator
from textwrap import wrap
from typing import Any, get_args

import yaml
from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue

from multikueue.settings.describe import meanings, written
from multikueue.settings.tree import Settings

__all__ = ["schema", "template"]


class _Generator(GenerateJsonSchema):
    """Durations as one writes them, where pydantic has ISO 8601 only."""

    def timedelta_schema(self, schema: Any) -> JsonSchemaValue:  # noqa: ARG002  # pydantic's
        return {"type": ["string", "number"], "examples": ["15m", "1m30s", "500ms", "30d"]}

    def encode_default(self, dft: Any) -> Any:
        return written(dft)


def schema() -> dict[str, Any]:
    """JSON Schema (2020-12) of a file with settings of ours; each field has its meaning as description."""
    tree = Settings.model_json_schema(schema_generator=_Generator)
    for group in dict.fromkeys(_groups(Settings)):
        definition = tree if group is Settings else tree["$defs"][group.__name__]
        for name, meaning in meanings(group).items():
            definition["properties"][name]["description"] = _line(meaning)
    return {"$schema": GenerateJsonSchema.schema_dialect, **tree, "title": "Settings of multikueue"}


def template() -> str:
    """A file in YAML that has every setting with its meaning and its default, all of it as comments."""
    return "\n".join(
        ("# Settings of multikueue. What is left as a comment has its default.", *_commented(Settings, ""))
    )


def _commented(group: type[BaseModel], indent: str) -> Iterator[str]:
    told = meanings(group)
    for name, field in group.model_fields.items():
        below = next(_groups_in(field.annotation, is_direct=True), None)
        if below is not None:
            yield f"\n# {indent}{name}:"
            yield from _commented(below, f"{indent}  ")
            continue
        yield from wrap(_line(told[name]), 100, initial_indent=f"# {indent}# ", subsequent_indent=f"# {indent}# ")
        value = None if field.is_required() else written(field.get_default(call_default_factory=True))
        text = yaml.safe_dump({name: value}, default_flow_style=False, sort_keys=False, width=1000).rstrip()
        yield from (f"# {indent}{line}" for line in text.splitlines())


def _groups(group: type[BaseModel]) -> Iterator[type[BaseModel]]:
    yield group
    for field in group.model_fields.values():
        for below in _groups_in(field.annotation):
            yield from _groups(below)


def _groups_in(annotation: Any, *, is_direct: bool = False) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    elif not is_direct:
        for each in get_args(annotation):
            yield from _groups_in(each)


def _line(text: str) -> str:
    return " ".join(text.split())
