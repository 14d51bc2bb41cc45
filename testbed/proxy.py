"""Misbehaving links between a client and a server: one `Link` per (client, worker), all in one small process.

    proxy = Proxy(folder)
    await proxy.start()
    link = proxy.link(worker.url)
    config = worker.kubeconfig(server=link.url)
    link.hang()

The methods are plain functions and return when the mode is in force, so a test may change it at any point.
"""

from __future__ import annotations

import json
import socket
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from testbed.ports import free_port
from testbed.process import Process

__all__ = ["Link", "Proxy", "Traffic"]

RELAY = Path(__file__).with_name("relay.py")


@dataclass(frozen=True, slots=True)
class Traffic:
    """The traffic of a link: connections accepted so far and open now, bytes in both directions."""

    accepted: int
    open: int
    transferred: int


class Link:
    """A port on loopback before a server. The port stays the same in all modes."""

    def __init__(self, proxy: Proxy, target: str) -> None:
        self._proxy = proxy
        self.port = free_port()
        parts = urlsplit(target)
        self.url = f"{parts.scheme}://127.0.0.1:{self.port}"
        self.mode = "ok"
        self._order("link", target=[parts.hostname, parts.port])

    def ok(self) -> None:
        """Pass everything on at once. What was held back arrives now, as after a network partition."""
        self._set("ok")

    def latency(self, seconds: float) -> None:
        """Delay all bytes by `seconds` in each direction, in order. A connection itself opens without delay."""
        self._set("latency", seconds)

    def hang(self) -> None:
        """Accept connections and keep them open, but nothing flows; those that are open freeze."""
        self._set("hang")

    def mute(self) -> None:
        """Requests arrive and take effect, but their answers do not come back: the result of a write is unknown."""
        self._set("mute")

    def blackhole(self) -> None:
        """New connections get no answer at all, not even a refusal; those that are open freeze."""
        self._set("blackhole")

    def reset(self) -> None:
        """Reset (RST) connections: those that are open now, and each new one when it is accepted."""
        self._set("reset")

    def refuse(self) -> None:
        """Close the port: new connections are refused, open ones are closed."""
        self._set("refuse")

    def drop(self) -> None:
        """Reset the connections that are open, once; the mode stays."""
        self._order("drop")

    def traffic(self) -> Traffic:
        return Traffic(**self._order("stats"))

    def _set(self, mode: str, seconds: float = 0.0) -> None:
        self._order("mode", mode=mode, seconds=seconds)
        self.mode = mode

    def _order(self, order: str, **arguments: Any) -> dict[str, Any]:
        return self._proxy.order(order, port=self.port, **arguments)


class Proxy:
    """The process with the links."""

    def __init__(self, folder: Path) -> None:
        self._control = free_port()
        command = [sys.executable, "-I", str(RELAY), str(self._control)]
        self.process = Process("proxy", command, log=folder / "proxy.log")

    async def start(self) -> None:
        self.process.start()
        await self.process.wait_until(self._listens)

    async def stop(self) -> None:
        await self.process.kill()

    def link(self, target: str) -> Link:
        """A new link before the server with this URL."""
        return Link(self, target)

    def order(self, order: str, **arguments: Any) -> dict[str, Any]:
        """Give the process an order and return its answer; it takes well under a millisecond."""
        with socket.create_connection(("127.0.0.1", self._control), timeout=10) as connection:
            connection.sendall(json.dumps({"order": order, **arguments}).encode() + b"\n")
            answer: dict[str, Any] = json.loads(connection.makefile().readline())
        if "error" in answer:
            raise RuntimeError(f"the proxy failed to {order}: {answer['error']}")
        return answer

    async def _listens(self) -> bool:
        try:
            socket.create_connection(("127.0.0.1", self._control), timeout=1).close()
        except OSError:
            return False
        return True
