"""(g) Memory and CPU at rest with ever more workers, and what is kept of ever more workloads; simulated, a process each."""

from __future__ import annotations

import anyio.to_thread

from benchmarks.figures import Target, at_most
from benchmarks.fleet import held, rest
from benchmarks.lines import itself, longest_turn
from benchmarks.work.core import Result, Setting

__all__ = ["measure"]

WORKERS = {True: (10, 100, 300, 1000), False: (10, 100)}
WORKLOADS = {True: (1_000, 10_000, 100_000), False: (1_000, 10_000)}
MOST_MEMORY = {10_000: 250.0, 100_000: 1228.8}
"""MiB, by workloads."""

LONGEST_PAUSE = 20.0
PER_WORKER, AT_A_THOUSAND = 200.0, 300.0


async def measure(setting: Setting) -> Result:
    result = Result()
    await _at_rest(setting, result)
    await _kept(setting, result, "waiting")
    await _kept(setting, result, "finished")
    return result


async def _at_rest(setting: Setting, result: Result) -> None:
    alone = await rest.measure(rest.Sizes(0, 20), setting.say)
    for workers in WORKERS[setting.full]:
        found = await rest.measure(rest.Sizes(workers), setting.say)
        many = workers >= 1000
        result.plot("rest-memory", workers, ours=found.resident)
        result.plot("rest-cpu", workers, ours=100 * found.cpu)
        result.plot("rest-requests", workers, ours=found.requests)
        what = f"{workers} idle workers"
        result.lines += [
            itself(f"{what}: memory, MiB", found.resident, at_most(AT_A_THOUSAND) if many else None),
            itself(
                f"{what}: memory of each, KiB", rest.per_worker(found, alone), at_most(PER_WORKER) if many else None
            ),
            itself(f"{what}: CPU, % of a core", 100 * found.cpu, at_most(5)),
            itself(f"{what}: requests to each in a minute", found.requests, at_most(1) if many else None),
            longest_turn(what, found.turn),
            itself(f"{what}: requests under way at once at the start", found.start_at_once),
            itself(f"{what}: CPU of the start for each, ms", 1000 * (found.start_cpu - alone.start_cpu) / workers),
        ]


async def _kept(setting: Setting, result: Result, state: held.State) -> None:
    few = 0.0
    for number in WORKLOADS[setting.full]:
        setting.say(f"{number} {state} workloads")
        found = await anyio.to_thread.run_sync(held.measure, state, number)
        few = few or found.each
        if state == "waiting":
            result.plot("held-memory", number, ours=found.resident)
            result.plot("held-cpu", number, ours=found.each)
            result.plot("pause", number, ours=found.longest_pause)
        what = f"{number:,} {state} workloads"
        result.lines += [
            itself(f"{what}: memory of the process, MiB", found.resident, _most(number)),
            itself(f"{what}: memory of a Job and its Workload, KiB", 1024 * found.added / number),
            itself(f"{what}: CPU to take in both, µs", found.each, at_most(1.2 * few)),
            itself(f"{what}: longest search for garbage, ms", found.longest_pause, at_most(LONGEST_PAUSE)),
        ]


def _most(number: int) -> Target | None:
    return at_most(MOST_MEMORY[number]) if number in MOST_MEMORY else None
