"""A bed over existing clusters, such as kind's, taken from the contexts of a kubeconfig.

    bed = ContextBed(load("kubeconfigs/kind"), ["kind-manager", "kind-worker-1"])
    await bed.open()

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

import anyio
import yaml

from testbed.bed import FOLDER_PREFIX, MANAGER, Testbed
from testbed.certificates import Certificate
from testbed.client import Client
from testbed.kubeconfig import kubeconfig
from testbed.plane import ControlPlane
from testbed.process import Process
from testbed.proxy import Proxy

__all__ = ["Access", "ContextBed", "ContextPlane", "Unsupported", "access", "load"]

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

    def __getattr__(self, name: str) -> NoReturn:
        _refuse(self, name, BED_NEEDS)

    async def open(self) -> None:
        """Start the proxy for links and check the access to each cluster."""
        try:
            await self.proxy.start()
            for plane in self.planes.values():
                async with plane.client() as client:
                    await client.request("GET", "/version")
        except BaseException:
            with anyio.CancelScope(shield=True):
                await self.close()
            raise

    @property
    def processes(self) -> list[Process]:
        return [self.proxy.process]


def load(*files: str) -> dict[str, Any]:
    """The clusters, users and contexts of kubeconfig files together; of equal names the first counts, as in kubectl."""
    configs = [yaml.safe_load(Path(file).read_text()) or {} for file in files]
    return {part: [entry for config in configs for entry in config.get(part) or []] for part in _PARTS}


def access(config: dict[str, Any], context: str) -> Access:
    """The server and credentials of a context of a kubeconfig. All must be inline, as kind writes it.

    Raises ValueError with the name of a missing field.
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
        raise ValueError(f"the kubeconfig has no {_PARTS[part]} {name}")
    content: dict[str, Any] = found[0]
    return content


def _value(content: dict[str, Any], key: str, context: str) -> str:
    if not content.get(key):
        raise ValueError(f"context {context} of the kubeconfig: {key} is missing, and it must be inline")
    return str(content[key])


def _refuse(thing: object, name: str, needs: dict[str, str]) -> NoReturn:
    if name in needs:
        raise Unsupported(needs[name])
    raise AttributeError(f"{type(thing).__name__} has no {name}")
