"""The value of -o, and which of its forms show whole objects."""

from __future__ import annotations

import pytest
import typer

from multikueue.cli.terminal.formats import CustomColumns, Form, Format, JsonPath, is_document, parse

FORMS: dict[str, tuple[Form, bool]] = {
    "table": (Format.TABLE, False),
    "wide": (Format.WIDE, False),
    "name": (Format.NAME, False),
    "json": (Format.JSON, True),
    "yaml": (Format.YAML, True),
    "jsonpath={.a}": (JsonPath("{.a}"), True),
    "custom-columns=A:.a,B:.b.c": (CustomColumns((("A", ".a"), ("B", ".b.c"))), True),
}


@pytest.mark.parametrize(("written", "expected"), FORMS.items(), ids=FORMS.keys())
def test_forms(written: str, expected: tuple[Form, bool]) -> None:
    form = parse(written)

    assert (form, is_document(form)) == expected


@pytest.mark.parametrize(
    "written", ["", "xml", "jsonpath", "jsonpath=", "custom-columns=", "custom-columns=A", "tables"]
)
def test_what_is_none_is_refused(written: str) -> None:
    with pytest.raises(typer.BadParameter):
        parse(written)


def test_what_is_nearly_one_has_the_nearest() -> None:
    with pytest.raises(typer.BadParameter, match=r"'jsn' is not one of table, .*; did you mean json\?"):
        parse("jsn")
