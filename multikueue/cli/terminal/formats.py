"""Output formats: kubectl's `-o`, with its templates, `--sort-by` and `--no-headers`."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import msgspec
import typer

__all__ = ["CustomColumns", "Form", "Format", "JsonPath", "NoHeaders", "Output", "SortBy", "is_document", "parse"]

_PANEL = "Output"


class Format(StrEnum):
    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"
    NAME = "name"


class JsonPath(msgspec.Struct, frozen=True):
    """`-o jsonpath=TEMPLATE`."""

    template: str

    def render(self, document: Any) -> str:
        from multikueue.cli.terminal.jsonpath import render

        return render(self.template, document)


class CustomColumns(msgspec.Struct, frozen=True):
    """`-o custom-columns=TITLE:PATH,...`, as pairs of title and path."""

    columns: tuple[tuple[str, str], ...]

    def cells(self, item: Any) -> Iterator[str]:
        from multikueue.cli.terminal.jsonpath import path, text

        return (text(path(where).find(item)) or "<none>" for _, where in self.columns)


Form: TypeAlias = Format | JsonPath | CustomColumns


def is_document(output: Form) -> bool:
    """Whether the format shows whole objects, not rows."""
    return output not in (Format.TABLE, Format.WIDE, Format.NAME)


def parse(text: str) -> Form:
    """The value of `-o`. Raises BadParameter."""
    if isinstance(text, Format):  # the default
        return text
    name, _, given = text.partition("=")
    try:
        if name in ("jsonpath", "custom-columns") and not given:
            raise ValueError(f"expected {name}=...")
        if name == "jsonpath":
            return _json_path(given)
        if name == "custom-columns":
            return _custom_columns(given)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    if text in Format.__members__.values():
        return Format(text)
    raise typer.BadParameter(
        f"{text!r} is not one of {', '.join(Format)}, jsonpath=..., custom-columns=...{_likely(text)}"
    )


def _likely(text: str) -> str:
    from difflib import get_close_matches

    found = get_close_matches(text, list(Format), n=1)
    return f"; did you mean {found[0]}?" if found else ""


def _json_path(template: str) -> JsonPath:
    found = JsonPath(template)
    found.render({})  # a mistake in it is reported before any request
    return found


def _custom_columns(written: str) -> CustomColumns:
    from multikueue.cli.terminal.jsonpath import path

    columns = tuple((title, where) for title, _, where in (each.partition(":") for each in written.split(",")))
    for title, where in columns:
        if not title or not where:
            raise ValueError("expected custom-columns=TITLE:PATH,TITLE:PATH")
        path(where)
    return CustomColumns(columns)


def _path(text: str) -> str:
    from multikueue.cli.terminal.jsonpath import path

    try:
        path(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    return text


if TYPE_CHECKING:
    _Chosen = Form
else:
    _Chosen = str  # typer knows no unions, and asks the parser anyway

Output = Annotated[
    _Chosen,
    typer.Option(
        "--output",
        "-o",
        parser=parse,
        metavar="FORMAT",
        help=f"One of {', '.join(Format)}, jsonpath=..., custom-columns=... as kubectl has them.",
        rich_help_panel=_PANEL,
    ),
]
SortBy = Annotated[
    str,
    typer.Option(
        "--sort-by",
        parser=_path,
        metavar="JSONPATH",
        help="In the order of this field, such as .metadata.creationTimestamp.",
        show_default=False,
        rich_help_panel=_PANEL,
    ),
]
NoHeaders = Annotated[
    bool, typer.Option("--no-headers", help="Do not print the header.", rich_help_panel=_PANEL, show_default=False)
]
