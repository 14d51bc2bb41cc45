"""Counts how often named functions of the product are called by one process of a world, without a change of theirs."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial, wraps
from importlib import import_module
from types import FrameType
from typing import Any
from unittest.mock import patch

from fakekube.model.wire import Request, Response, Watch
from fakekube.network.transport import Line, is_write
from multikueue.api import meta
from multikueue.api.kueue.workload import WorkloadSpec
from multikueue_simulator.time import process_now
from multikueue_simulator.world.world import MANAGER

__all__ = ["COUNTED", "DECODES", "FUNCTIONS", "Calls", "Counts", "counted", "functions_counted"]

Counts = Counter[str]

COUNTED: Mapping[str, Sequence[str]] = {
    "cases": ("multikueue.store.views:Views.case",),
    "remotes": ("multikueue.store.views:Views._seen",),
    "decisions": ("multikueue.workload.decide:decide",),
    "workers shown to strategies": ("multikueue.strategy:Worker.__init__",),
    "strategy calls": ("multikueue.workload.strategy_call:call_strategy",),
    "workload reconciles": ("multikueue.controllers.workloads.workloads:Workloads.reconcile",),
    "job reconciles": ("multikueue.controllers.workloads.jobs:Jobs.reconcile",),
    "outbox turns": ("multikueue.controllers.workers.connection.outbox:Outbox.reconcile",),
    "touches": ("multikueue.controllers.leader_election.standby:Enqueuer.add",),
}
"""What is counted: each call of one of these functions, here and nowhere else."""

DECODES = "spec decodes"
"""How often the spec of a Workload is decoded, whoever asks for it."""

FUNCTIONS = "functions called"
"""All of them, whatever they are named."""


@contextmanager
def counted(process: str, counts: Counts) -> Iterator[None]:
    """In this block `counts` grow by what that process does."""
    with ExitStack() as stack:
        for label, names in COUNTED.items():
            for name in names:
                stack.enter_context(_calls_of(name, partial(_count, process, counts, label)))
        decode = meta.decoder(WorkloadSpec)
        watched = _watched(decode, partial(_count, process, counts, DECODES))
        stack.enter_context(patch.dict(meta._DECODERS, {WorkloadSpec: watched}))
        yield


@contextmanager
def functions_counted(counts: Counts, *, process: str | None = None, builtins: bool = False) -> Iterator[None]:
    """In this block count each function in Python that is called, by that process of a world alone if one is named, and
    those that are not in Python too with `builtins`. Takes a multiple of the time."""
    counts_as_call = {"call", "c_call"} if builtins else {"call"}
    own = {_watched(len, lambda: None).__code__, _count.__code__, process_now.__code__}  # what `counted` adds

    def profile(frame: FrameType, what: str, _arg: object) -> None:
        if what in counts_as_call and frame.f_code not in own and (process is None or process_now() == process):
            counts[FUNCTIONS] += 1

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        yield
    finally:
        sys.setprofile(before)


def _count(process: str, counts: Counts, label: str) -> None:
    if process_now() == process:
        counts[label] += 1


@contextmanager
def _calls_of(name: str, tell: Callable[[], None]) -> Iterator[None]:
    """In this block each call of the function `module:qualified.name` is told, by whatever name it was imported."""
    module, _, path = name.partition(":")
    *way, last = path.split(".")
    owner: Any = import_module(module)
    for part in way:
        owner = getattr(owner, part)
    original = getattr(owner, last)
    watched = _watched(original, tell)
    with ExitStack() as stack:
        for place in (owner,) if way else _importers(last, original):
            stack.enter_context(patch.object(place, last, watched))
        yield


def _watched(function: Callable[..., Any], tell: Callable[[], None]) -> Callable[..., Any]:
    @wraps(function)
    def watched(*arguments: Any, **options: Any) -> Any:
        tell()
        return function(*arguments, **options)

    return watched


def _importers(name: str, function: object) -> list[Any]:
    ours = [module for path, module in sys.modules.items() if path.partition(".")[0] == "multikueue"]
    return [module for module in ours if vars(module).get(name) is function]


class Calls:
    """An observer of the manager's line: requests that arrived, by cluster and verb."""

    def __init__(self, counts: Counts) -> None:
        self._counts = counts

    def arriving(self, line: Line, host: str, request: Request) -> None:
        """It is counted when there is an answer."""

    def arrived(self, _line: Line, host: str, request: Request, answer: Response | Watch) -> None:
        if not isinstance(answer, Watch):
            where = "manager" if host == MANAGER else "worker"
            self._counts[f"{where} {'writes' if is_write(request) else 'reads'}"] += 1
            self._counts[f"{where} {request.method}"] += 1
