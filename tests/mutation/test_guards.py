"""What is called a guard is there, and whoever contributes can read where."""

from __future__ import annotations

import ast
from functools import cache

import pytest

from tests.mutation.guards import GUARDS, Guard
from tests.project.files import ROOT, read, section


@cache
def functions_of(module: str) -> frozenset[str]:
    tree = ast.parse((ROOT / module).read_text())
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


@pytest.mark.parametrize("guard", GUARDS, ids=lambda guard: guard.module)
def test_a_guard_is_there(guard: Guard) -> None:
    assert guard.functions - functions_of(guard.module) == set()
    assert functions_of(guard.module)


@pytest.mark.parametrize("guard", GUARDS, ids=lambda guard: guard.module)
def test_contributors_are_told_of_it(guard: Guard) -> None:
    rows = section(read("CONTRIBUTING.md"), "Guards").splitlines()
    place = guard.module.removeprefix("multikueue/").removesuffix(".py")
    assert [row for row in rows if f"| {guard.step} |".lower() in row.lower() and f"`{place}`" in row] != []
