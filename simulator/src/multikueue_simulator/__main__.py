"""`python -m multikueue_simulator`: serves a manager and workers until SIGTERM.

For each cluster one line of JSON says where it is, when all can be asked. Then commands are taken on standard input, a
line of JSON each, and each is answered by one: `{"do": "stop", "cluster": "worker1"}`. There are

stop, start: close its port; open it again, with all that was in it;
compact: forget the history, so that watches must start over;
add: one more cluster, with `port` and `definitions` if they matter; the answer says where it is, too;
define: install the sets of `definitions` that it has not yet;
start-kueue, stop-kueue, remove-kueue: a simulated Kueue, whose webhooks stay when it stops, and go when it is removed;
start-jobs, stop-jobs: what runs jobs.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import AsyncIterator, Mapping
from datetime import timedelta
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

import anyio
import msgspec

from fakekube.front_end.authority import Authority, Certificate
from multikueue.settings import Log
from multikueue.telemetry import logs
from multikueue_simulator.serving.serve import DEFINITIONS, USERS, Plan, Sandbox, Served

__all__ = ["main"]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m multikueue_simulator", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--workers", type=int, default=3, help="how many worker clusters (3)")
    parser.add_argument("--folder", type=Path, help="where kubeconfigs and audit logs go (a folder that is removed)")
    parser.add_argument("--port", type=int, default=0, help="of the manager, the workers have the next ones (any)")
    parser.add_argument("--rbac", action="store_true", help="enforce roles; otherwise every user may do everything")
    parser.add_argument(
        "--user", action="append", default=[], metavar="NAME[=GROUP,...]", help="one more user, or other groups for one"
    )
    parser.add_argument(
        "--definitions", nargs="*", choices=sorted(DEFINITIONS), default=["kueue"], help="custom kinds to install"
    )
    parser.add_argument("--kueue", action="store_true", help="run a simulated Kueue on each worker")
    parser.add_argument("--jobs", action="store_true", help="run jobs on each worker")
    parser.add_argument(
        "--job-seconds", type=float, help="how long pods run unless their job has an annotation for that (1)"
    )
    parser.add_argument(
        "--one-store", action="store_true", help="count resource versions over all clusters, as one etcd"
    )
    parser.add_argument("--authority", type=Path, help="a folder with tls.crt and tls.key of the certificate authority")
    parser.add_argument("--seed", type=int, help="the same names and UIDs each time")
    return parser


def main(arguments: list[str] | None = None) -> None:
    options = _parser().parse_args(arguments)
    logs.configure(Log(level="warning"))  # to standard error, as standard output has the answers
    plan = Plan(
        workers=options.workers,
        port=options.port,
        rbac=options.rbac,
        users={**USERS, **dict(_user(text) for text in options.user)},
        definitions=tuple(options.definitions),
        kueue=options.kueue,
        jobs=options.jobs,
        job_lasts=None if options.job_seconds is None else timedelta(seconds=options.job_seconds),
        seed=options.seed,
        one_store=options.one_store,
    )
    authority = Authority(given=_certificate(options.authority)) if options.authority else None
    uvloop = {"use_uvloop": find_spec("uvloop") is not None}
    with TemporaryDirectory(prefix="multikueue-sandbox-") as folder:
        anyio.run(_serve, plan, options.folder or Path(folder), authority, backend_options=uvloop)


def _certificate(folder: Path) -> Certificate:
    return Certificate((folder / "tls.crt").read_bytes(), (folder / "tls.key").read_bytes())


def _user(text: str) -> tuple[str, tuple[str, ...]]:
    name, _, groups = text.partition("=")
    return name, tuple(group for group in groups.split(",") if group)


async def _serve(plan: Plan, folder: Path, authority: Authority | None) -> None:
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async with Sandbox(plan, folder=folder, authority=authority) as sandbox, anyio.create_task_group() as tasks:
            for served in sandbox.values():
                _say(served.described)
            tasks.start_soon(_obey, sandbox)
            await anext(signals)
            tasks.cancel_scope.cancel()


async def _obey(sandbox: Sandbox) -> None:
    """Carry out commands as they arrive, until standard input is closed."""
    async for line in _lines(sys.stdin.fileno()):
        try:
            command = msgspec.json.decode(line, type=_Command)
            found = await _done(sandbox, command)
        except (msgspec.DecodeError, LookupError, OSError, ValueError) as error:
            _say({"error": str(error)})
        else:
            _say({"done": command.do, "cluster": command.cluster, **found})


async def _lines(descriptor: int) -> AsyncIterator[bytes]:
    """The lines of a file descriptor; none of one that cannot be waited for, such as /dev/null. No thread reads, as it
    could never be ended."""
    rest = b""
    try:
        await anyio.wait_readable(descriptor)
        while content := os.read(descriptor, 2**16):
            *lines, rest = (rest + content).split(b"\n")
            for line in lines:
                yield line
            await anyio.wait_readable(descriptor)
    except (OSError, RuntimeError):
        return


class _Command(msgspec.Struct):
    do: str
    cluster: str
    port: int = 0
    definitions: tuple[str, ...] | None = None


async def _done(sandbox: Sandbox, command: _Command) -> Mapping[str, object]:
    """Carry out a command. Returns the facts for its answer."""
    if command.do == "add":
        return (await sandbox.add(command.cluster, port=command.port, definitions=command.definitions)).described
    served = sandbox[command.cluster]
    match command.do:
        case "stop":
            await served.front_end.stop()
        case "start":
            await served.start()
        case "compact":
            served.cluster.storage.compact()
        case "define":
            served.define(*(command.definitions or ()))
        case _:
            await _directed(sandbox, served, command.do)
    return {}


async def _directed(sandbox: Sandbox, served: Served, what: str) -> None:
    match what:
        case "start-kueue":
            await sandbox.run(served.kueue)
        case "stop-kueue":
            await served.kueue.stop()
        case "remove-kueue":
            await served.kueue.remove()
        case "start-jobs":
            await sandbox.run(served.jobs)
        case "stop-jobs":
            await served.jobs.stop()
        case _:
            raise KeyError(f"unknown command {what}")


def _say(what: Mapping[str, object]) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(what) + b"\n")
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
