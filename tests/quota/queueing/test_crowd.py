"""Those who ask for the same: put to sleep, woken and told as one, and yet each has heard what it has heard."""

from __future__ import annotations

from itertools import islice
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from multikueue.api.meta import ObjectKey
from multikueue.quota.queueing.crowd import Crowd, Half
from multikueue.quota.queueing.waiting import Waiting
from multikueue.quota.workload.outcome import Verdict
from tests.quota.builders import key_of, waiting, wants

FULL, FULLER = Verdict("1 more needed"), Verdict("2 more needed")
OLDEST_FIRST = [waiting(wants(name, age=9 - age)) for age, name in enumerate("abcdef")]
VERDICTS = st.sampled_from([None, FULL, FULLER])


def people(count: int = 3) -> list[Waiting]:
    return [waiting(wants(name, age=9 - age)) for age, name in enumerate("abcdef"[:count])]


def crowd(*awake: Waiting) -> Crowd:
    made = Crowd("the same", "default")
    for each in awake:
        made.join(each, awake=True)
    return made


def names(members: object) -> list[str]:
    return sorted(each.name for each in members)  # type: ignore[attr-defined]


class Asked(dict[ObjectKey, Waiting]):
    """Counts who was looked for."""

    times = 0

    def get(self, *which: Any) -> Any:
        self.times += 1
        return super().get(*which)


def test_the_first_are_found_without_a_look_at_those_behind() -> None:
    half = Half()
    for number in range(100):
        half.put(waiting(wants(f"w{number:02}", age=number)))
    asked = half.members = Asked(half.members)

    assert [each.key.name for each in islice(half.in_order(), 3)] == ["w99", "w98", "w97"]
    assert asked.times == 3


@given(st.lists(st.tuples(st.sampled_from(OLDEST_FIRST), st.booleans()), max_size=40))
def test_all_are_shown_once_in_order_whoever_came_and_went(events: list[tuple[Waiting, bool]]) -> None:
    half = Half()
    for each, comes in events:
        if comes:
            half.put(each)
        else:
            half.members.pop(each.key, None)
    assert list(half.in_order()) == [each for each in OLDEST_FIRST if each.key in half.members]


def test_all_hear_the_verdict_and_sleep() -> None:
    a, b, c = people()
    made = crowd(a, b, c)
    assert names(made.hush(FULL)) == ["a", "b", "c"]
    assert (made.awake.top(), len(made.asleep.members)) == (None, 3)
    assert {made.verdict(each) for each in (a, b, c)} == {FULL}


def test_the_same_verdict_is_no_news() -> None:
    made = crowd(*people())
    made.hush(FULL)
    made.rouse()
    assert made.hush(FULL) == []


def test_it_is_news_to_who_came_later() -> None:
    made = crowd(*people(2))
    made.hush(FULL)
    made.rouse()
    late = waiting(wants("late"))
    made.join(late, awake=True)
    assert made.verdict(late) is None
    assert names(made.hush(FULL)) == ["late"]


def test_who_sleeps_does_not_hear_it() -> None:
    *sleepers, awake = people(4)
    made = crowd(*sleepers)
    made.hush(FULL)
    made.join(awake, awake=True)
    assert names(made.hush(FULLER)) == [awake.key.name]
    assert [made.verdict(each) for each in (*sleepers, awake)] == [FULL] * 3 + [FULLER]


def test_who_leaves_takes_along_what_it_heard() -> None:
    a, b = people(2)
    made = crowd(a, b)
    made.hush(FULL)
    assert (made.leave(a.key).verdict, made.is_empty) == (FULL, False)
    assert (made.leave(b.key).verdict, made.is_empty) == (FULL, True)


def test_an_update_keeps_place_and_verdict() -> None:
    a, b = people(2)
    made = crowd(a, b)
    made.hush(FULL)
    newer = waiting(wants("a", age=9).labels(team="x"))
    made.replace(newer)
    assert made.get(a.key) is newer
    assert made.verdict(newer) == FULL
    made.rouse()
    assert made.awake.top() is newer


def test_the_top_is_the_first_that_is_left() -> None:
    half = Half()
    for each in reversed(people()):
        half.put(each)
    top = half.top()
    assert top is not None
    assert top.key == key_of("a")
    del half.members[top.key]
    assert half.top() is half.members[key_of("b")]


def test_what_is_put_and_taken_again_and_again_leaves_little_behind() -> None:
    half, (first, last) = Half(), people(2)
    half.put(first)
    for _ in range(500):
        half.put(last)
        del half.members[last.key]
    assert len(half._heap) < 100
    assert half.top() is first


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("join"), st.integers(0, 5), VERDICTS, st.booleans()),
        st.tuples(st.just("leave"), st.integers(0, 5)),
        st.tuples(st.just("hush"), st.sampled_from([FULL, FULLER])),
        st.tuples(st.just("hush_one"), st.sampled_from([FULL, FULLER])),
        st.tuples(st.just("rouse")),
    ),
    max_size=30,
)


@given(STEPS)
def test_a_crowd_is_as_if_each_were_treated_alone(steps: list[tuple[object, ...]]) -> None:
    made = Crowd("the same", "default")
    alone: dict[int, tuple[bool, Verdict | None]] = {}
    for what, *arguments in steps:
        awake = [number for number, (is_awake, _) in sorted(alone.items()) if is_awake]
        match what, *arguments:
            case "join", int(number), heard, bool(is_awake) if number not in alone:
                OLDEST_FIRST[number].verdict = heard  # type: ignore[assignment]
                made.join(OLDEST_FIRST[number], awake=is_awake)
                alone[number] = is_awake, heard  # type: ignore[assignment]
            case "leave", int(number) if number in alone:
                assert made.leave(OLDEST_FIRST[number].key).verdict == alone.pop(number)[1]
            case "hush", Verdict() as verdict:
                news = {n for n in awake if alone[n][1] != verdict}
                assert names(made.hush(verdict)) == sorted(OLDEST_FIRST[n].key.name for n in news)
                alone |= dict.fromkeys(awake, (False, verdict))
            case "hush_one", Verdict() as verdict if awake:
                assert made.hush_one(OLDEST_FIRST[awake[0]], verdict) is (alone[awake[0]][1] != verdict)
                alone[awake[0]] = False, verdict
            case ("rouse",):
                made.rouse()
                alone = {n: (True, heard) for n, (_, heard) in alone.items()}
        _compare(made, alone)


def _compare(made: Crowd, alone: dict[int, tuple[bool, Verdict | None]]) -> None:
    awake = [number for number, (is_awake, _) in sorted(alone.items()) if is_awake]
    assert made.awake.top() is (OLDEST_FIRST[awake[0]] if awake else None)
    assert {each.key for each in made} == {OLDEST_FIRST[number].key for number in alone}
    assert {each.key for each in made.asleep.members.values()} == {
        OLDEST_FIRST[number].key for number in alone if number not in awake
    }
    for number, (_, heard) in alone.items():
        assert made.verdict(OLDEST_FIRST[number]) == heard


@pytest.mark.parametrize("seen", [None, FULL])
def test_a_new_one_has_heard_what_it_brings_along(seen: Verdict | None) -> None:
    made = crowd(*people(2))
    made.hush(FULL)
    new: Waiting = waiting(wants("new"))
    new.verdict = seen
    made.join(new, awake=True)
    assert made.verdict(new) == seen
