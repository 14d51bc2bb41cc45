from __future__ import annotations

import json
import math
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import monotonic
from typing import Any

import anyio
import pytest

from multikueue.errors import ConfigurationError
from multikueue.kube.auth.tokens import AuthProvider, ExecPlugin, FileToken, FixedToken, Grant, plugin_environment

pytestmark = pytest.mark.anyio

NOW = datetime(2026, 11, 21, 10, tzinfo=UTC)
VERSION = "client.authentication.k8s.io/v1"


def credential(*, version: str = VERSION, **status: Any) -> str:
    return json.dumps({"apiVersion": version, "kind": "ExecCredential", "status": status})


def plugin(script: str, **options: Any) -> ExecPlugin:
    """A plugin that is a Python script."""
    config = {"apiVersion": VERSION, "command": sys.executable, "args": ["-c", script]} | options.pop("config", {})
    return ExecPlugin(config, now=lambda: NOW, jitter=lambda: 0.0, **options)


def printing(text: str) -> str:
    return f"print({text!r})"


async def trouble(source: ExecPlugin | FileToken | AuthProvider) -> str:
    with pytest.raises(ConfigurationError) as caught:
        await source()
    return str(caught.value)


async def test_a_fixed_token_is_good_for_ever() -> None:
    assert (await FixedToken("Bearer t")()).lifetime == math.inf


async def test_a_token_file_is_read_again_and_its_line_end_dropped(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("one\n")
    source = FileToken(path)
    assert await source() == Grant("Bearer one")
    path.write_text("two\n")
    assert await source() == Grant("Bearer two")
    assert (await source()).lifetime == 60


async def test_a_missing_or_empty_token_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "token"
    assert str(path) in await trouble(FileToken(path))
    path.write_text(" \n")
    assert await trouble(FileToken(path)) == f"token file {path} is empty"


async def test_a_plugin_gives_a_token_that_is_renewed_before_it_expires() -> None:
    expiry = (NOW + timedelta(minutes=10)).isoformat()
    grant = await plugin(printing(credential(token="t", expirationTimestamp=expiry)))()
    assert (grant, grant.lifetime) == (Grant("Bearer t"), 450.0)


async def test_a_plugin_without_expiry_is_asked_again_only_when_refused() -> None:
    assert (await plugin(printing(credential(token="t")))()).lifetime == math.inf


async def test_a_token_expired_already_does_not_make_the_plugin_run_all_the_time() -> None:
    expiry = (NOW - timedelta(minutes=10)).isoformat()
    assert (await plugin(printing(credential(token="t", expirationTimestamp=expiry)))()).lifetime == 5.0


async def test_a_plugin_may_give_a_certificate() -> None:
    grant = await plugin(printing(credential(clientCertificateData="C", clientKeyData="K")))()
    assert grant == Grant("", b"C", b"K")


async def test_a_plugin_is_told_the_cluster_only_if_it_asks() -> None:
    script = (
        "import json, os; spec = json.loads(os.environ['KUBERNETES_EXEC_INFO'])['spec'];"
        f"print(json.dumps({{'apiVersion': {VERSION!r}, 'kind': 'ExecCredential',"
        " 'status': {'token': spec.get('cluster', {}).get('server', 'none') + os.environ['EXTRA']}}))"
    )
    env = {"env": [{"name": "EXTRA", "value": "!"}]}
    told = plugin(script, config=env | {"provideClusterInfo": True}, cluster={"server": "https://h"})
    untold = plugin(script, config=env, cluster={"server": "https://h"})
    assert (await told(), await untold()) == (Grant("Bearer https://h!"), Grant("Bearer none!"))


async def test_a_relative_command_is_one_beside_the_kubeconfig(tmp_path: Path) -> None:
    (tmp_path / "login").write_text(f"#!/bin/sh\necho '{credential(token='t')}'\n")
    (tmp_path / "login").chmod(0o755)
    source = ExecPlugin({"apiVersion": VERSION, "command": "./login"}, directory=tmp_path)
    assert await source() == Grant("Bearer t")


@pytest.mark.parametrize(
    ("script", "said"),
    [
        pytest.param("import sys; sys.exit('log in first')", "ended with 1: log in first", id="it fails"),
        pytest.param("print('hello')", "its output is no ExecCredential", id="it prints something else"),
        pytest.param(printing(credential()), "neither a token nor a certificate", id="it gives nothing"),
        pytest.param(printing(credential(clientCertificateData="C")), "neither a token", id="it forgets the key"),
        pytest.param(
            printing(credential(token="t", expirationTimestamp="2026-01-01T00:00:00")),
            "its output is no ExecCredential",
            id="a time without a zone",
        ),
        pytest.param("print('x' * 3_000_000)", "its output is no ExecCredential", id="it prints without an end"),
        pytest.param(printing(credential(version="v0", token="t")), "answered v0, expected", id="another version"),
    ],
)
async def test_what_is_wrong_with_a_plugin_is_said(script: str, said: str) -> None:
    assert said in await trouble(plugin(script))


SHOW_ENVIRONMENT = (
    "import json, os; "
    f"print(json.dumps({{'apiVersion': {VERSION!r}, 'kind': 'ExecCredential', "
    "'status': {'token': ' '.join(sorted(os.environ))}}))"
)


async def test_a_plugin_may_get_less_than_all_of_our_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OURS", "secret")
    monkeypatch.setenv("OWN", "not the plugin's")
    config = {"env": [{"name": "OWN", "value": "1"}]}
    assert "OURS" in (await plugin(SHOW_ENVIRONMENT, config=config)()).authorization
    given = (await plugin(SHOW_ENVIRONMENT, config=config, environment={"HOME": "/h"})()).authorization
    assert set(given.split()) - {"LC_CTYPE"} == {"Bearer", "HOME", "KUBERNETES_EXEC_INFO", "OWN"}


def test_the_environment_of_a_plugin_has_nothing_of_our_settings() -> None:
    ours = {"PATH": "/bin", "HTTPS_PROXY": "p", "MULTIKUEUE_X": "1", "KUBECONFIG": "/k", "AWS_SECRET_ACCESS_KEY": "s"}
    assert plugin_environment(ours) == {"PATH": "/bin", "HTTPS_PROXY": "p"}


async def test_a_plugin_that_does_not_exist_is_named() -> None:
    source = ExecPlugin({"apiVersion": VERSION, "command": "no-such-plugin"})
    assert "exec plugin no-such-plugin cannot be run" in await trouble(source)


async def test_a_plugin_without_command_is_refused() -> None:
    assert "missing key 'command'" in await trouble(ExecPlugin({"apiVersion": VERSION}))


async def test_a_plugin_that_hangs_has_a_deadline() -> None:
    config = {"apiVersion": VERSION, "command": "/bin/sh", "args": ["-c", "sleep 20; true"]}
    started = monotonic()
    assert "gave no answer within 0.1 s" in await trouble(ExecPlugin(config, timeout=0.1))
    assert monotonic() - started < 5


async def test_a_plugin_that_is_given_up_is_killed_with_its_children(tmp_path: Path) -> None:
    mark = tmp_path / "child"
    script = f"sleep 20 & echo $! > {mark}.new; mv {mark}.new {mark}; wait"
    config = {"apiVersion": VERSION, "command": "/bin/sh", "args": ["-c", script]}
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ExecPlugin(config))
        with anyio.fail_after(10):
            while not mark.exists():  # noqa: ASYNC110  # another process makes it
                await anyio.sleep(0.01)
        tasks.cancel_scope.cancel()
    with anyio.fail_after(10):
        while is_running(mark.read_text().strip()):  # noqa: ASYNC110  # the system takes its time to end a process
            await anyio.sleep(0.01)


def is_running(process: str) -> bool:
    try:
        return (Path("/proc") / process / "stat").read_text().split()[2] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


async def test_an_auth_provider_is_asked_through_the_library(tmp_path: Path) -> None:
    login = {"name": "gcp", "config": {"access-token": "t"}}
    tree = {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}],
        "clusters": [{"name": "c", "cluster": {"server": "https://h"}}],
        "users": [{"name": "c", "user": {"auth-provider": login}}],
    }
    assert await AuthProvider(tree)() == Grant("Bearer t")
    login.clear()
    login["name"] = "oidc"
    assert "oidc: missing configuration" in await trouble(AuthProvider(tree))


PROGRAM = """
import sys
from multikueue.kube.auth.tokens import spare_models
spare_models()
from kubernetes_asyncio.client import Configuration
from kubernetes_asyncio.config import load_incluster_config, load_kube_config_from_dict
assert Configuration.__module__ == "kubernetes_asyncio.client.configuration"
loaded = [name for name in sys.modules if name.startswith("kubernetes_asyncio.client.")]
print(len(loaded))
"""

WHOLE = """
import kubernetes_asyncio.client
from multikueue.kube.auth.tokens import spare_models
spare_models()
assert kubernetes_asyncio.client.BatchV1Api
"""


def test_the_models_stay_out() -> None:
    answer = subprocess.run([sys.executable, "-c", PROGRAM], check=True, capture_output=True, text=True)
    assert int(answer.stdout) < 10


def test_a_library_that_is_loaded_whole_stays_whole() -> None:
    subprocess.run([sys.executable, "-c", WHOLE], check=True)
