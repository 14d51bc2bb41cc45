"""A manager and a worker on loopback, a kubeconfig with a context for each, and the program run in this process."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

from fakekube.front_end.authority import Authority
from multikueue.cli import main
from multikueue.cli.terminal import output, progress
from multikueue.registration import join
from tests.cli.cluster import ADMIN_TOKEN, Cluster, serve

if TYPE_CHECKING:
    from tests.cli.field import Field


@dataclass(frozen=True)
class Result:
    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()


Run = Callable[..., Result]


@dataclass(frozen=True)
class World:
    manager: Cluster
    worker: Cluster
    kubeconfig: Path


@pytest.fixture(autouse=True)
def _clean(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No cluster but those a test makes, and no patience with them."""
    for name in ("KUBECONFIG", "NO_COLOR", "FORCE_COLOR", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(join, "SETTLE_PAUSE", timedelta())


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal, on which a spinner turns at once."""
    monkeypatch.setattr(progress, "SPINNER_AFTER", timedelta())
    monkeypatch.setattr(output, "has_spinner", lambda: True)


@pytest.fixture(scope="session")
def authority() -> Authority:
    return Authority()


@pytest.fixture
def world(authority: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    manager, worker = Cluster("manager"), Cluster("worker")
    with ExitStack() as stack:
        urls = {cluster.name: stack.enter_context(serve(cluster, authority)) for cluster in (manager, worker)}
        path = tmp_path / "kubeconfig"
        path.write_text(yaml.safe_dump(_kubeconfig(urls, authority)))
        monkeypatch.setenv("KUBECONFIG", str(path))
        yield World(manager, worker, path)


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str]) -> Run:
    """Run the program with these words."""

    def run(*words: str) -> Result:
        with pytest.raises(SystemExit) as end:
            main(words)
        captured = capsys.readouterr()
        assert "Traceback" not in captured.err
        assert isinstance(end.value.code, int)
        return Result(end.value.code, captured.out, captured.err)

    return run


def _kubeconfig(urls: dict[str, str], authority: Authority) -> dict[str, object]:
    """Contexts of the clusters' names; the current one is the manager's. `gone` is an address nobody listens at."""
    pem = b64encode(authority.pem).decode()
    places = {**urls, "gone": "https://127.0.0.1:1"}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {"name": name, "cluster": {"server": url, "certificate-authority-data": pem}}
            for name, url in places.items()
        ],
        "users": [{"name": "admin", "user": {"token": ADMIN_TOKEN}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": "admin"}} for name in places],
        "current-context": "manager",
    }


@pytest.fixture
async def field(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Field]:
    from tests.cli.field import a_field  # which has the results of programs from here

    async with a_field(tmp_path, capsys, monkeypatch) as made:
        yield made
