"""A child process that ends with this one.

Nothing here belongs to an event loop: a process started by one test's loop can be watched and stopped from another's,
as session-wide fixtures need.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import anyio

__all__ = ["RARE_COLLECTIONS", "Process", "ProgramError"]

POLL_SECONDS = 0.02

_SHARE = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 5
"""Bytes of memory that an API server may take before it collects more often. Only that of a manager cluster grows so."""

RARE_COLLECTIONS = {"GOGC": "400", "GOMEMLIMIT": str(_SHARE)}
"""For etcd and the API servers, which share few cores with all else: their heaps are small beside a machine's memory, and
collecting them as often as Go does by itself takes a third of their time. With tens of thousands of objects they are not
small any more. Measured programs keep their own setting."""

# Linux kills a child with PR_SET_PDEATHSIG when the *thread* that started it ends, so all children come from one
# thread that never ends: the main thread may not be there (a loop in a worker thread), and anyio's worker
# threads retire.
_SPAWNER = ThreadPoolExecutor(max_workers=1, thread_name_prefix="testbed-spawner")

# The child asks for its own death before it becomes the program. `preexec_fn` would do it in our process after a
# fork, which Python warns about as soon as there are threads.
_LAUNCHER = """
import ctypes, os, sys
if sys.platform == "linux":
    ctypes.CDLL(None, use_errno=True).prctl(1, 9)
    if os.getppid() != int(sys.argv[1]):
        sys.exit("the testbed is gone")
os.execv(sys.argv[2], sys.argv[2:])
"""


class ProgramError(RuntimeError):
    """A program ended or did not become ready; the message ends with the tail of its log."""


class Process:
    """One program with its log file, in a process group of its own."""

    def __init__(
        self,
        name: str,
        argv: Sequence[str],
        *,
        log: Path,
        env: Mapping[str, str] | None = None,
        converses: bool = False,
    ) -> None:
        """A program that `converses` reads lines from `tell`, and its output goes to `hear` instead of the log."""
        self.name = name
        self._converses = converses
        self.argv = list(argv)
        self.log = log
        self._env = {**os.environ, **(env or {})}
        self._child: subprocess.Popen[bytes] | None = None
        self._log_start = 0
        """Bytes of the log that an earlier start has written."""

    @property
    def running(self) -> bool:
        return self._child is not None and self._child.poll() is None

    @property
    def code(self) -> int | None:
        """The exit code of the last start, negative for a signal; None while it runs, and before."""
        return self._child.poll() if self._child is not None else None

    @property
    def pid(self) -> int:
        assert self._child is not None, f"{self.name} was not started"
        return self._child.pid

    def start(self) -> None:
        """Start the program; its output goes to the end of the log, so a restart keeps the story."""
        assert not self.running, f"{self.name} runs already"
        self._child = _SPAWNER.submit(self._spawn).result()

    def _spawn(self) -> subprocess.Popen[bytes]:
        launch = [sys.executable, "-I", "-S", "-c", _LAUNCHER, str(os.getpid()), *self.argv]
        with self.log.open("ab") as log:
            self._log_start = log.tell()
            stdin, stdout = (subprocess.PIPE, subprocess.PIPE) if self._converses else (subprocess.DEVNULL, log)
            return subprocess.Popen(
                launch, stdin=stdin, stdout=stdout, stderr=log, env=self._env, start_new_session=True
            )

    def tell(self, line: str) -> None:
        """Write a line to a program that converses."""
        assert self._child is not None
        assert self._child.stdin is not None, f"{self.name} does not converse"
        self._child.stdin.write(f"{line}\n".encode())
        self._child.stdin.flush()

    def hear(self) -> str:
        """The next line of the program's output; waits for it. Empty when the program has ended."""
        assert self._child is not None
        assert self._child.stdout is not None, f"{self.name} does not converse"
        return self._child.stdout.readline().decode()

    async def wait_until(self, ready: Callable[[], Awaitable[bool]], *, timeout: float = 60) -> None:
        """Call `ready` until it is true. Raises ProgramError, with the tail of the log, if the program ends or is late."""
        deadline = time.monotonic() + timeout
        while not await ready():
            if not self.running:
                raise self.failure("ended before it was ready")
            if time.monotonic() > deadline:
                raise self.failure(f"was not ready after {timeout:g} s")
            await anyio.sleep(0.05)

    async def stop(self, *, timeout: float = 10) -> None:
        """Send SIGTERM, and SIGKILL after `timeout` seconds."""
        if not self.running:
            return
        self.resume()
        self._signal(signal.SIGTERM)
        if not await self._ended(timeout):
            await self.kill()

    async def kill(self) -> None:
        """End the program at once, by SIGKILL."""
        if self.running:
            self._signal(signal.SIGKILL)
            await self._ended(10)

    def pause(self) -> None:
        """Freeze the program: its sockets stay open and the kernel still answers for them."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    def failure(self, what: str) -> ProgramError:
        return ProgramError(f"{self.name} {what}; log {self.log}:\n{self.tail()}")

    def tail(self, lines: int = 30) -> str:
        """The last lines of the log, of those since the last start."""
        text = self.log.read_bytes()[self._log_start :].decode(errors="replace") if self.log.exists() else ""
        return "\n".join(text.splitlines()[-lines:])

    def rss_mebibytes(self) -> float:
        """Resident memory now, for reports (Linux only)."""
        pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 2**20

    def cpu_seconds(self) -> float:
        """User and system time used so far, for benchmarks (Linux only)."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def _signal(self, number: signal.Signals) -> None:
        if self.running:
            os.killpg(self.pid, number)

    async def _ended(self, timeout: float) -> bool:
        deadline = time.monotonic() + timeout
        while self.running and time.monotonic() < deadline:  # noqa: ASYNC110 - an event would belong to one loop
            await anyio.sleep(POLL_SECONDS)
        if self.running:
            return False
        for pipe in (self._child.stdin, self._child.stdout) if self._child else ():
            if pipe is not None:
                pipe.close()
        return True
