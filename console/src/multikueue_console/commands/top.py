"""`multikueue top`: queues, clusters and workloads in the terminal, with keys as in k9s."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from subprocess import DEVNULL, STDOUT
from typing import TYPE_CHECKING, Annotated

import typer

from multikueue.cli.access.connection import ContextChoice, ManagerOptions, run_async
from multikueue.cli.terminal.bundles import bundled
from multikueue.cli.terminal.exit import CommandFailed
from multikueue_console.commands.stored import HistoryUrl, opened

if TYPE_CHECKING:
    from multikueue.api.meta import ObjectKey
    from multikueue_console.history.store import RunHistory

__all__ = ["OwnCommands", "top"]

Spaces = Annotated[
    list[str],
    typer.Option("--namespace", "-n", help="Show this namespace; may be given again. (default: all you may see)"),
]
Actions = Annotated[bool, typer.Option("--actions", help="Keys may hold, release and cancel workloads.")]


@bundled
def top(
    namespace: Spaces = [],  # noqa: B006  # as typer has it
    actions: Actions = False,
    url: HistoryUrl = None,
    *,
    manager: ManagerOptions,
) -> None:
    """See queues, workloads and clusters in the terminal.

    It shows what your kubeconfig may see, and changes nothing without --actions. Keys are as in k9s; ? lists them.
    With a history it estimates when jobs start.

    \b
    Examples:
      multikueue top
      multikueue top -n team-a --actions
    """
    try:
        import textual  # noqa: F401
    except ImportError:
        raise CommandFailed("`multikueue top` needs textual: pip install 'multikueue-console[top]'") from None
    if not sys.stdout.isatty():
        raise CommandFailed("`multikueue top` needs a terminal; `multikueue workloads list` is for pipes")
    with opened(url) if url else nullcontext() as history:
        run_async(lambda: _show(manager.target, namespace, history, may_act=actions))


async def _show(target: ContextChoice, namespaces: list[str], history: RunHistory | None, *, may_act: bool) -> None:
    import anyio

    from multikueue.runtime.clock import SystemClock
    from multikueue_console.commands.foreseen_starts import Outlook
    from multikueue_console.terminal.app import TopApp
    from multikueue_console.watch.fleet_watch import FleetWatch, scope_of

    commands = OwnCommands(target.kubeconfig, target.context)
    async with target.connect_in(None) as (client, own), anyio.create_task_group() as tasks:
        watch = FleetWatch(client, await scope_of(client, namespaces, own), SystemClock())
        await tasks.start(watch.run)
        where = ", ".join(filter(None, watch.scope)) or "all namespaces"
        act = commands.act if may_act else None
        outlook = Outlook(watch)
        if history is not None:
            tasks.start_soon(outlook.run, client, history)
        await TopApp(watch, title=where, logs=commands.logs, act=act, expected=outlook.expected).run_async()
        tasks.cancel_scope.cancel()


class OwnCommands:
    """What the other commands do, as processes with the same kubeconfig: so each key has the rights of who presses it."""

    def __init__(self, kubeconfig: Path | None, context: str | None) -> None:
        self._options = [
            *(("--kubeconfig", str(kubeconfig)) if kubeconfig else ()),
            *(("--context", context) if context else ()),
        ]

    async def logs(self, key: ObjectKey) -> AsyncIterator[str]:
        """The lines of `multikueue logs --follow`, and of what it says to stderr."""
        import anyio
        from anyio.streams.text import TextReceiveStream

        words = self._words("logs", f"workload/{key.name}", "-n", key.namespace, "--follow")
        async with await anyio.open_process(words, stderr=STDOUT, stdin=DEVNULL, env=_environment()) as process:
            assert process.stdout is not None, "it is a pipe"
            rest = ""
            try:
                async for text in TextReceiveStream(process.stdout, errors="replace"):
                    *lines, rest = (rest + text).split("\n")
                    for line in lines:
                        yield line
                if rest:
                    yield rest
            finally:
                if process.returncode is None:
                    process.terminate()

    async def act(self, verb: str, key: ObjectKey) -> str:
        """Hold, release or cancel a workload; what came of it in a line."""
        import anyio

        consent = () if verb == "release" else ("--yes",)  # it was asked for on the screen
        words = self._words("workloads", verb, f"workload/{key.name}", "-n", key.namespace, *consent)
        done = await anyio.run_process(words, check=False, stderr=STDOUT, stdin=DEVNULL, env=_environment())
        return done.stdout.decode(errors="replace").strip() or f"{verb} ended with {done.returncode}"

    def _words(self, *words: str) -> Sequence[str]:
        return [sys.executable, "-m", "multikueue", *words, *self._options]


def _environment() -> dict[str, str]:
    return {**os.environ, "NO_COLOR": "1"}
