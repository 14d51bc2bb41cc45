"""Runs hostile cases one after another, each beside an innocent job."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import aiohttp

from testbed.bed import Plan, Testbed
from testbed.client import ApiError
from testbed.controllers import GARBAGE
from testbed.hostile import admins, network, tenants, workers
from testbed.hostile.case import Account, Case, Harm
from testbed.hostile.report import Row, Totals, as_json, line
from testbed.hostile.stage import SILENCE, Stage
from testbed.sandbox import SandboxBed

__all__ = ["CASES", "run"]

CASES: Sequence[Case] = (*tenants.CASES, *workers.CASES, *admins.CASES, *network.CASES)
WARM_UP = 5


async def run(only: str, *, sandbox: bool, output: str, tell: Callable[[str], None]) -> bool:
    """Play all cases, or those whose text contains `only`. True when nothing failed."""
    plan = Plan(workers=3, controllers={"manager": [GARBAGE]})
    bed = SandboxBed(plan) if sandbox else Testbed(plan)
    say = tell if output == "text" else _nobody
    try:
        await bed.open()
        async with Stage.set(bed) as stage:
            rows, totals = await _play(stage, [case for case in CASES if only in f"{case.who} {case.what}"], say)
    finally:
        await bed.close()
    failed = [row for row in rows if row.faults]
    for text in [*totals.lines(), *(f"FAILED  {fault}" for fault in totals.faults)]:
        say(text)
    say(f"{len(rows)} played, {len(failed)} failed")
    if output == "json":
        tell(as_json(rows, totals))
    return not failed and not totals.faults


async def _play(stage: Stage, cases: Sequence[Case], say: Callable[[str], None]) -> tuple[list[Row], Totals]:
    for _ in range(WARM_UP):
        await stage.innocent()
    await stage.vitals.take()
    memory, turn = stage.vitals.mebibytes, stage.vitals.longest_turn
    rows = []
    for case in cases:
        rows.append(await turn_of(stage, case))
        say(line(rows[-1]))
    await stage.vitals.take()
    vitals = stage.vitals
    return rows, Totals(memory, vitals.peak_mebibytes, vitals.mebibytes, turn, vitals.longest_turn)


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
