"""A file to begin with, the check of a file, and the schema: each agrees with what the manager takes."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema_rs
import pytest
import yaml

from tests.cli.conftest import Run


def test_the_file_to_begin_with_is_right_as_it_is_and_with_all_of_it_in_force(cli: Run, tmp_path: Path) -> None:
    file = tmp_path / "settings.yaml"
    template = cli("settings", "init").out
    lines = [line.removeprefix("# ") for line in template.splitlines()[1:]]
    for text in (template, "\n".join(lines)):
        file.write_text(text)
        assert cli("settings", "validate", str(file)).out == f"{file}: ok\n"

    assert yaml.safe_load("\n".join(lines))["dispatch"]["origin"] == "multikueue"
    assert cli("run", "--dry-run", "--changed", "-f", str(file)).err == "All settings have their defaults.\n"


@pytest.mark.parametrize(
    ("text", "hint"),
    [("dispatch: {orign: x}", "expected 'origin'"), ("shutdown: {grace_period: soon}", "expected a duration")],
    ids=["a misspelt name", "no duration"],
)
def test_a_file_that_is_wrong_ends_with_2(cli: Run, tmp_path: Path, text: str, hint: str) -> None:
    file = tmp_path / "settings.yaml"
    file.write_text(text)

    ended = cli("settings", "validate", str(file))

    assert (ended.code, ended.out) == (2, "")
    assert hint in ended.err


FILES = {
    "nothing": ("{}", True),
    "words of all kinds": ("{dispatch: {origin: x, gc_interval: 1m30s, concurrency: 3}, roles: [dispatch]}", True),
    "a duration in seconds": ("{shutdown: {grace_period: 90}}", True),
    "a name that is none": ("{dispatch: {orign: x}}", False),
    "a number that is a word": ("{dispatch: {concurrency: many}}", False),
    "a role that is none": ("{roles: [cook]}", False),
}


@pytest.mark.parametrize(("text", "fine"), FILES.values(), ids=FILES.keys())
def test_an_editor_takes_what_the_manager_takes(cli: Run, tmp_path: Path, text: str, fine: bool) -> None:
    file = tmp_path / "settings.yaml"
    file.write_text(text)
    schema = json.loads(cli("settings", "schema").out)

    assert jsonschema_rs.is_valid(schema, yaml.safe_load(text)) is fine
    assert (cli("settings", "validate", str(file)).code == 0) is fine
