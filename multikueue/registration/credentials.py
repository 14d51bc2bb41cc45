"""Credentials for a worker: a short-lived token or a client certificate, and the kubeconfig that holds it."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Literal

import anyio
import msgspec
import yaml

from multikueue.api.kind import Kind
from multikueue.api.meta import Object, ObjectKey
from multikueue.errors import ApiError, Forbidden
from multikueue.kube.auth.expiry import of_certificate
from multikueue.kube.cluster_client import ClusterClient
from multikueue.registration.choices import OUR_NAME
from multikueue.registration.ownership import ask
from multikueue.registration.plan import LABELS

__all__ = [
    "Credential",
    "Endpoint",
    "build_kubeconfig",
    "request_certificate",
]

SIGNING_REQUESTS = Kind(
    "certificates.k8s.io", "v1", "certificatesigningrequests", "CertificateSigningRequest", False, Object
)
SIGNER = "kubernetes.io/kube-apiserver-client"
SIGNING_PATIENCE = timedelta(seconds=30)
SIGNING_POLL_INTERVAL = timedelta(milliseconds=200)


class Endpoint(msgspec.Struct, frozen=True, kw_only=True):
    """The address of an API server. `ca` is PEM, empty for a certificate that the system trusts."""

    server: str
    ca: bytes = b""
    tls_server_name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Credential:
    """The `user` of a kubeconfig, and its expiry; None if it never expires, or the expiry cannot be read."""

    kind: Literal["token", "certificate"]
    user: Mapping[str, str] = field(repr=False)
    expires: datetime | None


async def request_certificate(client: ClusterClient, user: str, validity: timedelta) -> Credential:
    """A client certificate for `user`, by a CertificateSigningRequest that we approve and remove again.

    Raises ApiError (504) if no signer answers within `SIGNING_PATIENCE`, Forbidden if it refuses.
    """
    key, request = _key_and_request(user)
    posted = await ask(client, "POST", SIGNING_REQUESTS.collection(""), _signing_request(request, validity))
    name = ObjectKey("", posted["metadata"]["name"])
    try:
        await _approve(client, posted)
        signed = await _wait_for_signature(client, name)
    finally:
        with anyio.CancelScope(shield=True), anyio.move_on_after(5):
            await client.delete(SIGNING_REQUESTS, name)
    proof = {"client-certificate-data": signed, "client-key-data": b64encode(key).decode()}
    return Credential(kind="certificate", user=proof, expires=of_certificate(b64decode(signed)).end)


def _key_and_request(user: str) -> tuple[bytes, bytes]:
    """A new private key and its signing request, both PEM."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, user)])
    request = x509.CertificateSigningRequestBuilder().subject_name(subject).sign(key, hashes.SHA256())
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()), request.public_bytes(Encoding.PEM)


def _signing_request(request: bytes, validity: timedelta) -> dict[str, Any]:
    return {
        "apiVersion": SIGNING_REQUESTS.api_version,
        "kind": SIGNING_REQUESTS.kind,
        "metadata": {"generateName": f"{OUR_NAME}-", "labels": LABELS},
        "spec": {
            "request": b64encode(request).decode(),
            "signerName": SIGNER,
            "expirationSeconds": int(validity.total_seconds()),
            "usages": ["digital signature", "client auth"],
        },
    }


async def _approve(client: ClusterClient, request: dict[str, Any]) -> None:
    approval = {
        "type": "Approved",
        "status": "True",
        "reason": "MultiKueueRegistration",
        "message": "Approved by the administrator who registers this cluster as a worker",
    }
    path = SIGNING_REQUESTS.path(ObjectKey("", request["metadata"]["name"]), subresource="approval")
    await ask(client, "PUT", path, {**request, "status": {"conditions": [approval]}})


async def _wait_for_signature(client: ClusterClient, name: ObjectKey) -> str:
    """The signed certificate as the API shows it: base64 of PEM."""
    patience = SIGNING_PATIENCE.total_seconds()
    with anyio.move_on_after(patience):
        while True:
            status = (await ask(client, "GET", SIGNING_REQUESTS.path(name))).get("status", {})
            if status.get("certificate"):
                return str(status["certificate"])
            refused = next((c for c in status.get("conditions", ()) if c["type"] in ("Denied", "Failed")), None)
            if refused is not None:
                raise Forbidden(403, refused["type"], refused.get("message", ""), call="sign a client certificate")
            await anyio.sleep(SIGNING_POLL_INTERVAL.total_seconds())
    why = f"no certificate after {patience:.0f} s; is there a controller for signer {SIGNER}?"
    raise ApiError(504, "Timeout", why, call="sign a client certificate")


# --- the kubeconfig --------------------------------------------------------------------------------------------------


def build_kubeconfig(cluster: str, endpoint: Endpoint, credential: Credential) -> bytes:
    """A kubeconfig of one context, all data inline: contract 2.2 allows neither files nor commands."""
    place: dict[str, str] = {"server": endpoint.server}
    if endpoint.ca:
        place["certificate-authority-data"] = b64encode(endpoint.ca).decode()
    if endpoint.tls_server_name:
        place["tls-server-name"] = endpoint.tls_server_name
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": cluster, "cluster": place}],
        "users": [{"name": OUR_NAME, "user": dict(credential.user)}],
        "contexts": [{"name": cluster, "context": {"cluster": cluster, "user": OUR_NAME}}],
        "current-context": cluster,
    }
    return yaml.safe_dump(config, sort_keys=False).encode()
