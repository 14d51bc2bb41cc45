"""The Secret with a server's certificate: made, kept, renewed, shared."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from multikueue.api.kinds import SECRETS
from multikueue.api.meta import ObjectKey
from multikueue.controllers.serving.certificate import keep_certificate
from multikueue.errors import Conflict
from multikueue.web.certificates import LIFETIME
from multikueue.web.serving import Serving
from tests.cluster import Cluster
from tests.controllers.serving.api import manager

pytestmark = pytest.mark.anyio

SECRET = ObjectKey("ours", "certificate")
NOW = datetime(2026, 1, 1, tzinfo=UTC)


async def keep(api: Cluster, *, names: tuple[str, ...] = ("a.svc",), now: datetime = NOW) -> Serving:
    return await keep_certificate(api, SECRET, names=names, now=lambda: now)


async def test_a_missing_one_is_made_and_a_good_one_is_left_alone() -> None:
    api = manager()
    made = await keep(api)
    assert await keep(api) == made
    assert api.written == ["create secrets"]
    body = api.find(SECRETS, SECRET) or {}
    assert body["type"] == "kubernetes.io/tls"
    assert body["metadata"]["labels"] == {"app.kubernetes.io/managed-by": "multikueue"}


async def test_an_old_one_is_renewed_and_so_is_one_for_other_names() -> None:
    api = manager()
    first = await keep(api)
    second = await keep(api, now=NOW + LIFETIME * 0.7)
    third = await keep(api, now=NOW + LIFETIME * 0.7, names=("b.svc",))
    assert len({first.certificate, second.certificate, third.certificate}) == 3
    assert api.written == ["create secrets", "patch secrets", "patch secrets"]


async def test_of_two_replicas_that_make_it_at_once_both_get_the_same() -> None:
    api, others = manager(), manager()
    theirs = await keep(others)
    body = others.find(SECRETS, SECRET) or {}

    def faster(verb: str, _plural: str) -> None:
        if verb == "create":
            api.put(SECRETS, body)

    api.fault = faster
    assert await keep(api) == theirs
    assert api.written == []


async def test_one_that_never_rests_is_an_error() -> None:
    api = manager()
    await keep(api)

    def restless(verb: str, _plural: str) -> None:
        if verb == "patch":
            api.change(SECRETS, SECRET, {})

    api.fault = restless
    with pytest.raises(Conflict, match="keeps changing"):
        await keep(api, names=("b.svc",))
