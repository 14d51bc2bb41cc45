"""The kubeconfig file as typed values, and the security rules for a worker's kubeconfig.

Write access to a kubeconfig Secret must not give access to our files, our process or another user's connection. So each
field that makes us read a file, start a program or trust an unverified peer is refused (contract 2.2), and some more.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Mapping
from ipaddress import ip_address
from typing import Any, TypeVar

import msgspec
import yaml
from yarl import URL

from multikueue.errors import ConfigurationError

__all__ = [
    "LARGEST",
    "Context",
    "InsecureKubeconfig",
    "Kubeconfig",
    "KubeconfigCluster",
    "KubeconfigUser",
    "check_access_provider",
    "check_readable",
    "check_worker_kubeconfig",
    "parse",
]


LARGEST = 2**18
"""Maximum size of a worker's kubeconfig in bytes, with YAML aliases expanded: an alias is copied wherever it stands.
Certificates and a token have a few thousand bytes."""

_DEEPEST = 50
_OVERHEAD = 16
"""Bytes counted for each value in addition to its text."""


class InsecureKubeconfig(ConfigurationError):  # the rule that was broken, as in errors.py
    """A worker's kubeconfig breaks a security rule. The condition of the cluster shows the message."""


class _Part(msgspec.Struct, rename="kebab", omit_defaults=True):
    """Base of all parts: unknown fields are ignored, null means absent."""


class KubeconfigCluster(_Part):
    server: str | None = None
    certificate_authority: str | None = None
    certificate_authority_data: str | None = None
    insecure_skip_tls_verify: bool | None = None
    tls_server_name: str | None = None
    proxy_url: str | None = None
    extensions: list[dict[str, Any]] | None = None


class KubeconfigUser(_Part):
    token: str | None = None
    token_file: str | None = msgspec.field(name="tokenFile", default=None)
    client_certificate: str | None = None
    client_certificate_data: str | None = None
    client_key: str | None = None
    client_key_data: str | None = None
    username: str | None = None
    password: str | None = None
    exec: dict[str, Any] | None = None
    auth_provider: dict[str, Any] | None = None
    as_user: str | None = msgspec.field(name="as", default=None)
    as_uid: str | None = None
    as_groups: list[str] | None = None
    as_user_extra: dict[str, list[str]] | None = None


class Context(_Part):
    cluster: str | None = None
    user: str | None = None
    namespace: str | None = None


class NamedCluster(_Part):
    name: str
    cluster: KubeconfigCluster | None = None


class NamedUser(_Part):
    name: str
    user: KubeconfigUser | None = None


class NamedContext(_Part):
    name: str
    context: Context | None = None


class Kubeconfig(_Part):
    """One kubeconfig file. Of several entries with one name the first counts, as in kubectl."""

    clusters: list[NamedCluster] | None = None
    users: list[NamedUser] | None = None
    contexts: list[NamedContext] | None = None
    current_context: str | None = None

    def each_cluster(self) -> list[tuple[str, KubeconfigCluster]]:
        return [(entry.name, entry.cluster or KubeconfigCluster()) for entry in self.clusters or ()]

    def each_user(self) -> list[tuple[str, KubeconfigUser]]:
        return [(entry.name, entry.user or KubeconfigUser()) for entry in self.users or ()]

    def each_context(self) -> list[tuple[str, Context]]:
        return [(entry.name, entry.context or Context()) for entry in self.contexts or ()]


msgspec.json.Decoder(Kubeconfig)
"""msgspec analyses a type on first use, and two threads that do so at once crash the process (a segmentation fault).
A starting manager parses several kubeconfigs in threads, so the first use is at import."""


def parse(data: bytes | Mapping[str, Any], *, largest: int = sys.maxsize) -> Kubeconfig:
    """A kubeconfig from YAML or JSON text of at most `largest` bytes (see LARGEST), or from a tree of dicts.

    Raises ConfigurationError that starts with "failed to parse" and shows no value, since values may be secret.
    """
    try:
        tree = _tree(data, largest) if isinstance(data, bytes) else dict(data)
        return msgspec.convert({} if tree is None else tree, Kubeconfig)
    except yaml.MarkedYAMLError as error:
        where = f" in line {error.problem_mark.line + 1}" if error.problem_mark else ""
        raise ConfigurationError(f"failed to parse the kubeconfig: {error.problem}{where}") from None
    except msgspec.ValidationError as error:
        raise ConfigurationError(f"failed to parse the kubeconfig: {error}") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ConfigurationError(f"failed to parse the kubeconfig: {type(error).__name__}") from None


def _tree(data: bytes, largest: int) -> Any:
    if len(data) > largest:
        raise _too_large(largest)
    # JSON first: YAML forbids the tabs that JSON allows, and the JSON parser is far faster.
    if data.lstrip()[:1] == b"{":
        try:
            return msgspec.json.decode(data)
        except msgspec.DecodeError:
            pass
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    _check_shape(yaml.parse(data, Loader=loader), largest)
    return yaml.load(data, Loader=loader)  # noqa: S506  # it is one of the safe ones


def _check_shape(events: Iterable[Any], largest: int) -> None:
    """Check depth and size before the loader runs: libyaml's loader recurses without a limit, and deep nesting would
    crash the process. Raises ConfigurationError."""
    size = 0
    sizes: dict[str | None, int] = {}
    around: list[tuple[str | None, int]] = []
    for event in events:
        match event:
            case yaml.ScalarEvent():
                size += _OVERHEAD + len(event.value)
                sizes[event.anchor] = _OVERHEAD + len(event.value)
            case yaml.AliasEvent():
                size += sizes.get(event.anchor, 0)
            case yaml.CollectionStartEvent():
                around.append((event.anchor, size))
                size += _OVERHEAD
            case yaml.CollectionEndEvent():
                anchor, before = around.pop()
                sizes[anchor] = size - before
        if len(around) > _DEEPEST:
            raise ConfigurationError(f"failed to parse the kubeconfig: it is nested deeper than {_DEEPEST} levels")
        if size > largest:
            raise _too_large(largest)


def _too_large(largest: int) -> ConfigurationError:
    return ConfigurationError(
        f"failed to parse the kubeconfig: expected at most {largest // 1024} KiB, with aliases unfolded"
    )


def check_worker_kubeconfig(data: bytes) -> None:
    """Check a worker's kubeconfig against the security rules.

    The rules of contract 2.2 come first, in its order, over all clusters and users of the file; then ours. (The rule on
    the effective configuration's bearer token file needs no line of its own: only `tokenFile` can set it.)
    Raises InsecureKubeconfig with the message of the first rule broken.
    """
    _check(data, _exec_plugin)


def check_access_provider(data: bytes) -> None:
    """Check a kubeconfig built from a ClusterProfile by the rules of `check_worker_kubeconfig`, but allow exec.

    Its exec command comes from our own settings, not from the ClusterProfile."""
    _check(data, _allowed)


def check_readable(data: bytes) -> None:
    """Check a kubeconfig that need not be secure: that it can be read at all. Raises InsecureKubeconfig."""
    _read(data)


_Entry = TypeVar("_Entry")
_Rule = Callable[[str, _Entry], str]
"""Maps name and entry to the message of a violation; empty without one."""


def _check(data: bytes, exec_rule: _Rule[KubeconfigUser]) -> None:
    for problem in _problems(_read(data), exec_rule):
        raise InsecureKubeconfig(problem)


def _read(data: bytes) -> Kubeconfig:
    try:
        file = parse(data, largest=LARGEST)
    except ConfigurationError as error:
        raise InsecureKubeconfig(str(error)) from None
    if not file.clusters:
        raise InsecureKubeconfig("failed to parse the kubeconfig: it has no clusters")
    return file


def _problems(file: Kubeconfig, exec_rule: _Rule[KubeconfigUser]) -> Iterable[str]:
    clusters, users = file.each_cluster(), file.each_user()
    yield from _broken(users, _token_file)
    yield from _broken(clusters, _insecure_tls)
    yield from _broken(clusters, _authority_path)
    yield from _broken(clusters, _no_server)
    yield from _broken(clusters, _untrusted_endpoint)
    yield from _broken(users, _password)
    yield from _broken(clusters, _password_in_server)
    yield from _broken(users, exec_rule)
    yield from _broken(users, _auth_provider)
    yield from _broken(clusters, _plain_http)
    yield from _broken(users, _certificate_path)
    yield from _broken(users, _key_path)
    yield from _broken(clusters, _odd_proxy)
    yield from _broken(users, _impersonation)


def _broken(entries: Iterable[tuple[str, _Entry]], rule: _Rule[_Entry]) -> Iterable[str]:
    return filter(None, (rule(name, entry) for name, entry in entries))


def _token_file(_name: str, user: KubeconfigUser) -> str:
    return "tokenFile is not allowed" if user.token_file else ""


def _insecure_tls(name: str, cluster: KubeconfigCluster) -> str:
    unverified = cluster.insecure_skip_tls_verify
    return f"insecure TLS verification is not allowed for cluster {name}" if unverified else ""


def _authority_path(name: str, cluster: KubeconfigCluster) -> str:
    if not cluster.certificate_authority:
        return ""
    return f"certificate-authority file paths are not allowed, use certificate-authority-data for cluster {name}"


def _no_server(name: str, cluster: KubeconfigCluster) -> str:
    return "" if cluster.server else f"server URL is required for cluster {name}"


def _untrusted_endpoint(_name: str, cluster: KubeconfigCluster) -> str:
    return "" if _is_trusted_host(_url(cluster.server)) else "untrusted server endpoint"


def _password(_name: str, user: KubeconfigUser) -> str:
    return "basic auth is not allowed" if user.username or user.password else ""


def _password_in_server(_name: str, cluster: KubeconfigCluster) -> str:
    url = _url(cluster.server)
    return "basic auth is not allowed" if url is not None and (url.user or url.password) else ""


def _exec_plugin(_name: str, user: KubeconfigUser) -> str:
    return "" if user.exec is None else "exec plugins are not allowed"


def _auth_provider(_name: str, user: KubeconfigUser) -> str:
    return "" if user.auth_provider is None else "auth providers are not allowed"


def _plain_http(name: str, cluster: KubeconfigCluster) -> str:
    url = _url(cluster.server)
    return "" if url is not None and url.scheme == "https" else f"plain http is not allowed for cluster {name}"


def _certificate_path(name: str, user: KubeconfigUser) -> str:
    if not user.client_certificate:
        return ""
    return f"client-certificate file paths are not allowed, use client-certificate-data for user {name}"


def _key_path(name: str, user: KubeconfigUser) -> str:
    return f"client-key file paths are not allowed, use client-key-data for user {name}" if user.client_key else ""


def _odd_proxy(name: str, cluster: KubeconfigCluster) -> str:
    odd = cluster.proxy_url and not cluster.proxy_url.startswith(("http://", "https://"))
    return f"proxy-url must start with http:// or https:// for cluster {name}" if odd else ""


def _impersonation(name: str, user: KubeconfigUser) -> str:
    """A worker's credentials need no right to impersonate others."""
    others = user.as_user or user.as_uid or user.as_groups or user.as_user_extra
    return f"impersonation is not allowed, use credentials of the user itself for user {name}" if others else ""


def _allowed(_name: str, _entry: object) -> str:
    return ""


_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_VISIBLE = re.compile(r"[!-\[\]-~]+")
"""Printable ASCII without space and backslash: all URL parsers agree on these."""


def _url(server: str | None) -> URL | None:
    """The server URL, by the parser that aiohttp uses; None if it is no URL."""
    if not server or not _VISIBLE.fullmatch(server):
        return None
    try:
        return URL(server)
    except ValueError:
        return None


def _is_trusted_host(url: URL | None) -> bool:
    host = (url.host or "").lower() if url is not None else ""
    if len(host) <= 253 and _SUBDOMAIN.fullmatch(host):
        return True
    try:
        return "%" not in host and bool(ip_address(host))
    except ValueError:
        return False
