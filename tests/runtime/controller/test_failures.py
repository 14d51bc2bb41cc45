"""What an exception at a boundary means."""

from __future__ import annotations

import pytest

from multikueue.errors import ClusterUnreachable, Conflict, InvariantBroken, StrategyError
from multikueue.runtime.controller.failures import describe, is_expected, is_fatal, leaves

CONFLICT = Conflict(409, "Conflict", "somebody wrote first")
DOWN = ClusterUnreachable("worker-1", "refused")
BUG = KeyError("x")
BROKEN = InvariantBroken("two winners")


def group(*errors: Exception) -> ExceptionGroup[Exception]:
    return ExceptionGroup("several", errors)


def test_leaves_of_a_group_of_groups_come_in_order() -> None:
    assert list(leaves(group(CONFLICT, group(DOWN, BUG)))) == [CONFLICT, DOWN, BUG]


@pytest.mark.parametrize(
    ("error", "expected", "fatal"),
    [
        pytest.param(StrategyError("raised"), True, False, id="an error of ours is expected"),
        pytest.param(TimeoutError(), True, False, id="a deadline that passed is expected"),
        pytest.param(BUG, False, False, id="anything else is not"),
        pytest.param(group(CONFLICT, DOWN), True, False, id="a group of expected errors is expected"),
        pytest.param(group(CONFLICT, BUG), False, False, id="one surprise makes the group a surprise"),
        pytest.param(BROKEN, True, True, id="a broken invariant is fatal"),
        pytest.param(group(CONFLICT, group(BROKEN)), True, True, id="so is one deep in a group"),
    ],
)
def test_what_an_error_means(error: Exception, expected: bool, fatal: bool) -> None:
    assert (is_expected(error), is_fatal(error)) == (expected, fatal)


def test_a_description_is_one_line_with_all_of_it() -> None:
    assert describe(group(DOWN, BUG)) == "ClusterUnreachable: cluster worker-1 is unreachable: refused; KeyError: 'x'"
