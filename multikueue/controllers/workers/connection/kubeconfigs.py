"""The source that a MultiKueueCluster names, to the kubeconfig and its credentials (contract 2.1, 2.2).

A source is a Secret, a file, or a ClusterProfile together with a command of our own settings. The *text* of a source is
checked here, and refused with the reasons of contract 1.2; the connection finds out whether it *works*.
"""

from __future__ import annotations

import base64
import binascii
import fcntl
import os
import stat
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path, PurePath
from typing import Any

import anyio
import anyio.to_thread

from multikueue.api.kinds import CLUSTER_PROFILES
from multikueue.api.kueue.compatibility import Compatibility
from multikueue.api.meta import ObjectKey, encode
from multikueue.api.multikueue.clusters import KUBECONFIG_KEY, ClusterProfile, KubeConfigSource, MultiKueueCluster
from multikueue.errors import ConfigurationError, MultiKueueError
from multikueue.kube.auth.credentials import Credentials, from_kubeconfig
from multikueue.kube.auth.identity import Identity
from multikueue.kube.auth.kubeconfig import (
    LARGEST,
    InsecureKubeconfig,
    check_access_provider,
    check_readable,
    check_worker_kubeconfig,
)
from multikueue.kube.auth.tokens import plugin_environment
from multikueue.kube.cluster_client import WatchingClient
from multikueue.kube.reflector import Reflector
from multikueue.settings import AccessProvider, Dispatch, ExecCommand, InForce
from multikueue.store.store import Store
from multikueue.telemetry import get_logger

__all__ = ["NOT_LOADED", "Access", "Kubeconfigs", "RefusedError"]

log = get_logger()

NOT_LOADED = "load client config failed: "

PROFILES_DISABLED = "MultiKueueClusterProfileFeatureDisabled"

FILE_TIMEOUT = timedelta(seconds=5)
"""How long reading a file may take."""

FIRST_LOOK = timedelta(seconds=5)
"""How long to wait for the first list of ClusterProfiles before a profile counts as missing."""


class RefusedError(MultiKueueError):
    """No connection is possible. Has the reason and message of the Active condition."""

    def __init__(self, reason: str, problem: object) -> None:
        super().__init__(f"{NOT_LOADED}{problem}")
        self.reason, self.message = reason, str(self)


@dataclass(frozen=True, slots=True)
class Access:
    """A kubeconfig, and the cluster's address and our credentials according to it."""

    kubeconfig: bytes = field(repr=False)
    credentials: Credentials


@dataclass(slots=True)
class Kubeconfigs:
    """Reads sources. Owner of the watch of ClusterProfiles, which begins once one is named."""

    store: Store
    in_force: InForce
    namespace: str
    _profile_named: anyio.Event = field(default_factory=anyio.Event)
    _profiles_seen: anyio.Event = field(default_factory=anyio.Event)
    _profiles_trouble: str = ""

    @property
    def settings(self) -> Dispatch:
        return self.in_force.dispatch

    @property
    def compatibility(self) -> Compatibility:
        return Compatibility.of(self.in_force.quota.compatibility)

    async def watch(self, client: WatchingClient) -> None:
        """Keeps `store.profiles` current, forever. The manager cluster may lack the kind, and get it later."""
        await self._profile_named.wait()
        sink, namespace = self.store.profiles, self.namespace
        await Reflector(client, CLUSTER_PROFILES, sink, namespace=namespace, on_state=self._profiles_state).run()

    async def read(self, cluster: MultiKueueCluster) -> bytes:
        """The current kubeconfig, unchecked. Raises RefusedError if there is none."""
        source = cluster.spec.cluster_source
        if source.cluster_profile_ref is not None:
            return await self._from_profile(source.cluster_profile_ref.name)
        if source.kube_config is None:
            raise RefusedError(
                "BadKubeConfig", "spec.clusterSource: expected kubeConfig or clusterProfileRef, got none"
            )
        return await self._from_kubeconfig(source.kube_config)

    async def access(self, cluster: MultiKueueCluster, kubeconfig: bytes) -> Access:
        """Checks and loads a kubeconfig from `read`. Raises RefusedError if it breaks a rule or cannot work."""
        of_profile = cluster.spec.cluster_source.cluster_profile_ref is not None
        check = check_access_provider if of_profile else self._check
        broken, unusable = ("BadRestConfig",) * 2 if of_profile else ("InsecureKubeConfig", "BadKubeConfig")
        try:
            await anyio.to_thread.run_sync(check, kubeconfig)
        except InsecureKubeconfig as error:
            raise RefusedError(broken, error) from error
        name = cluster.metadata.name
        try:
            credentials = await from_kubeconfig(
                kubeconfig, where=f"kubeconfig of cluster {name}", environment=plugin_environment(os.environ)
            )
            await Identity.of(credentials, cluster=name)
        except ConfigurationError as error:
            raise RefusedError(unusable, error) from error
        return Access(kubeconfig, credentials)

    @property
    def _check(self) -> Callable[[bytes], None]:
        return check_readable if self.settings.insecure_kubeconfigs else check_worker_kubeconfig

    async def _from_kubeconfig(self, source: KubeConfigSource) -> bytes:
        if source.location_type != "Path":
            return self._from_secret(source.location)
        directory = self.settings.kubeconfig_directory
        # A file system may never answer; then its thread is abandoned.
        with anyio.move_on_after(FILE_TIMEOUT.total_seconds()):
            return await anyio.to_thread.run_sync(_from_file, source.location, directory, abandon_on_cancel=True)
        raise RefusedError("BadKubeConfig", f"{source.location}: its file system does not answer")

    def _from_secret(self, name: str) -> bytes:
        secret = self.store.secrets.get(ObjectKey(self.namespace, name))
        if secret is None:
            raise RefusedError("BadKubeConfig", f'Secret "{name}" not found')
        text = secret.data.get(KUBECONFIG_KEY)
        if text is None:
            raise RefusedError("BadKubeConfig", f'key "{KUBECONFIG_KEY}" not found in secret "{name}"')
        try:
            return base64.b64decode(text, validate=True)
        except (binascii.Error, ValueError) as error:
            raise RefusedError("BadKubeConfig", f'secret "{name}": {error}') from error

    async def _from_profile(self, name: str) -> bytes:
        """A kubeconfig of the cluster in the profile and the command that makes credentials for it."""
        if not self.settings.cluster_profile.enabled:
            raise RefusedError(PROFILES_DISABLED, "MultiKueueClusterProfile feature gate is disabled")
        providers = self.settings.cluster_profile.access_providers
        self._profile_named.set()
        with anyio.move_on_after(FIRST_LOOK.total_seconds()):
            await self._profiles_seen.wait()
        profile = self.store.profiles.get(ObjectKey(self.namespace, name))
        if not providers and (profile is not None or self._profiles_trouble):
            kind = "access" if self.compatibility.has_access_providers else "credentials"
            raise RefusedError("BadClusterProfile", f"no {kind} provider configured")
        if profile is None:
            why = f" ({self._profiles_trouble})" if self._profiles_trouble else ""
            raise RefusedError("BadClusterProfile", f'ClusterProfile.multicluster.x-k8s.io "{name}" not found{why}')
        return _of_profile(profile, providers)

    def _profiles_state(self, is_healthy: bool, why: str) -> None:
        if why != self._profiles_trouble:
            log.info("watch.stands" if is_healthy else "watch.broken", kind=CLUSTER_PROFILES.plural, why=why)
            self._profiles_trouble = why
            self._look_at_profiles()  # what was refused says why
        self._profiles_seen.set()

    def _look_at_profiles(self) -> None:
        for cluster in self.store.clusters:
            if cluster.spec.cluster_source.cluster_profile_ref is not None:
                self.store.look_at("clusters", cluster.metadata.name)


NOT_ALLOWED = "kubeconfig path is not under the allowed prefix"


def _from_file(location: str, directory: Path | None) -> bytes:
    """Reads a file by contract 2.1: an absolute path without `..`, with all links followed below `directory` (if any). A path
    that is refused is reported in Kueue's words, so that a search for its message finds it."""
    path = PurePath(location)
    for is_wrong, why in (
        (not location, "kubeconfig path must not be empty"),
        (".." in path.parts, f'{NOT_ALLOWED}: path contains ".."'),
        (not path.is_absolute(), f"{NOT_ALLOWED}: path must be absolute"),
    ):
        if is_wrong:
            raise RefusedError("BadKubeConfig", why)
    try:
        # The open file is checked, not the path: a link that is exchanged meanwhile has no effect. Non-blocking,
        # because opening a pipe would wait for its writer.
        with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
            place, allowed = _place(file.fileno()), directory.resolve() if directory is not None else None
            if allowed is not None and not place.is_relative_to(allowed):
                raise RefusedError("BadKubeConfig", f'{NOT_ALLOWED}: "{place}" is not under "{allowed}"')
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise RefusedError("BadKubeConfig", f"{location}: expected a file")
            data = file.read(LARGEST + 1)
    except IsADirectoryError as error:
        raise RefusedError("BadKubeConfig", f"{location}: expected a file") from error
    except OSError as error:
        # In Go's words, so that a search for Kueue's message finds it.
        raise RefusedError("BadKubeConfig", f"open {location}: {(error.strerror or str(error)).lower()}") from error
    except (ValueError, RuntimeError) as error:
        raise RefusedError("BadKubeConfig", f"{location}: {error}") from error
    if len(data) > LARGEST:
        raise RefusedError("BadKubeConfig", f"{location}: expected at most {LARGEST} bytes")
    return data


def _place(file: int) -> Path:
    """The path of an open file, without links."""
    if sys.platform == "darwin":
        return Path(os.fsdecode(fcntl.fcntl(file, fcntl.F_GETPATH, bytes(1024)).rstrip(b"\0")))
    return Path(os.readlink(f"/proc/self/fd/{file}"))


def _of_profile(profile: ClusterProfile, configured: tuple[AccessProvider, ...]) -> bytes:
    """Uses the first configured provider that the profile has too, as the library of the cluster inventory does."""
    offered = {provider.name: provider for provider in reversed(profile.providers)}
    for provider in configured:
        if provider.name in offered:
            return _kubeconfig(provider.name, offered[provider.name].cluster, provider.exec)
    raise RefusedError(
        "BadClusterProfile",
        f'no access provider of ClusterProfile "{profile.metadata.name}" is configured: it has '
        f"[{' '.join(sorted(offered))}], configured are [{' '.join(provider.name for provider in configured)}]",
    )


def _kubeconfig(name: str, cluster: object, command: ExecCommand) -> bytes:
    plugin: Mapping[str, Any] = {
        "apiVersion": command.api_version,
        "command": command.command,
        "args": list(command.args),
        "env": [{"name": each.name, "value": each.value} for each in command.env],
        "interactiveMode": "Never",
        "provideClusterInfo": command.provide_cluster_info,
    }
    return encode(
        {
            "current-context": name,
            "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
            "clusters": [{"name": name, "cluster": cluster}],
            "users": [{"name": name, "user": {"exec": plugin}}],
        }
    )
