"""Names of our modules, classes and functions in comments, docstrings and docs are there."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache

import pytest

from multikueue.settings import leaves
from tests.project.files import DOCS, ROOT

SOURCES = {
    "multikueue": ROOT / "multikueue",
    "multikueue_strategies": ROOT / "strategies/multikueue_strategies",
    "fakekube": ROOT / "fakekube/src/fakekube",
    "multikueue_console": ROOT / "console/src/multikueue_console",
    "multikueue_simulator": ROOT / "simulator/src/multikueue_simulator",
    "testbed": ROOT / "testbed",
    "benchmarks": ROOT / "benchmarks",
    "release": ROOT / "release",
}
FILES = {
    (package, *path.relative_to(folder).with_suffix("").parts): path
    for package, folder in SOURCES.items()
    for path in folder.rglob("*.py")
}
"""All our files by the parts of their import names."""

MODULES = {".".join(parts).removesuffix(".__init__"): path for parts, path in FILES.items()}
ENTRY_POINTS = {"multikueue.commands", "multikueue.strategies"}
"""Groups of entry points, which only look like modules."""

DOTTED = re.compile(r"`([a-z_]+(?:\.[A-Za-z_]\w*)+)(?:\(\))?`")
FILE_ENDINGS = (".json", ".key", ".log", ".md", ".py", ".toml", ".yaml")


@cache
def tree(module: str) -> ast.Module:
    return ast.parse(MODULES[module].read_text())


@cache
def names_in(module: str) -> frozenset[str]:
    """What a module defines or imports, and the members of its classes."""
    return frozenset(_names(tree(module)))


def _names(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield name
            case ast.alias(name=name, asname=other):
                yield (other or name).partition(".")[0]


@cache
def other_names() -> frozenset[str]:
    """Dotted names that are no code of ours: settings and their groups, and strings of the sources such as log events."""
    groups = {".".join(leaf.path[:count]) for leaf in leaves() for count in range(2, len(leaf.path) + 1)}
    quoted = re.compile(r'"([a-z_]+(?:\.\w+)+)"')
    return frozenset(groups.union(*(quoted.findall(path.read_text()) for path in MODULES.values())))


@cache
def modules_of(room: str) -> tuple[str, ...]:
    return tuple(module for module in MODULES if module.rpartition(".")[0] == room)


def is_there(parts: tuple[str, ...]) -> bool:
    """Whether the dotted name is one of our modules, or leads to a name in one.

    `store.profiles` is also a name: the room has a module with it, and values are called as their room.
    """
    modules = (count for count in range(len(parts), 0, -1) if ".".join(parts[:count]) in MODULES)
    count = next(modules, 0)
    module, rest = ".".join(parts[:count]), set(parts[count:])
    return bool(count) and any(rest <= names_in(each) for each in (module, *modules_of(module)))


def is_stale(name: str, inside: tuple[str, ...] = ()) -> bool:
    """Whether a name begins as a module does, and leads nowhere: from the top, the manager's package or one around it."""
    parts = tuple(name.split("."))
    if name in ENTRY_POINTS or name in other_names() or name.endswith(FILE_ENDINGS):
        return False
    rooms = {(), ("multikueue",), *(inside[:count] for count in range(1, len(inside)))}
    meant = [room for room in rooms if ".".join((*room, parts[0])) in MODULES]
    return bool(meant) and not any(is_there((*room, *parts)) for room in meant)


def test_names_in_the_sources_are_there() -> None:
    stale = [
        f"{path.relative_to(ROOT)}: {name}"
        for parts, path in FILES.items()
        for name in DOTTED.findall(path.read_text())
        if is_stale(name, parts)
    ]
    assert stale == []


def test_names_in_the_docs_are_there() -> None:
    stale = [
        f"{page.relative_to(ROOT)}: {name}"
        for page in DOCS
        if page.name != "CHANGELOG.md"
        for name in DOTTED.findall(page.read_text())
        if is_stale(name)
    ]
    assert stale == []


@pytest.mark.parametrize(
    ("name", "stale"),
    [
        ("quota.engine.Engine", False),
        ("quota.engine.Motor", True),
        ("kube.nowhere", True),
        ("quota.pods_ready", False),
        ("spec.queueName", False),
    ],
)
def test_a_name_is_stale_if_its_room_is_ours_and_the_rest_is_not(name: str, stale: bool) -> None:
    assert is_stale(name) is stale
