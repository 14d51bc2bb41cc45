"""Settings in words: what is in force, and the page that can never be false."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from multikueue.durations import duration
from multikueue.settings import Settings, leaves, load, read
from multikueue.settings.describe import GENERATED, in_force, main, page, schema, template, written

PAGE = Path(__file__).parents[2] / "docs" / "settings.md"


def test_the_page_is_what_the_code_says() -> None:
    _, marker, generated = PAGE.read_text().partition(GENERATED)
    assert marker + generated == page(), "run `make docs`"


def test_the_page_is_rewritten_below_its_prose(tmp_path: Path) -> None:
    path = tmp_path / "settings.md"
    path.write_text(f"# Prose\n\n{GENERATED}\nold\n")
    main(str(path))
    assert path.read_text() == f"# Prose\n\n{page()}"


def test_every_setting_has_its_line() -> None:
    for leaf in leaves():
        assert [line for line in page().splitlines() if line.startswith(f"| `{leaf.name}` |")]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (timedelta(minutes=15), "15m"),
        (timedelta(), "0s"),
        (timedelta(hours=26, seconds=1), "26h1s"),
        (timedelta(milliseconds=200), "200ms"),
        (timedelta(microseconds=2), "2us"),
        (-timedelta(seconds=3), "-3s"),
        (frozenset({"b", "a"}), ["a", "b"]),
        (("a", timedelta(seconds=1)), ["a", "1s"]),
        (Path("/k"), "/k"),
        ({"a": {"b": timedelta(seconds=1)}}, {"a": {"b": "1s"}}),
        (None, None),
        (True, True),
    ],
    ids=lambda part: "a set" if isinstance(part, frozenset) else str(part),
)
def test_values_are_written_as_a_file_has_them(value: object, text: object) -> None:
    assert written(value) == text


@given(st.timedeltas())
def test_a_duration_that_is_written_is_read_as_the_same(value: timedelta) -> None:
    value = timedelta(seconds=int(value.total_seconds()))
    assert duration(written(value)) == value


def test_the_settings_that_are_written_are_read_as_the_same(tmp_path: Path) -> None:
    import yaml

    settings = load(
        dispatch__origin="a",
        dispatch__strategy__options={"step": 2},
        quota__exclude_resource_prefixes="a,b",
        probes__port=1,
    )
    path = tmp_path / "settings.yaml"
    path.write_text(yaml.safe_dump(written(settings)))
    assert load(path) == settings != Settings()


def test_each_setting_in_force_tells_where_it_comes_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "settings.yaml"
    path.write_text("dispatch: {origin: a, gc_interval: 5s}\ncluster: {namespace: queues}")
    monkeypatch.setenv("MULTIKUEUE_DISPATCH__GC_INTERVAL", "90s")
    rows = {row.name: row for row in in_force(read(path, log__level="debug"))}
    assert list(rows) == [leaf.name for leaf in leaves()]

    origin, interval, level, port = (
        rows[name] for name in ("dispatch.origin", "dispatch.gc_interval", "log.level", "probes.port")
    )
    assert (origin.value, origin.source, origin.default, origin.live) == ("a", str(path), "multikueue", False)
    assert (interval.value, interval.source, interval.live) == ("1m30s", "MULTIKUEUE_DISPATCH__GC_INTERVAL", True)
    assert (level.value, level.source) == ("debug", "flag")
    assert (port.value, port.source, port.default) == (None, "default", None)


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
