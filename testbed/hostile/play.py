"""Runs hostile cases one after another, each beside an innocent job, and then four at once among forty workers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial

import aiohttp

from testbed.bed import Plan, Testbed
from testbed.client import ApiError
from testbed.controllers import GARBAGE
from testbed.hostile import admins, crowd, network, tenants, workers
from testbed.hostile.case import Account, Case, Harm
from testbed.hostile.report import Row, Totals, as_json, line
from testbed.hostile.stage import SILENCE, Stage
from testbed.sandbox import SandboxBed

__all__ = ["CASES", "run"]

CASES: Sequence[Case] = (*tenants.CASES, *workers.CASES, *admins.CASES, *network.CASES)
WARM_UP, BURST = 5, 100
"""Innocent jobs before the first turn, one after another and at once: OpenSSL keeps for each connection a buffer as large as
the most that came at once, whoever sent it."""


async def run(only: str, *, sandbox: bool, output: str, tell: Callable[[str], None]) -> bool:
    """Play all cases and rounds of the crowd, or those whose text contains `only`. True when nothing failed."""
    cases = [case for case in CASES if only in f"{case.who} {case.what}"]
    chosen = [manners for manners in crowd.rounds() if only in f"crowd {' + '.join(manners)}"]
    say = tell if output == "text" else _nobody
    parts: list[tuple[list[Row], Totals]] = []
    if cases:
        async with _stage(sandbox=sandbox) as stage:
            parts.append(await _play(stage, [partial(turn_of, stage, case) for case in cases], say))
    if chosen:
        async with _stage(sandbox=sandbox) as stage, crowd.Crowd.around(stage) as around:
            say(f"{crowd.CROWD} workers, {', '.join(around.hostile)} of them hostile at once:")
            await around.calm()
            memory = (await stage.vitals.take()).mebibytes
            parts.append(await _play(stage, [partial(around.round, each) for each in chosen], say, memory=memory))
    if output == "json":
        tell(as_json(parts))
    return not any(totals.faults or any(row.faults for row in rows) for rows, totals in parts)


@asynccontextmanager
async def _stage(*, sandbox: bool) -> AsyncIterator[Stage]:
    plan = Plan(workers=3, controllers={"manager": [GARBAGE]})
    bed = SandboxBed(plan) if sandbox else Testbed(plan)
    try:
        await bed.open()
        async with Stage.set(bed) as stage:
            yield stage
    finally:
        await bed.close()


async def _play(
    stage: Stage, turns: Sequence[Callable[[], Awaitable[Row]]], say: Callable[[str], None], *, memory: float = 0.0
) -> tuple[list[Row], Totals]:
    """The control for the peak of memory is what is used before the first turn: now, or `memory` before that."""
    for _ in range(WARM_UP):
        await stage.innocent()
    await stage.at_once((stage.innocent() for _ in range(BURST)), lanes=BURST)
    await stage.vitals.take()
    vitals = stage.vitals
    vitals.peak_mebibytes = memory = max(memory, vitals.mebibytes)
    turn = vitals.longest_turn
    rows = []
    for turn_ in turns:
        rows.append(await turn_())
        say(line(rows[-1]))
    await vitals.take()
    totals = Totals(memory, vitals.peak_mebibytes, vitals.mebibytes, turn, vitals.longest_turn)
    for text in [*totals.lines(), *(f"FAILED  {fault}" for fault in totals.faults)]:
        say(text)
    say(f"{len(rows)} played, {sum(bool(row.faults) for row in rows)} failed")
    return rows, totals


async def turn_of(stage: Stage, case: Case) -> Row:
    """Run an innocent job as control, then the case with an innocent job beside it; undo the case."""
    control = await stage.innocent()
    await stage.vitals.take()
    stage.vitals.mark()
    try:
        account = await case.play(stage)
    except ApiError as error:
        account = f"refused by the API server: {error.message}"
    except (AssertionError, aiohttp.ClientError, TimeoutError) as error:
        account = f"not answered by the API server: {error!r}"
    innocent = await stage.innocent()
    became, harm = await _told(account)
    if became == SILENCE and case.silent:
        became = f"nothing was said, for {case.silent}"
    if not await stage.bystander_runs():
        harm.append("the bystander's job was ended")
    taken = await stage.vitals.take()
    await stage.clear()
    if ended := await stage.revive():
        harm.append(ended)
    if not await stage.bystander_runs():
        await stage.reseat_bystander()
    return Row(case.who, case.what, " ".join(became.split()), control, innocent, harm, taken)


async def _told(account: Account | str) -> tuple[str, list[str]]:
    if isinstance(account, str):
        return account, []
    try:
        return await account(), []
    except Harm as harm:
        return "", [str(harm)]
    except (ApiError, AssertionError, aiohttp.ClientError, TimeoutError) as error:
        return f"nobody knows: {error!r}", []


def _nobody(_: str) -> None:
    """No progress beside JSON."""
