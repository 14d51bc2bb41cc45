"""Settings in words: what is in force and from where, and the page that documents them all (docs/settings.md)."""

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
from types import UnionType
from typing import Annotated, Any, Literal, Union, cast, get_args, get_origin

import msgspec
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from multikueue.settings import kueue
from multikueue.settings.sources import Loaded
from multikueue.settings.tree import Leaf, Settings, leaves

__all__ = ["SettingRow", "in_force", "meanings", "page", "written"]

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
