"""The files of the project as these tests read them."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
KIND_CONFIGS = ROOT / "kind-configs"
MEMBERS = {
    "multikueue": ROOT,
    "multikueue-console": ROOT / "console",
    "fakekube": ROOT / "fakekube",
    "multikueue-simulator": ROOT / "simulator",
}
"""The distributions made here: name to folder."""
DOCS = sorted(
    {*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), *(folder / "README.md" for folder in MEMBERS.values())}
)
CLUSTERS = ["manager", "worker-1", "worker-2", "worker-3"]

_FENCE = re.compile(r"^```(?P<language>\w*)\n(?P<text>.*?)^```", re.MULTILINE | re.DOTALL)
_SPAN = re.compile(r"`([^`\n]+)`")
_ROW = re.compile(r"^\| *`([^`]+)` *\|(.*)\|$", re.MULTILINE)


def read(path: str | Path) -> str:
    return (ROOT / path).read_text()


def pyproject(member: str = "multikueue") -> dict[str, Any]:
    return tomllib.loads(read(MEMBERS[member] / "pyproject.toml"))


def make_targets() -> set[str]:
    """The targets that people may call: those with a description."""
    return set(re.findall(r"^([a-z-]+):.*## ", read("Makefile"), re.MULTILINE))


def code(markdown: str) -> Iterator[str]:
    """Whatever a text shows as code: blocks, then spans. Of a console only what was typed."""
    for block in _FENCE.finditer(markdown):
        typed = re.findall(r"^\$ (.+)$", block["text"], re.MULTILINE)
        yield "\n".join(typed) if block["language"] == "console" else block["text"]
    yield from _SPAN.findall(_FENCE.sub("", markdown))


def blocks(markdown: str, language: str) -> list[str]:
    return [block["text"] for block in _FENCE.finditer(markdown) if block["language"] == language]


def rows(markdown: str) -> list[tuple[str, list[str]]]:
    """The rows of all tables whose first cell is code: that code, and the other cells."""
    return [(name, [cell.strip() for cell in rest.split("|")]) for name, rest in _ROW.findall(markdown)]


def section(markdown: str, title: str) -> str:
    """The text under a heading, up to the next heading of its level or above."""
    match = re.search(rf"^(#+) {re.escape(title)}\n(.*?)(?=^#{{1,2}} |\Z)", markdown, re.MULTILINE | re.DOTALL)
    assert match, f"there is no heading {title!r}"
    return match[2]


def objects(text: str) -> list[dict[str, Any]]:
    """The documents of a YAML text."""
    return [document for document in yaml.safe_load_all(text) if document]
