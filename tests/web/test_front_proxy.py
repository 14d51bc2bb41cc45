"""Whom the front proxy speaks for."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakekube.front_end.authority import Authority
from multikueue.web.front_proxy import Trust, Unknown, User, trust_in, user_of

CA = Authority().pem.decode()
PREFIX = "requestheader-"


def published(**more: Any) -> dict[str, str]:
    """The ConfigMap as an API server publishes it; a value of None leaves the key out."""
    lists = {
        "allowed-names": ["front-proxy-client"],
        "username-headers": ["X-Remote-User"],
        "group-headers": ["X-Remote-Group"],
        "extra-headers-prefix": ["X-Remote-Extra-"],
    }
    texts: dict[str, str | None] = {name: json.dumps(value) for name, value in lists.items()}
    texts |= {"client-ca-file": CA} | {name.replace("_", "-"): value for name, value in more.items()}
    return {f"{PREFIX}{name}": value for name, value in texts.items() if value is not None}


def user(*headers: tuple[str, str], by: str | None = "front-proxy-client", **config: Any) -> User:
    return user_of(trust_in(published(**config)), by, headers)


JANE = ("X-Remote-User", "jane")


def test_the_user_is_whom_the_headers_name() -> None:
    found = user(JANE, ("X-Remote-Group", "a"), ("X-Remote-Group", "b"), ("X-Other", "c"))
    assert found == User("jane", ("a", "b"))


def test_headers_are_read_whatever_their_case() -> None:
    assert user(("x-REMOTE-user", "jane"), ("X-remote-GROUP", "a")) == User("jane", ("a",))


def test_extra_facts_are_collected_by_their_decoded_names() -> None:
    found = user(JANE, ("X-Remote-Extra-Scopes", "a"), ("X-Remote-Extra-scopes", "b"), ("X-Remote-Extra-a%2Fb", "c"))
    assert found.extra == (("a/b", ("c",)), ("scopes", ("a", "b")))


@pytest.mark.parametrize(
    ("headers", "by", "why"),
    [
        pytest.param((JANE,), None, "no client certificate", id="no certificate"),
        pytest.param((JANE,), "somebody", "expected one of front-proxy-client", id="the certificate of somebody else"),
        pytest.param((), "front-proxy-client", "names no user", id="no user"),
        pytest.param((("X-Remote-User", ""),), "front-proxy-client", "names no user", id="an empty user"),
    ],
)
def test_nobody_is_believed_who_does_not_prove_it(headers: tuple[Any, ...], by: str | None, why: str) -> None:
    with pytest.raises(Unknown, match=why):
        user(*headers, by=by)


def test_any_name_will_do_where_none_is_prescribed() -> None:
    assert user(JANE, by="whoever", allowed_names="[]").name == "jane"


def test_what_is_not_published_has_the_usual_headers() -> None:
    trust = trust_in({f"{PREFIX}client-ca-file": CA})
    assert (trust.names, trust.user_headers, trust.group_headers) == ((), ("x-remote-user",), ())


@pytest.mark.parametrize(
    ("config", "why"),
    [
        pytest.param({"client_ca_file": None}, "client-ca-file: expected certificates", id="no CA"),
        pytest.param({"client_ca_file": "garbage"}, "client-ca-file: expected certificates", id="a CA that is none"),
        pytest.param({"allowed_names": "{"}, "allowed-names: expected a JSON list", id="names that are no JSON"),
        pytest.param({"group_headers": "[1]"}, "group-headers: expected a JSON list", id="a list of others than text"),
    ],
)
def test_a_config_map_that_makes_no_sense_is_told(config: dict[str, Any], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        trust_in(published(**config))


@given(st.dictionaries(st.sampled_from(sorted(published())), st.text() | st.just(CA)))
def test_any_config_map_is_understood_or_told(data: dict[str, str]) -> None:
    try:
        said = trust_in(data).bundle
    except ValueError as error:
        said = str(error)
    assert said.startswith((PREFIX, "-----BEGIN CERTIFICATE"))


@given(st.lists(st.tuples(st.sampled_from(["X-Remote-User", "X-Remote-Extra-", "X-Remote-Extra-%", "a"]), st.text())))
def test_any_headers_name_somebody_or_nobody(headers: list[tuple[str, str]]) -> None:
    try:
        found = user_of(Trust(CA), "any", headers)
    except Unknown:
        return
    assert found.name in [text for name, text in headers if name == "X-Remote-User"]
