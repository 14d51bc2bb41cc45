from __future__ import annotations

from base64 import b64decode, urlsafe_b64decode
from datetime import datetime, timedelta

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakekube.front_end.authority import Authority, Certificate
from fakekube.front_end.users import ANONYMOUS, AUTHENTICATED, Users, certified, kubeconfig
from fakekube.model.storage import Storage
from fakekube.model.wire import Object, Refused, User
from multikueue.kube.auth.kubeconfig import check_worker_kubeconfig
from tests.fakekube.front_ends import NOW, item, stored

ANNE = {"subject": ((("organizationName", "staff"),), (("organizationName", "ops"),), (("commonName", "anne"),))}


class Clock:
    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> datetime:
        return self.now


def users(storage: Storage | None = None, now: Clock | None = None) -> Users:
    return Users(storage or Storage(), now=now or Clock(), key=b"secret", issuer="https://sandbox")


def account(storage: Storage, uid: str = "u1") -> Object:
    return stored(storage, "serviceaccounts", "", item("robot", "team", metadata={"uid": uid}))


def test_a_user_is_known_by_the_token() -> None:
    known = users()
    known.add("admin", "system:masters", token="t1")
    assert known.identify("Bearer t1") == User("admin", ("system:masters", AUTHENTICATED), "admin")
    assert known.identify("bearer  t1 ").name == "admin"
    assert known.token("admin") == "t1"
    with pytest.raises(KeyError):
        known.token("nobody")


def test_a_removed_token_is_worth_nothing() -> None:
    known = users()
    known.add("admin", token="t1")
    known.remove("t1")
    with pytest.raises(Refused, match="Unauthorized") as caught:
        known.identify("Bearer t1")
    assert caught.value.code == 401


@pytest.mark.parametrize("authorization", ["", "Basic YTpi"])
def test_without_a_token_one_is_anonymous(authorization: str) -> None:
    assert users().identify(authorization) == ANONYMOUS


@given(st.text())
def test_what_is_no_token_of_ours_is_refused(token: str) -> None:
    assert users().by_token(token) is None


def test_a_client_certificate_says_who_one_is() -> None:
    assert certified(ANNE) == User("anne", ("staff", "ops", AUTHENTICATED))
    assert users().identify("Bearer wrong", ANNE).name == "anne"
    assert certified({"subject": ()}) is None
    assert certified(None) is None


def test_a_service_account_is_known_by_its_token() -> None:
    storage = Storage()
    known = users(storage)
    token = known.issue(account(storage), seconds=600, serial="s")
    groups = ("system:serviceaccounts", "system:serviceaccounts:team", AUTHENTICATED)
    assert known.by_token(token) == User("system:serviceaccount:team:robot", groups, "u1")


def test_a_token_says_what_clients_read_in_it() -> None:
    storage = Storage()
    token = users(storage).issue(account(storage), seconds=600, serial="s")
    payload = token.split(".")[1]
    claims = msgspec.json.decode(urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    assert claims["exp"] - claims["iat"] == 600
    assert (claims["iss"], claims["sub"]) == ("https://sandbox", "system:serviceaccount:team:robot")


def test_a_token_ends_with_its_time() -> None:
    storage, clock = Storage(), Clock()
    known = users(storage, clock)
    token = known.issue(account(storage), seconds=600, serial="s")
    clock.now += timedelta(seconds=599)
    assert known.by_token(token) is not None
    clock.now += timedelta(seconds=1)
    assert known.by_token(token) is None


def test_a_token_ends_with_its_account() -> None:
    storage = Storage()
    known = users(storage)
    token = known.issue(account(storage), seconds=600, serial="s")
    storage.remove("serviceaccounts.", "team/robot")
    assert known.by_token(token) is None
    account(storage, uid="another")
    assert known.by_token(token) is None


def test_a_forged_token_is_worth_nothing() -> None:
    storage = Storage()
    other = Users(storage, now=Clock(), key=b"other", issuer="https://sandbox")
    assert users(storage).by_token(other.issue(account(storage), seconds=600, serial="s")) is None


def test_a_kubeconfig_has_everything_inline() -> None:
    config = kubeconfig("https://127.0.0.1:1", ca=b"PEM", token="t", name="w1")
    assert config["current-context"] == "w1"
    assert b64decode(config["clusters"][0]["cluster"]["certificate-authority-data"]) == b"PEM"
    assert config["users"][0]["user"] == {"token": "t"}
    pair = kubeconfig("https://127.0.0.1:1", ca=b"PEM", certificate=Certificate(b"C", b"K"))["users"][0]["user"]
    assert {key: b64decode(value) for key, value in pair.items()} == {
        "client-certificate-data": b"C",
        "client-key-data": b"K",
    }


def test_our_own_manager_accepts_it_for_a_worker() -> None:
    authority = Authority()
    config = kubeconfig("https://127.0.0.1:1", ca=authority.pem, certificate=authority.issue("anne"))
    check_worker_kubeconfig(msgspec.json.encode(config))
