"""Each situation gets its answer, and each code has a situation."""

from __future__ import annotations

import msgspec
import pytest

from multikueue.answers.answer import answer
from multikueue.answers.codes import Code
from multikueue.workload.nomination.prospects import State
from tests.answers.situations import LATER, SITUATIONS, Situation, of, on, quota, too_much, waiting


@pytest.mark.parametrize("situation", SITUATIONS, ids=lambda situation: situation.how)
def test_a_situation_gets_its_answer(situation: Situation) -> None:
    told = answer(situation.seen, LATER)

    first = next(iter(told.obstacles), None)
    assert (told.state, first.code if first else None) == (
        situation.state,
        situation.code.name if situation.code else None,
    )
    assert told.summary == situation.sentence
    assert (first.repair.commands if first and first.repair else ()) == situation.repair
    if situation.past:
        assert tuple(map(str, told.past)) == situation.past


def test_each_code_has_a_situation() -> None:
    assert {each.code for each in SITUATIONS if each.code} == set(Code)


def test_no_situation_stands_there_twice() -> None:
    assert len({each.how for each in SITUATIONS}) == len(SITUATIONS) >= 40


@pytest.mark.parametrize("situation", SITUATIONS, ids=lambda situation: situation.how)
def test_programs_read_the_same(situation: Situation) -> None:
    told = answer(situation.seen, LATER)

    assert msgspec.convert(told.document(), type(told)) == told


def test_what_helps_against_two_obstacles_is_said_once() -> None:
    small = on(State.NEVER, "w1", message="cpu 25 of 16")
    told = list(answer(of(waiting(), quota=quota(too_much("20", "25")), workers=small), LATER).lines())

    assert [line.split(":")[0].strip() for line in told] == ["Pending", "What helps", "Also"]
