"""How many functions of the product one reconcile calls, by what it writes: `python -m tests.costs` prints them."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any
from unittest.mock import patch

import multikueue
from multikueue.controllers.workloads.jobs import Jobs
from multikueue.controllers.workloads.workloads import Workloads
from multikueue.runtime import Result
from tests.controllers.table import Table, table

__all__ = ["Reconcile", "as_markdown", "of_a_job"]

_PRODUCT = str(Path(multikueue.__file__).parent)


@dataclass(frozen=True, slots=True)
class Reconcile:
    """`of`: the kind whose controller it is of. `calls`: what it asked of the manager cluster."""

    of: str
    calls: Sequence[str]
    functions: int


async def of_a_job(workers: int = 3) -> list[Reconcile]:
    """All reconciles of a job that runs on one of so many workers, in their order; another one came before it."""
    world = table(workers=workers)
    found: list[Reconcile] = []
    with (
        patch.object(Workloads, "reconcile", _counting(world, "Workload", Workloads.reconcile, found)),
        patch.object(Jobs, "reconcile", _counting(world, "Job", Jobs.reconcile, found)),
    ):
        world.start()
        for name in ("first", "second"):
            found.clear()
            world.submit(name)
            await world.settle()
            world.admit("w1", name)
            await world.settle()
            world.finish("w1", name)
            await world.settle()
    return found


def _counting(
    world: Table, of: str, original: Callable[[Any, Any], Awaitable[Result]], found: list[Reconcile]
) -> Callable[[Any, Any], Awaitable[Result]]:
    async def reconcile(self: object, key: object) -> Result:
        functions = 0

        def profile(frame: FrameType, what: str, _arg: object) -> None:
            nonlocal functions
            functions += what == "call" and frame.f_code.co_filename.startswith(_PRODUCT)

        before = len(world.manager.calls)
        sys.setprofile(profile)
        try:
            return await original(self, key)
        finally:
            sys.setprofile(None)
            found.append(Reconcile(of, tuple(world.manager.calls[before:]), functions))

    return reconcile


def as_markdown(found: Sequence[Reconcile]) -> str:
    return "\n".join(_lines(found))


def _lines(found: Sequence[Reconcile]) -> Iterator[str]:
    yield "| Reconcile of | writes | functions of the product |"
    yield "| --- | --- | --: |"
    for each in found:
        yield f"| {each.of} | {', '.join(each.calls) or 'nothing'} | {each.functions:,} |"
