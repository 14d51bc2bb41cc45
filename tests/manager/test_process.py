"""The start of a process: it waits for the manager cluster, says for what, and does not start beside a manager that acts."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

import pytest
from structlog.testing import capture_logs

from multikueue.api.kinds import LEASES, NAMESPACES
from multikueue.api.kubernetes.builtins import record_of, render_micro_time
from multikueue.api.meta import ObjectKey
from multikueue.controllers.serving.names import MANAGED_BY
from multikueue.errors import ClusterUnreachable, ConfigurationError
from multikueue.kube.auth.credentials import Credentials
from multikueue.kube.client import Client
from multikueue.manager import process
from multikueue.settings import BESIDE_KUEUE, LeaderElection, Settings
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


def _renews(
    cluster: Cluster, at: datetime, holder: str = "kueue-0", key: ObjectKey = process.KUEUES_LEASE, **labels: str
) -> None:
    spec = {"holderIdentity": holder, "leaseDurationSeconds": 15, "renewTime": render_micro_time(at)}
    cluster.put(LEASES, {"metadata": {"namespace": key.namespace, "name": key.name, "labels": labels}, "spec": spec})


async def test_beside_a_kueue_that_acts_it_says_who_acts_and_what_to_do() -> None:
    cluster = Cluster("manager", lambda: NOW)
    _renews(cluster, NOW)
    time = _Time(lambda now: _renews(cluster, now))
    with pytest.raises(ConfigurationError, match=r"kueue-0 renews Lease .* MULTIKUEUE_CLUSTER__IGNORE_KUEUE=true"):
        await process.refuse_beside_another(cluster, time, Settings())
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
    await process.refuse_beside_another(cluster, time, Settings())
    assert time.now() - NOW == timedelta(seconds=waits)


async def test_without_a_lease_of_kueue_it_starts_at_once() -> None:
    time = _Time(lambda _now: None)
    await process.refuse_beside_another(Cluster("manager", lambda: NOW), time, Settings())
    assert time.now() == NOW


OWN = ObjectKey("kueue-system", "multikueue-manager")
ELECTED = Settings(leader_election=LeaderElection(enabled=True))


def _manager(cluster: Cluster, at: datetime, key: ObjectKey = OWN, holder: str = "other") -> None:
    _renews(cluster, at, holder, key, **MANAGED_BY)


@pytest.mark.parametrize(
    ("lease", "settings"),
    [
        pytest.param(OWN, Settings(), id="neither takes turns"),
        pytest.param(ObjectKey("kueue-system", "second"), ELECTED, id="its Lease has another name"),
        pytest.param(ObjectKey("kueue-system", "second"), Settings(roles=BESIDE_KUEUE), id="it has another role"),
    ],
)
async def test_beside_another_manager_it_says_who_acts_and_what_to_do(lease: ObjectKey, settings: Settings) -> None:
    cluster = Cluster("manager", lambda: NOW)
    _manager(cluster, NOW, lease)
    time = _Time(lambda now: _manager(cluster, now, lease))
    with pytest.raises(
        ConfigurationError, match=f"other renews Lease {lease}.* the same leader_election.resource_name"
    ):
        await process.refuse_beside_another(cluster, time, settings)


async def test_a_replica_takes_turns_with_who_has_its_lease() -> None:
    cluster = Cluster("manager", lambda: NOW)
    _manager(cluster, NOW)
    time = _Time(lambda now: _manager(cluster, now))
    await process.refuse_beside_another(cluster, time, ELECTED)
    assert time.now() == NOW


async def test_a_manager_that_stops_meanwhile_keeps_nobody_from_starting() -> None:
    cluster = Cluster("manager", lambda: NOW)
    _manager(cluster, NOW)
    time = _Time(lambda now: _manager(cluster, now, holder=""))
    await process.refuse_beside_another(cluster, time, Settings())


async def test_without_election_a_process_is_noticed_by_its_lease_until_it_ends() -> None:
    cluster = Cluster("manager", lambda: NOW)
    cluster.put(NAMESPACES, {"metadata": {"name": OWN.namespace}})
    async with process._alone(cluster, Settings(), process.ProcessEnvironment(identity="me")):
        lease = await cluster.get(LEASES, OWN)
        assert (record_of(lease).holder_identity, lease.metadata.labels) == ("me", MANAGED_BY)
    assert record_of(await cluster.get(LEASES, OWN)).holder_identity == ""


async def test_a_process_that_cannot_be_noticed_says_what_may_happen() -> None:
    cluster = Cluster("manager", lambda: NOW)  # there is no namespace for the Lease
    with capture_logs() as logs:
        async with process._alone(cluster, Settings(), process.ProcessEnvironment(identity="me")):
            pass
    assert [told["event"] for told in logs if told["log_level"] == "warning"] == ["manager.not_announced"]
