"""What is printed of outcomes: a line per disagreement, figures per feature, and at last the sum."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from tests.parity.play import Outcome


def lines(outcome: Outcome, *, first: bool = False, hints: bool = False) -> Iterator[str]:
    """The disagreements of a story, with `first` only those of the first step that has any."""
    found = [*outcome.disagreements, *(outcome.hints if hints else ())]
    until = min((each.step for each in found), default=0) if first else outcome.steps
    yield from (str(each) for each in sorted(found, key=lambda each: each.step) if each.step <= until)
    yield from (f"{outcome.story}, on purpose: {why}" for why in outcome.deviations)
    if outcome.error:
        yield f"{outcome.story}, step {outcome.steps + 1}: {outcome.error}"


def by_feature(outcomes: Iterable[Outcome]) -> Iterator[str]:
    """How many stories of each feature agree and differ, most frequent features first."""
    agree, differ = Counter[str](), Counter[str]()
    for outcome in outcomes:
        (agree if outcome.agrees else differ).update(outcome.features)
    for feature, _ in sorted((agree + differ).items(), key=lambda item: (-item[1], item[0])):
        yield f"{feature:<22} {agree[feature]:>4} agree {differ[feature]:>4} differ"


def on_purpose(outcomes: Iterable[Outcome]) -> Iterator[str]:
    """How many of those that agree do so but for what we do otherwise on purpose."""
    if number := sum(outcome.agrees and bool(outcome.deviations) for outcome in outcomes):
        yield f"{number} of them but for what differs on purpose"


def total(outcomes: Iterable[Outcome]) -> str:
    agree = Counter(outcome.agrees for outcome in outcomes)
    return f"{agree[True]} agree, {agree[False]} differ"
