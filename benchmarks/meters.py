"""The CPU seconds and memory of processes, from /proc. Linux only."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from testbed.process import Process

__all__ = ["Memory", "Reading", "Usage", "cpu_seconds", "memory", "read"]

TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Memory:
    """Resident memory in mebibytes: now, and at its peak."""

    resident: float
    peak: float


def memory(pid: int) -> Memory:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    fields = dict(line.split(":", 1) for line in lines if ":" in line)
    return Memory(resident=_mebibytes(fields["VmRSS"]), peak=_mebibytes(fields["VmHWM"]))


def cpu_seconds(pid: int) -> float:
    """User and system time of a process so far, with all its threads."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


@dataclass(frozen=True, slots=True)
class Usage:
    """CPU seconds of each of our programs, and the share of the machine that other programs had."""

    programs: Mapping[str, float]
    others: float


@dataclass(frozen=True, slots=True)
class Reading:
    """CPU seconds used so far by each of our programs and by the whole machine, and the time of the reading."""

    programs: Mapping[str, float]
    machine: float
    at: float

    def since(self, before: Reading) -> Usage:
        used = {name: seconds - before.programs.get(name, 0.0) for name, seconds in self.programs.items()}
        strangers = max(0.0, self.machine - before.machine - sum(used.values()))
        return Usage(used, strangers / ((self.at - before.at) * (os.cpu_count() or 1)))


def read(processes: Mapping[str, Process]) -> Reading:
    """The present state of the processes, of this one (`driver`), and of the machine."""
    programs = {name: cpu_seconds(process.pid) for name, process in processes.items() if process.running}
    return Reading({**programs, "driver": cpu_seconds(os.getpid())}, machine=_machine(), at=time.monotonic())


def _machine() -> float:
    """Busy time of all cores: all but idle and waiting for disks."""
    user, nice, system, _idle, _waiting, *rest = (
        int(field) for field in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]
    )
    interrupts = sum(rest[:2])
    return (user + nice + system + interrupts) / TICKS


def _mebibytes(field: str) -> float:
    return int(field.split()[0]) / 1024
