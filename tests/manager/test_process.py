"""The start of a process: it waits for the manager cluster, and says for what. It does not start beside an acting Kueue."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

import pytest
from structlog.testing import capture_logs

from multikueue.api.kinds import LEASES
from multikueue.api.kubernetes.builtins import render_micro_time
from multikueue.errors import ClusterUnreachable, ConfigurationError
from multikueue.kube.auth.credentials import Credentials
from multikueue.kube.client import Client
from multikueue.manager import process
from multikueue.settings import Loaded, Settings
from multikueue.telemetry import logs
from multikueue.testing import NOW
from tests.cluster import Cluster

pytestmark = pytest.mark.anyio


async def test_who_waits_for_the_manager_cluster_says_where_it_looks_and_what_is_wrong(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(process, "FIRST_ANSWER_TIMEOUT", timedelta(seconds=0.1))
    nobody = Credentials(server="http://127.0.0.1:1", source="/home/me/config: context 'here'")
    with capture_logs() as logs:
        async with Client.connect(nobody) as client:
            with pytest.raises(ClusterUnreachable):
                await process._reach(client, nobody, 5.0)

    [told] = logs
    assert (told["event"], told["server"], told["source"]) == ("manager.waiting", nobody.server, nobody.source)
    assert "127.0.0.1" in told["why"]


class _Time:
    """Passes as fast as it is slept away; each second Kueue does what it does."""

    def __init__(self, kueue: Callable[[datetime], None]) -> None:
        self.time, self._kueue = NOW, kueue

    def now(self) -> datetime:
        return self.time

    def monotonic(self) -> float:
        return self.time.timestamp()

    async def sleep(self, seconds: float) -> None:
        self.time += timedelta(seconds=seconds)
        self._kueue(self.time)


def _renews(cluster: Cluster, at: datetime, holder: str = "kueue-0") -> None:
    key = process.KUEUES_LEASE
    spec = {"holderIdentity": holder, "leaseDurationSeconds": 15, "renewTime": render_micro_time(at)}
    cluster.put(LEASES, {"metadata": {"namespace": key.namespace, "name": key.name}, "spec": spec})


async def test_beside_a_kueue_that_acts_it_says_who_acts_and_what_to_do() -> None:
    cluster = Cluster("manager", lambda: NOW)
    _renews(cluster, NOW)
    time = _Time(lambda now: _renews(cluster, now))
    with pytest.raises(ConfigurationError, match=r"kueue-0 renews Lease .* MULTIKUEUE_CLUSTER__IGNORE_KUEUE=true"):
        await process.refuse_beside_kueue(cluster, time)
    assert time.now() - NOW < timedelta(seconds=5)


@pytest.mark.parametrize(
    ("renewed", "holder", "waits"),
    [
        pytest.param(timedelta(), "kueue-0", 15, id="removed a moment ago, or by a clock ahead"),
        pytest.param(timedelta(hours=1), "kueue-0", 0, id="removed long ago"),
        pytest.param(timedelta(), "", 0, id="stopped, and the Lease given back"),
    ],
)
async def test_a_lease_that_kueue_left_keeps_nobody_from_starting(renewed: timedelta, holder: str, waits: int) -> None:
    cluster = Cluster("manager", lambda: NOW)
    _renews(cluster, NOW - renewed, holder)
    time = _Time(lambda _now: None)
    await process.refuse_beside_kueue(cluster, time)
    assert time.now() - NOW == timedelta(seconds=waits)


async def test_without_a_lease_of_kueue_it_starts_at_once() -> None:
    time = _Time(lambda _now: None)
    await process.refuse_beside_kueue(Cluster("manager", lambda: NOW), time)
    assert time.now() == NOW


async def test_before_it_acts_it_says_where(monkeypatch: pytest.MonkeyPatch) -> None:
    there = Credentials(server="https://manager:6443", source="/home/me/config: context 'here'")

    async def found(_kubeconfig: object, _context: object) -> Credentials:
        return there

    async def nothing(*_: object, **__: object) -> None:
        assert [entry["event"] for entry in told] == ["manager.starting"]

    monkeypatch.setattr(process, "from_environment", found)
    monkeypatch.setattr(process, "manage", nothing)
    monkeypatch.setattr(logs, "configure", lambda _settings: None)
    with capture_logs() as told:
        await process.run(Loaded(Settings()))

    assert (told[0]["server"], told[0]["source"]) == (there.server, there.source)
