"""When a credential ends: one in use, or that of a kubeconfig, which is read without connecting."""

from __future__ import annotations

from base64 import b64decode
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from multikueue.api.meta import ObjectKey
from multikueue.errors import ConfigurationError
from multikueue.kube.auth.credentials import Credentials
from multikueue.kube.auth.kubeconfig import KubeconfigUser, parse
from multikueue.kube.auth.tokens import FixedToken

__all__ = [
    "KubeconfigFacts",
    "Validity",
    "account_of",
    "kubeconfig_facts",
    "of_certificate",
    "of_credentials",
    "of_token",
    "validity_of",
]

LATEST_WARNING = timedelta(days=3)
"""A weekend: an administrator has to register the cluster again."""


class Validity(msgspec.Struct, frozen=True):
    """The time in which a credential is valid; `start` is None if it does not say."""

    start: datetime | None
    end: datetime

    @property
    def warn_at(self) -> datetime:
        """When the remaining time is short: three days, or the last fifth of a shorter credential."""
        fifth = LATEST_WARNING if self.start is None else (self.end - self.start) / 5
        return self.end - min(LATEST_WARNING, fifth)

    @property
    def renew_at(self) -> datetime:
        """When a token is renewed: a third of its time is left, so there is time for more attempts before the warning."""
        return self.warn_at if self.start is None else min(self.warn_at, self.end - (self.end - self.start) / 3)


def validity_of(token: str, certificate: bytes) -> Validity | None:
    """Of a bearer token, or else of a client certificate in PEM. None if there is no end, or it cannot be read."""
    try:
        return of_token(token) if token else of_certificate(certificate)
    except (ValueError, KeyError, IndexError, TypeError, OverflowError, OSError, msgspec.MsgspecError):
        return None  # a static token, or a time that is out of range


def of_credentials(credentials: Credentials) -> Validity | None:
    """None also for what a file, plugin or provider renews."""
    if not isinstance(credentials.token, FixedToken):
        return None
    return validity_of(credentials.token.authorization.removeprefix("Bearer "), credentials.certificate)


def of_token(token: str) -> Validity:
    """The claims `iat` and `exp` of a JSON web token. The signature is not verified: only the worker can. Raises
    ValueError, KeyError, IndexError, TypeError, OverflowError, OSError or msgspec.MsgspecError if it is none."""
    claims = _claims(token)
    start = datetime.fromtimestamp(claims["iat"], UTC) if "iat" in claims else None
    return Validity(start, datetime.fromtimestamp(claims["exp"], UTC))


def account_of(token: str) -> ObjectKey | None:
    """The ServiceAccount that the token is of, by its claim `sub`; None if it is of none."""
    try:
        match str(_claims(token)["sub"]).split(":"):
            case ["system", "serviceaccount", namespace, name]:
                return ObjectKey(namespace, name)
    except (ValueError, KeyError, IndexError, TypeError, RecursionError, msgspec.MsgspecError):
        pass
    return None


def _claims(token: str) -> dict[str, Any]:
    payload = token.split(".")[1].replace("-", "+").replace("_", "/")
    claims: dict[str, Any] = msgspec.json.decode(b64decode(payload + "=" * (-len(payload) % 4)))
    return claims


def of_certificate(pem: bytes) -> Validity:
    """Raises ValueError if there is no certificate in it."""
    if not pem:
        raise ValueError("no certificate")
    from cryptography import x509

    certificate = x509.load_pem_x509_certificate(pem)
    return Validity(certificate.not_valid_before_utc, certificate.not_valid_after_utc)


class KubeconfigFacts(msgspec.Struct, frozen=True):
    """The server in a stored kubeconfig, and how long its credential is valid; `problem` says why there are none."""

    server: str = ""
    validity: Validity | None = None
    problem: str = ""

    @property
    def expires(self) -> datetime | None:
        return self.validity.end if self.validity else None


def kubeconfig_facts(data: bytes) -> KubeconfigFacts:
    """The server of the current context, and the validity of its token or client certificate if it can be read."""
    try:
        config = parse(data)
        context = dict(config.each_context())[config.current_context or ""]
        cluster = dict(config.each_cluster())[context.cluster or ""]
    except ConfigurationError as error:
        return KubeconfigFacts(problem=str(error))
    except KeyError:
        return KubeconfigFacts(problem="the kubeconfig has no current context with a cluster")
    user = dict(config.each_user()).get(context.user or "", KubeconfigUser())
    return KubeconfigFacts(server=cluster.server or "", validity=_validity(user))


def _validity(user: KubeconfigUser) -> Validity | None:
    """None for a credential without an end (a static token), and for one that cannot be read."""
    try:
        return validity_of(user.token or "", b64decode(user.client_certificate_data or ""))
    except ValueError:
        return None
