"""What a part needs of all workers of a fleet, computed once for each question and not once for each worker."""

from collections.abc import Callable
from typing import Generic, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class Once(Generic[P, T]):
    """A pure function that keeps its last result, for as long as it is called with the same arguments.

    Those are mostly the same objects, which tuples compare first. A lost race between threads computes the result again.
    """

    def __init__(self, compute: Callable[P, T]) -> None:
        self._compute = compute
        self._last: tuple[tuple[object, ...], T] | None = None

    def __call__(self, *asked: P.args, **named: P.kwargs) -> T:
        last = self._last
        if last is not None and last[0] == asked:
            return last[1]
        result = self._compute(*asked, **named)
        self._last = asked, result
        return result
