from __future__ import annotations

from base64 import b64encode
from datetime import UTC, datetime

import pytest

from multikueue.kube.auth.expiry import Validity
from multikueue.registration.credentials import Credential, build_kubeconfig
from multikueue.registration.facts import KubeconfigFacts, kubeconfig_facts
from tests.cli.cluster import json_web_token
from tests.registration.builders import ENDPOINT


def claiming(expiry: str) -> str:
    """A web token that ends at that time."""
    claims = '{"exp": ' + expiry + "}"
    return f"a.{b64encode(claims.encode()).decode()}.c"


def with_token(token: str) -> bytes:
    return build_kubeconfig("w1", ENDPOINT, Credential(kind="token", user={"token": token}, expires=None))


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (
            with_token(json_web_token(datetime(2026, 3, 1, tzinfo=UTC))),
            KubeconfigFacts(server=ENDPOINT.server, validity=Validity(None, datetime(2026, 3, 1, tzinfo=UTC))),
        ),
        (with_token("static"), KubeconfigFacts(server=ENDPOINT.server)),
        (with_token("a.b.c"), KubeconfigFacts(server=ENDPOINT.server)),
        (with_token("a.bnVsbA.c"), KubeconfigFacts(server=ENDPOINT.server)),
        (with_token(claiming("1e30")), KubeconfigFacts(server=ENDPOINT.server)),
        (with_token(claiming("4611686018427387904")), KubeconfigFacts(server=ENDPOINT.server)),
        (b"{", KubeconfigFacts(problem="failed to parse")),
        (b"clusters: []", KubeconfigFacts(problem="the kubeconfig has no current context with a cluster")),
    ],
    ids=[
        "a web token",
        "a static token",
        "dots but no JSON",
        "JSON but no claims",
        "no time",
        "no time either",
        "no YAML",
        "no context",
    ],
)
def test_what_a_stored_kubeconfig_tells(data: bytes, expected: KubeconfigFacts) -> None:
    found = kubeconfig_facts(data)

    assert found.problem.startswith(expected.problem)
    assert (found.server, found.validity) == (expected.server, expected.validity)
