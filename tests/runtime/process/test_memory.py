"""Memory that is free again goes back to the system, and the search for garbage looks at what is new."""

from __future__ import annotations

import gc
import subprocess
import sys
import weakref
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from multikueue.runtime.process import memory
from multikueue.runtime.process.memory import collect_in_small_steps, look_at_all_garbage

PROGRAM = """
import sys
from multikueue.runtime.process.memory import give_large_blocks_back

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


HOLES = """
import asyncio, sys
from multikueue.runtime.process.memory import give_free_pages_back, give_large_blocks_back

def resident():
    return int(open("/proc/self/status").read().partition("VmRSS:")[2].split()[0])

give_large_blocks_back()
before = resident()
parts, kept = [], []
for _ in range(2000):
    parts.append(bytes(10_000))
    kept.append(bytes(600))
most = resident()
del parts
free = resident()
waits = 0

async def sleep(seconds):
    global waits
    waits += 1
    if waits == 2:
        raise EOFError

try:
    asyncio.run(give_free_pages_back(sleep=sleep))
except EOFError:
    pass
print(before, most, free, resident())
"""


@pytest.mark.skipif(not memory.give_large_blocks_back(), reason="this is no glibc")
def test_free_pages_between_objects_that_stay_go_back() -> None:
    done = subprocess.run([sys.executable, "-c", HOLES], check=True, capture_output=True, text=True)
    before, most, free, after = map(int, done.stdout.split())
    assert free - before > (most - before) / 2, "glibc has changed its mind: it may be left to itself"
    assert after - before < (most - before) / 2


READS = """
import os, resource
from multikueue.runtime.process.memory import give_large_blocks_back

give_large_blocks_back()
kept = [bytes(60_000) for _ in range(200)]  # the heap has no room left
comes, goes = os.pipe()

def read():
    os.write(goes, b"x")
    return os.read(comes, 2**18)  # as much as uvloop takes for each read

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

read()
before = faults()
for _ in range(1000):
    read()
print(faults() - before)
"""


@pytest.mark.skipif(not memory.give_large_blocks_back(), reason="this is no glibc")
def test_reads_of_a_socket_take_the_memory_of_the_reads_before() -> None:
    done = subprocess.run([sys.executable, "-c", READS], check=True, capture_output=True, text=True)
    assert int(done.stdout) < 100


BLOCKS = """
import ctypes
from multikueue.runtime.process.memory import BUFFER, give_large_blocks_back, mapping_buffers

libc = ctypes.CDLL(None)
for function in (libc.malloc, libc.sbrk):
    function.restype = ctypes.c_void_p

def is_mapped():
    return libc.malloc(ctypes.c_size_t(BUFFER)) > libc.sbrk(ctypes.c_ssize_t(0))

give_large_blocks_back()
kept = [bytes(60_000) for _ in range(200)]  # the heap has no room left
with mapping_buffers():
    with mapping_buffers():
        pass
    inside = is_mapped()
print(inside, is_mapped())
"""


@pytest.mark.skipif(not memory.give_large_blocks_back(), reason="this is no glibc")
def test_the_buffer_of_a_connection_lies_outside_the_heap() -> None:
    done = subprocess.run([sys.executable, "-c", BLOCKS], check=True, capture_output=True, text=True)
    assert done.stdout.split() == ["True", "False"]


def test_where_there_is_no_glibc_nothing_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ctypes.CDLL", lambda _name: object())
    assert memory.give_large_blocks_back() is False


class Cyclic:
    def __init__(self) -> None:
        self.itself = self


@pytest.fixture
def small_steps() -> Iterator[None]:
    """Searches in small steps, for the time of a test: pytest's own objects are looked at again afterwards."""
    end = collect_in_small_steps()
    yield
    end()


@pytest.mark.usefixtures("small_steps")
def test_what_a_full_search_leaves_is_not_looked_at_again() -> None:
    kept = [[number] for number in range(1000)]
    before = gc.get_freeze_count()
    gc.collect()
    assert gc.get_freeze_count() >= before + len(kept)
    assert not gc.get_objects(generation=2)


@pytest.mark.usefixtures("small_steps")
def test_no_search_looks_at_more_than_some_30_000_objects() -> None:
    looked_at: list[int] = []

    def begun(phase: str, info: Mapping[str, Any]) -> None:
        if phase == "start":
            looked_at.append(sum(len(gc.get_objects(number)) for number in range(info["generation"] + 1)))

    gc.callbacks.insert(0, begun)
    try:
        kept = [[number] for number in range(200_000)]
    finally:
        gc.callbacks.remove(begun)
    assert len(kept) == 200_000
    assert 25_000 < max(looked_at) < 35_000


@pytest.mark.usefixtures("small_steps")
def test_what_is_frozen_is_freed_as_ever() -> None:
    kept = {Cyclic.__name__: frozenset([1])}
    gone = weakref.ref(kept["Cyclic"])
    gc.collect()
    del kept["Cyclic"]
    assert gone() is None


@pytest.mark.anyio
@pytest.mark.usefixtures("small_steps")
async def test_cycles_that_were_frozen_are_found_in_time() -> None:
    cyclic = Cyclic()
    gone, slept = weakref.ref(cyclic), []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 2:
            raise EOFError

    gc.collect()
    del cyclic
    gc.collect()
    assert gone() is not None
    with pytest.raises(EOFError):
        await look_at_all_garbage(sleep=sleep)
    assert gone() is None
