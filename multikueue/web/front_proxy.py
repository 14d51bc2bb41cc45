"""The user behind a request of the API server's aggregation layer, by its client certificate and its headers.

The API server authenticates with a certificate signed by the request header CA; only then do the headers count. It
publishes CA, names and headers in the ConfigMap `kube-system/extension-apiserver-authentication`. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from urllib.parse import unquote

import msgspec

_USER_HEADERS = ("x-remote-user",)


class Trust(msgspec.Struct, frozen=True):
    """The trusted front proxy: its CA bundle (PEM), its common names (none: any), and its headers, in lower case."""

    bundle: str
    names: tuple[str, ...] = ()
    user_headers: tuple[str, ...] = _USER_HEADERS
    group_headers: tuple[str, ...] = ("x-remote-group",)
    extra_prefixes: tuple[str, ...] = ("x-remote-extra-",)


class User(msgspec.Struct, frozen=True):
    """A user, as authenticated by the API server."""

    name: str
    groups: tuple[str, ...] = ()
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()


class Unknown(Exception):  # its message is the reason, as a sentence
    """The user cannot be authenticated: HTTP 401."""


_PREFIX = "requestheader-"


def trust_in(data: Mapping[str, str]) -> Trust:
    """The Trust in the ConfigMap's data. Raises ValueError, naming the key, if a CA or list in it is unusable."""
    from cryptography import x509  # takes a while to load, and few processes serve this

    bundle = data.get(f"{_PREFIX}client-ca-file", "")
    try:
        found = x509.load_pem_x509_certificates(bundle.encode())
    except ValueError:
        found = []
    if not found:
        raise ValueError(f"{_PREFIX}client-ca-file: expected certificates in PEM, got {bundle[:40]!r}")
    return Trust(
        bundle=bundle,
        names=_list(data, "allowed-names"),
        user_headers=_lower(_list(data, "username-headers")) or _USER_HEADERS,
        group_headers=_lower(_list(data, "group-headers")),
        extra_prefixes=_lower(_list(data, "extra-headers-prefix")),
    )


def _list(data: Mapping[str, str], name: str) -> tuple[str, ...]:
    text = data.get(f"{_PREFIX}{name}", "") or "[]"
    try:
        return msgspec.json.decode(text, type=tuple[str, ...])
    except msgspec.DecodeError as error:
        raise ValueError(f"{_PREFIX}{name}: expected a JSON list of strings, got {text[:80]!r}") from error


def _lower(names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(name.lower() for name in names)


def user_of(trust: Trust, common_name: str | None, headers: Iterable[tuple[str, str]]) -> User:
    """The user on whose behalf the holder of a verified certificate asks; `common_name` is None without one.

    Raises Unknown if there was no certificate, it has another common name, or the headers name no user.
    """
    if common_name is None:
        raise Unknown("no client certificate of the API server's front proxy")
    if trust.names and common_name not in trust.names:
        raise Unknown(f"the client certificate is for {common_name!r}, expected one of {', '.join(trust.names)}")
    sent = [(name.lower(), value) for name, value in headers]
    name = next((value for wanted in trust.user_headers for header, value in sent if header == wanted and value), "")
    if not name:
        raise Unknown("the front proxy names no user")
    groups = tuple(value for header, value in sent if header in trust.group_headers)
    return User(name, groups, _extra(trust, sent))


def _extra(trust: Trust, sent: Iterable[tuple[str, str]]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    found: dict[str, tuple[str, ...]] = {}
    for header, value in sent:
        prefix = next((prefix for prefix in trust.extra_prefixes if header.startswith(prefix)), None)
        if prefix is not None:
            key = unquote(header.removeprefix(prefix))
            found[key] = (*found.get(key, ()), value)
    return tuple(sorted(found.items()))
