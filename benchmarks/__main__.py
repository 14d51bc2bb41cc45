"""`python -m benchmarks`: see `make bench`."""

from __future__ import annotations

import json
import os
import platform
import sys
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, NamedTuple

import anyio
import typer

from benchmarks import admission as one_cluster
from benchmarks import engine as engine_alone
from benchmarks import lines as results
from benchmarks import start as starts
from benchmarks.bench import Load
from benchmarks.micro import measure_all
from benchmarks.mixes import compared as compared_mixes
from benchmarks.mixes.contestants import CONTESTANTS
from benchmarks.mixes.traces import MIXES
from benchmarks.page import FIGURES, put
from benchmarks.page import MIXES as MIXES_PAGE
from benchmarks.performance import into_docs
from benchmarks.report import Report, as_json, as_markdown, as_text
from benchmarks.sharing import compared
from benchmarks.sharing.crowd import Crowd
from benchmarks.sharing.play import POLICIES
from benchmarks.sides import Ceiling, Ours, Peer, Side
from benchmarks.work import burst, clusters, distance, growth, lifted, restart, sick, strategies, stream, waiting
from benchmarks.work.core import Measure, Result, Setting, in_turn
from testbed.bed import Testbed
from testbed.sandbox import SandboxBed

app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)


class Only(StrEnum):
    OURS = "ours"
    PEER = "peer"


class Form(StrEnum):
    TABLE = "table"
    JSON = "json"
    MARKDOWN = "markdown"


FORMS = {Form.TABLE: as_text, Form.JSON: as_json, Form.MARKDOWN: as_markdown}


WORKS: Mapping[str, Measure] = {
    "burst": burst.measure,
    "clusters": clusters.measure,
    "distance": distance.measure,
    "growth": growth.measure,
    "lifted": lifted.measure,
    "restart": restart.measure,
    "sick": sick.measure,
    "strategies": strategies.measure,
    "stream": stream.measure,
    "waiting": waiting.measure,
}
"""Kinds of work by name."""


class Contestant(NamedTuple):
    """A chosen side and its load."""

    name: str
    enter: Callable[[Testbed], Side]
    load: Load


@app.callback(invoke_without_command=True)
def bench(
    context: typer.Context,
    jobs: Annotated[int, typer.Option(min=1, help="Jobs submitted at once.")] = 200,
    peer_jobs: Annotated[int | None, typer.Option(min=1, help="The same for the peer.  [default: as many]")] = None,
    rested: Annotated[int, typer.Option(min=1, help="Jobs one after another, on idle clusters.")] = 20,
    workers: Annotated[int, typer.Option(min=1, help="Worker clusters.")] = 3,
    rounds: Annotated[int, typer.Option(min=1, help="How often each side has its turn.")] = 1,
    only: Annotated[Only | None, typer.Option(help="Measure one side alone.")] = None,
    kueue_file: Annotated[
        bool, typer.Option("--kueue-file", help="Start ours with Kueue's own Configuration, as the peer has it.")
    ] = False,
    hold: Annotated[bool, typer.Option("--hold", help="Let the jobs run until the whole burst is dispatched.")] = False,
    ceiling: Annotated[
        bool | None,
        typer.Option(help="Also measure a script that decides nothing.  [default: unless one side is measured alone]"),
    ] = None,
    output: Annotated[Form, typer.Option("--output", "-o", help="How to print the figures.")] = Form.TABLE,
    save: Annotated[Path | None, typer.Option(help="Also write everything there, as JSON.")] = None,
    docs: Annotated[bool, typer.Option("--docs", help="Put the table into docs/figures.md.")] = False,
    profile: Annotated[
        Path | None, typer.Option(help="Run ours under cProfile and write there; its CPU figures are void then.")
    ] = None,
    check: Annotated[bool, typer.Option("--check", help="Exit with 1 when a target is missed.")] = False,
) -> None:
    """Measure ours beside Kueue's own manager, on one testbed. Nothing else should run on the machine."""
    if context.invoked_subcommand is not None:
        return
    sides: list[Contestant] = [
        Contestant("ours", lambda bed: Ours(bed, profile=profile, kueue_file=kueue_file), Load(rested, jobs, hold)),
        Contestant("peer", Peer, Load(max(1, rested // 2), peer_jobs or jobs, hold)),
    ]
    chosen = [each for each in sides if only in (None, each.name)]
    if ceiling if ceiling is not None else only is None:
        chosen.insert(1, Contestant("script", Ceiling, Load(rested, jobs, hold)))
    report = anyio.run(_run, workers, chosen, rounds, backend_options={"use_uvloop": True})
    print(FORMS[output](report))
    if report.whole:
        results.keep("burst", found := burst.lines(report.sides, f"{jobs} jobs at once"))
        print(results.as_lines(found), end="", file=sys.stderr)
    if save is not None:
        save.write_text(as_json(report))
    if docs:
        put(FIGURES, "bench", as_markdown(report))
    if check and report.missed:
        raise typer.Exit(1)


@app.command()
def micro(
    check: Annotated[bool, typer.Option("--check", help="Exit with 1 when a target is missed.")] = False,
) -> None:
    """Measure single rooms of ours, without a cluster."""
    results = measure_all()
    for result in results:
        verdict = "pass" if result.met else "MISS"
        print(f"{result.label:52} {result.value:12,.1f}  {result.target.says:12} {verdict}")
    if check and not all(result.met for result in results):
        raise typer.Exit(1)


@app.command()
def sharing(
    users: Annotated[int, typer.Option(min=1, help="Users, each with a share of the quota.")] = 50,
    gpus: Annotated[int, typer.Option(min=60, help="GPUs, on three clusters.")] = 100,
    hours: Annotated[float, typer.Option(min=0.5, help="How long jobs are submitted.")] = 12.0,
    demand: Annotated[float, typer.Option(min=0.1, help="GPUs asked for, as a share of all.")] = 0.9,
    seeds: Annotated[int, typer.Option(min=1, help="Runs of each, with other jobs; the figures are means.")] = 3,
    policy: Annotated[list[str] | None, typer.Option(help="Only this one; may be repeated.")] = None,
    docs: Annotated[bool, typer.Option("--docs", help="Put the table into docs/figures.md.")] = False,
) -> None:
    """Compare ways to share GPUs among users, on simulated clusters and virtual time."""
    unknown = set(policy or ()) - set(POLICIES)
    if unknown:
        raise typer.BadParameter(f"there is no {', '.join(sorted(unknown))}; there are {', '.join(POLICIES)}")
    crowd = Crowd(users=users, gpus=gpus, hours=hours, demand=demand)
    found = compared.measure(crowd, range(1, seeds + 1), policy or list(POLICIES))
    print(compared.as_text(found))
    if docs:
        put(FIGURES, "sharing", compared.as_markdown(found))


@app.command()
def mixes(
    mix: Annotated[str, typer.Option(help=f"Jobs as in this trace: {', '.join(MIXES)}.")] = "seren",
    clusters: Annotated[int, typer.Option(min=1, help="Worker clusters.")] = 10,
    equal: Annotated[bool, typer.Option("--equal", help="All of 32 GPUs, instead of 8 to 64.")] = False,
    load: Annotated[float, typer.Option(min=0.1, help="GPU time asked for, as a share of all.")] = 0.9,
    days: Annotated[float, typer.Option(min=0.1, help="How long jobs are submitted.")] = 1.0,
    seeds: Annotated[int, typer.Option(min=1, help="Runs of each, with other jobs: seeds 1, 2, ...")] = 5,
    strategy: Annotated[list[str] | None, typer.Option(help="Only this one; may be repeated.")] = None,
    output: Annotated[
        Form, typer.Option("--output", "-o", help="json: a line for each strategy and seed.")
    ] = Form.TABLE,
    docs: Annotated[bool, typer.Option("--docs", help="Play all scenes of docs/mixes.md, and write it.")] = False,
) -> None:
    """Compare strategies on jobs drawn after published traces, on virtual time. Needs no cluster."""
    names, numbers = strategy or list(CONTESTANTS), range(1, seeds + 1)
    for unknown in ({*names} - {*CONTESTANTS}, {mix} - {*MIXES}):
        if unknown:
            raise typer.BadParameter(f"there is no {', '.join(sorted(unknown))}")
    if docs:
        tables = [f"### {title}\n\n{table}" for title, table in compared_mixes.page(numbers, names)]
        put(MIXES_PAGE, "mixes", "\n\n".join(tables))
        return
    scene = compared_mixes.Scene(mix=mix, clusters=clusters, equal=equal, load=load, days=days)
    found = compared_mixes.measure(scene, numbers, names)
    if output is Form.JSON:
        for line in compared_mixes.as_json(scene, numbers, found):
            print(json.dumps(line))
    else:
        print(compared_mixes.as_text(scene, found) if output is Form.TABLE else compared_mixes.as_markdown(found))


@app.command()
def admission(
    jobs: Annotated[int, typer.Option(min=1, help="Jobs submitted at once.")] = 1000,
    queues: Annotated[int, typer.Option(min=1, help="Queues they are spread over.")] = 10,
) -> None:
    """Measure how fast jobs get quota on one cluster without workers, beside Kueue there. Nothing else should run."""
    print(one_cluster.as_text(anyio.run(_run_admission, jobs, queues, backend_options={"use_uvloop": True})))


@app.command()
def engine(
    check: Annotated[bool, typer.Option("--check", help="Exit with 1 when a target is missed.")] = False,
    docs: Annotated[bool, typer.Option("--docs", help="Put the tables and the chart into docs/figures.md.")] = False,
) -> None:
    """Replay Kueue's scheduler workloads through the quota engine alone, on virtual time and one core."""
    published, crowds = engine_alone.measure(_say)
    print(engine_alone.as_text(published, crowds))
    if docs:
        put(FIGURES, "engine", engine_alone.as_markdown(published, crowds))
    if check and not all(each.met for each in published):
        raise typer.Exit(1)


@app.command()
def work(
    kinds: Annotated[list[str] | None, typer.Argument(help="Kinds of work.  [default: all]")] = None,
    full: Annotated[bool, typer.Option("--full", help="All sizes, for hours; else what fits into minutes.")] = False,
    simulated: Annotated[bool, typer.Option("--simulated", help="On simulated clusters, without the peer.")] = False,
    peer: Annotated[bool, typer.Option(help="Measure the peer, too.")] = True,
    kueue: Annotated[
        Path | None, typer.Option(exists=True, dir_okay=False, help="Another Kueue binary as the peer.")
    ] = None,
    rounds: Annotated[int, typer.Option(min=1, help="How often each side has its turn.")] = 2,
    workers: Annotated[int | None, typer.Option(min=1, help="Worker clusters.  [default: each kind's own]")] = None,
    jobs: Annotated[int | None, typer.Option(min=1, help="Jobs of a burst.  [default: each kind's own]")] = None,
    minutes: Annotated[
        float | None, typer.Option(min=0.05, help="How long a stream is.  [default: 5 with --full, else 0.5]")
    ] = None,
    pending: Annotated[
        int | None,
        typer.Option(min=3, help="Workloads that wait at a restart, or an end.  [default: each kind's own]"),
    ] = None,
    running: Annotated[
        int | None, typer.Option(min=3, help="Workloads that run at a restart.  [default: 5000 with --full, else 100]")
    ] = None,
    docs: Annotated[
        bool,
        typer.Option(
            "--docs", help="Put the kept results into docs/figures.md; a kind of work without any keeps its own."
        ),
    ] = False,
    check: Annotated[bool, typer.Option("--check", help="Exit with 1 when a goal is missed.")] = False,
) -> None:
    """Measure kinds of work, one after the other, and keep their results. Nothing else should run on the machine."""
    unknown = set(kinds or ()) - set(WORKS)
    if unknown:
        raise typer.BadParameter(f"there is no {', '.join(sorted(unknown))}; there are {', '.join(WORKS)}")
    setting = Setting(
        _say,
        full=full,
        simulated=simulated,
        peer=peer,
        rounds=rounds,
        workers=workers,
        jobs=jobs,
        minutes=minutes,
        pending=pending,
        running=running,
        kueue=kueue,
    )
    missed = False
    for name in kinds or WORKS:
        found = anyio.run(_run_work, WORKS[name], setting, backend_options={"use_uvloop": True})
        results.keep(name, found.lines, found.points)
        print(results.as_lines(found.lines), end="", flush=True)
        missed |= any(line.ok is False for line in found.lines)
    if docs:
        into_docs(results.read_lines(), results.read_points(), FIGURES)
    if check and missed:
        raise typer.Exit(1)


async def _run_work(measure: Measure, setting: Setting) -> Result:
    return await measure(setting)


@app.command()
def start(
    testbed: Annotated[
        bool, typer.Option("--testbed", help="Start the manager over real clusters instead of simulated ones.")
    ] = False,
    workers: Annotated[int, typer.Option(min=0, help="Worker clusters of the manager; 0: commands alone.")] = 3,
) -> None:
    """Measure the CPU of each command's start, and of the manager's until it is ready."""
    with starts.compiled() as env:
        costs = starts.commands_alone(env, _say)
        if workers:
            costs.append(anyio.run(_run_start, Testbed if testbed else SandboxBed, workers, env))
    print(starts.as_text(costs))


async def _run_start(kind: type[Testbed], workers: int, env: Mapping[str, str]) -> starts.Cost:
    _say("starting the clusters")
    async with kind.start(workers=workers) as bed:
        return await starts.manager_alone(bed, env, _say)


async def _run_admission(jobs: int, queues: int) -> list[one_cluster.Rate]:
    _say("starting the testbed")
    async with Testbed.start(workers=0) as bed:
        return await one_cluster.measure_all(bed, jobs=jobs, lines=queues, say=_say)


async def _run(workers: int, chosen: Sequence[Contestant], rounds: int) -> Report:
    loads = {each.name: each.load for each in chosen}
    setting = Setting(_say, rounds=rounds)
    async with setting.clusters(workers) as bed:
        sides = await in_turn(bed, {each.name: each.enter for each in chosen}, loads.__getitem__, setting)
    return Report(command=_command(), machine=_machine(), sides=sides)


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _command() -> str:
    return " ".join(["python -m benchmarks", *sys.argv[1:]])


def _machine() -> dict[str, str]:
    settings = " ".join(f"{name}={value}" for name, value in os.environ.items() if name.startswith("MULTIKUEUE_"))
    machine = {
        "cores": f"{os.cpu_count()} cores of {platform.machine()}",
        "python": f"Python {platform.python_version()}",
        "system": platform.system(),
    }
    return machine | ({"settings": settings} if settings else {})


if __name__ == "__main__":
    app()
