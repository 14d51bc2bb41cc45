"""`check_strategy`: does a strategy keep the contract, asked a few hundred questions?"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass, fields, replace
from datetime import timedelta
from itertools import product
from typing import Any

from multikueue.dispatch.consult import consult
from multikueue.errors import StrategyError
from multikueue.strategy import Fleet, Nomination, Strategy, Workload
from multikueue.testing.fleets import FleetBuilder, StrategyWorkloadBuilder, fleet, strategy_workload
from multikueue.testing.objects import NOW


def check_strategy(strategy: Strategy) -> None:
    """Raises AssertionError, with the question and the answer, if the strategy breaks the contract.

    - It is a frozen dataclass: its fields are its options, its docstring is its help text.
    - It answers every question with a Nomination of names of the fleet, none twice, none that cannot be used (but a
      worker that is nominated already may keep its place while it is away), and any `revisit_after` lies ahead.
    - It is pure: the same question has the same answer however often and in whatever order it is asked, and neither
      question nor strategy is changed by asking.

    Among the questions are fleets without workers, without usable workers and with 25 workers, workloads nominated on
    workers that are gone from the fleet, and Placements that are empty, broken, or name clusters of other people.
    """
    _check_shape(strategy)
    questions = tuple(_questions())
    before = deepcopy(strategy)
    answers = [_ask(strategy, question) for question in questions]
    again = [_ask(strategy, question) for question in reversed(questions)]
    for question, first, second in zip(questions, answers, reversed(again), strict=True):
        if first != second:
            raise AssertionError(_story(strategy, question, f"answered {first}, and asked again {second}"))
    if strategy != before:
        raise AssertionError(f"{_name(strategy)} changed itself: it was {before}, it is {strategy}")


@dataclass(frozen=True, slots=True)
class _Question:
    workload: Workload
    fleet: Fleet


def _check_shape(strategy: Strategy) -> None:
    name = _name(strategy)
    kind: Any = type(strategy)
    params = getattr(kind, "__dataclass_params__", None)
    if params is None or not params.frozen:
        raise AssertionError(f"{name} must be a frozen dataclass: put @dataclass(frozen=True) above the class")
    hidden = sorted(each.name for each in fields(kind) if not each.init)
    if hidden:
        raise AssertionError(f"{name} has fields that are no options, since they cannot be given: {', '.join(hidden)}")
    if not callable(getattr(strategy, "nominate", None)):
        raise AssertionError(f"{name} must have a method nominate(workload, fleet)")
    text = inspect.getdoc(kind) or ""
    if not text or text.startswith(f"{name}("):  # what dataclass puts there by itself
        raise AssertionError(f"{name} needs a docstring: it is the help text that people read to choose it")


def _ask(strategy: Strategy, question: _Question) -> Nomination:
    asked = deepcopy(question)
    try:
        nomination = consult(strategy, asked.workload, asked.fleet)
    except StrategyError as error:
        raise AssertionError(_story(strategy, question, str(error))) from error
    if asked != question:
        raise AssertionError(_story(strategy, question, f"the question was changed to {asked}"))
    allowed = {*question.fleet.names, *question.workload.nominated_clusters}
    wrong = [name for name in nomination.clusters if name not in allowed]
    if wrong:
        raise AssertionError(_story(strategy, question, f"nominated {', '.join(wrong)}, which cannot be used"))
    return nomination


def _questions() -> Iterator[_Question]:
    """Every workload in every fleet, at once and later."""
    for workload, fleet_, later in product(_workloads(), _fleets(), _LATER):
        yield _Question(workload.build(), fleet_.later(later).build())


_LATER = (timedelta(), timedelta(seconds=1), timedelta(minutes=5), timedelta(days=2))


def _fleets() -> Iterator[FleetBuilder]:
    three = fleet("b", "a", "c")
    crowd = fleet(*(f"worker-{number}" for number in range(25)))
    yield fleet()
    yield fleet("a")
    yield fleet().unusable("a")
    yield three
    yield three.unusable("b", why="cordoned")
    yield three.unusable("a").unusable("b").unusable("c")
    yield crowd.unusable("worker-7")
    yield (
        fleet("c").worker("a", labels={"region": "eu"}, annotations={"note": "0.5"}).worker("b", labels={"region": ""})
    )
    yield three.placement("p")
    yield three.placement("p", problem="there is no such Placement")
    yield three.placement("p", ("c", "elsewhere"), ("a",)).placement("q", ("b", "b"))


def _workloads() -> Iterator[StrategyWorkloadBuilder]:
    fresh = strategy_workload()
    yield fresh
    yield StrategyWorkloadBuilder(replace(fresh.build(), queue="", cluster_queue="", created_at=None, reserved_at=None))
    yield fresh.priority(-5).request({"nvidia.com/gpu": 8}, cpu="500m", memory="2Gi").labels(team="x")
    yield fresh.nominated("a")
    yield fresh.nominated("a", "b", "c")
    yield fresh.nominated("gone", "a")
    yield fresh.nominated("a", at=NOW + timedelta(minutes=1))  # a clock that went back
    yield StrategyWorkloadBuilder(replace(fresh.build(), nominated_clusters=("a",)))
    yield fresh.failed_on("a").failed_on("gone")
    yield fresh.failed_on("a").failed_on("b").failed_on("c").nominated("c")


def _story(strategy: Strategy, question: _Question, fault: str) -> str:
    return f"{_name(strategy)} breaks the contract: {fault}\n  asked with {question.workload}\n  and {question.fleet}"


def _name(strategy: Strategy) -> str:
    return type(strategy).__name__
