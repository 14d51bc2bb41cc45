"""What a kubeconfig tells without being used: where it leads, and until when it is good for that."""

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
    """What a stored kubeconfig tells without being used; `problem` says why it tells nothing."""

    server: str = ""
    expires: datetime | None = None
    problem: str = ""


def kubeconfig_facts(data: bytes) -> KubeconfigFacts:
    """The server of the current context, and the end of its token or client certificate where that can be read."""
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
    """The end of what the user shows; None for what has no end or cannot be read (a static token, say)."""
    try:
        if user.token:
            return _token_expiry(user.token)
        return certificate_expiry(b64decode(user.client_certificate_data or ""))
    except (ValueError, KeyError, IndexError, TypeError, OverflowError, OSError, msgspec.MsgspecError):
        return None  # a time may be one that no clock ever shows


def _token_expiry(token: str) -> datetime:
    """The `exp` claim of a JSON web token: read only, the worker judges the signature."""
    payload = token.split(".")[1].replace("-", "+").replace("_", "/")
    claims = msgspec.json.decode(b64decode(payload + "=" * (-len(payload) % 4)))
    return datetime.fromtimestamp(claims["exp"], UTC)


def certificate_expiry(pem: bytes) -> datetime:
    from cryptography import x509

    return x509.load_pem_x509_certificate(pem).not_valid_after_utc
