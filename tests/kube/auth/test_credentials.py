from __future__ import annotations

import base64
import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from multikueue.errors import ConfigurationError
from multikueue.kube.auth import credentials
from multikueue.kube.auth.credentials import Credentials, contexts, from_environment, from_kubeconfig
from multikueue.kube.auth.tokens import AuthProvider, ExecPlugin, FileToken, FixedToken

pytestmark = pytest.mark.anyio


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def kubeconfig(*, name: str = "a", current: str | None = "a", **parts: Any) -> dict[str, Any]:
    """A file with one cluster, user and context of that name; `cluster` and `user` are added to the usual."""
    cluster = {"server": f"https://{name}.example.com:6443/", "certificate-authority-data": encoded("CA")}
    user = parts.get("user", {"token": f"token-{name}"})
    return {
        "current-context": current,
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
        "clusters": [{"name": name, "cluster": cluster | parts.get("cluster", {})}],
        "users": [{"name": name, "user": user}],
    }


def written(directory: Path, name: str, config: dict[str, Any]) -> Path:
    path = directory / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump(config))
    return path


async def refusal(source: dict[str, Any] | Path | bytes, context: str | None = None) -> str:
    with pytest.raises(ConfigurationError) as caught:
        await from_kubeconfig(source, context)
    return str(caught.value)


async def test_an_inline_kubeconfig_becomes_credentials_as_a_whole() -> None:
    config = kubeconfig(
        cluster={"tls-server-name": "inner", "proxy-url": "http://proxy:3128"},
        user={"token": "t", "client-certificate-data": encoded("CERT"), "client-key-data": encoded("KEY")},
    )
    assert await from_kubeconfig(yaml.safe_dump(config).encode()) == Credentials(
        server="https://a.example.com:6443",
        authority=b"CA",
        certificate=b"CERT",
        key=b"KEY",
        tls_server_name="inner",
        proxy="http://proxy:3128",
        token=FixedToken("Bearer t"),
        source="kubeconfig: context 'a'",
    )


async def test_a_tower_of_aliases_is_never_unfolded() -> None:
    floors = ["a0: &a0 [x, x]", *(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12))]
    config = kubeconfig()
    config["clusters"][0]["cluster"]["extensions"] = ["TOP"]
    text = yaml.safe_dump(config).replace("- TOP", "- {name: x, extension: *a11}")
    found = await from_kubeconfig("\n".join([*floors, text]).encode())
    assert found.authority == b"CA"


async def test_files_are_found_from_the_directory_of_the_kubeconfig(tmp_path: Path) -> None:
    for name in ("ca", "cert", "key"):
        (tmp_path / name).write_text(name.upper())
    config = kubeconfig(user={"client-certificate": "cert", "client-key": str(tmp_path / "key"), "tokenFile": "token"})
    config["clusters"][0]["cluster"] = {"server": "https://h", "certificate-authority": "./ca"}
    found = await from_kubeconfig(written(tmp_path, "config", config))
    assert (found.authority, found.certificate, found.key) == (b"CA", b"CERT", b"KEY")
    assert found.token == FileToken(tmp_path / "token")


async def test_a_password_is_basic_auth() -> None:
    found = await from_kubeconfig(kubeconfig(user={"username": "u", "password": "p"}))
    assert found.token == FixedToken(f"Basic {encoded('u:p')}")


async def test_verification_is_given_up_only_by_an_explicit_word() -> None:
    assert (await from_kubeconfig(kubeconfig())).should_verify
    assert not (await from_kubeconfig(kubeconfig(cluster={"insecure-skip-tls-verify": True}))).should_verify


async def test_a_context_without_user_presents_nothing() -> None:
    config = kubeconfig()
    del config["contexts"][0]["context"]["user"]
    assert (await from_kubeconfig(config)).token == FixedToken("")


async def test_a_plugin_is_not_run_before_it_is_needed() -> None:
    config = {"apiVersion": "client.authentication.k8s.io/v1", "command": "no-such-plugin"}
    extension = {"name": "client.authentication.k8s.io/exec", "extension": {"audience": "x"}}
    found = await from_kubeconfig(kubeconfig(user={"exec": config}, cluster={"extensions": [extension]}))
    assert isinstance(found.token, ExecPlugin)
    assert found.token.config == config
    assert found.token.cluster == {
        "server": "https://a.example.com:6443/",
        "certificate-authority-data": encoded("CA"),
        "config": {"audience": "x"},
    }


async def test_an_auth_provider_is_not_asked_before_it_is_needed() -> None:
    provider = {"name": "oidc", "config": {}}
    found = await from_kubeconfig(kubeconfig(user={"auth-provider": provider}))
    assert isinstance(found.token, AuthProvider)
    assert found.token.tree["users"][0]["user"] == {"auth-provider": provider}


async def test_no_secret_is_in_the_text_of_the_credentials() -> None:
    config = kubeconfig(user={"token": "S3CRET", "client-key-data": encoded("S3CRET")})
    found = await from_kubeconfig(config)
    assert "S3CRET" not in repr(found) + repr(found.token)
    assert encoded("S3CRET") not in repr(found)


@pytest.mark.parametrize(
    ("parts", "context", "said"),
    [
        pytest.param({}, "b", "kubeconfig: there is no context 'b'; there are: a", id="no such context"),
        pytest.param({"current": None}, None, "kubeconfig: current-context: expected the name", id="none chosen"),
        pytest.param({"cluster": {"server": None}}, None, "context 'a': server: expected an http", id="no server"),
        pytest.param({"cluster": {"server": "h:6443"}}, None, "context 'a': server: expected an http", id="no scheme"),
        pytest.param({"cluster": {"server": "https://u:p@h"}}, None, "server: expected a URL without", id="a password"),
        pytest.param({"cluster": {"server": "https://h?x=1"}}, None, "server: expected a URL without", id="a query"),
        pytest.param({"cluster": {"proxy-url": "socks5://h"}}, None, "context 'a': proxy-url", id="an odd proxy"),
        pytest.param({"user": {"as": "other"}}, None, "context 'a': as: impersonation", id="impersonation"),
        pytest.param({"user": {"client-key-data": "%"}}, None, "context 'a': client-key: expected PEM", id="no base64"),
        pytest.param({"user": {"client-key": "/none"}}, None, "client-key: /none cannot be read", id="no such file"),
        pytest.param({"user": {"token": 5}}, None, "failed to parse", id="a number for a token"),
    ],
)
async def test_what_is_wrong_is_said_with_its_place(parts: dict[str, Any], context: str | None, said: str) -> None:
    assert said in await refusal(kubeconfig(**parts), context)


@pytest.mark.parametrize("section", ["clusters", "users"])
async def test_a_context_that_points_nowhere_is_refused(section: str) -> None:
    assert f"there is no {section[:-1]} 'a'" in await refusal(kubeconfig() | {section: []})


async def test_a_file_is_named_in_errors(tmp_path: Path) -> None:
    assert (await refusal(tmp_path / "none")).startswith(f"{tmp_path / 'none'}: cannot be read")
    path = written(tmp_path, "config", kubeconfig(current="b"))
    assert (await refusal(path)).startswith(f"{path}: there is no context 'b'")


async def test_files_of_the_environment_are_merged_as_kubectl_does(tmp_path: Path) -> None:
    first = written(tmp_path, "1", kubeconfig(name="a", current=None))
    second = written(tmp_path, "2", kubeconfig(name="b", current="b") | {"users": kubeconfig()["users"]})
    third = written(tmp_path, "3", kubeconfig(name="b", current="a", user={"token": "last"}))
    environ = {"KUBECONFIG": os.pathsep.join(map(str, [first, tmp_path / "none", "", second, third]))}
    found = await from_environment(environ=environ)
    # The first current context counts, the first cluster of a name, and parts may come from different files.
    assert (found.server, found.token) == ("https://b.example.com:6443", FixedToken("Bearer last"))
    assert (await from_environment(None, "a", environ=environ)).server == "https://a.example.com:6443"


async def test_a_file_that_is_named_goes_before_the_environment(tmp_path: Path) -> None:
    named, other = written(tmp_path, "1", kubeconfig()), written(tmp_path, "2", kubeconfig(name="b", current="b"))
    found = await from_environment(named, environ={"KUBECONFIG": str(other)})
    assert found.server == "https://a.example.com:6443"


async def test_the_usual_file_is_found(tmp_path: Path) -> None:
    written(tmp_path, ".kube/config", kubeconfig())
    assert (await from_environment(environ={"HOME": str(tmp_path)})).server == "https://a.example.com:6443"


async def test_files_of_the_environment_that_are_all_missing_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="KUBECONFIG: none of these files exists: /none"):
        await from_environment(environ={"KUBECONFIG": "/none", "HOME": str(tmp_path)})


async def test_in_a_pod_the_service_account_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(credentials, "SERVICE_ACCOUNT", tmp_path)
    (tmp_path / "token").write_text("t")
    (tmp_path / "ca.crt").write_text("CA")
    environ = {"HOME": str(tmp_path), "KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443"}
    assert await from_environment(environ=environ) == Credentials(
        server="https://[fd00::1]:443", authority=b"CA", token=FileToken(tmp_path / "token"), source="service account"
    )


async def test_where_nobody_names_a_namespace_that_of_the_context_is_meant(tmp_path: Path) -> None:
    config = kubeconfig()
    assert (await from_kubeconfig(config)).namespace == "default"

    config["contexts"][0]["context"]["namespace"] = "team-a"
    assert (await from_kubeconfig(config)).namespace == "team-a"


async def test_in_a_pod_that_of_the_pod_is_meant(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(credentials, "SERVICE_ACCOUNT", tmp_path)
    environ = {"HOME": str(tmp_path), "KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}
    for name, text in (("token", "t"), ("ca.crt", "CA"), ("namespace", "jobs\n")):
        (tmp_path / name).write_text(text)

    assert (await from_environment(environ=environ)).namespace == "jobs"


async def test_without_anything_the_error_says_what_was_looked_for(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="no kubeconfig was given or found, and this is no pod"):
        await from_environment(environ={"HOME": str(tmp_path)})
    with pytest.raises(ConfigurationError, match="context 'a': there is no kubeconfig"):
        await from_environment(None, "a", environ={"HOME": str(tmp_path)})


async def test_the_global_default_of_the_library_is_neither_used_nor_touched(monkeypatch: pytest.MonkeyPatch) -> None:
    from kubernetes_asyncio.client import Configuration

    others = Configuration()
    others.proxy, others.verify_ssl, others.api_key = "http://others", False, {"BearerToken": "Bearer others"}
    monkeypatch.setattr(Configuration, "_default", others)
    found = await from_kubeconfig(kubeconfig(user={}))
    assert (found.proxy, found.should_verify, found.token) == ("", True, FixedToken(""))
    assert Configuration._default is others
    assert others.host != found.server


async def test_the_contexts_are_those_of_all_files(tmp_path: Path) -> None:
    files = [written(tmp_path, name, kubeconfig(name=name)) for name in ("b", "a")]
    environ = {"KUBECONFIG": os.pathsep.join(map(str, (*files, files[0])))}
    assert list(await contexts(environ=environ)) == ["b", "a"]
    assert list(await contexts(files[1], environ=environ)) == ["a"]
    assert await contexts(environ={"HOME": str(tmp_path)}) == {}
    with pytest.raises(ConfigurationError):
        await contexts(tmp_path / "missing")
