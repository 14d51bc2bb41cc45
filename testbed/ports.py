"""Free TCP ports on loopback."""

from __future__ import annotations

import fcntl
import os
import random
import socket
import tempfile
from functools import cache
from pathlib import Path
from typing import BinaryIO

__all__ = ["free_port", "free_ports"]

# Below Linux's range for outgoing connections (32768 and up): a port in that range may be taken by any outgoing
# connection while a killed control plane is down, and then it could not come back on the same port.
FIRST, LAST = 20_000, 32_000

_given: set[int] = set()
_random = random.SystemRandom()


def free_port() -> int:
    """Choose a port without a listener; no two calls return the same one as long as their processes live."""
    return free_ports(1)[0]


def free_ports(count: int) -> range:
    """Choose `count` consecutive ports, as `free_port` does."""
    while True:
        first = _random.randrange(FIRST, LAST - count)
        ports = range(first, first + count)
        if _given.isdisjoint(ports) and all(_is_free(port) and _claim(port) for port in ports):
            _given.update(ports)
            return ports


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def _claim(port: int) -> bool:
    """Take it before all other processes. False if one has it, which need not listen yet."""
    try:
        fcntl.lockf(_claims(), fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
    except OSError:
        return False
    return True


@cache
def _claims() -> BinaryIO:
    """One byte for each port: who has locked it has the port, until its process ends."""
    return (Path(tempfile.gettempdir()) / f"multikueue-ports-{os.getuid()}").open("wb")
