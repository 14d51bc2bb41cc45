"""The strategy of a workload and its nomination, in one file: the one place that chooses a strategy and calls it.

The choice is the most specific of: the annotation of the workload, or of its job, if the operator allows the strategy;
the annotations of the AdmissionCheck; the settings. A wrong choice is never replaced by another one: the workload
waits, and reports why.

Our own strategies are called in place. A third-party strategy is imported, built and called in threads with a
deadline; its result requeues the workload, which stays as it is until then. A failed call is repeated after a back-off,
which doubles with each consecutive failure.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import Any, TypeVar

import anyio
from msgspec.structs import replace

from multikueue import registry
from multikueue import strategy as contract
from multikueue.api.kueue.admission_checks import AdmissionCheck
from multikueue.api.kueue.workload import FINISHED, GROUP_LABEL, Workload
from multikueue.api.meta import ObjectKey
from multikueue.api.multikueue.strategies import STRATEGY_ANNOTATION, strategy_of
from multikueue.api.values.foreign import excerpt
from multikueue.errors import ConfigurationError, StrategyError
from multikueue.runtime import Backoff, DeadlineExceeded, DeadlinePool, PoolSaturated
from multikueue.settings import InForce, Loaded
from multikueue.store.caches.cache import ignore
from multikueue.store.caches.placements import PLACEMENT_ANNOTATION
from multikueue.store.caches.spends import assigned
from multikueue.store.store import Store
from multikueue.strategy import Fleet, Nomination, Opinion
from multikueue.telemetry import get_logger
from multikueue.workload.case import Case
from multikueue.workload.handlers.nominating import give_back_after_of
from multikueue.workload.nomination.choice import ExplainedChoice, choice
from multikueue.workload.nomination.request import nomination_request
from multikueue.workload.strategy_call import (
    FLAVORS,
    KUEUE,
    MATES,
    PLACEMENTS,
    ROOM,
    SCORES,
    SPEND,
    WAITS,
    LoadedStrategy,
    NominationRequest,
    NominationResult,
    again_at,
    call_strategy,
    explain_strategy,
)

T = TypeVar("T")

log = get_logger()

LOADING = timedelta(minutes=1)
"""How long the import of a strategy may take. Some import large libraries."""

_KNOWN = 256

Question = tuple[contract.Workload, Fleet]
"""The two arguments of `Strategy.nominate`, with all that the strategy reads."""


@dataclass(slots=True, eq=False)
class _Loading:
    """A third-party strategy that is imported and built in a thread, and the workloads that wait for it."""

    done: anyio.Event = field(default_factory=anyio.Event)
    waiting: set[ObjectKey] = field(default_factory=set)


class _NotYet(Exception):
    """A strategy is still loading: whether it can be used is not known yet."""

    def __init__(self, loading: _Loading) -> None:
        super().__init__()
        self.loading = loading


@dataclass(slots=True, kw_only=True)
class Strategies:
    """Nominations for workloads. `wake` is called with the key of a workload whose strategy was loaded or has returned,
    `failed` with the name of a strategy that gave no valid nomination."""

    store: Store
    settings: InForce
    now: Callable[[], datetime]
    wake: Callable[[ObjectKey], None]
    failed: Callable[[str], None] = ignore
    known: dict[tuple[str, str], LoadedStrategy | str] = field(default_factory=dict)
    """By name and options as text: the loaded strategy, or why it cannot be loaded."""
    _results: dict[ObjectKey, tuple[str, NominationResult]] = field(default_factory=dict)
    """The attempt of a workload that waits for a worker, and the last result in it."""
    _pools: dict[str, DeadlinePool[Nomination]] = field(default_factory=dict)
    _explainers: dict[str, DeadlinePool[tuple[Opinion, ...]]] = field(default_factory=dict)
    _running: dict[ObjectKey, LoadedStrategy] = field(default_factory=dict)
    _loaders: dict[str, DeadlinePool[LoadedStrategy | str]] = field(default_factory=dict)
    _loading: dict[tuple[str, str], _Loading] = field(default_factory=dict)

    def with_nomination(self, case: Case) -> Case:
        """The case of a workload that waits for a worker with its strategy's nomination, if there is one by now. The decision
        on it must use the same `now`: a moment later the time of the next call may have come, and that call would be missed."""
        case = self._asked(self._with_last_result(case))
        ignored = self._ignored_placement(case)
        return replace(case, misread=(*case.misread, ignored)) if ignored else case

    def _asked(self, case: Case) -> Case:
        try:
            request, by = self._question(case)
        except _NotYet as wait:
            wait.loading.waiting.add(case.key)
            return case
        except ConfigurationError as error:
            self._running.pop(case.key, None)
            request = nomination_request(case, case.own_job)
            return self._record(case, NominationResult(request=request, problem=excerpt(str(error))))
        return self._call(case, request, by)

    def _question(self, case: Case) -> tuple[NominationRequest, LoadedStrategy]:
        """What the strategy of a workload is asked, and the strategy. Raises as `_choose`."""
        by = self._choose(case, self.store.checks.get(ObjectKey("", case.check)))
        request = nomination_request(case, case.own_job)
        return self._with_placement(request, case.local, by) if PLACEMENTS in by.reads else request, by

    def _ignored_placement(self, case: Case) -> str:
        """Why the Placement that the workload or its job names has no effect; empty if it has one, or none is named."""
        by, local = case.nomination_result.by if case.nomination_result is not None else None, case.workload
        if by is None or local is None or PLACEMENTS not in by.reads or self.settings.dispatch.workload_placements:
            return ""
        if not self.store.has_placement(local):
            return ""
        return (
            f"annotation {PLACEMENT_ANNOTATION} is ignored: workloads and jobs may not choose here "
            "(setting dispatch.workload_placements)"
        )

    async def problem_of(self, check: AdmissionCheck) -> str:
        """Why the strategy that a check names cannot be used; empty if it can, or the check names none."""
        try:
            await _known(partial(self._of_check, check))
        except ConfigurationError as error:
            return excerpt(str(error))
        return ""

    async def is_read_by_any(self, word: str) -> bool:
        """Whether a strategy that settings or checks name has `word` in its `reads`."""
        dispatch = self.settings.dispatch
        named = ((dispatch.strategy.name, dispatch.strategy.options), *dispatch.workload_strategies.items())
        finds: list[Callable[[], LoadedStrategy | None]] = [partial(self._load, *each) for each in named]
        finds += [partial(self._of_check, check) for check in self.store.checks]
        for find in finds:
            with suppress(ConfigurationError):
                found = await _known(find)
                if found is not None and word in found.reads:
                    return True
        return False

    def choice(self, case: Case) -> Awaitable[ExplainedChoice | None]:
        """What the strategy of a workload that waits for a worker thinks of each; None for any other workload. All that takes
        the manager time is done when this returns: what is awaited is the thread of a third-party strategy."""
        told: asyncio.Future[ExplainedChoice | None] = asyncio.get_running_loop().create_future()
        if case.workload is None or not case.attempt or case.has_won or case.workload.has(FINISHED):
            told.set_result(None)
            return told
        try:
            request, by = self._question(case)
        except (ConfigurationError, _NotYet) as error:
            problem = excerpt(str(error) or "its strategy is being loaded, ask again in a moment")
            told.set_result(ExplainedChoice(strategy="", problem=problem))
            return told
        workload, fleet = self._told(request, case.local, by)

        def on_done(found: tuple[Opinion, ...] | Exception) -> None:
            opinions: tuple[Opinion, ...] = ()
            problem = ""
            if isinstance(found, Exception):
                problem = excerpt(_words(found, by, self.settings.timings.strategy_timeout))
            else:
                opinions = found
            made = choice(by.name, workload, fleet, opinions, registry.part_name)
            if not told.done():  # the caller may have gone away
                told.set_result(replace(made, problem=problem))

        if by.is_ours:
            try:
                on_done(explain_strategy(by.strategy, workload, fleet))
            except StrategyError as error:
                on_done(error)
        else:
            asked = deepcopy((workload, fleet))
            pool = self._explainers.setdefault(by.name, DeadlinePool(self.settings.timings.strategy_timeout))
            pool.run(lambda: explain_strategy(by.strategy, *asked), on_done)
        return told

    # The choice.

    def _choose(self, case: Case, check: AdmissionCheck | None) -> LoadedStrategy:
        """Raises ConfigurationError if the most specific choice cannot be used, _NotYet while it is loading."""
        for item in (case.local, case.own_job):
            name = item.metadata.annotations.get(STRATEGY_ANNOTATION) if item is not None else None
            if name is not None:
                return self._allowed(f"Workload {case.key}" if item is case.local else "Its job", name)
        found = self._of_check(check) if check is not None else None
        if found is not None:
            return found
        default = self.settings.dispatch.strategy
        return self._load(default.name, default.options)

    def _allowed(self, giver: str, name: str) -> LoadedStrategy:
        allowed = self.settings.dispatch.workload_strategies
        if name not in allowed:
            right = f"one of {', '.join(sorted(allowed))}" if allowed else "none, as workloads may not choose here"
            raise ConfigurationError(
                f"{giver}: annotation {STRATEGY_ANNOTATION}: expected {right} (setting dispatch.workload_strategies),"
                f" got {name[:100]!r}"
            )
        return self._load(name, allowed[name])

    def _of_check(self, check: AdmissionCheck) -> LoadedStrategy | None:
        named = strategy_of(check)
        if named is None:
            return None
        try:
            return self._load(*named)
        except ConfigurationError as error:
            raise ConfigurationError(f"AdmissionCheck {check.metadata.name}: {error}") from None

    def _load(self, name: str, options: Mapping[str, Any]) -> LoadedStrategy:
        """Raises ConfigurationError if the strategy cannot be used, _NotYet while it is loading."""
        key = name, repr(options)
        found = self.known.get(key)
        if found is None and _is_third_party(name, options):
            loading = self._loading.get(key) or self._load_in_thread(key, name, options)
            found = self.known.get(key)  # known at once if the pool is saturated
            if found is None:
                raise _NotYet(loading)
        if found is None:
            found = self._keep(key, _loaded(name, options))
        if isinstance(found, str):
            raise ConfigurationError(found)
        return found

    def _load_in_thread(self, key: tuple[str, str], name: str, options: Mapping[str, Any]) -> _Loading:
        loading = self._loading[key] = _Loading()

        def on_done(outcome: LoadedStrategy | str | Exception) -> None:
            del self._loading[key]
            found = f"strategy {name!r} cannot be loaded: {outcome}" if isinstance(outcome, Exception) else outcome
            self._keep(key, found)
            loading.done.set()
            for each in loading.waiting:
                self.wake(each)
            if isinstance(outcome, DeadlineExceeded | PoolSaturated):
                asyncio.get_running_loop().call_later(LOADING.total_seconds(), self._try_again, key)

        self._loaders.setdefault(name, DeadlinePool(LOADING)).run(lambda: _loaded(name, options), on_done)
        return loading

    def _try_again(self, key: tuple[str, str]) -> None:
        """An import that took too long may be quick by now: requeues all checks and workloads, which may name it."""
        self.known.pop(key, None)
        for check in self.store.checks:
            self.store.look_at("checks", check.metadata.name)
        for local in self.store.workloads.all_keys():
            self.wake(local)

    def _keep(self, key: tuple[str, str], found: LoadedStrategy | str) -> LoadedStrategy | str:
        if len(self.known) >= _KNOWN:
            self.known.clear()
        self.known[key] = found
        return found

    def _with_placement(self, request: NominationRequest, local: Workload, by: LoadedStrategy) -> NominationRequest:
        option = getattr(by.strategy, "placement", "")
        placement = self.store.placement_for(
            local,
            option=option if isinstance(option, str) else "",
            may_workload_choose=self.settings.dispatch.workload_placements,
        )
        return replace(request, fleet=dataclasses.replace(request.fleet, placement=placement))

    def _call(self, case: Case, request: NominationRequest, by: LoadedStrategy) -> Case:
        last = case.nomination_result
        if last is not None and last.is_valid_for(request, by):
            return case
        workload, fleet = self._told(request, case.local, by)
        if not by.is_ours:
            self._call_in_thread(case, request, deepcopy((workload, fleet)), by)
            return case
        self._running.pop(case.key, None)
        outcome: Nomination | Exception
        try:
            outcome = call_strategy(by.strategy, workload, fleet)
        except StrategyError as error:
            outcome = error
        return self._record(case, self._result_of(request, by, outcome, last))

    def _told(self, request: NominationRequest, local: Workload, by: LoadedStrategy) -> Question:
        """The request with what the strategy reads beside it. That is no part of it: other values make no result stale."""
        workload, fleet = request.workload, request.fleet
        if MATES in by.reads:
            workload = dataclasses.replace(workload, mates=self._mates(local))
        if FLAVORS in by.reads:
            workload = dataclasses.replace(workload, assigned=assigned(local))
        if SPEND in by.reads:
            workload = dataclasses.replace(workload, spends=self.store.spends.of(local))
        if SCORES in by.reads:
            fleet = self.store.hub_scores.shown(fleet)
        if KUEUE in by.reads:
            self.store.releases.want()  # each worker has its own as soon as it is known
        if ROOM in by.reads:
            fleet = self.store.rooms.shown(fleet, local, self.settings.capacity_follow.flavors)
        return workload, self.store.waits.shown(fleet, local) if WAITS in by.reads else fleet

    def _mates(self, local: Workload) -> dict[str, int]:
        """Where the others of its group are; of those without a worker, where they were nominated last, written or not."""
        group, found = ObjectKey(local.metadata.namespace, local.metadata.labels.get(GROUP_LABEL, "")), Counter[str]()
        for other in self.store.workloads.by("group", group) if group.name else ():
            status, (_, last) = other.status, self._results.get(other.key, ("", None))
            named = last.nomination.clusters if last and last.nomination else status.nominated_cluster_names
            if other.key != local.key:
                found.update((status.cluster_name,) if status.cluster_name else named)
        return dict(found)

    def _with_last_result(self, case: Case) -> Case:
        """The case with the last result of its strategy in this attempt."""
        attempt, result = self._results.get(case.key, ("", None))
        return self._with_result(case, result) if result is not None and attempt == case.attempt else case

    def _record(self, case: Case, result: NominationResult) -> Case:
        self._results[case.key] = case.attempt, result
        if result.by is not None and ROOM in result.by.reads and result.nomination is not None:
            self.store.rooms.assume(case.local, result.nomination.clusters)
        return self._with_result(case, result)

    def _with_result(self, case: Case, result: NominationResult) -> Case:
        strategy = result.by.strategy if result.by is not None else None
        return replace(
            case,
            nomination_result=result,
            give_back_after=give_back_after_of(strategy, self.settings.dispatch.give_back_after),
        )

    def forget(self, key: ObjectKey) -> None:
        """Drops the result for a workload that needs no nomination."""
        self._results.pop(key, None)
        if self.store.rooms.wanted.is_wanted:
            self.store.rooms.release(key)

    def _call_in_thread(self, case: Case, request: NominationRequest, asked: Question, by: LoadedStrategy) -> None:
        """Calls a third-party strategy in a thread, one call at a time per workload. It gets copies, which it may change.
        A result that comes after another strategy was chosen is dropped."""
        key = case.key
        if self._running.get(key) is by:
            return

        def on_done(outcome: Nomination | Exception) -> None:
            if self._running.get(key) is not by:
                return
            del self._running[key]
            _, last = self._results.get(key, ("", None))
            self._record(case, self._result_of(request, by, outcome, last))
            self.wake(key)

        self._running[key] = by
        pool = self._pools.setdefault(by.name, DeadlinePool(self.settings.timings.strategy_timeout))
        pool.run(lambda: call_strategy(by.strategy, *asked), on_done)

    def _result_of(
        self,
        request: NominationRequest,
        by: LoadedStrategy,
        made: Nomination | Exception,
        last: NominationResult | None,
    ) -> NominationResult:
        now = self.now()
        if isinstance(made, Nomination):
            return NominationResult(
                request=request, by=by, nomination=made, again_at=again_at(made, now, reads=by.reads)
            )
        failures = (last.failures if last is not None and last.by is by else 0) + 1
        wait = self._backoff().delay(failures)
        problem = excerpt(_words(made, by, self.settings.timings.strategy_timeout))
        self.failed(by.name)
        log.warning("strategy.failed", strategy=by.name, why=problem, again_after=wait.total_seconds())
        return NominationResult(request=request, by=by, problem=problem, failures=failures, again_at=now + wait)

    def _backoff(self) -> Backoff:
        timings = self.settings.timings
        return Backoff(first=timings.strategy_timeout, cap=timings.retry_cap, jitter=0)


def verify(loaded: Loaded) -> None:
    """Raises ConfigurationError, with the place of the setting, if a strategy that the settings name cannot be used."""
    dispatch = loaded.settings.dispatch
    chosen, allowed = dispatch.strategy, dispatch.workload_strategies
    part = "options" if chosen.name in registry.names() else "name"
    named = [(("strategy", part), chosen.name, chosen.options)]
    named += [(("workload_strategies", name), name, options) for name, options in allowed.items()]
    for setting, name, options in named:
        try:
            registry.load(name, options)
        except ConfigurationError as error:
            raise ConfigurationError(f"{loaded.place(('dispatch', *setting))}: {error}") from None


async def _known(find: Callable[[], T]) -> T:
    """The result of `find`, repeated until no strategy is loading any more."""
    while True:
        try:
            return find()
        except _NotYet as wait:
            await wait.loading.done.wait()


def _is_third_party(name: str, options: Mapping[str, Any]) -> bool:
    """Whether the strategy is installed and not one of ours, or made of a part that is not."""
    try:
        return not registry.is_ours(name, options)
    except ConfigurationError:
        return False


def _loaded(name: str, options: Mapping[str, Any]) -> LoadedStrategy | str:
    try:
        strategy = registry.load(name, options)
    except ConfigurationError as error:
        return str(error)
    return LoadedStrategy(name, strategy, is_ours=registry.is_ours(name, options), reads=registry.reads(strategy))


def _words(error: Exception, by: LoadedStrategy, timeout: timedelta) -> str:
    if isinstance(error, StrategyError):
        return str(error)
    if isinstance(error, DeadlineExceeded):
        return f"strategy {by.name} gave no answer within {timeout.total_seconds():g}s"
    return f"strategy {by.name} cannot be asked: {error}"
