"""The store is changed by its own methods only: nobody else sets an attribute of it, or of what it has."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

from multikueue.dispatch.remote import Link
from multikueue.quota.engine import Engine
from multikueue.store.queues import NoQueues
from multikueue.store.store import Store
from multikueue.store.workers.known_objects import Expectations
from multikueue.store.workers.watch_scope import WatchScope
from multikueue.store.workers.worker import WorkerView
from multikueue.testing import NOW
from tests.project.files import ROOT

OWNER = re.compile(r"(^|[._])(store|known|worker|view|link|expectations|watch_scope|plans)(\(.*\))?$")
"""What a name ends with that stands for the store, or for something that it has."""

STORE = Store(Engine(), NoQueues(), lambda: NOW)
OWNED = {
    *vars(STORE),
    *WorkerView.__slots__,
    *Link.__struct_fields__,
    *vars(Expectations()),
    *vars(STORE.plans),
    *WatchScope.__slots__,
}
"""Its attributes, and theirs."""

ROOM = ROOT / "multikueue" / "store"

ELSEWHERE = ("tests/builders/", "tests/real/")
"""There, a worker is a cluster of another kind."""

FILES = [
    path
    for tree in ("multikueue", "tests")
    for path in sorted((ROOT / tree).rglob("*.py"))
    if ROOM not in path.parents and not path.relative_to(ROOT).as_posix().startswith(ELSEWHERE)
]


def set_from_outside(source: str) -> Iterator[str]:
    """The attributes of the store, or of what it has, that are set or deleted, or of which an item is."""
    for node in ast.walk(ast.parse(source)):
        targets: list[ast.expr] = []
        if isinstance(node, (ast.Assign, ast.Delete)):
            targets = list(node.targets)
        elif isinstance(node, (ast.AugAssign, ast.AnnAssign)):
            targets = [node.target]
        for target in targets:
            for each in target.elts if isinstance(target, ast.Tuple) else (target,):
                place = each.value if isinstance(each, ast.Subscript) else each
                if isinstance(place, ast.Attribute) and place.attr in OWNED and OWNER.search(ast.unparse(place.value)):
                    yield ast.unparse(each)


def test_nobody_else_sets_an_attribute_of_the_store() -> None:
    found = {path: list(set_from_outside(path.read_text())) for path in FILES}
    assert {path.relative_to(ROOT).as_posix(): lines for path, lines in found.items() if lines} == {}


@pytest.mark.parametrize(
    "line",
    [
        "store._queues = other",
        "self.world.store.fleets[key] = fleet",
        "self.worker.link = link",
        'world.store.worker("w1").why = "gone"',
        "line.worker.leaving, other = '', 1",
        "self.worker.expectations._asked[key] = asked",
        "del store.workers[name]",
        "line.worker.watch_scope.namespaces += more",
    ],
)
def test_such_a_line_is_found(line: str) -> None:
    assert list(set_from_outside(line))
