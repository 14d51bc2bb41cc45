from __future__ import annotations

from datetime import datetime, timedelta

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from multikueue.api.kueue.workload import WorkloadSpec
from multikueue.api.meta import LONGEST_MESSAGE, Condition, decoder
from multikueue.api.values.foreign import answer_or, bounded, excerpt, moment, why_unreadable
from multikueue.errors import InvalidObject
from multikueue.testing import NOW

IMPOSSIBLE = (
    "9999-12-31T23:59:59Z",
    "0001-01-01T00:00:00Z",
    "9999-12-31T23:59:59-23:59",
    "0001-01-01T00:00:00+23:59",
    "2026-01-01T12:00:00",
)


@pytest.mark.parametrize(
    ("text", "stays"),
    [("2026-01-01T12:00:00Z", True), ("2036-01-01T12:00:00Z", True), *((text, False) for text in IMPOSSIBLE)],
)
def test_a_time(text: str, stays: bool) -> None:
    time = datetime.fromisoformat(text)
    assert moment(time) == (time if stays else None)


def test_what_is_sound_stays_the_very_same() -> None:
    condition = Condition(type="A", status="True", message="m", last_transition_time=NOW)
    assert bounded(condition) is condition
    assert excerpt("m" * 1000) == "m" * 1000


def test_what_is_not_is_cut_and_loses_its_time() -> None:
    late = NOW.replace(year=9999) + timedelta(hours=1)
    odd = Condition(type="A", status="True", reason="r" * 2000, message="m" * 50_000, last_transition_time=late)

    found = bounded(odd)

    assert found is not None
    assert (len(found.reason), len(found.message), found.last_transition_time) == (1024, LONGEST_MESSAGE, None)
    assert len(excerpt(odd.message)) == 1000


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        pytest.param('jobs "a" not found\n: é', 'jobs "a" not found\n: é', id="what people read stays"),
        pytest.param("\x1b[2Jgone\u202e\ud800", "�[2Jgone��", id="what a terminal obeys or hides does not"),
        pytest.param("x" * 20 * 2**20, "x" * 999 + "…", id="a novel is its beginning"),
        pytest.param("url='http://me:S3CRET@h:1/x'", "url='http://***@h:1/x'", id="a URL with user and password"),
        pytest.param("https://me@h and http://a:b@c", "https://***@h and http://***@c", id="several"),
        pytest.param("http://h/a@b mail@example.com", "http://h/a@b mail@example.com", id="an @ elsewhere stays"),
        pytest.param("http://me:" + "S3CRET" * 500 + "@h", "http://***@h", id="a password longer than what is shown"),
    ],
)
def test_foreign_words_are_short_printable_and_without_passwords(text: str, shown: str) -> None:
    assert excerpt(text) == shown


@given(st.text(alphabet=st.characters(codec=None)))
def test_whatever_text_comes_can_be_written_down(text: str) -> None:
    excerpt(text).encode()


def test_a_question_about_an_odd_object_has_the_other_answer() -> None:
    odd = msgspec.Raw(b'{"podSets": 5}')
    assert answer_or(lambda: decoder(WorkloadSpec)(odd).queue_name, "none") == "none"
    assert answer_or(lambda: 1, 2) == 1


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
