"""`check_strategy` lets good strategies pass and tells authors of others what is wrong."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest

from multikueue.strategy import Fleet, Nomination, Score, Strategy, Worker, Workload
from multikueue.testing import check_strategy
from multikueue.testing.contract import PROMISES, Checked, broken_promises, promises

Behaviour = Callable[[Workload, Fleet], Nomination]


@dataclass(frozen=True, slots=True)
class Stub:
    """Does as it is told."""

    behaviour: Behaviour

    def nominate(self, workload: Workload, fleet: Fleet) -> Nomination:
        return self.behaviour(workload, fleet)


@dataclass(frozen=True)
class OneMore:
    """One worker more each time, the cheapest first."""

    prices: dict[str, float] = field(default_factory=dict)
    patience: timedelta = timedelta(minutes=2)

    def nominate(self, workload: Workload, fleet: Fleet) -> Nomination:
        tried = tuple(name for name in workload.nominated_clusters if name in fleet.names)
        if workload.waited_less_than(self.patience, fleet.now):
            return Nomination(tried, revisit_after=self.patience)
        ranked = sorted(fleet.names, key=lambda name: self.prices.get(name, float("inf")))
        fresh = tuple(name for name in ranked if name not in tried)[:1]
        return Nomination(tried + fresh, revisit_after=self.patience if fresh else None)


def present(fleet: Fleet) -> set[str]:
    return {worker.name for worker in fleet.workers}


@pytest.mark.parametrize(
    "strategy",
    [
        pytest.param(OneMore({"a": 1.0}), id="one that goes by nominations and time"),
        pytest.param(Stub(lambda _workload, _fleet: Nomination()), id="one that nominates nobody"),
        pytest.param(
            Stub(lambda w, f: Nomination(tuple(name for name in w.nominated_clusters if name in present(f)))),
            id="one that keeps the place of those that are away",
        ),
    ],
)
def test_a_strategy_that_keeps_the_contract_passes(strategy: Strategy) -> None:
    check_strategy(strategy)


def fault(strategy: Checked) -> str:
    with pytest.raises(AssertionError) as caught:
        check_strategy(strategy)
    return str(caught.value)


def rename(_workload: Workload, fleet: Fleet) -> Nomination:
    if fleet.placement is not None:
        fleet.placement.absent_since["mine"] = fleet.now  # type: ignore[index]  # that is the fault
    return Nomination()


@pytest.mark.parametrize(
    ("behaviour", "message"),
    [
        pytest.param(lambda _w, _f: Nomination(("x",)), "nominated x, not in its fleet", id="names nobody knows"),
        pytest.param(
            lambda w, _f: Nomination(w.nominated_clusters, give_back=True),
            "gave back and",
            id="it gives back and keeps",
        ),
        pytest.param(lambda _w, f: Nomination(f.names[:1] * 2), "more than once", id="the same name twice"),
        pytest.param(
            lambda _w, f: Nomination(tuple(worker.name for worker in f.workers)),
            "which cannot be used",
            id="workers that cannot be used",
        ),
        pytest.param(lambda _w, f: Nomination(f.names[0:1] or f.names[0]), "IndexError", id="an empty fleet breaks it"),
        pytest.param(
            lambda w, _f: Nomination(reason=str(w.reserved_at.year)), "AttributeError", id="a missing time breaks it"
        ),
        pytest.param(lambda _w, _f: None, "must answer a Nomination", id="no answer"),
        pytest.param(
            lambda w, f: Nomination(revisit_after=f.now - (w.nominated_at or f.now)),
            "must wait",
            id="a wait of nothing",
        ),
        pytest.param(rename, "the question was changed", id="it changes the question"),
    ],
)
def test_a_broken_contract_is_told_with_question_and_answer(behaviour: Behaviour, message: str) -> None:
    said = fault(Stub(behaviour))
    assert said.startswith("Stub breaks the contract: ")
    assert message in said
    assert "asked with Workload(" in said
    assert "and Fleet(" in said


def test_every_broken_promise_is_named_once() -> None:
    broken = broken_promises(Stub(lambda _w, f: Nomination(("x",) if f.names else ())))
    assert set(broken) == {"answers each question soundly"}
    nothing: Any = Nothing()
    assert list(broken_promises(nothing)) == ["is a frozen dataclass", "has the method of its kind", "explains itself"]
    assert broken_promises(OneMore()) == {}
    assert set(broken) < set(PROMISES)


class Nothing:
    nominate = None


def test_a_strategy_with_a_memory_is_found_out() -> None:
    calls = itertools.count()
    said = fault(Stub(lambda _w, _f: Nomination(reason=f"call {next(calls)}")))
    assert "answered Nomination(clusters=(), revisit_after=None, reason='call 0', give_back=False, yielding=())" in said


def test_a_strategy_that_changes_its_own_options_is_found_out() -> None:
    @dataclass(frozen=True)
    class Grows:
        """Keeps a list."""

        seen: list[str] = field(default_factory=list)

        def nominate(self, workload: Workload, fleet: Fleet) -> Nomination:
            self.seen.append(workload.name)
            return Nomination()

    assert fault(Grows()).startswith("Grows changed itself")


@dataclass
class Melting:
    """Not frozen."""

    def nominate(self, workload: Workload, fleet: Fleet) -> Nomination:
        return Nomination()


@dataclass(frozen=True)
class Hiding:
    """Has a field that nobody can give."""

    memory: int = field(init=False, default=0)

    def nominate(self, workload: Workload, fleet: Fleet) -> Nomination:
        return Nomination()


@dataclass(frozen=True)
class Silent:
    def nominate(self, workload: Workload, fleet: Fleet) -> Nomination:
        return Nomination()


@dataclass(frozen=True)
class Idle:
    """Does nothing."""


class Plain:
    """No dataclass."""

    def nominate(self, workload: Workload, fleet: Fleet) -> Nomination:
        return Nomination()


@pytest.mark.parametrize(
    ("strategy", "message"),
    [
        (Plain(), "Plain must be a frozen dataclass"),
        (Melting(), "Melting must be a frozen dataclass"),
        (Hiding(), "Hiding has fields that are no options, since they cannot be given: memory"),
        (Silent(), "Silent needs a docstring"),
        (Idle(), "Idle must have a method nominate"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_the_shape_of_a_strategy_matters(strategy: Any, message: str) -> None:
    assert fault(strategy).startswith(message)


# Filters and scorers.


@dataclass(frozen=True, slots=True)
class Sieve:
    """Refuses as it is told."""

    behaviour: Callable[[Workload, Worker], Any]

    def refuses(self, workload: Workload, worker: Worker, fleet: Fleet) -> str:
        answer: str = self.behaviour(workload, worker)
        return answer


@dataclass(frozen=True, slots=True)
class Judge:
    """Scores as it is told."""

    behaviour: Callable[[Workload, Worker, Fleet], Any]

    def score(self, workload: Workload, worker: Worker, fleet: Fleet) -> Score:
        answer: Score = self.behaviour(workload, worker, fleet)
        return answer


COUNT = itertools.count()


@pytest.mark.parametrize(
    ("part", "message"),
    [
        pytest.param(Sieve(lambda _w, _o: None), "must answer a text of at most", id="a filter without an answer"),
        pytest.param(Sieve(lambda _w, _o: "x" * 2000), "must answer a text of at most", id="a long refusal"),
        pytest.param(Sieve(lambda _w, o: o.labels["a"]), "Sieve raised KeyError", id="a filter that raises"),
        pytest.param(Sieve(lambda _w, _o: str(next(COUNT))), "and asked again", id="a filter with a memory"),
        pytest.param(Judge(lambda *_: 0.5), "must answer a Score from 0 to 1", id="a number alone"),
        pytest.param(Judge(lambda *_: Score(1.5)), "must answer a Score from 0 to 1", id="more than 1"),
        pytest.param(Judge(lambda *_: Score(float("nan"))), "must answer a Score from 0 to 1", id="no number"),
        pytest.param(Judge(lambda *_: Score(True)), "must answer a Score from 0 to 1", id="a truth"),
        pytest.param(Judge(lambda *_: Score(1, None)), "must answer a Score from 0 to 1", id="no text"),  # type: ignore[arg-type]
        pytest.param(Judge(lambda *_: Score(next(COUNT) % 2)), "and asked again", id="a scorer with a memory"),
    ],
)
def test_a_part_that_breaks_the_contract_is_told(part: Checked, message: str) -> None:
    assert message in fault(part)


def test_a_part_is_not_asked_whom_it_nominates() -> None:
    part = Judge(lambda *_: Score(None, "who knows"))
    check_strategy(part)
    assert set(PROMISES) - set(promises(part)) == {"nominates what can be used"}
    assert promises(OneMore()) == PROMISES
