"""Authentication: bearer tokens, client certificates, and tokens of service accounts.

The cluster's key signs a service account token, which names the account and an expiry. The token is invalid as soon as
the account is deleted.
"""

from __future__ import annotations

import hashlib
import hmac
from base64 import b64encode, urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, NamedTuple

import msgspec

from fakekube.front_end.authority import Certificate
from fakekube.model.storage import Storage, key_of
from fakekube.model.wire import Object, Refused, User

__all__ = ["ANONYMOUS", "AUTHENTICATED", "Users", "certified", "kubeconfig", "unauthorized"]

AUTHENTICATED = "system:authenticated"
ANONYMOUS = User("system:anonymous", ("system:unauthenticated",))
_ACCOUNTS = "serviceaccounts."


def unauthorized() -> Refused:
    return Refused(401, "Unauthorized", "Unauthorized")


class _Claims(NamedTuple):
    """The identity in a service account's token."""

    namespace: str
    name: str
    uid: str


class Users:
    """The users of one cluster. `key` signs service account tokens, `issuer` is their issuer and audience."""

    def __init__(self, storage: Storage, *, now: Callable[[], datetime], key: bytes, issuer: str) -> None:
        self._storage, self._now, self._key, self.issuer = storage, now, key, issuer
        self._tokens: dict[str, User] = {}

    def add(self, name: str, *groups: str, token: str) -> User:
        """Add a user with a bearer token, in the groups and in `system:authenticated`."""
        user = self._tokens[token] = User(name, (*groups, AUTHENTICATED), name)
        return user

    def remove(self, token: str) -> None:
        """Revoke a token."""
        self._tokens.pop(token, None)

    def token(self, name: str) -> str:
        """The token of a user. Raises KeyError if there is none."""
        for token, user in self._tokens.items():
            if user.name == name:
                return token
        raise KeyError(f"no user {name}")

    def identify(self, authorization: str, certificate: Mapping[str, Any] | None = None) -> User:
        """The user of an Authorization header and a verified client certificate (in the form of `ssl`); the certificate
        wins.

        Without either: the anonymous user. Raises Refused (401) for an unknown, revoked or expired token.
        """
        user = certified(certificate)
        if user is not None:
            return user
        kind, _, token = authorization.partition(" ")
        if kind.lower() != "bearer":
            return ANONYMOUS
        user = self.by_token(token.strip())
        if user is None:
            raise unauthorized()
        return user

    def by_token(self, token: str) -> User | None:
        """The user or service account of a valid token."""
        return self._tokens.get(token) or self._account(token)

    def issue(self, account: Object, *, seconds: int, serial: str) -> str:
        """A token of a stored ServiceAccount, valid from now for `seconds`; `serial` makes it unique."""
        now, metadata = int(self._now().timestamp()), account["metadata"]
        claims = {
            "aud": [self.issuer],
            "exp": now + seconds,
            "iat": now,
            "iss": self.issuer,
            "jti": serial,
            "kubernetes.io": {
                "namespace": metadata["namespace"],
                "serviceaccount": {"name": metadata["name"], "uid": metadata["uid"]},
            },
            "nbf": now,
            "sub": f"system:serviceaccount:{metadata['namespace']}:{metadata['name']}",
        }
        signed = f"{_encoded({'alg': 'HS256', 'typ': 'JWT'})}.{_encoded(claims)}"
        return f"{signed}.{self._signature(signed)}"

    def _account(self, token: str) -> User | None:
        claims = self._claims(token)
        if claims is None:
            return None
        found = self._storage.get(_ACCOUNTS, key_of(claims.namespace, claims.name))
        if found is None or found.object["metadata"].get("uid") != claims.uid:
            return None
        groups = ("system:serviceaccounts", f"system:serviceaccounts:{claims.namespace}", AUTHENTICATED)
        return User(f"system:serviceaccount:{claims.namespace}:{claims.name}", groups, claims.uid)

    def _claims(self, token: str) -> _Claims | None:
        """The identity in a token; None if the signature is wrong or the token is not valid now."""
        signed, _, signature = token.rpartition(".")
        if not signed or not hmac.compare_digest(signature.encode(), self._signature(signed).encode()):
            return None
        claims = _decoded(signed.partition(".")[2])
        now = self._now().timestamp()
        if not claims["nbf"] <= now < claims["exp"]:
            return None
        about = claims["kubernetes.io"]
        return _Claims(about["namespace"], about["serviceaccount"]["name"], about["serviceaccount"]["uid"])

    def _signature(self, signed: str) -> str:
        return _text(hmac.digest(self._key, signed.encode(), hashlib.sha256))


def certified(certificate: Mapping[str, Any] | None) -> User | None:
    """The user of a client certificate: the common name is the user, organizations are groups."""
    pairs = [pair for part in (certificate or {}).get("subject", ()) for pair in part]
    name = next((value for key, value in pairs if key == "commonName"), "")
    if not name:
        return None
    return User(name, (*(value for key, value in pairs if key == "organizationName"), AUTHENTICATED))


def _text(content: bytes) -> str:
    return urlsafe_b64encode(content).rstrip(b"=").decode()


def _encoded(content: Object) -> str:
    return _text(msgspec.json.encode(content))


def _decoded(text: str) -> Any:
    return msgspec.json.decode(urlsafe_b64decode(text + "=" * (-len(text) % 4)))


def kubeconfig(
    server: str, *, ca: bytes, token: str = "", certificate: Certificate | None = None, name: str = "fakekube"
) -> Object:
    """A self-contained kubeconfig: one cluster, one user and one context, all called `name`."""
    cluster: Object = {"server": server}
    if ca:
        cluster["certificate-authority-data"] = b64encode(ca).decode()
    user = {"token": token} if certificate is None else _pair(certificate)
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": cluster}],
        "users": [{"name": name, "user": user}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
        "current-context": name,
    }


def _pair(certificate: Certificate) -> dict[str, str]:
    return {
        "client-certificate-data": b64encode(certificate.certificate).decode(),
        "client-key-data": b64encode(certificate.key).decode(),
    }
