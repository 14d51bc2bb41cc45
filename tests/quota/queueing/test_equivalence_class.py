"""Those who ask for the same: put to sleep, woken and told as one, and yet each has heard what it has heard."""

from __future__ import annotations

from itertools import islice
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from multikueue.api.meta import ObjectKey
from multikueue.quota.queueing.equivalence_class import EquivalenceClass, WorkloadHeap
from multikueue.quota.queueing.pending_workload import PendingWorkload
from multikueue.quota.workload.outcome import Verdict
from tests.quota.builders import key_of, waiting, wants

FULL, FULLER = Verdict("1 more needed"), Verdict("2 more needed")
OLDEST_FIRST = [waiting(wants(name, age=9 - age)) for age, name in enumerate("abcdef")]
VERDICTS = st.sampled_from([None, FULL, FULLER])


def people(count: int = 3) -> list[PendingWorkload]:
    return [waiting(wants(name, age=9 - age)) for age, name in enumerate("abcdef"[:count])]


def equivalence_class(*active: PendingWorkload) -> EquivalenceClass:
    made = EquivalenceClass("the same", "default")
    for each in active:
        made.join(each, is_active=True)
    return made


def names(members: object) -> list[str]:
    return sorted(each.name for each in members)  # type: ignore[attr-defined]


class Asked(dict[ObjectKey, PendingWorkload]):
    """Counts who was looked for."""

    times = 0

    def get(self, *which: Any) -> Any:
        self.times += 1
        return super().get(*which)


def test_the_first_are_found_without_a_look_at_those_behind() -> None:
    heap = WorkloadHeap()
    for number in range(100):
        heap.put(waiting(wants(f"w{number:02}", age=number)))
    asked = heap.members = Asked(heap.members)

    assert [each.key.name for each in islice(heap.in_order(), 3)] == ["w99", "w98", "w97"]
    assert asked.times == 3


@given(st.lists(st.tuples(st.sampled_from(OLDEST_FIRST), st.booleans()), max_size=40))
def test_all_are_shown_once_in_order_whoever_came_and_went(events: list[tuple[PendingWorkload, bool]]) -> None:
    heap = WorkloadHeap()
    for each, comes in events:
        if comes:
            heap.put(each)
        else:
            heap.members.pop(each.key, None)
    assert list(heap.in_order()) == [each for each in OLDEST_FIRST if each.key in heap.members]


def test_all_hear_the_verdict_and_sleep() -> None:
    a, b, c = people()
    made = equivalence_class(a, b, c)
    assert names(made.mark_inadmissible(FULL)) == ["a", "b", "c"]
    assert (made.active.top(), len(made.inadmissible.members)) == (None, 3)
    assert {made.verdict(each) for each in (a, b, c)} == {FULL}


def test_the_same_verdict_is_no_news() -> None:
    made = equivalence_class(*people())
    made.mark_inadmissible(FULL)
    made.requeue_inadmissible()
    assert made.mark_inadmissible(FULL) == []


def test_it_is_news_to_who_came_later() -> None:
    made = equivalence_class(*people(2))
    made.mark_inadmissible(FULL)
    made.requeue_inadmissible()
    late = waiting(wants("late"))
    made.join(late, is_active=True)
    assert made.verdict(late) is None
    assert names(made.mark_inadmissible(FULL)) == ["late"]


def test_who_sleeps_does_not_hear_it() -> None:
    *sleepers, active = people(4)
    made = equivalence_class(*sleepers)
    made.mark_inadmissible(FULL)
    made.join(active, is_active=True)
    assert names(made.mark_inadmissible(FULLER)) == [active.key.name]
    assert [made.verdict(each) for each in (*sleepers, active)] == [FULL] * 3 + [FULLER]


def test_who_leaves_takes_along_what_it_heard() -> None:
    a, b = people(2)
    made = equivalence_class(a, b)
    made.mark_inadmissible(FULL)
    assert (made.leave(a.key).verdict, made.is_empty) == (FULL, False)
    assert (made.leave(b.key).verdict, made.is_empty) == (FULL, True)


def test_an_update_keeps_place_and_verdict() -> None:
    a, b = people(2)
    made = equivalence_class(a, b)
    made.mark_inadmissible(FULL)
    newer = waiting(wants("a", age=9).labels(team="x"))
    made.replace(newer)
    assert made.get(a.key) is newer
    assert made.verdict(newer) == FULL
    made.requeue_inadmissible()
    assert made.active.top() is newer


def test_the_top_is_the_first_that_is_left() -> None:
    heap = WorkloadHeap()
    for each in reversed(people()):
        heap.put(each)
    top = heap.top()
    assert top is not None
    assert top.key == key_of("a")
    del heap.members[top.key]
    assert heap.top() is heap.members[key_of("b")]


def test_what_is_put_and_taken_again_and_again_leaves_little_behind() -> None:
    heap, (first, last) = WorkloadHeap(), people(2)
    heap.put(first)
    for _ in range(500):
        heap.put(last)
        del heap.members[last.key]
    assert len(heap._heap) < 100
    assert heap.top() is first


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
    made = EquivalenceClass("the same", "default")
    alone: dict[int, tuple[bool, Verdict | None]] = {}
    for what, *arguments in steps:
        active = [number for number, (is_active, _) in sorted(alone.items()) if is_active]
        match what, *arguments:
            case "join", int(number), heard, bool(is_active) if number not in alone:
                OLDEST_FIRST[number].verdict = heard  # type: ignore[assignment]
                made.join(OLDEST_FIRST[number], is_active=is_active)
                alone[number] = is_active, heard  # type: ignore[assignment]
            case "leave", int(number) if number in alone:
                assert made.leave(OLDEST_FIRST[number].key).verdict == alone.pop(number)[1]
            case "hush", Verdict() as verdict:
                news = {n for n in active if alone[n][1] != verdict}
                assert names(made.mark_inadmissible(verdict)) == sorted(OLDEST_FIRST[n].key.name for n in news)
                alone |= dict.fromkeys(active, (False, verdict))
            case "hush_one", Verdict() as verdict if active:
                assert made.mark_one_inadmissible(OLDEST_FIRST[active[0]], verdict) is (alone[active[0]][1] != verdict)
                alone[active[0]] = False, verdict
            case ("rouse",):
                made.requeue_inadmissible()
                alone = {n: (True, heard) for n, (_, heard) in alone.items()}
        _compare(made, alone)


def _compare(made: EquivalenceClass, alone: dict[int, tuple[bool, Verdict | None]]) -> None:
    active = [number for number, (is_active, _) in sorted(alone.items()) if is_active]
    assert made.active.top() is (OLDEST_FIRST[active[0]] if active else None)
    assert {each.key for each in made} == {OLDEST_FIRST[number].key for number in alone}
    assert {each.key for each in made.inadmissible.members.values()} == {
        OLDEST_FIRST[number].key for number in alone if number not in active
    }
    for number, (_, heard) in alone.items():
        assert made.verdict(OLDEST_FIRST[number]) == heard


@pytest.mark.parametrize("seen", [None, FULL])
def test_a_new_one_has_heard_what_it_brings_along(seen: Verdict | None) -> None:
    made = equivalence_class(*people(2))
    made.mark_inadmissible(FULL)
    new: PendingWorkload = waiting(wants("new"))
    new.verdict = seen
    made.join(new, is_active=True)
    assert made.verdict(new) == seen
