"""docs/architecture.md names the rooms that exist, and the code imports no more than it allows."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.project.files import ROOT, pyproject, read, rows, section

PACKAGE = ROOT / "multikueue"
DOCUMENT = "docs/architecture.md"


def layers() -> list[list[str]]:
    """import-linter's layers, from the top; rooms of one layer do not know each other."""
    contracts = pyproject()["tool"]["importlinter"]["contracts"]
    (contract,) = [contract for contract in contracts if contract.get("containers") == ["multikueue"]]
    return [[room.strip() for room in layer.split("|")] for layer in contract["layers"]]


def rooms_on_disk() -> set[str]:
    modules = {path.stem for path in PACKAGE.glob("*.py") if not path.stem.startswith("__")}
    return modules | {path.parent.name for path in PACKAGE.glob("*/__init__.py")}


def documented() -> dict[str, set[str]]:
    """Room to what it may import, as the table of rooms says."""
    table = rows(section(read(DOCUMENT), "The rooms"))
    return {room: allowed(room, cells[-1]) for room, cells in table}


def allowed(room: str, cell: str) -> set[str]:
    return below(room) if cell == "everything below" else set(re.findall(r"`(\w+)`", cell))


def below(room: str) -> set[str]:
    (level,) = [number for number, layer in enumerate(layers()) if room in layer]
    return {name for layer in layers()[level + 1 :] for name in layer}


def files_of(room: str) -> list[Path]:
    return sorted((PACKAGE / room).rglob("*.py")) or [PACKAGE / f"{room}.py"]


def imports_of(room: str) -> set[str]:
    return {found for path in files_of(room) for found in rooms_imported(ast.parse(path.read_text()))} - {room}


def rooms_imported(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        for name in names:
            package, _, rest = name.partition(".")
            room = rest.partition(".")[0]
            if package == "multikueue" and room and not room.startswith("__"):
                yield room


def test_the_document_has_the_layers_of_the_import_contract_in_their_order() -> None:
    order = [room for layer in layers() for room in layer]

    assert list(documented()) == order


def test_the_document_names_the_rooms_that_exist() -> None:
    assert set(documented()) == rooms_on_disk()


@pytest.mark.parametrize("room", [room for layer in layers() for room in layer])
def test_the_document_allows_only_what_lies_below(room: str) -> None:
    assert documented()[room] <= below(room)


@pytest.mark.parametrize("room", sorted(rooms_on_disk()))
def test_a_room_imports_only_what_the_document_allows(room: str) -> None:
    assert imports_of(room) <= documented()[room]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("from multikueue.api.meta import Condition", {"api"}),
        ("from multikueue import errors", {"errors"}),
        ("import multikueue.kube.client", {"kube"}),
        ("from multikueue import __version__", set()),
        ("import anyio", set()),
    ],
    ids=["a name of a room's module", "a room", "a whole module", "a name of the package", "another package"],
)
def test_imports_are_found_in_each_spelling(source: str, expected: set[str]) -> None:
    assert set(rooms_imported(ast.parse(source))) == expected
