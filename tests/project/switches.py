"""Writes the table of switches into docs/compatibility.md: `python -m tests.project.switches`, as `make docs` does."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from benchmarks.page import put
from tests.project.files import ROOT, read

__all__ = ["NAME", "PAGE", "table"]

PAGE = ROOT / "docs/compatibility.md"
NAME = "switches"
CODE = "multikueue/api/kueue/compatibility.py"
_DOCSTRING = re.compile(r"Since (?P<since>[^(]+) \((?P<source>[^)]+)\): (?P<now>.+?)(?: Before: (?P<before>.+))?")


def table() -> str:
    """A row for each switch, the oldest releases first. Raises ValueError for a docstring of another form."""
    rows = sorted(_rows(), key=lambda row: [int(part) for part in row[0].split()[0].split(".")])
    head = ("| Since | Kueue | What changed | Before |", "|---|---|---|---|")
    return "\n".join((*head, *(f"| {' | '.join(row)} |" for row in rows)))


def _rows() -> Iterator[tuple[str, ...]]:
    body = next(node.body for node in ast.parse(read(CODE)).body if isinstance(node, ast.ClassDef))
    for node in body[1:]:
        match node:
            case ast.Expr(value=ast.Constant(value=str(text))):
                found = _DOCSTRING.fullmatch(" ".join(text.split()))
                if found is None:
                    raise ValueError(f"no docstring of a switch: {text!r}")
                yield tuple(found.groups(""))


if __name__ == "__main__":
    put(PAGE, NAME, table())
