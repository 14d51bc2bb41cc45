from __future__ import annotations

from base64 import b64decode, b64encode
from datetime import timedelta

import pytest
import yaml
from cryptography import x509

from multikueue.api.meta import ObjectKey
from multikueue.errors import ApiError, Forbidden
from multikueue.kube.auth.expiry import kubeconfig_facts
from multikueue.kube.auth.kubeconfig import check_worker_kubeconfig
from multikueue.registration import credentials
from multikueue.registration.credentials import (
    Credential,
    Endpoint,
    build_kubeconfig,
    request_certificate,
)
from tests.cli.cluster import NOW, SIGNING_REQUESTS, Cluster, Fake
from tests.registration.builders import ENDPOINT

MONTH = timedelta(days=30)


@pytest.mark.anyio
async def test_a_certificate_is_signed_for_the_user_and_leaves_no_request_behind() -> None:
    worker = Cluster("w")

    credential = await request_certificate(Fake(worker), "multikueue:prod", MONTH)

    facts = kubeconfig_facts(build_kubeconfig("w", ENDPOINT, credential))
    assert credential.expires == facts.expires == NOW + MONTH
    pem = yaml.safe_load(build_kubeconfig("w", ENDPOINT, credential))["users"][0]["user"]["client-certificate-data"]
    subject = x509.load_pem_x509_certificate(b64decode(pem)).subject
    assert subject.rfc4514_string() == "CN=multikueue:prod"
    assert worker.names(SIGNING_REQUESTS) == []


@pytest.mark.anyio
async def test_without_a_signer_it_gives_up_and_cleans_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(credentials, "SIGNING_PATIENCE", timedelta(milliseconds=20))
    monkeypatch.setattr(credentials, "SIGNING_POLL_INTERVAL", timedelta(milliseconds=5))
    worker = Cluster("w", signs=False)

    with pytest.raises(ApiError, match="is there a controller for signer") as caught:
        await request_certificate(Fake(worker), "multikueue", MONTH)

    assert caught.value.status == 504
    assert worker.sent[-1].startswith("DELETE /apis/certificates.k8s.io/v1/certificatesigningrequests/")


@pytest.mark.anyio
async def test_a_signer_may_refuse() -> None:
    class Refusing(Cluster):
        def decide_on(self, key: ObjectKey) -> None:
            status = {"conditions": [{"type": "Failed", "message": "not for you"}]}
            self.change(SIGNING_REQUESTS, key, {"status": status})

    with pytest.raises(Forbidden, match="not for you"):
        await request_certificate(Fake(Refusing("w")), "multikueue", MONTH)


def test_a_kubeconfig_has_one_context_and_everything_inline() -> None:
    endpoint = Endpoint(server="https://10.0.0.1:6443", ca=b"ca", tls_server_name="worker")
    data = build_kubeconfig("w1", endpoint, Credential(kind="token", user={"token": "t"}, expires=None))

    check_worker_kubeconfig(data)
    tree = yaml.safe_load(data)
    assert tree["current-context"] == "w1"
    assert tree["contexts"] == [{"name": "w1", "context": {"cluster": "w1", "user": "multikueue"}}]
    assert tree["clusters"][0]["cluster"] == {
        "server": "https://10.0.0.1:6443",
        "certificate-authority-data": b64encode(b"ca").decode(),
        "tls-server-name": "worker",
    }
    assert tree["users"] == [{"name": "multikueue", "user": {"token": "t"}}]


def test_a_credential_does_not_show_its_secret() -> None:
    assert "t0ken" not in repr(Credential(kind="token", user={"token": "t0ken"}, expires=None))
