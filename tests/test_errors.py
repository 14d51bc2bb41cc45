"""Errors carry what a human needs, and form the tree that callers act by."""

from __future__ import annotations

import pytest

from multikueue import errors
from multikueue.errors import (
    AlreadyExists,
    ApiError,
    ClusterUnreachable,
    Conflict,
    InvalidObject,
    InvariantBroken,
    MultiKueueError,
    Throttled,
)

TREE = (errors.__doc__ or "").split("\n\n")[1]
CLASSES = [each for each in vars(errors).values() if isinstance(each, type)]


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_every_error_is_of_our_tree_and_drawn_in_it(kind: type[Exception]) -> None:
    assert issubclass(kind, MultiKueueError)
    assert kind.__name__ in TREE.replace("├", " ").replace("─", " ").split()
    assert kind.__doc__


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (InvalidObject("Workload default/wl", "spec.podSets", "at least one"), "expected at least one"),
        (InvalidObject("Job default/j", "spec.parallelism", "a number", "x"), "expected a number, got 'x'"),
        (ClusterUnreachable("worker-1", "refused"), "cluster worker-1 is unreachable: refused"),
        (ClusterUnreachable("", "refused"), "cluster manager is unreachable: refused"),
        (Conflict(409, "Conflict", "old", call="PUT /x"), "PUT /x: 409 Conflict: old"),
        (Conflict(409, "Conflict", "old"), "409 Conflict: old"),
    ],
)
def test_a_message_tells_where_and_what(error: MultiKueueError, message: str) -> None:
    assert str(error).endswith(message)


def test_an_api_error_keeps_the_facts() -> None:
    error = Throttled(429, "TooManyRequests", "slow down", after=3.0)
    assert (error.status, error.reason, error.message, error.after) == (429, "TooManyRequests", "slow down", 3.0)


def test_a_name_that_is_taken_is_no_conflict_to_look_at_again() -> None:
    assert not issubclass(AlreadyExists, Conflict)


def test_a_broken_invariant_is_no_answer_of_a_server() -> None:
    assert not issubclass(InvariantBroken, ApiError)
