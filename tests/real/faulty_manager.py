"""The real manager, which kills itself at one of its writes: `python -m tests.real.faulty_manager run ...`.

A fault point is a write by its name ("manager patch workloads/status"), which of those it is in the life of one job,
and the moment: before the request leaves, or after its answer came and before anybody looked at it. Only writes that
mention all the given words count: a namespace and the name of a job, say. Events do not: they are a courtesy. Each
counted write is noted in a file before it is sent, so a run without a fault point records what there is to try.
"""

from __future__ import annotations

import os
import signal
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from multikueue.cli import main
from multikueue.kube.client import Client
from testbed import timed_manager

__all__ = ["FAULTY", "MOMENTS", "Moment", "Point", "environment"]

FAULTY = ("-m", "tests.real.faulty_manager", "run")
"""The command of a `Manager` that may be told to die."""

Moment = Literal["before", "after"]
MOMENTS: tuple[Moment, ...] = get_args(Moment)

WRITES = frozenset({"create", "update", "patch", "apply", "delete"})


@dataclass(frozen=True, slots=True)
class Point:
    """The `nth` (from 1) write of that name."""

    write: str
    nth: int

    def __str__(self) -> str:
        return f"{self.write} #{self.nth}"


def environment(*words: str, log: object, point: Point | None = None, moment: Moment = "before") -> dict[str, str]:
    """The variables that tell the process what to count, where to note it, and where to die."""
    told = {"FAULT_WORDS": " ".join(words), "FAULT_LOG": str(log)}
    if point is not None:
        told |= {"FAULT_WRITE": point.write, "FAULT_NTH": str(point.nth), "FAULT_MOMENT": moment}
    return told


@dataclass(slots=True)
class Fuse:
    """Counts writes and dies at one."""

    words: tuple[bytes, ...]
    log: str
    point: Point | None
    moment: str
    counts: Counter[str] = field(default_factory=Counter)

    @classmethod
    def from_environment(cls) -> Fuse:
        told = os.environ
        write = told.get("FAULT_WRITE")
        point = Point(write, int(told["FAULT_NTH"])) if write else None
        words = tuple(word.encode() for word in told["FAULT_WORDS"].split())
        return cls(words, told["FAULT_LOG"], point, told.get("FAULT_MOMENT", "before"))

    def counted(self, cluster: str, request: Any) -> Point | None:
        """The point that a request is, if it counts."""
        if request.verb not in WRITES or request.plural == "events":
            return None
        text = request.target.encode() + request.body
        if not all(word in text for word in self.words):
            return None
        what = "/".join(part for part in (request.plural, request.subresource) if part)
        write = f"{'worker' if cluster else 'manager'} {request.verb} {what}"
        self.counts[write] += 1
        return Point(write, self.counts[write])

    def note(self, point: Point) -> None:
        with open(self.log, "a") as file:  # closed, so written: the next step may be the last
            file.write(f"{point.write}\n")

    def burn(self, point: Point, moment: str) -> None:
        if point == self.point and moment == self.moment:
            os.kill(os.getpid(), signal.SIGKILL)


def install(fuse: Fuse) -> None:
    """Every request of every client goes through one method."""
    once = Client._once

    async def fused(self: Client, request: Any, *rest: Any) -> bytes:
        point = fuse.counted(self.cluster, request)
        if point is None:
            return await once(self, request, *rest)
        fuse.note(point)
        fuse.burn(point, "before")
        answer = await once(self, request, *rest)
        fuse.burn(point, "after")
        return answer

    Client._once = fused  # type: ignore[assignment,method-assign]


if __name__ == "__main__":
    install(Fuse.from_environment())
    timed_manager.install()
    main()
