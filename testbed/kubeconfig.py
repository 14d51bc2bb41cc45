"""Kubeconfigs with everything inline: Kueue and MultiKueue refuse files, commands and insecure TLS in them."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import yaml

__all__ = ["dump", "kubeconfig"]


def kubeconfig(server: str, *, ca: bytes, token: str, name: str = "testbed") -> dict[str, Any]:
    """A kubeconfig with one cluster, one user and one context, all called `name`."""
    cluster = {"server": server, "certificate-authority-data": b64encode(ca).decode()}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": cluster}],
        "users": [{"name": name, "user": {"token": token}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
        "current-context": name,
    }


def dump(config: dict[str, Any]) -> bytes:
    """The kubeconfig as the bytes of a YAML file or of a Secret's value."""
    return yaml.safe_dump(config, sort_keys=False).encode()
