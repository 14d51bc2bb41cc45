"""Settings in words: what is in force and from where, and the page that documents them all (docs/settings.md).

Also as a JSON Schema, for editors, and as a file to begin with. All of it follows from the tree.
"""

from __future__ import annotations

import ast
import inspect
import json
import sys
from collections.abc import Iterator, Mapping
from datetime import timedelta
from functools import cache
from itertools import pairwise
from pathlib import Path
from textwrap import wrap
from types import UnionType
from typing import Annotated, Any, Literal, Union, cast, get_args, get_origin

import msgspec
import yaml
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue

from multikueue.settings import kueue
from multikueue.settings.sources import Loaded
from multikueue.settings.tree import Leaf, Settings, leaves

__all__ = ["SettingRow", "in_force", "meanings", "page", "schema", "template", "written"]

GENERATED = "<!-- From here on `make docs` writes, out of multikueue/settings. -->\n"

_UNITS = (("h", timedelta(hours=1)), ("m", timedelta(minutes=1)), ("s", timedelta(seconds=1)))


class SettingRow(msgspec.Struct, frozen=True):
    """A setting in force, printed under these names: value and default as one would write them, and the value's place."""

    name: str
    value: Any
    source: str
    default: Any
    live: bool


def in_force(loaded: Loaded) -> tuple[SettingRow, ...]:
    """Every setting, in the order of the tree."""
    return tuple(
        SettingRow(
            leaf.name,
            written(leaf.of(loaded.settings)),
            loaded.origin(leaf.path),
            written(_default(leaf.field)),
            leaf.is_live,
        )
        for leaf in leaves()
    )


def written(value: Any) -> Any:
    """A value as a settings file has it: plain, durations as `1m30s`, sets in order."""
    match value:
        case timedelta():
            return _duration(value)
        case BaseModel():
            return {name: written(getattr(value, name)) for name in type(value).model_fields}
        case Mapping():
            return {name: written(each) for name, each in value.items()}
        case frozenset():
            return sorted(map(written, value))
        case tuple() | list():
            return [written(each) for each in value]
        case None | bool() | int() | float() | str():
            return value
        case _:
            return str(value)


def _duration(value: timedelta) -> str:
    text, rest = "", abs(value)
    for unit, size in _UNITS:
        count, rest = divmod(rest, size)
        text += f"{count}{unit}" if count else ""
    micros = rest // timedelta(microseconds=1)
    if micros:
        text += f"{micros // 1000}ms" if micros % 1000 == 0 else f"{micros}us"
    return ("-" if value < timedelta() else "") + (text or "0s")


def _default(field: FieldInfo) -> Any:
    return None if field.is_required() else field.get_default(call_default_factory=True)


# The page.


def page() -> str:
    """The part of docs/settings.md that follows from the code."""
    return "\n".join((GENERATED, *_settings(), *_kueue()))


def _settings() -> Iterator[str]:
    groups: dict[tuple[str, ...], list[Leaf]] = {}
    for leaf in leaves():
        groups.setdefault(leaf.path[:-1], []).append(leaf)
    for path, members in groups.items():
        yield f"## {'.'.join(path) or 'Top level'}\n"
        if path:
            yield f"{_prose(_group(path).__doc__)}\n"
        yield "| Setting | Kind | Default | Live | Meaning |\n|---|---|---|---|---|"
        for leaf in members:
            meaning = meanings(_group(path))[leaf.path[-1]]
            yield f"| `{leaf.name}` | {_cells(leaf.field, 'yes' if leaf.is_live else '', _prose(meaning))} |"
        yield ""
        for leaf in members:
            yield from _items(leaf.name, leaf.field.annotation)


def _items(name: str, annotation: Any) -> Iterator[str]:
    """Tables for what a list is made of, and for the groups and lists within that."""
    item = next((each for each in (annotation, *get_args(annotation)) if _is_group(each)), None)
    if item is None:
        return
    name = f"{name}[]" if get_origin(annotation) is tuple else name
    yield f"{_prose(item.__doc__)}\n"
    yield f"| In `{name}` | Kind | Default | Meaning |\n|---|---|---|---|"
    for inner, field in item.model_fields.items():
        yield f"| `{inner}` | {_cells(field, _prose(meanings(item)[inner]))} |"
    yield ""
    for inner, field in item.model_fields.items():
        yield from _items(f"{name}.{inner}", field.annotation)


def _kueue() -> Iterator[str]:
    yield "## Fields of Kueue's configuration\n"
    yield "| Field | In | Here |\n|---|---|---|"
    for known in kueue.FIELDS:
        versions = "v1beta1, v1beta2" if known.versions == "both" else known.versions
        since = "" if known.since == kueue.FIRST else f", since {known.since}"
        until = "" if known.until == kueue.NEWEST else f", with `quota.compatibility` up to {known.until}"
        yield f"| `{known.name}` | {versions}{since}{until} | {_fate(known)} |"
    yield ""


def _fate(known: kueue.Field) -> str:
    here = ", ".join(f"`{'.'.join(path)}`" for path in known.to) or f"ignored: {_prose(known.why)}"
    fine = [json.dumps(value) for value in known.fine if value not in ("", [])]
    if fine and not known.to:
        here = f"{' or '.join(f'`{value}`' for value in fine)} is what is done; other values are {here}"
    return here + (f"; left out: `{known.left_out}`, as in Kueue" if known.left_out else "")


@cache
def meanings(group: type[BaseModel]) -> Mapping[str, str]:
    """The meaning of each field of a group, by its name: the string below it in the source."""
    (tree,) = ast.parse(inspect.getsource(group)).body
    assert isinstance(tree, ast.ClassDef)
    found: dict[str, str] = {}
    for field, below in pairwise(tree.body):
        match field, below:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                found[name] = inspect.cleandoc(text)
    return found


def _group(path: tuple[str, ...]) -> type[BaseModel]:
    group: Any = Settings
    for part in path:
        group = group.model_fields[part].annotation
    return cast(type[BaseModel], group)


def _is_group(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


_KINDS: Mapping[Any, str] = {
    bool: "true or false",
    dict: "mapping",
    int: "number",
    float: "number",
    str: "text",
    Path: "path",
    timedelta: "duration",
}


def _kind(annotation: Any) -> str:
    """The form in which a value of this type is written."""
    origin, inner = get_origin(annotation), [each for each in get_args(annotation) if each is not type(None)]
    if origin is Literal:
        return ", ".join(f"`{each}`" for each in inner)
    if origin in (tuple, frozenset):
        return f"list of {_kind(inner[0])}"
    if origin in (Annotated, Union, UnionType):
        return _kind(inner[0])
    return "group, below" if _is_group(annotation) else _KINDS[origin or annotation]


def _shown_default(field: FieldInfo) -> str:
    if field.is_required():
        return "must be given"
    value = written(_default(field))
    if value in (None, "", []):
        return "none"
    return f"`{', '.join(value) if isinstance(value, list) else json.dumps(value).strip(chr(34))}`"


def _cells(field: FieldInfo, *more: str) -> str:
    return " | ".join((_kind(field.annotation), _shown_default(field), *more))


def _prose(text: str | None) -> str:
    """A docstring as a line of a table."""
    return " ".join((text or "").split()).replace("|", "\\|")


def main(path: str) -> None:
    """Rewrites the generated part of the page."""
    file = Path(path)
    prose, _, _ = file.read_text().partition(GENERATED)
    file.write_text(prose + page())


if __name__ == "__main__":
    main(*sys.argv[1:])


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
