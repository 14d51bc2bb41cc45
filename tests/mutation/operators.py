"""How a guard is taken out: a condition that always or never holds, or a part of one that is left out.

Operators of Cosmic Ray, beside its own. These replace a condition by its contrary, which nearly any test notices; a guard that
is simply not there is noticed by the test of what it is there for.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import parso
from cosmic_ray.operators.operator import Example, Operator
from parso.python.tree import Function, IfStmt, ReturnStmt, WhileStmt
from parso.tree import BaseNode, NodeOrLeaf

__all__ = ["Guards"]

Position = tuple[int, int]


def _conditions(node: NodeOrLeaf) -> Sequence[int]:
    """The children of this node that are conditions."""
    if isinstance(node, IfStmt | WhileStmt):
        return [number + 1 for number, child in enumerate(node.children) if _is(child, "if", "elif", "while")]
    if node.type in ("test", "comp_if"):
        return [number + 1 for number, child in enumerate(node.children) if _is(child, "if")]
    return []


def _returned(node: NodeOrLeaf) -> Sequence[int]:
    """The expression that a function returns that says whether something is so."""
    if not isinstance(node, ReturnStmt) or len(node.children) < 2:
        return []
    function = parso.tree.search_ancestor(node, "funcdef")
    return [1] if isinstance(function, Function) and _says_whether(function) and not _is_constant(node) else []


def _says_whether(function: Function) -> bool:
    return function.annotation is not None and function.annotation.get_code(include_prefix=False) == "bool"


def _is_constant(node: ReturnStmt) -> bool:
    return node.children[1].get_code(include_prefix=False) in ("True", "False")


def _is(node: NodeOrLeaf, *words: str) -> bool:
    return node.type == "keyword" and node.get_code(include_prefix=False) in words


class _Constant(Operator):
    """A condition, or what a function says, is the same whatever is the case."""

    value: ClassVar[str]

    def mutation_positions(self, node: NodeOrLeaf) -> Iterator[tuple[Position, Position]]:
        for number in self._places(node):
            child = node.children[number]
            yield child.start_pos, child.end_pos

    def mutate(self, node: BaseNode, index: int) -> BaseNode:
        node.children[self._places(node)[index]] = parso.parse(f" {self.value}")
        return node

    def _places(self, node: NodeOrLeaf) -> Sequence[int]:
        if self.value == "True" and isinstance(node, WhileStmt):
            return ()  # it would never end
        return (*_conditions(node), *_returned(node))


class Always(_Constant):
    value = "True"

    @classmethod
    def examples(cls) -> Sequence[Any]:
        return (
            Example("if a and b: c()\n", "if True: c()\n"),
            Example("if a: b()\nelif c: d()\n", "if a: b()\nelif True: d()\n", occurrence=1),
            Example("a = b if c else d\n", "a = b if True else d\n"),
            Example("a = [b for b in c if d]\n", "a = [b for b in c if True]\n"),
            Example("def f() -> bool:\n    return a == b\n", "def f() -> bool:\n    return True\n"),
        )


class Never(_Constant):
    value = "False"

    @classmethod
    def examples(cls) -> Sequence[Any]:
        return (
            Example("if a and b: c()\n", "if False: c()\n"),
            Example("while a: b()\n", "while False: b()\n"),
            Example("def f() -> bool:\n    return not a\n", "def f() -> bool:\n    return False\n"),
        )


class WithoutPart(Operator):
    """One part of `a and b`, or of `a or b`, is left out."""

    def mutation_positions(self, node: NodeOrLeaf) -> Iterator[tuple[Position, Position]]:
        if node.type in ("and_test", "or_test"):
            for part in node.children[::2]:
                yield part.start_pos, part.end_pos

    def mutate(self, node: BaseNode, index: int) -> BaseNode:
        first = max(2 * index - 1, 0)
        prefix = node.get_first_leaf().prefix
        del node.children[first : first + 2]
        node.get_first_leaf().prefix = prefix
        return node

    @classmethod
    def examples(cls) -> Sequence[Any]:
        return (
            Example("a and b and c\n", "b and c\n"),
            Example("a and b and c\n", "a and c\n", occurrence=1),
            Example("a and b and c\n", "a and b\n", occurrence=2),
            Example("a or b\n", "b\n"),
        )


class Guards:
    """The provider of these operators."""

    _operators: ClassVar[dict[str, type[Operator]]] = {each.__name__: each for each in (Always, Never, WithoutPart)}

    def __iter__(self) -> Iterator[str]:
        return iter(self._operators)

    def __getitem__(self, name: str) -> type[Operator]:
        return self._operators[name]
