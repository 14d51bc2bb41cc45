"""A bed over existing clusters, such as kind's, taken from the contexts of a kubeconfig.

    bed = ContextBed(load("kubeconfigs/kind"), ["kind-manager", "kind-worker-1"])
    await bed.open()

Whoever uses these clusters otherwise is refused while something runs there, and finds the workers registered as before.
It offers the parts of a `Testbed` that need a credential only. The rest needs a program of the testbed (its audit log,
stopping a plane, its users, its Kueue) and raises `Unsupported`. Links work where an API server's certificate holds
127.0.0.1, as kind's do.
"""

from __future__ import annotations

import os
import tempfile
from base64 import b64decode
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import aiohttp
import anyio
import yaml

from fakekube.front_end.authority import Certificate
from testbed.bed import FOLDER_PREFIX, MANAGER, Testbed
from testbed.client import Client, Kind
from testbed.kubeconfig import kubeconfig
from testbed.objects import MULTIKUEUE_CLUSTER, WORKLOAD, Object, condition
from testbed.plane import ControlPlane
from testbed.process import Process
from testbed.proxy import Proxy

__all__ = ["Access", "ContextBed", "ContextPlane", "InUse", "Missing", "Unsupported", "access", "load"]

WEBHOOKS = Kind("admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration")
WEBHOOK = "multikueue-manager"

STOPPABLE = "control planes of the testbed, which can be stopped"
PROGRAMS = "the testbed's programs"
USERS = "the testbed's users: here is the administrator only"

BED_NEEDS = {"kueues": "the testbed's Kueue", "etcd": "the testbed's etcd", "plan": PROGRAMS, "programs": PROGRAMS}
PLANE_NEEDS = {
    "audit": "the testbed's audit log",
    "identity": STOPPABLE,
    "port": STOPPABLE,
    "process": STOPPABLE,
    "programs": PROGRAMS,
    "tokens": USERS,
}
"""Attributes of the base classes that are missing here; a method that needs one cannot work."""


class Unsupported(Exception):
    """Existing clusters cannot do this; a test that meets it is skipped there."""

    def __init__(self, needs: str) -> None:
        super().__init__(f"needs {needs}")


class InUse(Exception):
    """Somebody else works with these clusters now; the message says what to do."""


class Missing(Exception):
    """A kubeconfig, a context or a cluster is not there; the message says which."""


@dataclass(frozen=True, slots=True)
class Access:
    """The URL and credentials of a cluster: a token or a client certificate."""

    server: str
    ca: bytes
    token: str = ""
    certificate: Certificate | None = None


class ContextPlane(ControlPlane):
    """One cluster of a kubeconfig, as the user of its context."""

    def __init__(self, name: str, access: Access, *, folder: Path) -> None:
        self.name = name
        self.url = access.server
        self.ca = access.ca
        self.folder = folder / name
        self._access = access

    def __getattr__(self, name: str) -> NoReturn:
        _refuse(self, name, PLANE_NEEDS)

    def client(
        self, user: str = "admin", *, server: str | None = None, user_agent: str = "testbed", timeout: float = 30
    ) -> Client:
        return Client(server or self.url, **self._credential(user), user_agent=user_agent, timeout=timeout)

    def kubeconfig(self, user: str = "admin", *, server: str | None = None, token: str | None = None) -> dict[str, Any]:
        credential = {"ca": self.ca, "token": token} if token else self._credential(user)
        return kubeconfig(server or self.url, **credential, name=self.name)

    async def grant(self, user: str, rules: Sequence[dict[str, Any]]) -> NoReturn:  # noqa: ARG002
        raise Unsupported(USERS)

    def _credential(self, user: str) -> dict[str, Any]:
        if user != "admin":
            raise Unsupported(USERS)
        return {"ca": self.ca, "token": self._access.token, "certificate": self._access.certificate}


class ContextBed(Testbed):
    """The first context is the manager cluster, the others are the workers; planes are called as in a `Testbed`."""

    foreign = True

    def __init__(self, config: dict[str, Any], contexts: Sequence[str]) -> None:
        names = [MANAGER, *(f"worker{number}" for number in range(1, len(contexts)))]
        accesses = [access(config, context) for context in contexts]
        self.folder = Path(tempfile.mkdtemp(prefix=f"{FOLDER_PREFIX}{os.getpid()}-"))
        self.proxy = Proxy(self.folder)
        self.planes = {
            name: ContextPlane(name, its, folder=self.folder) for name, its in zip(names, accesses, strict=True)
        }
        self._aside: list[Object] = []

    def __getattr__(self, name: str) -> NoReturn:
        _refuse(self, name, BED_NEEDS)

    async def open(self) -> None:
        """Start the proxy for links, check the access to each cluster, and put aside how the workers are registered: under
        two names at once a manager uses but one. Raises InUse, Missing."""
        try:
            await self.proxy.start()
            for plane in self.planes.values():
                await _refuse_unreachable(plane)
            async with self.manager.client() as client:
                await _refuse_in_use(client)
                await self._put_aside(client)
        except BaseException:
            with anyio.CancelScope(shield=True):
                await self.close()
            raise

    async def close(self) -> None:
        """Also register the workers again as they were."""
        try:
            if self._aside:
                await self._put_back()
        finally:
            await super().close()

    async def _put_aside(self, client: Client) -> None:
        for body in await client.list(MULTIKUEUE_CLUSTER):
            self._aside.append(body)
            await client.delete(MULTIKUEUE_CLUSTER, body["metadata"]["name"])

    async def _put_back(self) -> None:
        async with self.manager.client() as client:
            while self._aside:
                await client.apply(_as_written(self._aside[-1]))
                self._aside.pop()

    @property
    def processes(self) -> list[Process]:
        return [self.proxy.process]


async def _refuse_unreachable(plane: ControlPlane) -> None:
    try:
        async with plane.client() as client:
            await client.request("GET", "/version")
    except (OSError, aiohttp.ClientError) as error:
        raise Missing(f"{plane.name} ({plane.url}) cannot be reached: {str(error) or type(error).__name__}") from error


async def _refuse_in_use(client: Client) -> None:
    if await client.find(WEBHOOKS, WEBHOOK) is not None:
        raise InUse(
            "a manager's webhook is registered on the manager cluster: stop that manager if it runs, then"
            " `multikueue webhook remove`; until then no job can be made there"
        )
    names = {body["metadata"]["name"] for body in await client.list(MULTIKUEUE_CLUSTER)}
    busy = [body for body in await client.list(WORKLOAD) if _is_on(body, names)]
    if busy:
        some = ", ".join("{namespace}/{name}".format_map(body["metadata"]) for body in busy[:3])
        raise InUse(f"{len(busy)} workloads run or wait on these workers, and would be evicted: end or delete {some}")


def _is_on(workload: Object, clusters: set[str]) -> bool:
    """Whether it runs on one of these clusters, or has a copy that waits there."""
    status = workload.get("status", {})
    finished = condition(workload, "Finished")
    there = {status.get("clusterName"), *(status.get("nominatedClusterNames") or ())}
    return bool(there & clusters) and (finished is None or finished["status"] != "True")


def _as_written(body: Object) -> Object:
    """An object as somebody wrote it, without what the server added."""
    metadata = {key: value for key, value in body["metadata"].items() if key in ("name", "labels", "annotations")}
    return {**{key: body[key] for key in ("apiVersion", "kind", "spec")}, "metadata": metadata}


def load(*files: str) -> dict[str, Any]:
    """The clusters, users and contexts of kubeconfig files together; of equal names the first counts, as in kubectl.

    Raises Missing for a file that cannot be read.
    """
    try:
        configs = [yaml.safe_load(Path(file).read_text()) or {} for file in files]
    except OSError as error:
        raise Missing(str(error)) from error
    return {part: [entry for config in configs for entry in config.get(part) or []] for part in _PARTS}


def access(config: dict[str, Any], context: str) -> Access:
    """The server and credentials of a context of a kubeconfig. All must be inline, as kind writes it.

    Raises Missing with the name of what lacks.
    """
    names = _entry(config, "contexts", context)
    cluster, user = _entry(config, "clusters", names["cluster"]), _entry(config, "users", names["user"])
    server, ca = (_value(cluster, key, context) for key in ("server", "certificate-authority-data"))
    if token := user.get("token"):
        return Access(server, b64decode(ca), token=token)
    pair = (b64decode(_value(user, key, context)) for key in ("client-certificate-data", "client-key-data"))
    return Access(server, b64decode(ca), certificate=Certificate(*pair))


_PARTS = {"clusters": "cluster", "users": "user", "contexts": "context"}


def _entry(config: dict[str, Any], part: str, name: str) -> dict[str, Any]:
    found = [entry[_PARTS[part]] for entry in config[part] if entry["name"] == name]
    if not found:
        raise Missing(f"the kubeconfig has no {_PARTS[part]} {name}")
    content: dict[str, Any] = found[0]
    return content


def _value(content: dict[str, Any], key: str, context: str) -> str:
    if not content.get(key):
        raise Missing(f"context {context} of the kubeconfig: {key} is missing, and it must be inline")
    return str(content[key])


def _refuse(thing: object, name: str, needs: dict[str, str]) -> NoReturn:
    if name in needs:
        raise Unsupported(needs[name])
    raise AttributeError(f"{type(thing).__name__} has no {name}")
