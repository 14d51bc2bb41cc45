"""A mutant is planted wherever the functions of its module are by now, and nothing else changes."""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, cast

import pytest

from tests.mutation.judge import Watch, can_be_planted, plant

TEXT = """
from functools import singledispatch

class Gate:
    @property
    def is_open(self) -> bool:
        return True

    async def passes(self) -> bool:
        return self.is_open

@singledispatch
def kind(value: object) -> str:
    return "object"

@kind.register
def _number(value: int) -> str:
    return "number"

def outer(limit: int) -> list[int]:
    return [each for each in range(4) if each < limit]
"""


@pytest.fixture(name="path")
def _path(tmp_path: Path) -> Path:
    path = tmp_path / "gate.py"
    path.write_text(TEXT)
    return path


@pytest.fixture(name="module")
def _module(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("gate", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("old", "new", "seen"),
    [
        pytest.param("return True", "return False", lambda m: not m.Gate().is_open, id="a property"),
        pytest.param('"number"', '"no number"', lambda m: m.kind(1) == "no number", id="an entry of a table"),
        pytest.param("< limit", "<= limit", lambda m: m.outer(1) == [0, 1], id="what is within a function"),
        pytest.param(
            'return "object"', "\n    return str()", lambda m: m.kind("") == "", id="one after which all lines move"
        ),
    ],
)
def test_a_function_gets_the_code_of_the_mutant(
    path: Path, module: ModuleType, old: str, new: str, seen: Callable[[ModuleType], bool]
) -> None:
    assert not seen(module)
    plant(str(path), TEXT.replace(old, new))
    assert seen(module)


def test_the_text_itself_changes_nothing(path: Path, module: ModuleType) -> None:
    plant(str(path), TEXT)
    assert (module.Gate().is_open, module.kind(1), module.kind(""), module.outer(1)) == (True, "number", "object", [0])


def test_the_tests_that_call_a_function_are_known_and_the_quickest_come_first(path: Path, module: ModuleType) -> None:
    slow, quick, other = items = [SimpleNamespace(nodeid=name) for name in ("slow", "quick", "other")]
    watch = Watch(str(path), cast("list[pytest.Item]", items))
    plays: dict[str, Callable[[], Any]] = {
        slow.nodeid: lambda: [module.outer(limit) for limit in range(5_000)],
        quick.nodeid: lambda: module.outer(1),
        other.nodeid: dict,
    }
    for item in items:
        around = watch.pytest_runtest_protocol(cast("pytest.Item", item))
        next(around)
        sys.settrace(watch.trace)
        plays[item.nodeid]()
        sys.settrace(None)
        next(around, None)
    called = json.loads(watch.written())
    assert [tests for place, tests in called.items() if place.startswith("outer:")] == [[1, 0]]


@pytest.mark.parametrize(("old", "new", "can"), [("a: int = 1", "a: int = 2", False), ("return a", "return -a", True)])
def test_the_default_of_a_parameter_or_field_cannot_be_planted(old: str, new: str, can: bool) -> None:
    text = "class C:\n    a: int = 1\ndef f(a: int = 1) -> int:\n    return a\n"
    assert can_be_planted(text, text.replace(old, new)) is can
