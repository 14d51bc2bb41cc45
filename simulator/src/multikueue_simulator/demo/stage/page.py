"""The console beside the demo: the command of another distribution, in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.util import find_spec
from pathlib import Path

import anyio
from anyio.streams.text import TextReceiveStream

from multikueue.errors import ConfigurationError

__all__ = ["page"]

PATIENCE = 60.0
"""Seconds in which the console must have read the cluster."""


@asynccontextmanager
async def page(kubeconfig: Path, context: str, *, should_open: bool = True) -> AsyncIterator[str]:
    """The link to the console on that cluster, which is open during the block. Raises ConfigurationError if the console is not
    installed or does not start."""
    if find_spec("multikueue_console") is None:
        raise ConfigurationError("--web needs the package multikueue-console: pip install ./console")
    browser = "--browser" if should_open else "--no-browser"
    options = ("--kubeconfig", str(kubeconfig), "--context", context, browser)
    command = [sys.executable, "-m", "multikueue", "console", *options]
    async with await anyio.open_process(command, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            assert process.stdout is not None
            with anyio.move_on_after(PATIENCE):
                async for text in TextReceiveStream(process.stdout):
                    yield text.strip()
                    return
            raise ConfigurationError("the console did not start; `multikueue console` says why")
        finally:
            process.terminate()
