"""`python -m testbed.hostile.liars`: liars in a process of their own, so that what they do all the time holds up nobody
who measures. Takes orders on standard input, a line of JSON each, and answers each with a line.

    {"do": "stand", "url": ..., "ca": ..., "certificate": FILE, "key": FILE}     before that server; answers its own URL
    {"do": "tell", "url": ..., "what": ...}         the lie of that case from now on, or the truth ("")
"""

from __future__ import annotations

import json
import os
import sys
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread

from testbed.hostile.liar import Liar
from testbed.hostile.workers import LIES

__all__ = ["Liars"]

NICENESS = 5
"""They do as much as the machine lets them. What they take from the process under test is to be its own work only."""


class Liars:
    """The liars by URL, and the orders that they take."""

    def __init__(self, stack: AsyncExitStack) -> None:
        self._stack = stack
        self._by_url: dict[str, Liar] = {}

    async def take(self, order: dict[str, Any]) -> str:
        match order.pop("do"):
            case "stand":
                files = Path(order["certificate"]), Path(order["key"])
                liar = await self._stack.enter_async_context(Liar.serving(order["url"], order["ca"], *files))
                self._by_url[liar.url] = liar
                return liar.url
            case "tell":
                self._by_url[order["url"]].tell(LIES[order["what"]] if order["what"] else None)
                return ""
            case other:
                raise ValueError(other)


async def main() -> None:
    os.nice(NICENESS)
    async with AsyncExitStack() as stack:
        liars = Liars(stack)
        while line := await anyio.to_thread.run_sync(sys.stdin.readline, abandon_on_cancel=True):
            print(json.dumps(await liars.take(json.loads(line))), flush=True)


if __name__ == "__main__":
    anyio.run(main)
