"""Why an object was set aside, in words for people."""

from __future__ import annotations

import msgspec
import pytest

from multikueue.api.values.unreadable import why_unreadable
from multikueue.errors import InvalidObject


@pytest.mark.parametrize(
    ("error", "why"),
    [
        pytest.param(RecursionError("maximum depth"), "it is nested too deeply", id="depth, whatever Python calls it"),
        pytest.param(msgspec.ValidationError("Expected `int`"), "Expected `int`", id="an odd shape"),
        pytest.param(InvalidObject("a", "b", "c"), "a: b: expected c", id="a rule of its kind"),
        pytest.param(KeyError("x"), "KeyError: 'x'", id="what nobody foresaw, by its name"),
        pytest.param(InvalidObject("a\nb", "f", "c"), "a b: f: expected c", id="in one line"),
    ],
)
def test_why(error: Exception, why: str) -> None:
    assert why_unreadable(error) == why


def test_of_what_nobody_foresaw_it_says_where() -> None:
    with pytest.raises(ZeroDivisionError) as raised:
        _ = 1 // 0
    assert why_unreadable(raised.value).startswith(
        "ZeroDivisionError (in test_of_what_nobody_foresaw_it_says_where, line"
    )


def test_the_words_of_a_stranger_are_cut() -> None:
    assert len(why_unreadable(msgspec.ValidationError("x" * 10**6))) <= 300
