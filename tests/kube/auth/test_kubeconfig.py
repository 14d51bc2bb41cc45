from __future__ import annotations

import json
import re
import subprocess
import sys
from contextlib import suppress
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from multikueue.errors import ConfigurationError
from multikueue.kube.auth.credentials import from_kubeconfig
from multikueue.kube.auth.kubeconfig import InsecureKubeconfig, check_access_provider, check_worker_kubeconfig, parse
from multikueue.kube.auth.tokens import FixedToken

GOOD_CLUSTER = {"server": "https://w1.example.com:6443", "certificate-authority-data": "Q0E="}
GOOD_USER = {"token": "t"}


def kubeconfig(*, cluster: dict[str, Any] | None = None, user: dict[str, Any] | None = None) -> dict[str, Any]:
    """A file of two clusters and two users: the current ones are good, what is given is in the others."""
    return {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "good", "user": "good"}}],
        "clusters": [
            {"name": "good", "cluster": GOOD_CLUSTER},
            {"name": "X", "cluster": GOOD_CLUSTER if cluster is None else cluster},
        ],
        "users": [{"name": "good", "user": GOOD_USER}, {"name": "U", "user": GOOD_USER if user is None else user}],
    }


def refusal(config: dict[str, Any] | bytes) -> str:
    """The message a file is refused with; empty if it is not."""
    data = config if isinstance(config, bytes) else yaml.safe_dump(config).encode()
    try:
        check_worker_kubeconfig(data)
    except InsecureKubeconfig as error:
        return str(error)
    return ""


@pytest.mark.parametrize(
    "part",
    [
        pytest.param({}, id="an inline token"),
        pytest.param({"user": {"client-certificate-data": "QQ==", "client-key-data": "QQ=="}}, id="a certificate"),
        pytest.param({"cluster": {"server": "https://10.0.0.1:6443"}}, id="an IPv4 address"),
        pytest.param({"cluster": {"server": "https://[2001:db8::1]"}}, id="an IPv6 address"),
        pytest.param({"cluster": {"server": "https://W1.Example.com/k8s/clusters/c-1"}}, id="capitals and a path"),
        pytest.param(
            {"cluster": GOOD_CLUSTER | {"insecure-skip-tls-verify": False}}, id="an explicit no to insecurity"
        ),
        pytest.param({"cluster": GOOD_CLUSTER | {"certificate-authority": ""}}, id="an empty path"),
        pytest.param({"user": {"token": "t", "tokenFile": None, "exec": None}}, id="nulls"),
        pytest.param({"user": {}}, id="an empty user"),
        pytest.param({"cluster": GOOD_CLUSTER | {"proxy-url": "http://proxy:3128"}}, id="a proxy"),
    ],
)
def test_a_harmless_kubeconfig_is_accepted(part: dict[str, Any]) -> None:
    assert refusal(kubeconfig(**part)) == ""


RULES = [
    pytest.param({"user": {"tokenFile": "/t"}}, "tokenFile is not allowed", id="a token file"),
    pytest.param(
        {"cluster": GOOD_CLUSTER | {"insecure-skip-tls-verify": True}},
        "insecure TLS verification is not allowed for cluster X",
        id="an unverified peer",
    ),
    pytest.param(
        {"cluster": GOOD_CLUSTER | {"certificate-authority": "/ca"}},
        "certificate-authority file paths are not allowed, use certificate-authority-data for cluster X",
        id="an authority in a file",
    ),
    pytest.param({"cluster": {}}, "server URL is required for cluster X", id="no server"),
    pytest.param({"cluster": {"server": "https://bad_host"}}, "untrusted server endpoint", id="an odd host"),
    pytest.param({"user": {"username": "u"}}, "basic auth is not allowed", id="a user name"),
    pytest.param({"user": {"password": "p"}}, "basic auth is not allowed", id="a password"),
    pytest.param({"cluster": {"server": "https://u:p@h"}}, "basic auth is not allowed", id="a password in the URL"),
    pytest.param({"user": {"exec": {"command": "sh"}}}, "exec plugins are not allowed", id="a program"),
    pytest.param({"user": {"exec": {}}}, "exec plugins are not allowed", id="an empty program"),
    pytest.param({"user": {"auth-provider": {"name": "oidc"}}}, "auth providers are not allowed", id="a provider"),
    pytest.param({"cluster": {"server": "http://h"}}, "plain http is not allowed for cluster X", id="plain http"),
    pytest.param(
        {"user": {"client-certificate": "/c"}},
        "client-certificate file paths are not allowed, use client-certificate-data for user U",
        id="a certificate in a file",
    ),
    pytest.param(
        {"user": {"client-key": "/k"}},
        "client-key file paths are not allowed, use client-key-data for user U",
        id="a key in a file",
    ),
    pytest.param(
        {"cluster": GOOD_CLUSTER | {"proxy-url": "socks5://p"}},
        "proxy-url must start with http:// or https:// for cluster X",
        id="a proxy that we cannot speak with",
    ),
    *(
        pytest.param(
            {"user": {field: value}},
            "impersonation is not allowed, use credentials of the user itself for user U",
            id=f"another identity by {field}",
        )
        for field, value in [("as", "a"), ("as-uid", "1"), ("as-groups", ["g"]), ("as-user-extra", {"k": ["v"]})]
    ),
]


@pytest.mark.parametrize(("part", "message"), RULES)
def test_a_rule_is_kept_by_every_cluster_and_user_of_the_file(part: dict[str, Any], message: str) -> None:
    assert refusal(kubeconfig(**part)) == message


def test_the_first_rule_broken_is_named_in_the_order_of_the_contract() -> None:
    # Each pair of neighbours of one section; a file that breaks both names the former.
    cluster = {"insecure-skip-tls-verify": True, "certificate-authority": "/ca", "server": "http://bad_host"}
    user = {"tokenFile": "/t", "username": "u", "exec": {}, "auth-provider": {}, "client-certificate": "/c"}
    named = []
    for section, field in [
        ("user", "tokenFile"),
        ("cluster", "insecure-skip-tls-verify"),
        ("cluster", "certificate-authority"),
        ("cluster", "server"),
        ("user", "username"),
        ("user", "exec"),
        ("user", "auth-provider"),
        ("cluster", "server"),
        ("user", "client-certificate"),
    ]:
        named.append(refusal(kubeconfig(cluster=cluster, user=user)))
        if field == "server":
            cluster["server"] = "http://good-host" if cluster["server"] == "http://bad_host" else "https://h"
        else:
            del (user if section == "user" else cluster)[field]
    assert [message.partition(" for ")[0] for message in named] == [
        "tokenFile is not allowed",
        "insecure TLS verification is not allowed",
        "certificate-authority file paths are not allowed, use certificate-authority-data",
        "untrusted server endpoint",
        "basic auth is not allowed",
        "exec plugins are not allowed",
        "auth providers are not allowed",
        "plain http is not allowed",
        "client-certificate file paths are not allowed, use client-certificate-data",
    ]


@pytest.mark.parametrize(
    "server",
    [
        "w1:6443",
        "https://",
        "https://a b",
        "https://a\\@b",
        "https://-a",
        "https://a..b",
        "https://é",
        "https://[::1%1]",
    ],
)
def test_an_endpoint_that_could_be_read_in_two_ways_is_not_trusted(server: str) -> None:
    assert refusal(kubeconfig(cluster={"server": server})) == "untrusted server endpoint"


ALIASES = b"x: &x [%s]\nusers: [%s]" % (
    b",".join([b"v"] * 1_000),
    b",".join([b"{name: u, user: {as-user-extra: {k: *x}}}"] * 1_000),
)
LAUGHS = b"a0: &a0 [x, x]\n" + b"".join(
    b"a%d: &a%d [%s]\n" % (n, n, b",".join([b"*a%d" % (n - 1)] * 10)) for n in range(1, 12)
)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        pytest.param(b"a: [", "expected", id="broken YAML"),
        pytest.param(b"\xff\xfe\xff", "Error", id="bytes"),
        pytest.param(b"[1]", "Expected `object`, got `array`", id="a list"),
        pytest.param(b"", "it has no clusters", id="nothing"),
        pytest.param(b"clusters: 5", "Expected `array | null`, got `int` - at `$.clusters`", id="no list of clusters"),
        pytest.param(
            b"clusters: [{name: a, cluster: {server: 'https://h', insecure-skip-tls-verify: 'false'}}]",
            "Expected `bool | null`, got `str` - at `$.clusters[0].cluster.insecure-skip-tls-verify`",
            id="a word for a truth value",
        ),
        pytest.param(b"[" * 200_000, "it is nested deeper than 50 levels", id="a tower of brackets"),
        pytest.param(b"- " * 100_000, "it is nested deeper than 50 levels", id="a tower of lists"),
        pytest.param(b'{"a":' * 50_000, "RecursionError", id="a tower of objects"),
        pytest.param(b'{"a":' * 1_000_000, "expected at most 256 KiB", id="a book in JSON"),
        pytest.param(b"a: " + b"x" * 2**18, "expected at most 256 KiB", id="a book in YAML"),
        pytest.param(b"&a " + b"[x]" * 2, "expected", id="an anchor on nothing that is allowed"),
        pytest.param(b"[" + b"x," * 20_000 + b"]", "expected at most 256 KiB", id="many small values"),
        pytest.param(ALIASES, "expected at most 256 KiB, with aliases unfolded", id="few large ones, again and again"),
        pytest.param(LAUGHS, "expected at most 256 KiB, with aliases unfolded", id="a tower of aliases"),
        pytest.param(b"clusters: &a [*a]", "failed to parse", id="what is made of itself"),
    ],
)
def test_what_cannot_be_read_is_refused(data: bytes, why: str) -> None:
    message = refusal(data)
    assert message.startswith("failed to parse the kubeconfig: ")
    assert why in message


def test_an_alias_is_read_where_it_makes_nothing_large() -> None:
    """Programs write what they have twice as an alias."""
    shared = yaml.safe_dump(kubeconfig()).encode()
    assert b"&id001" in shared
    assert refusal(shared) == ""


def test_a_kubeconfig_may_be_as_large_as_many_certificates() -> None:
    assert refusal(kubeconfig(cluster=GOOD_CLUSTER | {"certificate-authority-data": "QUFB" * 60_000})) == ""


def test_a_secret_never_shows_in_an_error() -> None:
    with pytest.raises(ConfigurationError) as caught:
        parse({"users": [{"name": "u", "user": {"token": ["S3CRET"]}}]})
    assert "S3CRET" not in str(caught.value)


def test_json_with_tabs_is_read_although_yaml_forbids_them() -> None:
    assert parse(json.dumps(kubeconfig(), indent="\t").encode()).current_context == "c"


# Access providers.


def test_the_command_of_an_access_provider_is_allowed_and_everything_else_is_not() -> None:
    user = {"exec": {"command": "plugin"}}
    check_access_provider(yaml.safe_dump(kubeconfig(user=user)).encode())
    with pytest.raises(InsecureKubeconfig, match="plain http"):
        check_access_provider(yaml.safe_dump(kubeconfig(user=user, cluster={"server": "http://h"})).encode())
    with pytest.raises(InsecureKubeconfig, match="tokenFile"):
        check_access_provider(yaml.safe_dump(kubeconfig(user=user | {"tokenFile": "/t"})).encode())


# Files of any shape.

CLUSTER_FIELDS = (
    *("server", "certificate-authority", "certificate-authority-data", "insecure-skip-tls-verify"),
    *("tls-server-name", "proxy-url", "extensions"),
)
USER_FIELDS = (
    *("token", "tokenFile", "client-certificate", "client-certificate-data", "client-key", "client-key-data"),
    *("username", "password", "exec", "auth-provider", "as", "as-uid", "as-groups", "as-user-extra"),
)
LIKELY = st.sampled_from(["", "x", "https://h", "https://h:6443/p", "http://h", "https://a:b@h", "QQ==", "/etc/passwd"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8) | LIKELY,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


def parts(fields: tuple[str, ...]) -> st.SearchStrategy[Any]:
    return st.dictionaries(st.sampled_from(fields), LIKELY | VALUES, max_size=4) | VALUES


def entries(kind: str, content: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    named = st.fixed_dictionaries({"name": st.sampled_from(["a", "b"]) | VALUES, kind: content})
    return st.lists(named, max_size=3) | VALUES


FILES = st.fixed_dictionaries(
    {},
    optional={
        "clusters": entries("cluster", parts(CLUSTER_FIELDS)),
        "users": entries("user", parts(USER_FIELDS)),
        "contexts": entries("context", parts(("cluster", "user"))),
        "current-context": st.sampled_from(["a", "b"]) | VALUES,
    },
)


@st.composite
def nearly_right(draw: st.DrawFn) -> dict[str, Any]:
    """A good file with a few fields of its cluster and its user changed."""
    tree = kubeconfig(
        cluster={"server": "https://h"} | draw(st.dictionaries(st.sampled_from(CLUSTER_FIELDS), LIKELY, max_size=2)),
        user=draw(st.dictionaries(st.sampled_from(USER_FIELDS), LIKELY | VALUES, max_size=2)),
    )
    tree["contexts"][0]["context"] = {"cluster": "X", "user": "U"}
    return tree


MESSAGES = re.compile(
    "failed to parse|tokenFile is not allowed|insecure TLS verification|certificate-authority file paths|"
    "server URL is required|untrusted server endpoint|basic auth|exec plugins|auth providers|plain http|"
    "client-certificate file paths|client-key file paths|proxy-url must|impersonation is not"
)


@given(st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
def test_bytes_of_any_kind_are_refused_with_words(data: bytes) -> None:
    assert MESSAGES.match(refusal(data))


@pytest.mark.anyio
@given(FILES | nearly_right())
async def test_a_file_of_any_shape_is_used_or_refused_with_words(tree: dict[str, Any]) -> None:
    message = refusal(json.dumps(tree).encode())
    if message:
        assert MESSAGES.match(message)
        return
    # What is let through leads to no file, no program and no unverified server, whatever context is chosen.
    with suppress(ConfigurationError):
        found = await from_kubeconfig(tree)
        assert found.server.startswith("https://")
        assert found.should_verify
        assert isinstance(found.token, FixedToken)


MANY_AT_ONCE = """
import sys, threading
from multikueue.kube.auth import kubeconfig
sys.setswitchinterval(1e-6)
barrier = threading.Barrier(8)
def read():
    barrier.wait()
    kubeconfig.parse(b'{"clusters": [{"name": "x", "cluster": {"server": "https://x"}}]}')
threads = [threading.Thread(target=read) for _ in range(8)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
"""


def test_the_first_kubeconfigs_of_a_process_may_be_read_in_many_threads_at_once() -> None:
    """It ended one process in five, with a segmentation fault."""
    readers = [subprocess.Popen([sys.executable, "-c", MANY_AT_ONCE]) for _ in range(6)]
    assert [reader.wait() for reader in readers] == [0] * len(readers)
