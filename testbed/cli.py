"""Command line of the testbed, for `make testbed` and for people."""

from __future__ import annotations

import signal
from functools import partial
from pathlib import Path
from typing import Annotated, TypeGuard

import anyio
import typer

from testbed import programs
from testbed.bed import Testbed
from testbed.chaos import play as chaos
from testbed.chaos.report import into_docs
from testbed.hostile import play as hostile
from testbed.kubeconfig import dump
from testbed.process import ProgramError

__all__ = ["main"]

app = typer.Typer(no_args_is_help=True, add_completion=False, help="Real control planes and Kueue on this machine.")


@app.command()
def install() -> None:
    """Build the programs: 7 to 23 minutes the first time, nothing afterwards. Needs Go."""
    programs.install(typer.echo)


@app.command("hostile")
def play_hostile(
    only: Annotated[str, typer.Option(help="Play only what has this in its line.")] = "",
    sandbox: Annotated[bool, typer.Option(help="On simulated clusters: needs nothing but Python.")] = False,
    output: Annotated[str, typer.Option("--output", "-o", help="text or json")] = "text",
) -> None:
    """Hostile things of tenants, workers, admins and the network, each beside an innocent job; exit code 1 if any of them
    harmed it, or the manager."""
    if not anyio.run(partial(hostile.run, only, sandbox=sandbox, output=output, tell=partial(print, flush=True))):
        raise SystemExit(1)


@app.command("chaos")
def play_chaos(
    minutes: Annotated[float, typer.Option(min=0.5, help="How long faults happen.")] = 30,
    seed: Annotated[int, typer.Option(help="Draws the faults and the jobs; the same seed, the same.")] = 1,
    folder: Annotated[Path | None, typer.Option(help="Where events and logs go and stay; a new one in /tmp.")] = None,
    docs: Annotated[Path | None, typer.Option(help="A page that gets the result, between its markers.")] = None,
) -> None:
    """Three replicas on real control planes under drawn faults: cut links, deaths, wrong clocks, hanging webhooks, full
    disks. Exit code 1 if a job was evicted without need, started twice or not finished."""
    report = anyio.run(chaos.run, seed, minutes, folder, partial(print, flush=True))
    typer.echo("\n".join(["", *report.lines(), *(f"COMPLAINT  {each}" for each in report.complaints)]))
    if docs is not None:
        into_docs(report, docs)
    if report.complaints:
        raise SystemExit(1)


@app.command()
def up(
    workers: Annotated[int, typer.Option(min=1, help="How many worker clusters.")] = 3,
    kueue: Annotated[bool, typer.Option(help="Run Kueue on the workers.")] = True,
    crds: Annotated[list[str] | None, typer.Option(help="Groups of CRDs, besides kueue: jobset, ray, ...")] = None,
    kubeconfigs: Annotated[Path, typer.Option(help="Where to write one kubeconfig for each cluster.")] = Path(
        "kubeconfigs"
    ),
) -> None:
    """Start a manager cluster and workers, print how to reach them, and stay until Ctrl-C."""
    anyio.run(_up, workers, kueue, ["kueue", *(crds or [])], kubeconfigs)


async def _up(workers: int, kueue: bool, crds: list[str], kubeconfigs: Path) -> None:
    typer.echo(f"starting a manager and {workers} workers ...")
    began = anyio.current_time()
    async with Testbed.start(workers=workers, kueue=kueue, crds=crds) as bed:
        typer.echo(f"up after {anyio.current_time() - began:.0f} s; logs are in {bed.folder}")
        files = _write_kubeconfigs(bed, kubeconfigs)
        typer.echo(
            f"\n  {bed.programs.kubectl} --kubeconfig {files[0]} get crds\n\nCtrl-C stops and removes everything"
        )
        await _interrupted()
        for file in files:
            file.unlink(missing_ok=True)


def _write_kubeconfigs(bed: Testbed, folder: Path) -> list[Path]:
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    for name, plane in bed.planes.items():
        file = folder / f"{name}.yaml"
        file.touch(mode=0o600)
        file.write_bytes(dump(plane.kubeconfig()))
        typer.echo(f"  {name:10} {plane.url}  {file}")
        files.append(file)
    return files


async def _interrupted() -> None:
    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async for _ in signals:
            return


def main() -> None:
    """Run a command; errors that a user can fix have no traceback."""
    try:
        app()
    except* (programs.NotInstalledError, ProgramError) as problems:
        for problem in _leaves(problems):
            typer.echo("\n".join([f"error: {problem}", *getattr(problem, "__notes__", [])]), err=True)
        raise SystemExit(1) from None


def _leaves(group: BaseExceptionGroup[Exception]) -> list[BaseException]:
    return [leaf for error in group.exceptions for leaf in (_leaves(error) if _is_group(error) else [error])]


def _is_group(error: BaseException) -> TypeGuard[BaseExceptionGroup[Exception]]:
    return isinstance(error, BaseExceptionGroup)
