"""`python -m multikueue.sandbox`: serves a manager and workers until SIGTERM.

For each cluster one line of JSON says where it is, when all can be asked. Then commands are taken on standard input, a
line of JSON each, and each is answered by one: `{"do": "stop", "cluster": "worker1"}`, or `start` (again, with all that
was in it), or `compact` (forget the history, so that watches must begin anew).
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import AsyncIterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

import anyio
import msgspec

from multikueue.sandbox.serve import DEFINITIONS, USERS, Plan, Sandbox

__all__ = ["main"]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m multikueue.sandbox", description=__doc__)
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
    parser.add_argument("--seed", type=int, help="the same names and UIDs each time")
    return parser


def main(arguments: list[str] | None = None) -> None:
    options = _parser().parse_args(arguments)
    plan = Plan(
        workers=options.workers,
        port=options.port,
        rbac=options.rbac,
        users={**USERS, **dict(_user(text) for text in options.user)},
        definitions=tuple(options.definitions),
        kueue=options.kueue,
        jobs=options.jobs,
        seed=options.seed,
    )
    uvloop = {"use_uvloop": find_spec("uvloop") is not None}
    with TemporaryDirectory(prefix="multikueue-sandbox-") as folder:
        anyio.run(_serve, plan, options.folder or Path(folder), backend_options=uvloop)


def _user(text: str) -> tuple[str, tuple[str, ...]]:
    name, _, groups = text.partition("=")
    return name, tuple(group for group in groups.split(",") if group)


async def _serve(plan: Plan, folder: Path) -> None:
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async with Sandbox(plan, folder=folder) as sandbox, anyio.create_task_group() as tasks:
            for served in sandbox.values():
                _say(served.described)
            tasks.start_soon(_obey, sandbox)
            await anext(signals)
            tasks.cancel_scope.cancel()


async def _obey(sandbox: Sandbox) -> None:
    """Carries out commands as they come; whoever closes standard input has no more of them."""
    async for line in _lines(sys.stdin.fileno()):
        try:
            command = msgspec.json.decode(line, type=_Command)
            await _done(sandbox, command)
        except (msgspec.DecodeError, KeyError, OSError) as error:
            _say({"error": str(error)})
        else:
            _say({"done": command.do, "cluster": command.cluster})


async def _lines(descriptor: int) -> AsyncIterator[bytes]:
    """What comes in, by lines; none from what cannot be waited for, as /dev/null. No thread waits: it would never end."""
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


async def _done(sandbox: Sandbox, command: _Command) -> None:
    served = sandbox[command.cluster]
    if command.do == "stop":
        await served.face.stop()
    elif command.do == "start":
        await served.start()
    elif command.do == "compact":
        served.cluster.storage.compact()
    else:
        raise KeyError(f"unknown command {command.do}")


def _say(what: Mapping[str, object]) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(what) + b"\n")
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
