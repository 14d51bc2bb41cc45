"""Sources of a request's credentials: a fixed token, a token file that is rotated, an exec plugin, an auth provider.

A source is an async callable that fetches new credentials on each call. The client keeps them until they are due for
renewal, and asks again when the server answers 401.
"""

from __future__ import annotations

import json
import math
import os
import random
import signal
import sys
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from importlib import import_module
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from pathlib import Path
from subprocess import DEVNULL
from types import ModuleType
from typing import Annotated, Any

import aiohttp
import anyio
import msgspec
from anyio.abc import ByteReceiveStream

from multikueue.api.values.foreign import excerpt
from multikueue.errors import ConfigurationError

__all__ = [
    "AuthProvider",
    "ExecPlugin",
    "FileToken",
    "FixedToken",
    "Grant",
    "TokenSource",
    "plugin_environment",
    "spare_models",
]

ROOT = "kubernetes_asyncio"
CLIENT = f"{ROOT}.client"


class ApiClient:
    """Stands for the library's client, which we never use, in the annotations of its configuration."""


def spare_models() -> None:
    """Let later imports of `kubernetes_asyncio.config` and `.client.Configuration` load these and no more.

    The package kubernetes_asyncio imports the classes of the whole Kubernetes API together with the few functions we use:
    64 MiB and seconds of start-up for nothing. So its two packages enter `sys.modules` with their paths, but their
    `__init__` does not run; modules below them then load with only their own imports. A process that imported the library
    before has it whole.
    """
    if ROOT in sys.modules:
        return
    root = _bare_package(ROOT, None)
    client = _bare_package(CLIENT, list(root.__path__)) if root else None
    if client is None:
        sys.modules.pop(ROOT, None)  # an unknown layout of the library: it loads whole
        return
    client.Configuration = import_module(f"{CLIENT}.configuration").Configuration  # type: ignore[attr-defined]
    client.ApiClient = ApiClient  # type: ignore[attr-defined]


def _bare_package(name: str, path: list[str] | None) -> ModuleType | None:
    """A package in `sys.modules` with its path, whose `__init__` did not run."""
    spec = PathFinder.find_spec(name, path)
    if spec is None or spec.submodule_search_locations is None:
        return None
    module = module_from_spec(spec)
    sys.modules[name] = module
    return module


FILE_LIFETIME = timedelta(minutes=1)
"""Until a token file is read again: the kubelet renews the token minutes before it expires."""

FETCH_TIMEOUT = timedelta(seconds=30)
"""Timeout of a plugin or provider."""

_SHORTEST_LIFETIME = timedelta(seconds=5)

_LONGEST_OUTPUT = 2**20
"""Bytes kept of a plugin's output: credentials have a few thousand."""

_HARMLESS = (
    *("PATH", "HOME", "USER", "LANG", "TZ", "TMPDIR", "SSL_CERT_FILE", "SSL_CERT_DIR"),
    *("KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"),
    *("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy"),
)


@dataclass(frozen=True, slots=True)
class Grant:
    """Credentials for the server, and their lifetime in seconds.

    `authorization` is the whole header value, empty for none. `certificate` and `key` are PEM, from a plugin that
    answers with a client certificate. Grants with the same credentials are equal, whatever their lifetimes.
    """

    authorization: str = field(default="", repr=False)
    certificate: bytes = field(default=b"", repr=False)
    key: bytes = field(default=b"", repr=False)
    lifetime: float = field(default=math.inf, compare=False)


def plugin_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment variables that a worker's plugin inherits: those that programs need, none of our settings."""
    return {name: environ[name] for name in _HARMLESS if name in environ}


TokenSource = Callable[[], Awaitable[Grant]]
"""Fetches a new grant. Raises ConfigurationError that names the problem of the source."""


@dataclass(frozen=True, slots=True)
class FixedToken:
    """A constant header value, empty for none."""

    authorization: str = field(default="", repr=False)

    async def __call__(self) -> Grant:
        return Grant(self.authorization)


class FileToken(msgspec.Struct, frozen=True):
    """A bearer token in a file that another process renews."""

    path: Path

    async def __call__(self) -> Grant:
        try:
            token = (await anyio.Path(self.path).read_text()).strip()
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigurationError(f"token file {self.path}: {error}") from error
        if not token:
            raise ConfigurationError(f"token file {self.path} is empty")
        return Grant(f"Bearer {token}", lifetime=FILE_LIFETIME.total_seconds())


class _ExecStatus(msgspec.Struct, gc=False, rename="camel"):
    token: str = ""
    client_certificate_data: str = ""
    client_key_data: str = ""
    expiration_timestamp: Annotated[datetime, msgspec.Meta(tz=True)] | None = None


class _ExecCredential(msgspec.Struct, gc=False, rename="camel"):
    api_version: str
    kind: str
    status: _ExecStatus


_decode_credential = msgspec.json.Decoder(_ExecCredential).decode


def _utc_now() -> datetime:
    # Real credentials expire by the real clock, also in a simulation.
    return datetime.now(UTC)  # noqa: TID251


@dataclass(frozen=True, slots=True)
class ExecPlugin:
    """A credential plugin: a command that prints an ExecCredential.

    `config` is the user's `exec` entry. `cluster` is passed to a plugin with `provideClusterInfo`. A relative command
    with a slash is resolved against `directory`. The plugin gets `environment` (all of ours, if None) and the variables
    of `config`.
    """

    config: Mapping[str, Any] = field(repr=False)
    cluster: Mapping[str, Any] = field(default_factory=dict, repr=False)
    directory: Path | None = None
    environment: Mapping[str, str] | None = field(default=None, repr=False)
    timeout: float = FETCH_TIMEOUT.total_seconds()
    now: Callable[[], datetime] = _utc_now
    jitter: Callable[[], float] = random.random

    async def __call__(self) -> Grant:
        args, env = self._command()
        try:
            with anyio.fail_after(self.timeout):
                code, stdout, stderr = await _run(args, env)
        except TimeoutError:
            raise ConfigurationError(f"exec plugin {args[0]} gave no answer within {self.timeout:g} s") from None
        except OSError as error:
            raise ConfigurationError(f"exec plugin {args[0]} cannot be run: {error}") from error
        if code != 0:
            said = stderr.decode(errors="replace").strip()[-300:]
            raise ConfigurationError(f"exec plugin {args[0]} ended with {code}: {said}")
        return self._grant(args[0], stdout)

    def _command(self) -> tuple[list[str], dict[str, str]]:
        spare_models()
        from kubernetes_asyncio.config import ConfigException
        from kubernetes_asyncio.config.exec_provider import ExecProvider
        from kubernetes_asyncio.config.kube_config import ConfigNode

        try:
            plugin = ExecProvider(ConfigNode("exec", dict(self.config)))
        except (ConfigException, AttributeError, KeyError, TypeError) as error:
            raise ConfigurationError(f"exec plugin: {error}") from error
        spec: dict[str, Any] = {"interactive": False}
        if self.config.get("provideClusterInfo"):
            spec["cluster"] = dict(self.cluster)
        info = {"apiVersion": plugin.api_version, "kind": "ExecCredential", "spec": spec}
        command, *rest = (str(arg) for arg in plugin.args)
        if self.directory is not None and "/" in command:
            command = str(self.directory / command)
        return [command, *rest], {**self._environment(plugin.env), "KUBERNETES_EXEC_INFO": json.dumps(info)}

    def _environment(self, whole: Mapping[str, str]) -> Mapping[str, str]:
        """`whole` is our whole environment with the plugin's own variables on top, as the library builds it."""
        if self.environment is None:
            return whole
        own = {str(each["name"]) for each in self.config.get("env") or ()}
        return {**self.environment, **{name: value for name, value in whole.items() if name in own}}

    def _grant(self, command: str, stdout: bytes) -> Grant:
        try:
            answer = _decode_credential(stdout)
        except msgspec.DecodeError as error:
            raise ConfigurationError(f"exec plugin {command}: its output is no ExecCredential: {error}") from None
        wanted, status = self.config["apiVersion"], answer.status
        if answer.api_version != wanted:
            raise ConfigurationError(f"exec plugin {command}: answered {answer.api_version}, expected {wanted}")
        if not status.token and not (status.client_certificate_data and status.client_key_data):
            raise ConfigurationError(f"exec plugin {command}: gave neither a token nor a certificate with its key")
        return Grant(
            f"Bearer {status.token}" if status.token else "",
            status.client_certificate_data.encode(),
            status.client_key_data.encode(),
            self._lifetime(status.expiration_timestamp),
        )

    def _lifetime(self, expiry: datetime | None) -> float:
        """Seconds until renewal: well before the expiry, with jitter so that clusters do not renew all at once."""
        if expiry is None:
            return math.inf
        left = (expiry - self.now()).total_seconds()
        return max(_SHORTEST_LIFETIME.total_seconds(), left * (0.75 + 0.15 * self.jitter()))


async def _run(args: list[str], env: Mapping[str, str]) -> tuple[int, bytes, bytes]:
    """Exit code, stdout and stderr of a program. On cancellation the program and its children are killed.

    The program has no input and its own session: it cannot read from our terminal, nor get the terminal's signals.
    """
    # Shielded: cancellation in the middle of the start would kill the program without its children.
    with anyio.CancelScope(shield=True):
        process = await anyio.open_process(args, stdin=DEVNULL, env=env, start_new_session=True)
    async with process:
        try:
            # Both pipes concurrently: a program that fills one while we read the other would block forever.
            async with anyio.create_task_group() as tasks:
                stdout, stderr = bytearray(), bytearray()
                tasks.start_soon(_read, process.stdout, stdout)
                tasks.start_soon(_read, process.stderr, stderr)
            return await process.wait(), bytes(stdout), bytes(stderr)
        except BaseException:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            raise


async def _read(pipe: ByteReceiveStream | None, into: bytearray) -> None:
    assert pipe is not None
    async for chunk in pipe:
        into += chunk[: _LONGEST_OUTPUT - len(into)]


@dataclass(frozen=True, slots=True)
class AuthProvider:
    """A kubeconfig's `auth-provider` (OIDC, gcp), which kubernetes_asyncio queries and renews.

    `tree` is a kubeconfig with one context and no certificates. The library keeps renewed tokens in it.
    """

    tree: dict[str, Any] = field(repr=False)
    timeout: float = FETCH_TIMEOUT.total_seconds()

    async def __call__(self) -> Grant:
        spare_models()
        from kubernetes_asyncio.client import Configuration
        from kubernetes_asyncio.config import ConfigException, load_kube_config_from_dict

        configuration = Configuration()
        try:
            with anyio.fail_after(self.timeout):
                await load_kube_config_from_dict(self.tree, client_configuration=configuration)
        except (ConfigException, LookupError, ValueError, TypeError, AssertionError) as error:
            raise ConfigurationError(f"auth provider: {type(error).__name__}: {excerpt(str(error))}") from error
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise ConfigurationError(
                f"auth provider gave no answer: {type(error).__name__} {excerpt(str(error))}"
            ) from error
        return Grant(configuration.api_key.get("BearerToken", ""), lifetime=FILE_LIFETIME.total_seconds())
