"""The console beside the demo: the command of another distribution, in a process of its own."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import AsyncIterable, AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import anyio
from anyio.abc import Process
from anyio.streams.text import TextReceiveStream

from multikueue.errors import ConfigurationError

__all__ = ["Page", "page"]

PATIENCE = 60.0
"""Seconds in which the console must have read the cluster."""


@dataclass(frozen=True, slots=True)
class Page:
    """`link` opens it. `pressed`: the buttons as people press them, each with its cluster, empty for one that is about none."""

    link: str
    pressed: AsyncIterator[tuple[str, str]]


@asynccontextmanager
async def page(
    kubeconfig: Path,
    context: str,
    *,
    buttons: Mapping[str, str] | None = None,
    cluster_buttons: Mapping[str, str] | None = None,
    should_open: bool = True,
) -> AsyncIterator[Page]:
    """The console on that cluster, with its actions, which is open during the block. Buttons are titles by name. Raises
    ConfigurationError if the console is not installed or does not start."""
    if find_spec("multikueue_console") is None:
        raise ConfigurationError("--web needs the package multikueue-console: pip install ./console")
    browser = "--browser" if should_open else "--no-browser"
    shown = [("--button", *each) for each in (buttons or {}).items()]
    shown += [("--cluster-button", *each) for each in (cluster_buttons or {}).items()]
    extra = [word for option, name, title in shown for word in (option, f"{name}={title}")]
    options = ("--kubeconfig", str(kubeconfig), "--context", context, "--actions", browser, *extra)
    command = [sys.executable, "-m", "multikueue", "console", *options]
    async with await anyio.open_process(command, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        with _ending_with_us(process):
            assert process.stdout is not None, "it is a pipe"
            lines, link = _lines(TextReceiveStream(process.stdout)), ""
            with anyio.move_on_after(PATIENCE):
                link = await anext(lines, "")
            if not link:
                raise ConfigurationError("the console did not start; `multikueue console` says why")
            yield Page(link, _pressed(lines))


@contextmanager
def _ending_with_us(process: Process) -> Iterator[None]:
    """The process ends with the block, and when a signal ends the demo."""

    def leave(*_: object) -> None:
        process.terminate()
        signal.signal(signal.SIGTERM, before)
        signal.raise_signal(signal.SIGTERM)

    before = signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
        with suppress(ProcessLookupError):  # it may have ended by itself
            process.terminate()


async def _lines(stream: AsyncIterable[str]) -> AsyncIterator[str]:
    """The whole lines, until the process ends or is closed."""
    rest = ""
    with suppress(anyio.ClosedResourceError):
        async for text in stream:
            *whole, rest = (rest + text).split("\n")
            for line in whole:
                yield line


async def _pressed(lines: AsyncIterator[str]) -> AsyncIterator[tuple[str, str]]:
    async for line in lines:
        name, _, cluster = line.partition(" ")
        yield name, cluster.strip()
