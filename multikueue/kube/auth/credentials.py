"""Address and credentials of one cluster, from a kubeconfig or from the service account of our pod.

kubernetes_asyncio handles only plugins and providers (`tokens`), and is loaded only for them.
"""

from __future__ import annotations

import base64
import binascii
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import anyio.to_thread
import msgspec
from yarl import URL

from multikueue.errors import ConfigurationError
from multikueue.kube.auth.kubeconfig import Kubeconfig, KubeconfigCluster, KubeconfigUser, parse
from multikueue.kube.auth.tokens import AuthProvider, ExecPlugin, FileToken, FixedToken, TokenSource

_Entry = TypeVar("_Entry")

__all__ = ["Credentials", "contexts", "from_environment", "from_kubeconfig"]

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
DEFAULT_NAMESPACE = "default"
EXEC_EXTENSION = "client.authentication.k8s.io/exec"


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """One cluster's address and our identity there.

    `server` is an http(s) URL, possibly with a path, without a slash at its end; `authority`, `certificate` and `key`
    are PEM; `tls_server_name` is the name in the server's certificate, if not the host; `proxy` is an http(s) URL
    without user and password, which are in `proxy_authorization` as a header value. `strict=False` accepts certificates
    that break RFC 5280. `source` names the origin in messages; `namespace` is the default for commands.
    """

    server: str
    authority: bytes = field(default=b"", repr=False)
    certificate: bytes = field(default=b"", repr=False)
    key: bytes = field(default=b"", repr=False)
    should_verify: bool = True
    is_strict: bool = True
    tls_server_name: str = ""
    proxy: str = ""
    proxy_authorization: str = field(default="", repr=False)
    token: TokenSource = field(default_factory=FixedToken, repr=False)
    source: str = ""
    namespace: str = field(default=DEFAULT_NAMESPACE, compare=False)


class _Choice(msgspec.Struct, frozen=True):
    """The cluster and user of one context, with the directories that their relative paths start from."""

    where: str
    cluster: KubeconfigCluster
    cluster_directory: Path | None
    user: KubeconfigUser
    user_directory: Path | None
    namespace: str


class _File(msgspec.Struct, frozen=True):
    where: str
    directory: Path | None
    content: Kubeconfig


async def from_kubeconfig(
    source: bytes | Mapping[str, Any] | Path,
    context: str | None = None,
    *,
    where: str = "kubeconfig",
    environment: Mapping[str, str] | None = None,
) -> Credentials:
    """The credentials of one context (the current one by default) of a kubeconfig given as text, tree or file.

    `where` names text and trees in messages; `environment` is passed to plugins in place of our whole environment.
    Raises ConfigurationError that names file, context and field.
    """
    choice = await anyio.to_thread.run_sync(_choose_from, source, context, where)
    return await _credentials(choice, environment)


async def from_environment(
    kubeconfig: Path | None = None, context: str | None = None, *, environ: Mapping[str, str] | None = None
) -> Credentials:
    """The credentials kubectl would use: the file given, else KUBECONFIG's files merged, else ~/.kube/config.

    Without any of these: the service account of our pod. Raises ConfigurationError.
    """
    environ = os.environ if environ is None else environ
    choice = await anyio.to_thread.run_sync(_choose_from_environment, kubeconfig, context, environ)
    if choice is not None:
        return await _credentials(choice)
    return await anyio.to_thread.run_sync(_in_cluster, environ)


async def contexts(kubeconfig: Path | None = None, *, environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """The contexts for `from_environment` by their names, each with the URL of its cluster, empty if there is none. Nothing
    without a kubeconfig. Raises ConfigurationError."""
    files = await anyio.to_thread.run_sync(_files, kubeconfig, os.environ if environ is None else environ)
    servers, found = dict[str, str](), dict[str, str]()
    for name, cluster in (entry for file in files for entry in file.content.each_cluster()):
        servers.setdefault(name, cluster.server or "")
    for name, context in (entry for file in files for entry in file.content.each_context()):
        found.setdefault(name, servers.get(context.cluster or "", ""))
    return found


def _choose_from(source: bytes | Mapping[str, Any] | Path, context: str | None, where: str) -> _Choice:
    file = _read(source) if isinstance(source, Path) else _parsed(where, None, source)
    return _choose([file], context)


def _choose_from_environment(
    kubeconfig: Path | None, context: str | None, environ: Mapping[str, str]
) -> _Choice | None:
    files = _files(kubeconfig, environ)
    if files:
        return _choose(files, context)
    if context is not None:
        raise ConfigurationError(f"context {context!r}: there is no kubeconfig to look for it in")
    return None


def _files(kubeconfig: Path | None, environ: Mapping[str, str]) -> list[_File]:
    if kubeconfig is not None:
        return [_read(kubeconfig)]
    named = [Path(path).expanduser() for path in environ.get("KUBECONFIG", "").split(os.pathsep) if path]
    paths = [path for path in named or [_home(environ) / ".kube" / "config"] if path.is_file()]
    if named and not paths:
        raise ConfigurationError(f"KUBECONFIG: none of these files exists: {', '.join(map(str, named))}")
    return [_read(path) for path in paths]


def _home(environ: Mapping[str, str]) -> Path:
    return Path(environ["HOME"]) if environ.get("HOME") else Path.home()


def _read(path: Path) -> _File:
    try:
        return _parsed(str(path), path.absolute().parent, path.read_bytes())
    except OSError as error:
        raise ConfigurationError(f"{path}: cannot be read: {error.strerror}") from error


def _parsed(where: str, directory: Path | None, data: bytes | Mapping[str, Any]) -> _File:
    try:
        return _File(where, directory, parse(data))
    except ConfigurationError as error:
        raise ConfigurationError(f"{where}: {error}") from None


def _choose(files: list[_File], context: str | None) -> _Choice:
    """Merge as kubectl does: the first entry of a name counts, and the first current context.

    (The library takes the last current context, and its errors show whole entries, tokens included.)
    """
    where = os.pathsep.join(file.where for file in files)
    name = context or next((file.content.current_context for file in files if file.content.current_context), None)
    if not name:
        raise ConfigurationError(f"{where}: current-context: expected the name of a context, got nothing")
    found = _first(files, Kubeconfig.each_context, name)
    if found is None:
        known = ", ".join(known for file in files for known, _ in file.content.each_context())
        raise ConfigurationError(f"{where}: there is no context {name!r}; there are: {known or 'none'}")
    where = f"{where}: context {name!r}"
    cluster, user = found[1].cluster, found[1].user
    cluster_entry = _first(files, Kubeconfig.each_cluster, cluster)
    if cluster_entry is None:
        raise ConfigurationError(f"{where}: cluster: there is no cluster {cluster!r}")
    user_entry = _first(files, Kubeconfig.each_user, user) if user else (None, KubeconfigUser())
    if user_entry is None:
        raise ConfigurationError(f"{where}: user: there is no user {user!r}")
    namespace = found[1].namespace or DEFAULT_NAMESPACE
    return _Choice(where, cluster_entry[1], cluster_entry[0], user_entry[1], user_entry[0], namespace)


def _first(
    files: list[_File], entries: Callable[[Kubeconfig], Iterable[tuple[str, _Entry]]], name: str | None
) -> tuple[Path | None, _Entry] | None:
    matches = ((file.directory, entry) for file in files for known, entry in entries(file.content) if known == name)
    return next(matches, None)


async def _credentials(choice: _Choice, environment: Mapping[str, str] | None = None) -> Credentials:
    try:
        _check(choice)
        authority, certificate, key = await anyio.to_thread.run_sync(_certificates, choice)
        proxy, proxy_authorization = _proxy(choice.cluster.proxy_url or "")
        return Credentials(
            server=(choice.cluster.server or "").rstrip("/"),
            should_verify=not choice.cluster.insecure_skip_tls_verify,
            tls_server_name=choice.cluster.tls_server_name or "",
            proxy=proxy,
            proxy_authorization=proxy_authorization,
            token=_token(choice, environment),
            source=choice.where,
            namespace=choice.namespace,
            authority=authority,
            certificate=certificate,
            key=key,
        )
    except ConfigurationError as error:
        raise ConfigurationError(f"{choice.where}: {error}") from error


def _check(choice: _Choice) -> None:
    """Refuse fields that would be misread or silently ignored. Raises ConfigurationError."""
    _check_server(choice.cluster.server or "")
    _proxy(choice.cluster.proxy_url or "")
    user = choice.user
    if user.as_user or user.as_uid or user.as_groups or user.as_user_extra:
        raise ConfigurationError("as: impersonation is not supported, use credentials of that user")


def _check_server(server: str) -> None:
    try:
        url = URL(server)
    except ValueError:
        url = URL()
    if url.scheme not in ("http", "https") or not url.host:
        raise ConfigurationError("server: expected an http:// or https:// URL")
    if url.user or url.password or url.query_string or url.fragment:
        raise ConfigurationError("server: expected a URL without user, query and fragment")


def _proxy(address: str) -> tuple[str, str]:
    """The URL of a proxy without user and password, so that no error can show them, and both as a header value."""
    if not address:
        return "", ""
    try:
        url = URL(address)
    except ValueError:
        url = URL()
    if url.scheme not in ("http", "https") or not url.host:
        raise ConfigurationError("proxy-url: expected an http:// or https:// URL")
    if url.user is None and url.password is None:
        return address, ""
    return str(url.with_user(None)), _basic(url.user or "", url.password or "")


def _address(cluster: KubeconfigCluster) -> KubeconfigCluster:
    return KubeconfigCluster(
        server=cluster.server,
        insecure_skip_tls_verify=cluster.insecure_skip_tls_verify,
        tls_server_name=cluster.tls_server_name or None,
        proxy_url=cluster.proxy_url or None,
    )


def _fixed_identity(user: KubeconfigUser) -> str:
    """The Authorization header of a token or password in the kubeconfig; empty without one."""
    if user.token:
        return f"Bearer {user.token}"
    if user.username and user.password:
        return _basic(user.username, user.password)
    return ""


def _basic(name: str, password: str) -> str:
    return f"Basic {base64.b64encode(f'{name}:{password}'.encode()).decode()}"


def _tree(cluster: KubeconfigCluster, user: KubeconfigUser) -> dict[str, Any]:
    """A kubeconfig of one context, as the library expects it."""
    return {
        "current-context": "chosen",
        "contexts": [{"name": "chosen", "context": {"cluster": "chosen", "user": "chosen"}}],
        "clusters": [{"name": "chosen", "cluster": msgspec.to_builtins(cluster)}],
        "users": [{"name": "chosen", "user": msgspec.to_builtins(user)}],
    }


def _token(choice: _Choice, environment: Mapping[str, str] | None) -> TokenSource:
    user = choice.user
    if user.auth_provider is not None:
        return AuthProvider(_tree(_address(choice.cluster), KubeconfigUser(auth_provider=user.auth_provider)))
    if user.exec is not None:
        return ExecPlugin(
            user.exec, cluster=_cluster_info(choice), directory=choice.user_directory, environment=environment
        )
    if user.token_file:
        return FileToken((choice.user_directory or Path()) / user.token_file)
    return FixedToken(_fixed_identity(user))


def _cluster_info(choice: _Choice) -> dict[str, Any]:
    """The cluster for a plugin with `provideClusterInfo` (client.authentication.k8s.io/v1, Cluster)."""
    extensions = {entry.get("name"): entry.get("extension") for entry in choice.cluster.extensions or ()}
    told = {
        "server": choice.cluster.server,
        "tls-server-name": choice.cluster.tls_server_name,
        "insecure-skip-tls-verify": choice.cluster.insecure_skip_tls_verify,
        "certificate-authority-data": choice.cluster.certificate_authority_data,
        "proxy-url": choice.cluster.proxy_url,
        "config": extensions.get(EXEC_EXTENSION),
    }
    return {name: value for name, value in told.items() if value is not None}


def _certificates(choice: _Choice) -> tuple[bytes, bytes, bytes]:
    """The authority's certificates, our certificate and our key, as PEM."""
    cluster, user = choice.cluster, choice.user
    authority = (cluster.certificate_authority, cluster.certificate_authority_data)
    return (
        _pem("certificate-authority", *authority, directory=choice.cluster_directory),
        _pem(
            "client-certificate",
            user.client_certificate,
            user.client_certificate_data,
            directory=choice.user_directory,
        ),
        _pem("client-key", user.client_key, user.client_key_data, directory=choice.user_directory),
    )


def _pem(name: str, file: str | None, inline: str | None, *, directory: Path | None) -> bytes:
    """The bytes of `NAME-data`, or else of the file `NAME`; empty without both."""
    try:
        if inline is None:
            return b"" if file is None else ((directory or Path()) / file).read_text().encode()
        return base64.b64decode("".join(inline.split()), validate=True)
    except OSError as error:
        raise ConfigurationError(f"{name}: {error.filename} cannot be read: {error.strerror}") from error
    except (binascii.Error, ValueError):
        raise ConfigurationError(f"{name}: expected PEM, in base64 if it is {name}-data") from None


def _in_cluster(environ: Mapping[str, str]) -> Credentials:
    token, authority = SERVICE_ACCOUNT / "token", SERVICE_ACCOUNT / "ca.crt"
    try:
        host, port = (environ.get(f"KUBERNETES_SERVICE_{part}", "") for part in ("HOST", "PORT"))
        if not host or not port:
            raise LookupError("Service host/port is not set.")
        for file in (token, authority):
            if not file.read_bytes():
                raise LookupError(f"{file} is empty")
    except (LookupError, OSError) as error:
        raise ConfigurationError(
            f"no cluster to talk to: no kubeconfig was given or found, and this is no pod of a cluster ({error})"
        ) from error
    return Credentials(
        server=f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}",
        authority=authority.read_bytes(),
        token=FileToken(token),
        source="service account",
        namespace=_namespace_of_pod(),
    )


def _namespace_of_pod() -> str:
    """The pod's namespace. A projected service account volume may lack it."""
    try:
        return (SERVICE_ACCOUNT / "namespace").read_text().strip() or DEFAULT_NAMESPACE
    except OSError:
        return DEFAULT_NAMESPACE
