"""Whatever a strategy does, the answer is a sound nomination or a StrategyError with its name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from multikueue.errors import StrategyError
from multikueue.strategy import Fleet, Nomination, Opinion, Worker, Workload
from multikueue.testing import NOW, fleet, strategy_workload
from multikueue.workload.strategy_call import (
    LoadedStrategy,
    NominationRequest,
    NominationResult,
    again_at,
    call_strategy,
    explain_strategy,
)
from multikueue_strategies.all_at_once import AllAtOnce
from multikueue_strategies.composed import Composed

WORKLOAD = strategy_workload().build()
FLEET = fleet("a", "b").unusable("c").build()


@dataclass(frozen=True)
class Stub:
    """Does as it is told."""

    behaviour: Callable[[Workload, Fleet], Any]

    def nominate(self, workload: Workload, fleet: Fleet) -> Nomination:
        answer: Nomination = self.behaviour(workload, fleet)
        return answer


@dataclass(frozen=True)
class Broken:
    """A filter that raises."""

    def refuses(self, workload: Workload, worker: Worker, fleet: Fleet) -> str:
        raise KeyError(worker.name)


class Unprintable:
    def __repr__(self) -> str:
        raise RuntimeError("no words")


@pytest.mark.parametrize(
    "nomination",
    [
        pytest.param(Nomination(("b", "a")), id="in an order of its own"),
        pytest.param(Nomination(), id="nobody"),
        pytest.param(Nomination(("a",), revisit_after=timedelta(minutes=5), reason="the first"), id="and ask me again"),
        pytest.param(Nomination(("c",)), id="one that is away keeps its place"),
    ],
)
def test_a_sound_nomination_comes_back_as_it_is(nomination: Nomination) -> None:
    assert call_strategy(Stub(lambda _workload, _fleet: nomination), WORKLOAD, FLEET) is nomination


def test_the_strategy_sees_the_request() -> None:
    seen: list[object] = []

    def look(*request: object) -> Nomination:
        seen.extend(request)
        return Nomination()

    call_strategy(Stub(look), WORKLOAD, FLEET)
    assert seen == [WORKLOAD, FLEET]


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        pytest.param(None, "must answer a Nomination, answered NoneType None", id="nothing"),
        pytest.param(("a",), "must answer a Nomination, answered tuple", id="bare names"),
        pytest.param(Nomination(["a"]), "must nominate a tuple of names, nominated list", id="a list"),  # type: ignore[arg-type]
        pytest.param(Nomination("a"), "must nominate a tuple of names, nominated str", id="a string"),  # type: ignore[arg-type]
        pytest.param(Nomination((1,)), "must nominate a tuple of names", id="numbers"),  # type: ignore[arg-type]
        pytest.param(Nomination(("a", "x")), "nominated x, not in its fleet of a, b, c", id="somebody unknown"),
        pytest.param(Nomination(("a", "b", "a")), "nominated a more than once", id="somebody twice"),
        pytest.param(Nomination(revisit_after=60), "must give revisit_after as a timedelta", id="seconds"),  # type: ignore[arg-type]
        pytest.param(Nomination(revisit_after=timedelta()), "must wait before it is asked again", id="at once"),
        pytest.param(Nomination(reason=7), "must give its reason as text, gave int 7", id="no text"),  # type: ignore[arg-type]
        pytest.param(Unprintable(), "raised RuntimeError: no words", id="what cannot even be shown"),
    ],
)
def test_an_unsound_answer_is_an_error_that_says_what_is_wrong(answer: object, message: str) -> None:
    with pytest.raises(StrategyError) as caught:
        call_strategy(Stub(lambda _workload, _fleet: answer), WORKLOAD, FLEET)
    assert str(caught.value).startswith(f"strategy Stub {message}")


def test_a_strategy_that_explains_itself_is_asked_and_an_error_of_it_is_told() -> None:
    workload, fleet_ = strategy_workload().build(), fleet("w1").build()
    assert explain_strategy(Composed(), workload, fleet_) == (Opinion("w1", total=1.0),)
    assert explain_strategy(AllAtOnce(), workload, fleet_) == ()
    with pytest.raises(StrategyError, match="strategy Composed raised KeyError"):
        explain_strategy(Composed(filters=(Broken(),)), workload, fleet_)


def test_in_an_empty_fleet_nobody_can_be_named() -> None:
    with pytest.raises(StrategyError, match="nominated a, not in its fleet of no workers"):
        call_strategy(Stub(lambda _workload, _fleet: Nomination(("a",))), WORKLOAD, fleet().build())


def test_a_strategy_that_raises_is_an_error_with_its_cause() -> None:
    with pytest.raises(StrategyError, match="strategy Stub raised ZeroDivisionError: division by zero") as caught:
        call_strategy(Stub(lambda _workload, _fleet: 1 / 0), WORKLOAD, FLEET)
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_what_ends_the_program_passes() -> None:
    def interrupted(_workload: Workload, _fleet: Fleet) -> Nomination:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        call_strategy(Stub(interrupted), WORKLOAD, FLEET)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        pytest.param(
            Nomination(("a",), yielding=("b",)),
            "must name those that yield as a tuple of its clusters, named tuple ('b',)",
            id="another one yields",
        ),
        pytest.param(Nomination(("a",), give_back=True), "gave back and nominated a", id="back and forth"),
        pytest.param(Nomination(give_back=1), "must say whether to give back with True or False", id="a number"),  # type: ignore[arg-type]
        pytest.param(Nomination(reason="x" * 1001), "must give its reason as text of at most 1000", id="a novel"),
        pytest.param(Nomination(reason="\ud800"), "must give its reason as text", id="half a character"),
    ],
)
def test_what_cannot_be_written_down_is_an_error(answer: Nomination, message: str) -> None:
    with pytest.raises(StrategyError) as caught:
        call_strategy(Stub(lambda _workload, _fleet: answer), WORKLOAD, FLEET)
    assert message in str(caught.value)
    str(caught.value).encode()


def test_what_is_nominated_already_may_stay_whatever_became_of_it() -> None:
    kept = Nomination(("a", "gone"))
    before = strategy_workload().nominated("gone").build()
    assert call_strategy(Stub(lambda _workload, _fleet: kept), before, FLEET) is kept


class Speechless(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


def test_an_error_that_cannot_be_shown_is_an_error_all_the_same() -> None:
    def behave(_workload: Workload, _fleet: Fleet) -> Nomination:
        raise Speechless

    with pytest.raises(StrategyError, match=r"raised Speechless: \(without words\)"):
        call_strategy(Stub(behave), WORKLOAD, FLEET)


# How long a result is valid.

ASKED = NominationRequest(WORKLOAD, FLEET)
LATER = NominationRequest(WORKLOAD, fleet("a", "b").unusable("c").later(timedelta(minutes=1)).build())
OTHER = NominationRequest(WORKLOAD, fleet("a").build())
BY, ANOTHER = (
    LoadedStrategy("stub", Stub(lambda _workload, _fleet: Nomination())),
    LoadedStrategy("stub", Stub(lambda _w, _f: None)),
)
GOOD = NominationResult(request=ASKED, by=BY, nomination=Nomination(("a",)))
BAD = NominationResult(request=ASKED, by=BY, problem="raised", failures=1)


@pytest.mark.parametrize(
    ("result", "request_", "by", "is_valid"),
    [
        pytest.param(GOOD, LATER, BY, True, id="the same request later"),
        pytest.param(GOOD, OTHER, BY, False, id="another request"),
        pytest.param(GOOD, LATER, ANOTHER, False, id="another strategy"),
        pytest.param(replace(GOOD, again_at=NOW + timedelta(minutes=1)), LATER, BY, False, id="its time is over"),
        pytest.param(replace(GOOD, again_at=NOW + timedelta(minutes=2)), LATER, BY, True, id="its time is to come"),
        pytest.param(
            replace(BAD, again_at=NOW + timedelta(minutes=2)), OTHER, BY, True, id="a failure, whatever is requested"
        ),
        pytest.param(
            replace(BAD, again_at=NOW + timedelta(seconds=1)), LATER, BY, False, id="a failure is tried again"
        ),
    ],
)
def test_how_long_a_result_is_valid(
    result: NominationResult, request_: NominationRequest, by: LoadedStrategy, is_valid: bool
) -> None:
    assert result.is_valid_for(request_, by) is is_valid


@pytest.mark.parametrize(
    ("after", "when"),
    [
        (None, None),
        (timedelta(minutes=5), timedelta(minutes=5)),
        (timedelta(microseconds=1), timedelta(milliseconds=250)),
        (timedelta.max, timedelta(days=1)),
    ],
)
def test_when_it_is_asked_again_has_bounds(after: timedelta | None, when: timedelta | None) -> None:
    assert again_at(Nomination(revisit_after=after), NOW) == (None if when is None else NOW + when)
