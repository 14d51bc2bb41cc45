from __future__ import annotations

from base64 import b64decode
from datetime import timedelta

import msgspec
import pytest
import yaml

from fakekube.model.wire import Request, Response, Watch
from multikueue.api.kinds import SECRETS, SERVICE_ACCOUNTS
from multikueue.api.kubernetes.builtins import Secret
from multikueue.api.meta import ObjectKey
from multikueue.errors import Conflict, Forbidden, InvalidObject
from multikueue.kube.auth.expiry import kubeconfig_facts
from multikueue.kube.renewal import renew, renewable, request_token
from multikueue.registration.credentials import Credential, build_kubeconfig
from tests.builders import secret
from tests.cli.cluster import NOW, Cluster, Fake, json_web_token
from tests.registration.builders import ENDPOINT

pytestmark = pytest.mark.anyio

ACCOUNT = ObjectKey("kueue-system", "multikueue")
MONTH = timedelta(days=30)


def with_account(worker: Cluster) -> Cluster:
    worker.add(SERVICE_ACCOUNTS, {"metadata": ACCOUNT._asdict()})
    return worker


async def test_a_token_is_asked_for_as_long_as_wanted() -> None:
    _, end = await request_token(Fake(with_account(Cluster("w"))), ACCOUNT, MONTH)

    assert end == NOW + MONTH


async def test_a_server_may_grant_less() -> None:
    _, end = await request_token(Fake(with_account(Cluster("w", longest=timedelta(hours=1)))), ACCOUNT, MONTH)

    assert end == NOW + timedelta(hours=1)


class Odd(Cluster):
    """Says of its tokens that they end when no clock ever shows, or at no place on earth."""

    end = ""

    async def _token(self, _request: Request) -> Response | Watch:
        status = {"token": "e30.e30.x", "expirationTimestamp": self.end}
        return Response(status=201, body=msgspec.json.encode({"status": status}))


@pytest.mark.parametrize("end", ["99999-01-01T00:00:00Z", "2026-01-01T00:00:00", "soon"])
async def test_an_end_that_cannot_be_read_is_none(end: str) -> None:
    worker = Odd("w")
    worker.end = end

    assert (await request_token(Fake(worker), ACCOUNT, MONTH))[1] is None


async def stored(worker: Cluster, manager: Cluster) -> Secret:
    """A kubeconfig with a token of the account, in a Secret of the manager."""
    token, _ = await request_token(Fake(worker), ACCOUNT, MONTH)
    kubeconfig = build_kubeconfig("w", ENDPOINT, Credential(kind="token", user={"token": token}, expires=None))
    manager.add(SECRETS, secret("multikueue-w").kubeconfig(kubeconfig + b"# by hand\n").build())
    return await Fake(manager).get(SECRETS, ObjectKey("kueue-system", "multikueue-w"))


async def test_a_token_is_renewed_with_the_old_one_and_nothing_else_of_the_kubeconfig_changes() -> None:
    worker, manager = with_account(Cluster("w")), Cluster("manager")
    old = await stored(worker, manager)

    assert await renew(Fake(worker), Fake(manager), old)

    new = await Fake(manager).get(SECRETS, old.key)
    before, after = (b64decode(each.data["kubeconfig"]) for each in (old, new))
    tokens = [yaml.safe_load(text)["users"][0]["user"]["token"] for text in (before, after)]
    assert tokens[0] != tokens[1]
    assert before.replace(tokens[0].encode(), tokens[1].encode()) == after
    assert kubeconfig_facts(after).expires == NOW + MONTH


async def test_a_secret_that_was_changed_meanwhile_stays_as_it_is() -> None:
    worker, manager = with_account(Cluster("w")), Cluster("manager")
    old = await stored(worker, manager)
    manager.change(SECRETS, old.key, {"metadata": {"labels": {"by": "somebody"}}})

    with pytest.raises(Conflict):
        await renew(Fake(worker), Fake(manager), old)


async def test_a_worker_may_refuse_to_renew() -> None:
    worker, manager = with_account(Cluster("w")), Cluster("manager")
    old = await stored(worker, manager)
    worker.longest = None

    with pytest.raises(Forbidden):
        await renew(Fake(worker), Fake(manager), old)
    assert await Fake(manager).get(SECRETS, old.key) == old


@pytest.mark.parametrize(
    "answer",
    [
        b"{}",
        b"[1]",
        b'{"status": {"token": 7}}',
        b'{"status": {"token": ""}}',
        b'{"status": {"token": "x\\n  exec: {command: sh}"}}',
        b'{"status": ' + b"[" * 100_000,
    ],
    ids=["nothing", "a list", "a number", "an empty one", "more than a token", "too deep"],
)
async def test_an_answer_that_is_no_token_changes_nothing(answer: bytes) -> None:
    class Hostile(Cluster):
        async def _token(self, _request: Request) -> Response | Watch:
            return Response(status=201, body=answer)

    manager = Cluster("manager")
    old = await stored(with_account(Cluster("w")), manager)

    with pytest.raises(InvalidObject, match="token of kueue-system/multikueue"):
        await renew(Fake(with_account(Hostile("w"))), Fake(manager), old)
    assert await Fake(manager).get(SECRETS, old.key) == old


def of(**user: str) -> bytes:
    return build_kubeconfig("w", ENDPOINT, Credential(kind="token", user=user, expires=None))


@pytest.mark.parametrize(
    "kubeconfig",
    [
        of(token="static"),
        of(token=json_web_token(NOW + MONTH)),
        of(**{"client-certificate-data": "eA==", "client-key-data": "eA=="}),
        b"{",
    ],
    ids=["a static token", "a token of no account", "a certificate", "no kubeconfig"],
)
async def test_what_cannot_be_renewed_is_left_alone(kubeconfig: bytes) -> None:
    manager = Cluster("manager")
    manager.add(SECRETS, secret("multikueue-w").kubeconfig(kubeconfig).build())
    old = await Fake(manager).get(SECRETS, ObjectKey("kueue-system", "multikueue-w"))

    assert renewable(kubeconfig) is None
    assert not await renew(Fake(Cluster("w")), Fake(manager), old)
    assert manager.sent == []
