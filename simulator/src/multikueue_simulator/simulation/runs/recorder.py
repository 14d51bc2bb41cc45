"""Records all requests of managers and all writes, for the invariants, the trace and the story."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator, MutableMapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

import structlog

from fakekube.model.storage import Change
from fakekube.model.wire import Request, Response, Watch
from fakekube.network.transport import Line, is_write
from multikueue.api.meta import ObjectKey
from multikueue.workload.handlers.outcome import Outcome
from multikueue_simulator.simulation.faults.partial_injector import Logs
from multikueue_simulator.simulation.faults.stage import Stage
from multikueue_simulator.simulation.invariants.invariants import Invariants, Write
from multikueue_simulator.world.world import MANAGER, World

__all__ = ["Changes", "Phases", "RunRecorder", "Trace", "logs_heard"]

NO_CRASH = frozenset({"object.unreadable"})
"""Log events of level error that do not count as a crash of the manager."""

LEASES = "leases.coordination.k8s.io"

Changes = Counter[tuple[str, str]]
"""How often the phase of a workload changed from one to another."""


class Phases:
    """Counts the phase changes that managers decide; one instance for all managers, as `on_decision`."""

    def __init__(self, changes: Changes) -> None:
        self._changes = changes
        self._last: dict[ObjectKey, str] = {}

    def __call__(self, outcome: Outcome) -> None:
        key, after = outcome.case.key, outcome.phase.name
        before = self._last.get(key, "-")
        if before != after:
            self._changes[before, after] += 1
            self._last[key] = after


@dataclass(slots=True)
class Trace:
    """The events in words, with their times in seconds; kept only if `is_told`."""

    is_told: bool = False
    lines: list[tuple[float, str]] = field(default_factory=list)

    def __call__(self, text: str) -> None:
        if self.is_told:
            self.lines.append((asyncio.get_running_loop().time(), text))


@dataclass(slots=True)
class RunRecorder:
    """An observer of the managers' lines and of the storages of all clusters.

    `writes` counts the writes that managers sent and servers carried out, except those of leases, by path; `last` is when the
    latest of them arrived. `digest` is a hash of all records: two runs are equal if their digests are.
    """

    world: World
    stage: Stage
    invariants: Invariants
    trace: Trace
    writes: Counter[str] = field(default_factory=Counter)
    last: float = 0.0
    digest: Any = field(default_factory=lambda: blake2b(digest_size=16))
    _by: str = ""

    def attend(self) -> None:
        """Observe all writes from now on."""
        for site in self.world.sites:
            site.cluster.storage.subscribe(self._listener(site.name))

    def arriving(self, line: Line, _host: str, request: Request) -> None:
        if not is_write(request):
            return
        self.stage.arriving(request)
        if not line.dead:
            self._by = line.source

    def arrived(self, line: Line, host: str, request: Request, answer: Response | Watch) -> None:
        self.invariants.asked(line.source, host, request, asyncio.get_running_loop().time())
        if not is_write(request):
            return
        self._by = ""
        if "/leases/" not in request.path and not request.path.endswith("/leases"):
            self._note(line, host, request, answer)
        self.stage.arrived(request)

    def _note(self, line: Line, host: str, request: Request, answer: Response | Watch) -> None:
        self.writes[request.path] += 1
        self.last = asyncio.get_running_loop().time()
        self.invariants.sent(line.source, host, request, self.last)
        status = answer.status if isinstance(answer, Response) else 200
        is_invalid = status == 422 or (status == 403 and self.world.layout.is_reviewed)
        if isinstance(answer, Response) and is_invalid and host == MANAGER:
            self.invariants.invalid(line.source, request, answer, self.last)
        if self.trace.is_told:
            self.trace(f"{line.source} to {host}: {request.method} {request.path} -> {status}")

    def _listener(self, host: str) -> Callable[[Change], None]:
        def listen(change: Change) -> None:
            at = asyncio.get_running_loop().time()
            version = change.version
            self.digest.update(f"{at:.6f} {host} {change.type} {change.storage} {version.key} {version.rv}\n".encode())
            self.invariants.judge(Write(host, at, change, self._by))

        return listen


@contextmanager
def logs_heard(trace: Trace, logs: Logs, on_crash: Callable[[str], None]) -> Iterator[None]:
    """Copy the managers' logs to the trace. A record of level error is reported as a crash, except those in
    `NO_CRASH`, and those that the logs expect."""

    def take(_logger: Any, method: str, event: MutableMapping[str, Any]) -> str:
        facts = ", ".join(f"{key}={value}" for key, value in event.items() if key not in ("event", "exc_info"))
        text = f"{event['event']} ({facts})" if facts else str(event["event"])
        logs.write(event)
        is_error = method in ("error", "critical", "exception")
        if is_error and event["event"] not in NO_CRASH and event["event"] not in logs.expected:
            error = event.get("exc_info")
            on_crash(f"{text}: {error!r}")
        trace(f"log: {text}")
        raise structlog.DropEvent

    configured = structlog.get_config()
    structlog.configure(
        processors=[structlog.contextvars.merge_contextvars, take],
        wrapper_class=structlog.make_filtering_bound_logger("debug" if trace.is_told or logs.is_written else "error"),
        logger_factory=structlog.ReturnLoggerFactory(),
        cache_logger_on_first_use=False,
    )
    try:
        yield
    finally:
        structlog.configure(**configured)
