"""The time in which a credential is valid."""

from __future__ import annotations

from base64 import b64encode, urlsafe_b64encode
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from multikueue.api.meta import encode
from multikueue.kube.auth.credentials import from_kubeconfig
from multikueue.kube.auth.expiry import KubeconfigFacts, Validity, kubeconfig_facts, of_credentials, validity_of
from multikueue.registration.credentials import Credential, build_kubeconfig
from tests.cli.cluster import json_web_token
from tests.registration.builders import ENDPOINT

END = datetime(2026, 3, 31, tzinfo=UTC)
MONTH, DAY, HOUR = timedelta(days=30), timedelta(days=1), timedelta(hours=1)


def web_token(**claims: Any) -> str:
    return f"head.{urlsafe_b64encode(encode(claims)).decode().rstrip('=')}.signature"


TOKENS = {
    "a web token with both times": (
        web_token(iat=(END - MONTH).timestamp(), exp=END.timestamp()),
        Validity(END - MONTH, END),
    ),
    "one that does not say when it began": (web_token(exp=END.timestamp()), Validity(None, END)),
    "one without an end": (web_token(sub="us"), None),
    "one of a time out of range": (web_token(exp=1e30), None),
    "a static token": ("secret", None),
    "none, and no certificate": ("", None),
}


@pytest.mark.parametrize(("token", "expected"), TOKENS.values(), ids=TOKENS)
def test_the_validity_of_a_token(token: str, expected: Validity | None) -> None:
    assert validity_of(token, b"") == expected


WARNINGS = {
    "a month: three days before": (END - MONTH, 3 * DAY),
    "a day: the last fifth": (END - DAY, DAY / 5),
    "an hour: the last fifth": (END - HOUR, HOUR / 5),
    "it does not say how long: three days": (None, 3 * DAY),
}


@pytest.mark.parametrize(("start", "before"), WARNINGS.values(), ids=WARNINGS)
def test_when_to_warn(start: datetime | None, before: timedelta) -> None:
    assert Validity(start, END).warn_at == END - before


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("user", "expected"),
    [
        ({"token": web_token(exp=END.timestamp())}, Validity(None, END)),
        ({"token": web_token(exp=END.timestamp()), "tokenFile": "/run/token"}, None),
        ({"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "true"}}, None),
    ],
    ids=["a token that stands in the kubeconfig", "a file that somebody renews", "a plugin that renews it"],
)
async def test_only_what_nobody_renews_has_an_end(user: dict[str, Any], expected: Validity | None) -> None:
    tree = {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": "https://x"}}],
        "users": [{"name": "u", "user": user}],
    }
    assert of_credentials(await from_kubeconfig(tree)) == expected


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
