"""Memory that is free again goes back to the system."""

from __future__ import annotations

import subprocess
import sys

import pytest

from multikueue.runtime import memory

PROGRAM = """
import sys
from multikueue.runtime.memory import give_large_blocks_back

def resident():
    return int(open("/proc/self/status").read().partition("VmRSS:")[2].split()[0])

if sys.argv[1] == "given":
    assert give_large_blocks_back()
del [bytearray(b"x") * (8 * 2**20)][:]  # from now on glibc takes what is smaller from its heap
before = resident()
blocks, behind = [], []
for _ in range(16):
    blocks.append(bytearray(b"x") * 2**20)
    behind += [bytes(4000) for _ in range(9)]
most = resident()
del blocks
print(before, most, resident())
"""


def resident(how: str) -> tuple[int, int, int]:
    """KiB of a process: before it had large blocks, with them, and without them again."""
    done = subprocess.run([sys.executable, "-c", PROGRAM, how], check=True, capture_output=True, text=True)
    before, most, after = map(int, done.stdout.split())
    return before, most, after


@pytest.mark.skipif(not memory.give_large_blocks_back(), reason="this is no glibc")
def test_large_blocks_go_back_when_they_are_freed() -> None:
    before, most, after = resident("given")
    assert after - before < (most - before) / 4
    before, most, after = resident("as ever")
    assert after - before > (most - before) / 2, "glibc has changed its mind: it may be left to itself"


def test_where_there_is_no_glibc_nothing_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ctypes.CDLL", lambda _name: object())
    assert memory.give_large_blocks_back() is False
