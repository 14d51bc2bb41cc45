"""The cost of a start: CPU of each command until its first request, and of the manager until it is ready.

User and system time of the whole process, the least of a few rounds. Machines are never quiet and all differ, so each
figure is also given as a multiple of an interpreter that does nothing, and of a fixed loop, measured in the same run.
Bytecode exists, as pip and our image install it; without it, each start would first compile its imports.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from benchmarks.meters import cpu_seconds
from benchmarks.sides import Ours
from testbed.bed import Testbed

__all__ = ["COMMANDS", "Cost", "as_text", "commands_alone", "compiled", "manager_alone", "unreachable"]

ROUNDS = 5
READY = b"manager.ready"
NOTHING = "python, doing nothing"
LOOP = "python, a fixed loop"
MANAGER = "multikueue run, until ready"

UNREACHABLE = "UNREACHABLE"
"""Stands for a kubeconfig of a cluster that refuses connections."""

BASES = {NOTHING: ("-c", "pass"), LOOP: ("-c", "total = 0\nfor number in range(3_000_000): total += number")}

_ONE = ("--manager-kubeconfig", UNREACHABLE)
_BOTH = (*_ONE, "--worker-kubeconfig", UNREACHABLE)

COMMANDS: Mapping[str, Sequence[str]] = {
    "--help": (),
    "version": (),
    "run --help": (),
    "run --dry-run": _ONE,
    "clusters --help": (),
    "clusters list": _ONE,
    "clusters show w": _ONE,
    "clusters check w": _ONE,
    "clusters capacity": _ONE,
    "clusters discover": _ONE,
    "clusters register w": _BOTH,
    "clusters cordon w": _ONE,
    "clusters uncordon w": _ONE,
    "clusters drain w": (*_ONE, "--yes"),
    "clusters rotate w": _ONE,
    "clusters remove w": _BOTH,
    "console": (*_ONE, "--no-browser"),
    "doctor": _ONE,
    "workloads list": _ONE,
    "workloads show w": _ONE,
    "workloads events w": _ONE,
    "workloads pods w": _ONE,
    "workloads logs w": _ONE,
    "workloads cancel w": (*_ONE, "--yes"),
    "workloads hold w": _ONE,
    "workloads release w": _ONE,
    "workloads requeue w": _ONE,
    "workloads move w": (*_ONE, "--to", "q"),
    "jobs list": _ONE,
    "pods w": _ONE,
    "logs w": _ONE,
    "events w": _ONE,
    "get jobs": _ONE,
    "get workloads": _ONE,
    "get queues": _ONE,
    "get clusters": _ONE,
    "queues list": _ONE,
    "queues show q": _ONE,
    "queues spend": _ONE,
    "queues sync": _ONE,
    "queues hold q": _ONE,
    "queues resume q": _ONE,
    "submit --help": (),
    "record --help": (),
    "report --help": (),
    "top --help": (),
    "settings init": (),
    "settings schema": (),
    "settings validate /dev/null": (),
    "completion bash": (),
    "help": (),
    "why w": _ONE,
    "objects unreadable": _ONE,
    "webhook remove": _ONE,
    "strategies list": (),
    "strategies show incremental": (),
    "strategies explain w": _ONE,
}
"""Commands, and the options that keep them from reaching a cluster."""


@dataclass(frozen=True, slots=True)
class Cost:
    """CPU milliseconds of one start."""

    name: str
    milliseconds: float


@contextmanager
def compiled() -> Iterator[Mapping[str, str]]:
    """An environment whose processes keep bytecode in a temporary folder, whatever our own environment says."""
    with TemporaryDirectory(prefix="multikueue-bytecode-") as folder:
        yield {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": folder}


def commands_alone(env: Mapping[str, str], say: Callable[[str], None]) -> list[Cost]:
    """The costs of interpreter, loop and commands, in this order."""
    with TemporaryDirectory() as folder:
        kubeconfig = Path(folder) / "kubeconfig"
        kubeconfig.write_bytes(unreachable())
        words = {
            name: (
                "-m",
                "multikueue",
                *name.split(),
                *(str(kubeconfig) if each is UNREACHABLE else each for each in more),
            )
            for name, more in COMMANDS.items()
        }
        return [_cost(name, each, env, say) for name, each in {**BASES, **words}.items()]


def _cost(name: str, words: Sequence[str], env: Mapping[str, str], say: Callable[[str], None]) -> Cost:
    say(f"measuring {name}")
    least = min(_seconds_of_child([sys.executable, *words], env) for _ in range(1 + ROUNDS))
    return Cost(name, 1000 * least)


def _seconds_of_child(command: Sequence[str], env: Mapping[str, str]) -> float:
    before = _seconds_of_children()
    done = subprocess.run(command, env={**os.environ, **env}, capture_output=True, check=False)
    assert done.returncode in (0, 3), done.stderr.decode()
    return _seconds_of_children() - before


def _seconds_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


async def manager_alone(bed: Testbed, env: Mapping[str, str], say: Callable[[str], None]) -> Cost:
    """The cost of the manager over all workers of a testbed, from the first instruction to `manager.ready`."""
    side = Ours(bed, env=env)
    say("setting up the queues")
    await side.set_up()
    figures: list[float] = []
    for number in range(ROUNDS):
        await side.stop()
        say(f"start {number + 1} of {ROUNDS}")
        seen = _readies(side.process.log)
        side.process.start()

        async def ready(seen: int = seen) -> bool:
            return _readies(side.process.log) > seen

        await side.process.wait_until(ready)
        figures.append(cpu_seconds(side.process.pid))
    await side.take_down()
    return Cost(MANAGER, 1000 * min(figures))


def _readies(log: Path) -> int:
    return log.read_bytes().count(READY)


def as_text(costs: Sequence[Cost]) -> str:
    """A table; the first two costs are the units of the others."""
    nothing, loop = (each.milliseconds for each in costs[:2])
    lines = [f"{'':32} {'CPU, ms':>8} {'x nothing':>10} {'x loop':>8}"]
    lines += [
        f"{each.name:32} {each.milliseconds:8,.0f} {each.milliseconds / nothing:10.1f} {each.milliseconds / loop:8.2f}"
        for each in costs
    ]
    return "\n".join(lines)


def unreachable() -> bytes:
    """A kubeconfig for port 1 of loopback, which has no listener; JSON is YAML too."""
    tree = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "nobody",
        "clusters": [{"name": "nobody", "cluster": {"server": "http://127.0.0.1:1"}}],
        "users": [{"name": "nobody", "user": {"token": "nobody"}}],
        "contexts": [{"name": "nobody", "context": {"cluster": "nobody", "user": "nobody"}}],
    }
    return msgspec.json.encode(tree)
