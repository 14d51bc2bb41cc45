"""A bed of simulated clusters: Python only, starts in a second, with the interface of a `Testbed`.

    async with SandboxBed.start(workers=3) as bed: ...

One process serves all clusters, `python -m multikueue_simulator`, and takes its commands as lines of JSON. The objects
of a plane outlive its stop, since that process goes on; resource versions are counted over all planes, as over one
etcd. The workers' Kueues are simulated too. Methods that need a real component raise `Unsupported`.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from threading import Lock
from typing import Any, NoReturn

import anyio
import anyio.to_thread
import yaml

from fakekube.front_end.authority import Certificate
from testbed.audit import Audit
from testbed.bed import FOLDER_PREFIX, Plan, Testbed
from testbed.contexts import Unsupported
from testbed.controllers import GARBAGE, JOBS, NAMESPACES
from testbed.plane import ControlPlane, Identity
from testbed.ports import free_port, free_ports
from testbed.process import Process
from testbed.proxy import Proxy

__all__ = ["SandboxBed", "SandboxKueue", "SandboxPlane"]

REAL_PROGRAMS = "the programs of the testbed"
REAL_SERVER = "a real API server in a process of its own"
REAL_KUEUE = "a real Kueue"

BED_NEEDS = {"etcd": "a real etcd", "programs": REAL_PROGRAMS}
PLANE_NEEDS = {"process": REAL_SERVER, "programs": REAL_PROGRAMS}
KUEUE_NEEDS = dict.fromkeys(("binary", "configuration", "frameworks", "process"), REAL_KUEUE)

DEFINITIONS = {"kueue": "kueue", "ocm": "ocm", "clusterprofile": "cluster-profiles"}
"""Sets of CRDs as the testbed calls them, and as the sandbox does."""

BUILT_IN = frozenset({GARBAGE, NAMESPACES})
"""Controllers that each simulated cluster always has."""

FOREVER = 10**9
"""Run time of pods in seconds: a test ends jobs itself, as on the testbed, which has no nodes."""


class SandboxProcess:
    """The process with all clusters, and the orders to it."""

    def __init__(self, folder: Path, *options: str) -> None:
        command = [sys.executable, "-m", "multikueue_simulator", "--folder", str(folder), *options]
        self.process = Process("sandbox", command, log=folder / "sandbox.log", converses=True)
        self._lock = Lock()

    async def start(self, count: int) -> dict[str, dict[str, Any]]:
        """Start the process; returns its descriptions of `count` clusters, by name."""
        self.process.start()
        described = [await self._wait(self.process.hear) for _ in range(count)]
        return {each["name"]: each for each in map(json.loads, described)}

    async def order(self, what: str, cluster: str, **more: Any) -> dict[str, Any]:
        """Give an order and wait until it is carried out. Raises RuntimeError if it fails."""
        text = json.dumps({"do": what, "cluster": cluster, **more})
        answer: dict[str, Any] = json.loads(await self._wait(lambda: self._asked(text)))
        if "error" in answer:
            raise RuntimeError(f"the sandbox failed to {what} {cluster}: {answer['error']}")
        return answer

    def _asked(self, text: str) -> str:
        with self._lock:  # so that no thread takes another's answer
            self.process.tell(text)
            return self.process.hear()

    async def _wait(self, said: Any) -> str:
        line: str = await anyio.to_thread.run_sync(said)
        if not line:
            raise self.process.failure("ended")
        return line


class SandboxPlane(ControlPlane):
    """One simulated cluster."""

    def __init__(self, name: str, sandbox: SandboxProcess, *, port: int, identity: Identity, folder: Path) -> None:
        self.name = name
        self.identity = identity
        self.folder = folder / name
        self.port = port
        self.url = f"https://127.0.0.1:{port}"
        self.ca = identity.authority.pem
        self.tokens: dict[str, str] = {}
        self.audit = Audit(self.folder / "audit.log", self)
        self.sandbox = sandbox

    def __getattr__(self, name: str) -> NoReturn:
        _refuse(self, name, PLANE_NEEDS)

    def described(self, says: Mapping[str, Any]) -> None:
        """Take the users' tokens from the sandbox's description of the plane."""
        self.tokens = {user: _token(Path(file)) for user, file in says["kubeconfigs"].items()}

    async def start(self) -> None:
        """Only `restart`: the sandbox has written the files."""
        await self.restart()

    async def restart(self) -> None:
        await self.sandbox.order("start", self.name)

    async def stop(self) -> None:
        """Make the plane unreachable; it keeps its objects."""
        await self.sandbox.order("stop", self.name)

    async def kill(self) -> None:
        """The same as `stop`: clients see no difference."""
        await self.stop()


class SandboxKueue:
    """The simulated Kueue of a plane. Its webhooks are there, and fail, while it is stopped."""

    def __init__(self, plane: SandboxPlane) -> None:
        self.plane = plane

    def __getattr__(self, name: str) -> NoReturn:
        _refuse(self, name, KUEUE_NEEDS)

    async def start(self) -> None:
        await self.restart()

    async def restart(self) -> None:
        await self.plane.sandbox.order("start-kueue", self.plane.name)

    async def stop(self) -> None:
        await self.plane.sandbox.order("stop-kueue", self.plane.name)

    async def kill(self) -> None:
        await self.stop()

    async def remove(self) -> None:
        await self.plane.sandbox.order("remove-kueue", self.plane.name)

    async def metrics(self) -> str:
        raise Unsupported(REAL_KUEUE)


class SandboxControllers:
    """The requested controllers of a plane; those in `BUILT_IN` do not stop."""

    def __init__(self, plane: SandboxPlane, names: Collection[str]) -> None:
        if missing := sorted(set(names) - BUILT_IN - {JOBS}):
            raise Unsupported(f"kube-controller-manager's {missing[0]}")
        self.plane = plane
        self._runs_jobs = JOBS in names

    async def start(self) -> None:
        await self.restart()

    async def restart(self) -> None:
        if self._runs_jobs:
            await self.plane.sandbox.order("start-jobs", self.plane.name)

    async def stop(self) -> None:
        if self._runs_jobs:
            await self.plane.sandbox.order("stop-jobs", self.plane.name)

    async def kill(self) -> None:
        await self.stop()


class SandboxBed(Testbed):
    """A bed of simulated clusters. The plan is that of a `Testbed`, its CRDs those in `DEFINITIONS`."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.folder = Path(tempfile.mkdtemp(prefix=f"{FOLDER_PREFIX}{os.getpid()}-"))
        self.proxy = Proxy(self.folder)
        self._identity = Identity.create()
        authority = self._identity.authority
        Certificate(authority.pem, authority.key_pem).write(self.folder / "authority")
        ports = free_ports(1 + plan.workers)
        self.sandbox = SandboxProcess(
            self.folder,
            f"--workers={plan.workers}",
            f"--port={ports[0]}",
            f"--authority={self.folder / 'authority'}",
            "--rbac",
            "--one-store",
            f"--job-seconds={FOREVER}",
            "--definitions",
            *_definitions(plan.crds),
        )
        self.planes: Mapping[str, SandboxPlane] = {
            name: self._simulated(name, port) for name, port in zip(plan.names, ports, strict=True)
        }
        self.kueues: dict[str, Any] = {}

    def __getattr__(self, name: str) -> NoReturn:
        _refuse(self, name, BED_NEEDS)

    async def open(self) -> None:
        """Start the proxy and the sandbox, and the rest of the plan."""
        try:
            await self.proxy.start()
            for name, says in (await self.sandbox.start(len(self.planes))).items():
                self.planes[name].described(says)
            for name, controllers in self.plan.controllers.items():
                await self.start_controllers(self.planes[name], controllers)
            for plane in self.workers if self.plan.kueue else ():
                await self.start_kueue(plane)
        except BaseException as error:
            error.add_note(f"the testbed's logs are kept in {self._kept_logs()}")
            with anyio.CancelScope(shield=True):
                await self.close()
            raise

    async def start_plane(self, name: str, *, crds: Sequence[str] | None = None) -> SandboxPlane:
        plane = self._simulated(name, free_port())
        definitions = _definitions(self.plan.crds if crds is None else crds)
        plane.described(await self.sandbox.order("add", name, port=plane.port, definitions=definitions))
        return plane

    async def install(self, plane: ControlPlane, crds: Sequence[str]) -> None:
        await self.sandbox.order("define", plane.name, definitions=_definitions(crds))

    async def start_kueue(self, plane: ControlPlane, **options: Any) -> Any:
        """The simulated Kueue of a plane; it has no options."""
        if options:
            raise Unsupported(f"{REAL_KUEUE}, for its {min(options).replace('_', ' ')}")
        assert isinstance(plane, SandboxPlane)
        kueue = self.kueues[plane.name] = SandboxKueue(plane)
        await kueue.start()
        return kueue

    async def start_controllers(self, plane: ControlPlane, names: Collection[str]) -> Any:
        assert isinstance(plane, SandboxPlane)
        controllers = SandboxControllers(plane, names)
        await controllers.start()
        return controllers

    async def start_placement(self, plane: ControlPlane) -> NoReturn:  # noqa: ARG002
        raise Unsupported("OCM's placement controller")

    async def start_registration(self, plane: ControlPlane) -> NoReturn:  # noqa: ARG002
        raise Unsupported("OCM's registration controller")

    @property
    def processes(self) -> list[Process]:
        return [self.proxy.process, self.sandbox.process]

    def _simulated(self, name: str, port: int) -> SandboxPlane:
        return SandboxPlane(name, self.sandbox, port=port, identity=self._identity, folder=self.folder)


def _definitions(crds: Sequence[str]) -> list[str]:
    if missing := [name for name in crds if name not in DEFINITIONS]:
        raise Unsupported(f"the CRDs of {missing[0]}")
    return [DEFINITIONS[name] for name in crds]


def _token(file: Path) -> str:
    token: str = yaml.safe_load(file.read_bytes())["users"][0]["user"]["token"]
    return token


def _refuse(thing: object, name: str, needs: Mapping[str, str]) -> NoReturn:
    if name in needs:
        raise Unsupported(needs[name])
    raise AttributeError(f"{type(thing).__name__} has no {name}")
