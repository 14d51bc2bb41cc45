"""`multikueue record`: what becomes of workloads, written into the history until it is stopped."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from multikueue.cli.access.connection import ContextChoice, ManagerOptions, run_async
from multikueue.cli.terminal.bundles import bundled
from multikueue.cli.terminal.durations import parse_duration
from multikueue.cli.terminal.output import note
from multikueue.errors import ConfigurationError
from multikueue_console.commands.stored import HistoryUrl, opened

if TYPE_CHECKING:
    from multikueue.runtime.clock import Clock
    from multikueue_console.history.runs import Run, RunNews
    from multikueue_console.history.store import RunHistory
    from multikueue_console.notices.sender import Sender
    from multikueue_console.notices.settings import NoticeSettings

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
Notices = Annotated[
    Path | None,
    typer.Option("--notices", metavar="FILE", help="Send notices as this file says.", show_default=False),
]


@bundled
def record(
    namespace: Spaces = [],  # noqa: B006  # as typer has it
    url: HistoryUrl = None,
    detail: Detail = "90d",  # type: ignore[assignment]  # typer asks the parser
    sums: Sums = "730d",  # type: ignore[assignment]
    notices: Notices = None,
    *,
    manager: ManagerOptions,
) -> None:
    """Record what becomes of workloads, until it is stopped.

    Reports and estimates read it. What clusters still show when it starts is recorded too; what they did not show any more is a
    gap. Several may record at once into one history: nothing counts twice. With --notices it tells another program what
    started, moved, failed or waits too long, by CloudEvents.

    \b
    Examples:
      multikueue record
      multikueue record --history postgresql://console@db/history --detail 30d
      multikueue record --notices notices.yaml
    """
    from multikueue_console.history.store import Keep

    settings = _notices_of(notices, detail) if notices is not None else None
    with opened(url, Keep(detail=detail, sums=sums)) as history:
        run_async(lambda: _record(manager.target, namespace, history, settings))


def _notices_of(path: Path, detail: timedelta) -> NoticeSettings:
    from multikueue_console.notices.settings import read_settings

    settings = read_settings(path)
    if settings.time_to_send > detail:
        raise ConfigurationError(f"{path}: within: expected at most the time for which runs are kept (--detail)")
    return settings


async def _record(
    target: ContextChoice, namespaces: list[str], history: RunHistory, settings: NoticeSettings | None
) -> None:
    import anyio

    from multikueue.api import kinds
    from multikueue.kube.reflector import Reflector
    from multikueue.runtime.clock import SystemClock
    from multikueue_console.history.recorder import Recorder
    from multikueue_console.history.story import news_of
    from multikueue_console.watch.fleet_watch import scope_of
    from multikueue_console.watch.tables import KeptTable

    clock = SystemClock()
    sender = _sender(history, settings, clock, lambda: table.values.values()) if settings is not None else None
    async with target.connect_in(None) as (client, own), anyio.create_task_group() as tasks:
        scope = await scope_of(client, namespaces, own)
        recorder = Recorder(history, clock.now, lambda: table.values.values(), namespaces=scope, tell=_tell)
        table = KeptTable(news_of, lambda _, before, now: recorder.changed(before, now))
        reflectors = [
            Reflector(client, kinds.WORKLOADS, table, on_state=_told, namespace=namespace) for namespace in scope
        ]
        for each in reflectors:
            tasks.start_soon(each.run)
        for each in reflectors:
            await each.synced.wait()
        note(f"Recording workloads of {', '.join(filter(None, scope)) or 'all namespaces'}. Ctrl-C ends it.")
        if sender is not None:
            tasks.start_soon(sender.run)
        await recorder.run()


def _sender(
    history: RunHistory, settings: NoticeSettings, clock: Clock, shown: Callable[[], Iterable[RunNews]]
) -> Sender:
    from multikueue_console.notices.outbox import Outbox
    from multikueue_console.notices.sender import Sender

    def waits() -> list[Run]:
        return [each.wait for each in shown() if each.wait is not None]

    return Sender(Outbox(history, settings), settings, waits, clock.now, tell=note)


def _tell(problem: str) -> None:
    note(problem or "The history is available again.")


def _told(is_healthy: bool, why: str) -> None:
    if not is_healthy:
        note(f"Workloads cannot be followed now: {why}")
