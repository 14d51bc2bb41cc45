"""The program behind `testbed.proxy`: TCP links that can misbehave. It imports nothing of ours, so it starts in 50 ms.

It runs in a process of its own, so that neither a busy test slows the links nor the links slow the test. Orders come
as one line of JSON per connection to the control port; the answer is one line too.
"""

from __future__ import annotations

import asyncio
import json
import select
import socket
import struct
import sys
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, cast

BACKLOG = 512
HANDSHAKE_SECONDS = 0.05
# Closing a socket with this option sends RST instead of FIN.
RESET_ON_CLOSE = struct.pack("ii", 1, 0)

Address = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Mode:
    """The treatment of connections by a link: of open ones and of new ones.

    `listener` is open, full (a SYN gets no answer) or closed (a SYN gets RST). `requests` and `answers` say whether
    bytes flow to the server and back.
    """

    listener: str = "open"
    requests: bool = True
    answers: bool = True
    resets: bool = False
    closes: bool = False


MODES = {
    "ok": Mode(),
    "latency": Mode(),
    "hang": Mode(requests=False, answers=False),
    "mute": Mode(answers=False),
    "blackhole": Mode(listener="full", requests=False, answers=False),
    "reset": Mode(resets=True),
    "refuse": Mode(listener="closed", closes=True),
}


class Side(asyncio.Protocol):
    """One end of a connection. What it reads goes to its `peer`, in order and delayed, when its gate is open."""

    def __init__(self, link: Link, *, is_client: bool) -> None:
        self._link = link
        self._is_client = is_client
        self._waiting: deque[tuple[float, bytes | None]] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._transport: asyncio.Transport | None = None
        self.peer: Side | None = None
        self.ended = False

    @property
    def _flows(self) -> bool:
        return self._link.mode.requests if self._is_client else self._link.mode.answers

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self.match_gate()

    def data_received(self, data: bytes) -> None:
        self._link.transferred += len(data)
        self._pass_on(data)

    def eof_received(self) -> bool:
        self._pass_on(None)
        return True  # the other direction may still carry data

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None
        self._link.sides.discard(self)
        if self.peer is not None and error is not None:
            self.peer.close(reset=True)

    def pause_writing(self) -> None:
        if self.peer is not None and self.peer._transport is not None:
            self.peer._transport.pause_reading()

    def resume_writing(self) -> None:
        if self.peer is not None:
            self.peer.match_gate()

    def match_gate(self) -> None:
        """Read and pass on only while the link's mode lets this direction flow."""
        if self._transport is None:
            return
        if self._flows and self.peer is not None:
            self._transport.resume_reading()
            self._flush()
        else:
            self._transport.pause_reading()

    def close(self, *, reset: bool) -> None:
        if self._transport is None:
            return
        if reset:
            _reset_on_close(self._transport.get_extra_info("socket"))
            self._transport.abort()
        else:
            self._transport.close()

    def write(self, data: bytes | None) -> None:
        """Write bytes, or end the stream (None)."""
        if self._transport is None or self._transport.is_closing():
            return
        if data is None:
            self._end_writing()
        else:
            self._transport.write(data)

    def _end_writing(self) -> None:
        assert self._transport is not None
        self._transport.write_eof()
        self.ended = True
        if self.peer is not None and self.peer.ended:
            self.close(reset=False)
            self.peer.close(reset=False)

    def _pass_on(self, data: bytes | None) -> None:
        due = asyncio.get_running_loop().time() + self._link.delay
        if self._waiting:
            due = max(due, self._waiting[-1][0])  # a shorter delay must not let bytes overtake
        self._waiting.append((due, data))
        self._flush()

    def _flush(self) -> None:
        loop = asyncio.get_running_loop()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        while self._waiting and self._flows and self.peer is not None:
            due, data = self._waiting[0]
            if due > loop.time():
                self._timer = loop.call_at(due, self._flush)
                return
            self._waiting.popleft()
            self.peer.write(data)


class Link:
    """A port of ours before a server, with a mode that can change at any time."""

    def __init__(self, port: int, target: Address) -> None:
        self._address: Address = ("127.0.0.1", port)
        self._target = target
        self._listener: socket.socket | None = None
        self._fillers: list[socket.socket] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self.sides: set[Side] = set()
        self.mode = MODES["ok"]
        self.delay = 0.0
        self.accepted = 0
        self.transferred = 0
        self._open()

    def set_mode(self, name: str, seconds: float = 0.0) -> None:
        self.mode, self.delay = MODES[name], seconds
        {"open": self._open, "full": self._fill, "closed": self._close}[self.mode.listener]()
        if self.mode.resets or self.mode.closes:
            self.drop(reset=self.mode.resets)
        for side in list(self.sides):
            side.match_gate()

    def drop(self, *, reset: bool = True) -> None:
        """End the open connections."""
        for side in list(self.sides):
            side.close(reset=reset)

    def _open(self) -> None:
        listener = self._listening()
        listener.listen(BACKLOG)
        asyncio.get_running_loop().add_reader(listener, self._accept, listener)

    def _close(self) -> None:
        if self._listener is not None:
            asyncio.get_running_loop().remove_reader(self._listener)
            self._listener.close()
            self._listener = None
        self._release_fillers()

    def _fill(self) -> None:
        """Let the queue of connections run full: the kernel then drops each further SYN without an answer."""
        listener = self._listening()
        asyncio.get_running_loop().remove_reader(listener)
        listener.listen(0)
        while (filler := _connected(self._address)) is not None:
            self._fillers.append(filler)

    def _listening(self) -> socket.socket:
        if self._listener is None:
            self._listener = socket.socket()
            self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self._listener.setblocking(False)
            self._listener.bind(self._address)
        return self._listener

    def _accept(self, listener: socket.socket) -> None:
        try:
            connection, address = listener.accept()
        except OSError:
            return
        if self._is_filler(address):
            connection.close()
            return
        self.accepted += 1
        if self.mode.resets:
            _reset_on_close(connection)
            connection.close()
            return
        connection.setblocking(False)
        self._spawn(self._connect(connection))

    def _is_filler(self, address: Address) -> bool:
        found = [filler for filler in self._fillers if filler.getsockname() == address]
        for filler in found:
            self._fillers.remove(filler)
            filler.close()
        return bool(found)

    def _release_fillers(self) -> None:
        for filler in self._fillers:
            filler.close()
        self._fillers.clear()

    async def _connect(self, connection: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        client, server = Side(self, is_client=True), Side(self, is_client=False)
        self.sides.add(client)
        await loop.connect_accepted_socket(lambda: client, connection)
        try:
            await loop.create_connection(lambda: server, *self._target)
        except OSError:
            client.close(reset=True)
            return
        self.sides.add(server)
        client.peer, server.peer = server, client
        if client not in self.sides:  # it went away, or the mode ended it, while we connected
            server.close(reset=True)
        client.match_gate()
        server.match_gate()

    def _spawn(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


class Switchboard:
    """All links of the process, and the orders they take."""

    def __init__(self) -> None:
        self._links: dict[int, Link] = {}

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        order = json.loads(await reader.readline())
        try:
            answer = getattr(self, f"order_{order.pop('order')}")(**order)
        except Exception as error:  # noqa: BLE001 - the one who gave the order gets it
            answer = {"error": repr(error)}
        writer.write(json.dumps(answer or {}).encode() + b"\n")
        await writer.drain()
        writer.close()

    def order_link(self, port: int, target: tuple[str, int]) -> None:
        self._links[port] = Link(port, (target[0], target[1]))

    def order_mode(self, port: int, mode: str, seconds: float) -> None:
        self._links[port].set_mode(mode, seconds)

    def order_drop(self, port: int) -> None:
        self._links[port].drop()

    def order_stats(self, port: int) -> dict[str, int]:
        link = self._links[port]
        return {"accepted": link.accepted, "open": len(link.sides) // 2, "transferred": link.transferred}


def _reset_on_close(connection: socket.socket) -> None:
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)


def _connected(address: Address) -> socket.socket | None:
    """A connection, or None when the handshake gets no answer: on loopback it takes microseconds or never comes."""
    connection = socket.socket()
    connection.setblocking(False)
    connection.connect_ex(address)
    if select.select([], [connection], [], HANDSHAKE_SECONDS)[1]:
        return connection
    connection.close()
    return None


async def main(control_port: int) -> None:
    serve: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]] = Switchboard().serve
    server = await asyncio.start_server(serve, "127.0.0.1", control_port)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1])))
