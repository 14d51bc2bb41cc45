"""docs/invariants.md names what a simulated run can find broken, and nothing else."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from tests.project.files import ROOT, read

SIMULATION = ROOT / "simulator/src/multikueue_simulator/simulation"
CALLS = {"broken", "_broken", "Violation"}
ELSEWHERE = {"I5", "I10", "I12"}
"""Numbers that a run does not report: another name of `settles`, and two that the real suite checks."""


def names() -> Iterator[str]:
    """What the simulation's code calls the invariants that it finds broken."""
    for path in SIMULATION.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            match node:
                case ast.Call(
                    func=ast.Name(id=name) | ast.Attribute(attr=name), args=[ast.Constant(value=str(it)), *_]
                ):
                    if name in CALLS:
                        yield it


def test_each_invariant_is_in_the_page() -> None:
    rows = re.findall(r"^\| ([\w, ]+) \|", read("docs/invariants.md"), re.MULTILINE)[1:]

    assert {name for row in rows for name in row.split(", ")} == {*names(), *ELSEWHERE}
