"""The server and the expiry in a kubeconfig, without connecting."""

from __future__ import annotations

from base64 import b64decode
from dataclasses import dataclass
from datetime import UTC, datetime

import msgspec

from multikueue.errors import ConfigurationError
from multikueue.kube.kubeconfig import User, parse

__all__ = ["KubeconfigFacts", "certificate_expiry", "kubeconfig_facts"]


@dataclass(frozen=True, slots=True)
class KubeconfigFacts:
    """The server and the expiry in a stored kubeconfig; `problem` says why there are none."""

    server: str = ""
    expires: datetime | None = None
    problem: str = ""


def kubeconfig_facts(data: bytes) -> KubeconfigFacts:
    """The server of the current context, and the expiry of its token or client certificate if it can be read."""
    try:
        config = parse(data)
        context = dict(config.each_context())[config.current_context or ""]
        cluster = dict(config.each_cluster())[context.cluster or ""]
    except ConfigurationError as error:
        return KubeconfigFacts(problem=str(error))
    except KeyError:
        return KubeconfigFacts(problem="the kubeconfig has no current context with a cluster")
    user = dict(config.each_user()).get(context.user or "", User())
    return KubeconfigFacts(server=cluster.server or "", expires=_expiry(user))


def _expiry(user: User) -> datetime | None:
    """The expiry of the user's credential; None if it has none (a static token), or if it cannot be read."""
    try:
        if user.token:
            return _token_expiry(user.token)
        return certificate_expiry(b64decode(user.client_certificate_data or ""))
    except (ValueError, KeyError, IndexError, TypeError, OverflowError, OSError, msgspec.MsgspecError):
        return None  # the time may be out of range


def _token_expiry(token: str) -> datetime:
    """The `exp` claim of a JSON web token. The signature is not verified: only the worker can."""
    payload = token.split(".")[1].replace("-", "+").replace("_", "/")
    claims = msgspec.json.decode(b64decode(payload + "=" * (-len(payload) % 4)))
    return datetime.fromtimestamp(claims["exp"], UTC)


def certificate_expiry(pem: bytes) -> datetime:
    from cryptography import x509

    return x509.load_pem_x509_certificate(pem).not_valid_after_utc
