"""The size of the product in figures: `python -m tests.project.figures`, with the words of each page of the docs.

The goals are guarded by `test_figures`. What is counted is `multikueue/`, which is what the wheel ships beside the strategies,
and the prose of README.md and docs/.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

from multikueue.settings.tree import leaves
from tests.project.files import ROOT

__all__ = ["Figures", "figures", "prose", "words"]

PRODUCT = ROOT / "multikueue"
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
REFERENCES = {"attacks.md", "commands.md", "invariants.md", "metrics.md", "settings.md", "why.md"}
"""Pages to look something up in, which are generated or compared with the code: no prose."""

Figures = Mapping[str, float]
"""By what is counted; a share is between 0 and 1."""

Function = ast.FunctionDef | ast.AsyncFunctionDef


@cache
def figures() -> Figures:
    """What is counted today."""
    trees = [ast.parse(path.read_text()) for path in _modules()]
    functions = [node for tree in trees for node in ast.walk(tree) if isinstance(node, Function)]
    classes = [node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    helpers = [uses for tree in trees for uses in _uses_of_private_helpers(tree)]
    return {
        "modules": sum(not path.name.startswith("__") for path in _modules()),
        "lines": sum(len(path.read_text().splitlines()) for path in _modules()),
        "settings": len(list(leaves())),
        "methods of a class, at most": max(sum(isinstance(node, Function) for node in each.body) for each in classes),
        "parameters of a function, at most": max(map(_parameters, functions)),
        "private helpers with one caller": helpers.count(1) / len(helpers),
        "words of prose in the docs": sum(prose().values()),
    }


def prose() -> Mapping[str, int]:
    """The words of each page by its path in the repository, without the references."""
    return {str(path.relative_to(ROOT)): words(path.read_text()) for path in PAGES if path.name not in REFERENCES}


def words(markdown: str) -> int:
    """Words that a person wrote, tables and headings included: no blocks of code, no addresses of links, no comments.

    What a command writes between `<!-- its name -->` and `<!-- end -->` does not count either.
    """
    text = re.sub(r"^( *)```.*?^\1```$", "", markdown, flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"^<!-- [\w -]+ -->$.*?^<!-- end -->$", "", text, flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"<!--.*?-->|<[^>]+>|\]\([^)]*\)", "", text, flags=re.DOTALL)
    return len(re.findall(r"[^\s|]*\w[^\s|]*", text))


def _modules() -> list[Path]:
    return sorted(PRODUCT.rglob("*.py"))


def _parameters(function: Function) -> int:
    arguments = function.args
    named = [each.arg for each in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
    return len([name for name in named if name not in ("self", "cls")])


def _uses_of_private_helpers(tree: ast.Module) -> Iterator[int]:
    """For each private function of a module or method of its classes: how often the module names it elsewhere."""
    bodies = [tree.body, *(node.body for node in ast.walk(tree) if isinstance(node, ast.ClassDef))]
    private = {
        node.name
        for body in bodies
        for node in body
        if isinstance(node, Function) and node.name.startswith("_") and not node.name.startswith("__")
    }
    named = Counter(
        node.id if isinstance(node, ast.Name) else node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Name | ast.Attribute)
    )
    return (named[name] for name in private)


if __name__ == "__main__":
    for what, figure in figures().items():
        print(f"{what:36} {figure:.0%}" if 0 < figure < 1 else f"{what:36} {figure:,.0f}")
    for page, count in sorted(prose().items(), key=lambda each: -each[1]):
        print(f"  {page:34} {count:,}")
