"""Kubeconfigs with everything inline: Kueue and MultiKueue refuse files, commands and insecure TLS in them."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import yaml

from fakekube.front_end.authority import Certificate

__all__ = ["dump", "kubeconfig"]


def kubeconfig(
    server: str, *, ca: bytes, token: str = "", certificate: Certificate | None = None, name: str = "testbed"
) -> dict[str, Any]:
    """A kubeconfig with one cluster, one user and one context, all called `name`.

    The user has the token, or else the client certificate.
    """
    cluster = {"server": server, "certificate-authority-data": b64encode(ca).decode()}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": cluster}],
        "users": [{"name": name, "user": {"token": token} if token else _pair(certificate)}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
        "current-context": name,
    }


def _pair(certificate: Certificate | None) -> dict[str, str]:
    assert certificate is not None, "neither a token nor a client certificate"
    return {
        "client-certificate-data": b64encode(certificate.certificate).decode(),
        "client-key-data": b64encode(certificate.key).decode(),
    }


def dump(config: dict[str, Any]) -> bytes:
    """The kubeconfig as the bytes of a YAML file or of a Secret's value."""
    return yaml.safe_dump(config, sort_keys=False).encode()
