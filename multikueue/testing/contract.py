"""`check_strategy`: whether a strategy, or a filter or scorer of one, keeps its contract in a few hundred calls."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass, fields, replace
from datetime import timedelta
from itertools import product
from typing import Any

from multikueue.api.values.foreign import LONGEST_EXCERPT
from multikueue.errors import StrategyError
from multikueue.strategy import Filter, FlavorRoom, Score, Scorer, Strategy, Waits
from multikueue.testing.fleets import NOW, FleetBuilder, StrategyWorkloadBuilder, fleet, strategy_workload
from multikueue.workload.strategy_call import NominationRequest, call_strategy

Checked = Strategy | Filter | Scorer


def check_strategy(strategy: Checked) -> None:
    """Raises AssertionError, with the input and the answer, if the strategy, filter or scorer breaks the contract.

    - It is a frozen dataclass: its fields are its options, its docstring is its help text.
    - It answers each call with a Nomination of usable workers of its fleet, each once (a cluster nominated already may
      stay, usable or not), and any `revisit_after` is positive. A filter answers with a text for each worker, a scorer with a
      Score from 0 to 1, or of None.
    - It is pure: the same input gives the same answer in any number and order of calls, and a call changes neither
      input nor strategy.

    The inputs include fleets without workers, without usable workers and with 25 workers, workloads nominated on
    workers that are gone from the fleet, workers with and without room or known waits, and Placements that are empty, broken,
    or name foreign clusters.
    """
    broken = broken_promises(strategy)
    if broken:
        raise AssertionError("\n".join(broken.values()))


PROMISES = (
    "is a frozen dataclass",
    "has the method of its kind",
    "has no fields but options",
    "explains itself",
    "answers each question soundly",
    "nominates what can be used",
    "leaves the question as it is",
    "answers the same every time",
    "stays as it is",
)


METHODS = ("nominate", "refuses", "score")
"""Of a strategy, a filter, a scorer."""


def promises(strategy: Checked) -> tuple[str, ...]:
    """What of `PROMISES` is asked of it: a filter or scorer nominates nothing."""
    return PROMISES if _method(strategy) == METHODS[0] else (*PROMISES[:5], *PROMISES[6:])


def broken_promises(strategy: Checked) -> dict[str, str]:
    """The `PROMISES` that a strategy breaks, each with an example: the input and the answer. Empty: none."""
    first: dict[str, _Fault] = {}
    for fault in (*_faults_of_shape(strategy), *_faults_of_conduct(strategy)):
        first.setdefault(fault.promise, fault)
    return {promise: fault.story(strategy) for promise, fault in first.items()}


def promises_not_asked(strategy: Checked) -> tuple[str, ...]:
    """The promises about answers, of a strategy that gives none: it is unknown whether it would keep them."""
    if not _method(strategy):
        return PROMISES[4:]
    answered = any(_call(strategy, request)[0] is not None for request in _requests())
    return () if answered else PROMISES[5:8]


@dataclass(frozen=True, slots=True)
class _Fault:
    """A broken promise, and the input whose answer broke it."""

    promise: str
    text: str
    request: NominationRequest | None = None

    def story(self, strategy: Checked) -> str:
        if self.request is None:
            return f"{_name(strategy)} {self.text}"
        workload, fleet_ = self.request.workload, self.request.fleet
        return f"{_name(strategy)} breaks the contract: {self.text}\n  asked with {workload}\n  and {fleet_}"


def _method(strategy: Checked) -> str:
    """The one of `METHODS` that it has; empty if it has none."""
    return next((name for name in METHODS if callable(getattr(strategy, name, None))), "")


def _faults_of_shape(strategy: Checked) -> Iterator[_Fault]:
    name = _name(strategy)
    kind: Any = type(strategy)
    params = getattr(kind, "__dataclass_params__", None)
    if params is None or not params.frozen:
        yield _Fault(PROMISES[0], "must be a frozen dataclass: put @dataclass(frozen=True) above the class")
    if not _method(strategy):
        yield _Fault(
            PROMISES[1],
            "must have a method nominate(workload, fleet), or refuses(workload, worker, fleet) as a filter or "
            "score(workload, worker, fleet) as a scorer",
        )
    unsettable = sorted(each.name for each in fields(kind) if not each.init) if params is not None else []
    if unsettable:
        yield _Fault(
            PROMISES[2], f"has fields that are no options, since they cannot be given: {', '.join(unsettable)}"
        )
    text = inspect.getdoc(kind) or ""
    if not text or text.startswith(f"{name}("):  # the docstring that dataclass generates
        yield _Fault(PROMISES[3], "needs a docstring: it is the help text that people read to choose it")


def _faults_of_conduct(strategy: Checked) -> Iterator[_Fault]:
    """Makes each request twice, the second time in reverse order, if there is a method to call."""
    if not _method(strategy):
        return
    requests = tuple(_requests())
    before = deepcopy(strategy)
    answers = []
    for request in (*requests, *reversed(requests)):
        answer, faults = _call(strategy, request)
        answers.append(answer)
        yield from faults
    for request, first, second in zip(requests, answers, reversed(answers), strict=False):
        if first is not None and second is not None and first != second:
            yield _Fault(PROMISES[7], f"answered {first}, and asked again {second}", request)
    if strategy != before:
        yield _Fault(PROMISES[8], f"changed itself: it was {before}, it is {strategy}")


def _call(strategy: Checked, request: NominationRequest) -> tuple[object, list[_Fault]]:
    """The answer, None if there is none, and what is wrong with it."""
    given = deepcopy(request)
    try:
        answer, wrong = _nominated(strategy, given) if isinstance(strategy, Strategy) else _judged(strategy, given)
    except StrategyError as error:
        return None, [_Fault(PROMISES[4], str(error), request)]
    faults = [] if given == request else [_Fault(PROMISES[6], f"the question was changed to {given}", request)]
    if wrong:
        faults.append(_Fault(PROMISES[5], wrong, request))
    return answer, faults


def _nominated(strategy: Strategy, request: NominationRequest) -> tuple[object, str]:
    """Its nomination, and which of the nominated cannot be used."""
    allowed = {*request.fleet.names, *request.workload.nominated_clusters}
    nomination = call_strategy(strategy, request.workload, request.fleet)
    wrong = [name for name in nomination.clusters if name not in allowed]
    return nomination, f"nominated {', '.join(wrong)}, which cannot be used" if wrong else ""


def _judged(part: Filter | Scorer, request: NominationRequest) -> tuple[object, str]:
    """The answers of a filter or scorer for all workers. Raises StrategyError if it raises or gives something else."""
    name, workload, fleet_ = _name(part), request.workload, request.fleet
    try:
        if isinstance(part, Filter):
            answers: list[object] = [part.refuses(workload, worker, fleet_) for worker in fleet_.workers]
            wrong = [answer for answer in answers if type(answer) is not str or len(answer) > LONGEST_EXCERPT]
            expected = f"a text of at most {LONGEST_EXCERPT} characters, empty if it does not refuse"
        else:
            answers = [part.score(workload, worker, fleet_) for worker in fleet_.workers]
            wrong = [answer for answer in answers if not _is_sound(answer)]
            expected = "a Score from 0 to 1, or of None, with a text"
    except Exception as error:
        raise StrategyError(f"{name} raised {type(error).__name__}: {error}") from error
    if wrong:
        raise StrategyError(f"{name} must answer {expected}, answered {wrong[0]!r}")
    return tuple(answers), ""


def _is_sound(answer: object) -> bool:
    if not isinstance(answer, Score):
        return False
    value: Any = answer.value
    is_told = type(answer.reason) is str and len(answer.reason) <= LONGEST_EXCERPT
    return is_told and (value is None or (type(value) in (int, float) and 0 <= value <= 1))


def _requests() -> Iterator[NominationRequest]:
    """Each workload with each fleet, now and later."""
    for workload, fleet_, later in product(_workloads(), _fleets(), _LATER):
        yield NominationRequest(workload.build(), fleet_.later(later).build())


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
    gpus = FlavorRoom(flavor="a100", resource="nvidia.com/gpu", nominal=8, used=12, borrowed=4, most=16, free=-4)
    cpus = FlavorRoom(flavor="default", resource="cpu", nominal=64_000, used=1_000, most=64_000, free=63_000)
    roomy = three.room("a", gpus, replace(gpus, flavor="h100", reclaimable=((-1, 4),), preemptible=((0, 8),)), cpus)
    yield roomy.room("b", waiting={0: 3}, doubt="not read yet").room("c", cpus, doubt="out of date")
    waits = Waits(of="its queue", seen=7.5, steps=((0.5, _LATER[1]), (0.9, _LATER[2])), longest=_LATER[3], evicted=0.25)
    yield three.waits("a", waits).waits("b", Waits()).waits("c", Waits(of="all there", seen=9, longest=_LATER[2]))
    yield fleet("free").worker("a", prices={"cpu": 0.04, "a100/nvidia.com/gpu": 2.5}).worker("b", prices={"cpu": 0.0})
    yield three.placement("p")
    yield three.placement("p", problem="there is no such Placement")
    yield three.placement("p", ("c", "elsewhere"), ("a",))
    yield three.placement("p", ("b", "b"), absent={"a": NOW, "elsewhere": NOW})


def _workloads() -> Iterator[StrategyWorkloadBuilder]:
    fresh = strategy_workload()
    yield fresh
    yield StrategyWorkloadBuilder(replace(fresh.build(), queue="", cluster_queue="", created_at=None, reserved_at=None))
    yield fresh.priority(-5).request({"nvidia.com/gpu": 8}, cpu="500m", memory="2Gi").labels(team="x")
    yield (
        fresh.request({"nvidia.com/gpu": 8}, cpu=2)
        .assigned("a100")
        .spent(20)
        .spent(120, until=NOW + _LATER[2])
        .spent(0, most=0)
    )
    yield fresh.nominated("a")
    yield fresh.nominated("a", "b", "c")
    yield fresh.nominated("gone", "a")
    yield fresh.nominated("a", at=NOW + timedelta(minutes=1))  # a clock that went back
    yield StrategyWorkloadBuilder(replace(fresh.build(), nominated_clusters=("a",)))
    yield fresh.failed_on("a").failed_on("gone").mates(a=2, gone=1)
    yield fresh.failed_on("a").failed_on("b").failed_on("c").nominated("c")


def _name(strategy: Checked) -> str:
    return type(strategy).__name__
