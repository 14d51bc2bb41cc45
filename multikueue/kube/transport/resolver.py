"""Names of servers, resolved so that a name whose DNS is silent delays nobody else.

The event loop resolves names in a few threads that all clusters share; four names without an answer would shut out every
other cluster at the next reconnect. Here each name has a thread of its own while it is looked up, by the system's
`getaddrinfo`, and one look-up at a time. The last known addresses outlive a look-up that fails or takes long.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from collections import OrderedDict
from concurrent.futures import Future
from typing import NamedTuple

from aiohttp.abc import AbstractResolver, ResolveResult

__all__ = ["PATIENCE", "Resolver"]

PATIENCE = 2.0
"""Seconds for which a look-up is awaited before the last known addresses are taken."""

_MOST_KNOWN = 4096
"""Names whose addresses are remembered, about 1 KiB each."""

_NUMERIC = socket.AI_NUMERICHOST | socket.AI_NUMERICSERV


class _Name(NamedTuple):
    host: str
    port: int
    family: int


# What is known and what is being looked up belongs to the process: a session ends with its connection, a look-up may take
# longer. Threads write here, so each access has the lock.
_LOCK = threading.Lock()
_LOOKED_UP: dict[_Name, Future[list[ResolveResult]]] = {}
_KNOWN: OrderedDict[_Name, list[ResolveResult]] = OrderedDict()


class Resolver(AbstractResolver):
    """The addresses of names. Raises socket.gaierror, or another OSError or ValueError, for one that was never known."""

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        name = _Name(host, port, family)
        with _LOCK:
            known = _KNOWN.get(name)
        found = asyncio.wrap_future(_look_up(name))
        found.add_done_callback(_seen)
        await asyncio.wait((found,), timeout=None if known is None else PATIENCE)
        if known is not None and (not found.done() or found.exception() is not None):
            return list(known)
        return list(await found)

    async def close(self) -> None:
        """Nothing: a look-up that is under way ends by itself."""


def _look_up(name: _Name) -> Future[list[ResolveResult]]:
    """The look-up of this name that is under way, or a new one."""
    with _LOCK:
        found = _LOOKED_UP.get(name)
        if found is None:
            found = _LOOKED_UP[name] = Future()
            found.set_running_or_notify_cancel()  # whoever gives up waiting does not cancel it
            threading.Thread(target=_answer, args=(name, found), name="look-up", daemon=True).start()
    return found


def _answer(name: _Name, found: Future[list[ResolveResult]]) -> None:
    try:
        addresses = _addresses(name)
    except (OSError, ValueError, OverflowError) as error:
        with _LOCK:
            del _LOOKED_UP[name]
        found.set_exception(error)
        return
    with _LOCK:
        del _LOOKED_UP[name]
        _KNOWN[name] = addresses
        _KNOWN.move_to_end(name)
        if len(_KNOWN) > _MOST_KNOWN:
            _KNOWN.popitem(last=False)
    found.set_result(addresses)


def _addresses(name: _Name) -> list[ResolveResult]:
    found = socket.getaddrinfo(
        name.host, name.port, type=socket.SOCK_STREAM, family=name.family, flags=socket.AI_ADDRCONFIG
    )
    results = []
    for family, _, proto, _, address in found:
        numeric, _ = socket.getnameinfo(address, socket.NI_NUMERICHOST | socket.NI_NUMERICSERV)
        results.append(
            ResolveResult(hostname=name.host, host=numeric, port=name.port, family=family, proto=proto, flags=_NUMERIC)
        )
    return results


def _seen(found: asyncio.Future[list[ResolveResult]]) -> None:
    """An error that nobody waits for any more is no news."""
    if not found.cancelled():
        found.exception()
