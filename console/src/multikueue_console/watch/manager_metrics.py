"""Reads the manager's metrics again and again, for what no object tells of its workers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import aiohttp

from multikueue_console.model.worker_figures import Calls, calls_in, worker_figures

if TYPE_CHECKING:
    from multikueue.runtime.clock import Clock
    from multikueue_console.watch.fleet_watch import FleetWatch

__all__ = ["follow_metrics"]

EVERY = 15.0
"""Seconds between two looks, as Prometheus has them."""

TIMEOUT = 10.0
"""Seconds for one look."""

MOST_BYTES = 2**25
"""Of the metrics: those of 1,000 workers are a tenth of it."""


async def follow_metrics(url: str, watch: FleetWatch, clock: Clock) -> None:
    """Tells the watch what it reads, until it is cancelled. The connection is kept between two looks: of several replicas
    behind one name it is the same that answers, so that its counts can be compared."""
    before: dict[str, Calls] = {}
    timeout = aiohttp.ClientTimeout(total=TIMEOUT)
    async with aiohttp.ClientSession(
        timeout=timeout, connector=aiohttp.TCPConnector(keepalive_timeout=4 * EVERY)
    ) as session:
        while True:
            try:
                text = await _read(session, url)
                watch.tell_figures(worker_figures(text, before))
                before = calls_in(text)
            except (aiohttp.ClientError, TimeoutError, OSError, ValueError, KeyError) as error:
                watch.tell_figures({}, f"{url}: {str(error) or type(error).__name__}")
                before = {}
            await clock.sleep(EVERY)


async def _read(session: aiohttp.ClientSession, url: str) -> str:
    async with session.get(url, allow_redirects=False) as answer:
        if answer.status != 200:
            raise ValueError(f"status {answer.status}")
        body = bytearray()
        async for piece in answer.content.iter_any():
            body += piece
            if len(body) > MOST_BYTES:
                raise ValueError("the answer is too long")
        return body.decode()
