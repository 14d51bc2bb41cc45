"""The meaning of an exception at a boundary: a bug of ours, the end of the program, or just a failure."""

from __future__ import annotations

from collections.abc import Iterator

from multikueue.errors import InvariantBroken, MultiKueueError


def leaves(error: Exception) -> Iterator[Exception]:
    """The exceptions of a group, at any depth; a plain exception is its own leaf."""
    if not isinstance(error, ExceptionGroup):
        yield error
        return
    for each in error.exceptions:
        yield from leaves(each)


def is_fatal(error: Exception) -> bool:
    """Whether an invariant of ours is broken, so that going on could do harm."""
    return any(isinstance(leaf, InvariantBroken) for leaf in leaves(error))


def is_expected(error: Exception) -> bool:
    """Whether a traceback would add nothing: all leaves were raised on purpose, or are deadlines that passed."""
    return all(isinstance(leaf, (MultiKueueError, TimeoutError)) for leaf in leaves(error))


def describe(error: Exception) -> str:
    """The messages in one line."""
    return "; ".join(f"{type(leaf).__name__}: {leaf}" for leaf in leaves(error))
