"""Tokens of ServiceAccounts: asked for by an administrator, or renewed by their holders.

Renewal takes the right to create `serviceaccounts/token` of that account, and nothing else.
"""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from datetime import datetime, timedelta

import msgspec

from multikueue.api.kinds import SECRETS, SERVICE_ACCOUNTS
from multikueue.api.kubernetes.builtins import Secret
from multikueue.api.meta import ObjectKey
from multikueue.api.multikueue.clusters import KUBECONFIG_KEY
from multikueue.errors import ConfigurationError, InvalidObject
from multikueue.kube.auth.expiry import account_of, validity_of
from multikueue.kube.auth.kubeconfig import parse
from multikueue.kube.cluster_client import ClusterClient

__all__ = ["RenewableToken", "renew", "renewable", "request_token"]


_BEARER = re.compile(r"[A-Za-z0-9._~+/=-]{1,16384}")
"""What may go into a kubeconfig as a token (RFC 6750): a worker's word must not become other fields of it."""


class _Status(msgspec.Struct):
    token: str
    end: str = msgspec.field(name="expirationTimestamp", default="")


class _Answer(msgspec.Struct):
    status: _Status


class RenewableToken(msgspec.Struct, frozen=True):
    """A token that can be renewed: its text, its ServiceAccount, and the time it was granted for."""

    text: str
    account: ObjectKey
    granted: timedelta


def renewable(kubeconfig: bytes) -> RenewableToken | None:
    """The token of a kubeconfig, if it is the only credential in it, of a ServiceAccount, and has an end."""
    try:
        users = parse(kubeconfig).each_user()
    except ConfigurationError:
        return None
    token = (users[0][1].token or "") if len(users) == 1 else ""
    account, validity = account_of(token), validity_of(token, b"")
    if account is None or validity is None or validity.start is None:
        return None
    return RenewableToken(token, account, validity.end - validity.start)


async def renew(worker: ClusterClient, manager: ClusterClient, secret: Secret) -> bool:
    """Put a new token into the Secret that a worker's kubeconfig is in, asked for with the old one, which stays valid until its
    end. False if there is no token in it that can be renewed. Raises Conflict if the Secret was changed meanwhile, Forbidden
    without the right on either side, and the other errors of the servers."""
    try:
        kubeconfig = b64decode(secret.data.get(KUBECONFIG_KEY, ""))
    except ValueError:
        return False
    old = renewable(kubeconfig)
    if old is None:
        return False
    new, _ = await request_token(worker, old.account, old.granted)
    # The text is replaced where it stands: the rest of the kubeconfig may belong to others.
    renewed = b64encode(kubeconfig.replace(old.text.encode(), new.encode())).decode()
    metadata = {"resourceVersion": secret.metadata.resource_version}
    await manager.merge_patch(SECRETS, secret.key, {"metadata": metadata, "data": {KUBECONFIG_KEY: renewed}})
    return True


async def request_token(client: ClusterClient, account: ObjectKey, validity: timedelta) -> tuple[str, datetime | None]:
    """A token of the ServiceAccount and its end; the server may grant less than `validity`. None: its end cannot be read.
    Raises InvalidObject for an answer that is none."""
    body = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"expirationSeconds": int(validity.total_seconds())},
    }
    path = SERVICE_ACCOUNTS.path(account, subresource="token")
    answer = await client.request("POST", path, body=body)
    try:
        status = msgspec.json.decode(answer, type=_Answer).status
    except (msgspec.MsgspecError, RecursionError) as error:
        raise InvalidObject(f"token of {account}", "status", f"an answer to a TokenRequest ({error})") from error
    if not _BEARER.fullmatch(status.token):
        raise InvalidObject(f"token of {account}", "status.token", "the text of a bearer token")
    return status.token, _moment(status.end)


def _moment(text: str) -> datetime | None:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment if moment.tzinfo is not None else None
