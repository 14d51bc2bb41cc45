"""`multikueue record`: what becomes of workloads, written into the history until it is stopped."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from multikueue.cli.access.connection import ContextChoice, ManagerOptions, run_async
from multikueue.cli.terminal.bundles import bundled
from multikueue.cli.terminal.durations import parse_duration
from multikueue.cli.terminal.output import note
from multikueue_console.commands.stored import HistoryUrl, opened

if TYPE_CHECKING:
    from multikueue_console.history.store import RunHistory

__all__ = ["record"]

Spaces = Annotated[
    list[str],
    typer.Option("--namespace", "-n", help="Record this namespace; may be given again. (default: all you may see)"),
]
Detail = Annotated[
    timedelta,
    typer.Option("--detail", parser=parse_duration, metavar="DURATION", help="How long each run is kept by itself."),
]
Sums = Annotated[
    timedelta, typer.Option("--sums", parser=parse_duration, metavar="DURATION", help="How long sums by hour are kept.")
]


@bundled
def record(
    namespace: Spaces = [],  # noqa: B006  # as typer has it
    url: HistoryUrl = None,
    detail: Detail = "90d",  # type: ignore[assignment]  # typer asks the parser
    sums: Sums = "730d",  # type: ignore[assignment]
    *,
    manager: ManagerOptions,
) -> None:
    """Record what becomes of workloads, until it is stopped.

    Reports and estimates read it. What clusters still show when it starts is recorded too; what they did not show any more is a
    gap. Several may record at once into one history: nothing counts twice.

    \b
    Examples:
      multikueue record
      multikueue record --history postgresql://console@db/history --detail 30d
    """
    from multikueue_console.history.store import Keep

    with opened(url, Keep(detail=detail, sums=sums)) as history:
        run_async(lambda: _record(manager.target, namespace, history))


async def _record(target: ContextChoice, namespaces: list[str], history: RunHistory) -> None:
    import anyio

    from multikueue.api import kinds
    from multikueue.kube.reflector import Reflector
    from multikueue.runtime.clock import SystemClock
    from multikueue_console.history.recorder import Recorder
    from multikueue_console.history.story import news_of
    from multikueue_console.watch.fleet_watch import scope_of
    from multikueue_console.watch.tables import KeptTable

    async with target.connect_in(None) as (client, own), anyio.create_task_group() as tasks:
        scope = await scope_of(client, namespaces, own)
        recorder = Recorder(history, SystemClock().now, lambda: table.values.values(), namespaces=scope, tell=_tell)
        table = KeptTable(news_of, lambda _, before, now: recorder.changed(before, now))
        reflectors = [
            Reflector(client, kinds.WORKLOADS, table, on_state=_told, namespace=namespace) for namespace in scope
        ]
        for each in reflectors:
            tasks.start_soon(each.run)
        for each in reflectors:
            await each.synced.wait()
        note(f"Recording workloads of {', '.join(filter(None, scope)) or 'all namespaces'}. Ctrl-C ends it.")
        await recorder.run()


def _tell(problem: str) -> None:
    note(problem or "The history is available again.")


def _told(is_healthy: bool, why: str) -> None:
    if not is_healthy:
        note(f"Workloads cannot be followed now: {why}")
