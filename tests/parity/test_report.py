"""What is printed of outcomes."""

from __future__ import annotations

from tests.parity.compare import Disagreement
from tests.parity.play import Outcome
from tests.parity.report import lines, on_purpose, total


def disagreement(step: int, *, is_hint: bool = False) -> Disagreement:
    return Disagreement("s", step, "create", "workload w", "priority", 1, 2, is_hint)


def outcome(*steps: int, hint: int = 0, error: str = "", features: tuple[str, ...] = ()) -> Outcome:
    hints = [disagreement(hint, is_hint=True)] if hint else []
    return Outcome("s", frozenset(features), [disagreement(step) for step in steps], hints, error=error, steps=9)


def steps(printed: list[str]) -> list[str]:
    return [line.split(" (")[0] for line in printed]


def test_with_first_only_the_first_step_that_differs_is_told() -> None:
    assert steps(list(lines(outcome(2, 2, 5), first=True))) == ["s, step 2", "s, step 2"]


def test_hints_are_told_when_asked_for_in_the_order_of_steps() -> None:
    assert steps(list(lines(outcome(4, hint=2)))) == ["s, step 4"]
    assert steps(list(lines(outcome(4, hint=2), hints=True))) == ["hint: s, step 2", "s, step 4"]


def test_what_differs_on_purpose_is_told_with_its_reason_and_agrees() -> None:
    deliberate = outcome()
    deliberate.deviations.append("it is an error of Kueue's")
    assert list(lines(deliberate)) == ["s, on purpose: it is an error of Kueue's"]
    assert total([deliberate]) == "1 agree, 0 differ"


def test_those_that_differ_on_purpose_are_counted() -> None:
    deliberate, wrong = outcome(), outcome(1)
    for each in (deliberate, wrong):
        each.deviations.append("why")
    assert list(on_purpose([outcome(), deliberate, wrong])) == ["1 of them but for what differs on purpose"]
    assert list(on_purpose([outcome()])) == []


def test_the_total_counts_errors_as_differing_and_hints_as_agreeing() -> None:
    assert total([outcome(), outcome(hint=1), outcome(1), outcome(error="x")]) == "2 agree, 2 differ"
