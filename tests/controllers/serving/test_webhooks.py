"""The registration of the webhook: made, kept, renewed and taken away; one file, the life of one object."""

from __future__ import annotations

import copy
import ssl
from base64 import b64decode
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import aiohttp
import pytest
from structlog.testing import capture_logs

from fakekube.front_end.authority import Authority
from multikueue.api import kinds
from multikueue.api.kinds import MUTATING_WEBHOOKS, SECRETS
from multikueue.api.meta import ObjectKey
from multikueue.controllers.serving.names import CONFIGURATION
from multikueue.controllers.serving.webhooks import (
    CERTIFICATE_SECRET,
    Service,
    Webhooks,
    client_config,
    keep_webhook,
    names_of,
    webhooks,
)
from multikueue.errors import (
    ApiError,
    ClusterUnreachable,
    Conflict,
    MultiKueueError,
    NotLeading,
    ServerError,
    Throttled,
)
from multikueue.jobs.integrations.frameworks import FRAMEWORKS
from multikueue.web.admission import AdmissionLookups
from multikueue.web.certificates import LIFETIME
from multikueue.web.server import WEBHOOK_PATH, Server
from multikueue.web.serving import Serving
from tests.controllers.serving.api import manager

pytestmark = pytest.mark.anyio

Tree = dict[str, Any]
SECRET = ObjectKey("ours", CERTIFICATE_SECRET)
HOST = "127.0.0.1"
# The TLS handshakes below look at the machine's clock.
NOW = datetime.now(UTC).replace(microsecond=0)


class Manager:
    """The manager cluster, and what a reader makes of it: the Secret, the registration, and whether that leads here."""

    def __init__(self) -> None:
        self.cluster = manager()

    @property
    def data(self) -> dict[str, str]:
        found: dict[str, str] = (self.cluster.find(SECRETS, SECRET) or {})["data"]
        return found

    @property
    def entries(self) -> list[Tree]:
        found: list[Tree] = (self.cluster.find(MUTATING_WEBHOOKS, CONFIGURATION) or {})["webhooks"]
        return copy.deepcopy(found)

    @entries.setter
    def entries(self, entries: list[Tree]) -> None:
        self.cluster.change(MUTATING_WEBHOOKS, CONFIGURATION, {"webhooks": entries})

    def bundle(self) -> bytes:
        """What the API server trusts."""
        return b64decode(self.entries[0]["clientConfig"]["caBundle"])

    async def can_call(self) -> bool:
        """Whether the API server reaches the webhook the way it was told to."""
        context = ssl.create_default_context(cadata=self.bundle().decode())
        url = self.entries[0]["clientConfig"]["url"]
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context)) as session:
            try:
                async with session.post(url, data=b"{}") as response:
                    return response.status == 400
            except aiohttp.ClientConnectorCertificateError:
                return False


@dataclass
class VirtualClock:
    """Time that passes only while somebody sleeps; ends the test at `end`."""

    at: datetime
    end: datetime
    slept: list[float] = field(default_factory=list)

    def now(self) -> datetime:
        return self.at

    def monotonic(self) -> float:
        return self.at.timestamp()

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.at += timedelta(seconds=seconds)
        if self.at > self.end:
            raise TimeoutError


def serving() -> Server:
    return Server(ready=lambda: None, known=AdmissionLookups(does_dispatch=lambda _namespace, _queue: True))


def webhook(api: Manager, server: Server, *, now: Callable[[], datetime] = lambda: NOW, **changes: Any) -> Webhooks:
    how: dict[str, Any] = {"namespace": "ours", "address": f"https://{HOST}", "host": HOST, "port": 0}
    return Webhooks(client=api.cluster, server=server, now=now, **(how | changes))


async def test_a_first_start_makes_all_that_is_needed() -> None:
    api = Manager()
    async with serving() as server:
        await webhook(api, server).start()
        assert api.cluster.written == ["create secrets", "create mutatingwebhookconfigurations"]
        assert await api.can_call()


async def test_an_api_server_that_does_not_show_who_it_is_is_not_listened_to_where_it_has_to() -> None:
    api = Manager()
    async with serving() as server:
        await webhook(api, server, client_ca=Authority().pem.decode()).start()
        with pytest.raises(aiohttp.ClientError):
            await api.can_call()


async def test_in_place_it_writes_nothing() -> None:
    api = Manager()
    async with serving() as server:
        kept = webhook(api, server)
        port = await kept.start()
        api.cluster.written.clear()
        assert (await kept.reconcile(port)).again_after == timedelta(seconds=15)
        assert api.cluster.written == []


async def test_replicas_share_one_certificate() -> None:
    api = Manager()
    async with serving() as one, serving() as other:
        first, second = webhook(api, one, port=0), webhook(api, other)
        await first.start()
        data = api.data
        await second.start()
        assert api.data == data
        assert await api.can_call()


async def test_who_comes_second_takes_what_the_first_made() -> None:
    api, rival = Manager(), Manager()
    async with serving() as ours, serving() as theirs:
        await webhook(rival, theirs).start()

        def steal(verb: str, _plural: str) -> None:
            if verb == "create":
                for kind, key in ((SECRETS, SECRET), (MUTATING_WEBHOOKS, CONFIGURATION)):
                    if api.cluster.find(kind, key) is None:
                        api.cluster.put(kind, rival.cluster.find(kind, key) or {})

        api.cluster.fault = steal
        await webhook(api, ours).start()
        assert api.data == rival.data
        assert api.cluster.written == ["patch mutatingwebhookconfigurations"], "another port, the same certificate"
        assert await api.can_call()


async def test_an_empty_secret_is_filled() -> None:
    api = Manager()
    api.cluster.put(SECRETS, {"data": {"note": "bXk="}}, SECRET)
    async with serving() as server:
        await webhook(api, server).start()
        assert api.data.keys() == {"note", "tls.crt", "tls.key", "ca.crt"}
        assert await api.can_call()


async def test_a_certificate_of_somebody_else_is_waited_for_and_never_written() -> None:
    """As cert-manager keeps one: it fills the Secret later than the process starts, and renews it."""
    api, issuer, issued = Manager(), Manager(), ObjectKey("ours", "issued")
    async with serving() as one, serving() as other:
        await webhook(issuer, one).start()

        class Later(VirtualClock):
            async def sleep(self, seconds: float) -> None:
                await super().sleep(seconds)
                data = {} if self.at < NOW + timedelta(seconds=9) else issuer.data
                api.cluster.put(SECRETS, {"data": data}, issued)

        clock = Later(NOW, NOW + timedelta(seconds=30))
        kept, began = webhook(api, other, now=clock.now, issued="issued"), list[timedelta]()
        with capture_logs() as entries, pytest.raises(TimeoutError):
            await keep_webhook(kept, clock=clock, started=lambda _port: began.append(clock.at - NOW))
        assert await api.can_call()

    told = [entry["error"] for entry in entries if entry["event"] == "webhook.not_kept"]
    assert len(told) == 2
    assert "ca.crt, tls.crt, tls.key" in told[1]
    assert began == [timedelta(seconds=10)]
    assert api.cluster.written == ["create mutatingwebhookconfigurations"]
    assert api.bundle() == b64decode(issuer.data["ca.crt"])


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda entries: entries[0]["clientConfig"].update(caBundle=""), id="the bundle is gone"),
        pytest.param(lambda entries: entries[0].update(failurePolicy="Ignore"), id="another failure policy"),
        pytest.param(lambda entries: entries[0]["rules"][0].update(operations=["*"]), id="another rule"),
        pytest.param(lambda entries: entries.pop(), id="an entry is gone"),
        pytest.param(lambda entries: entries.append({"name": "more"}), id="an entry too many"),
        pytest.param(lambda entries: entries[0].pop("objectSelector"), id="no selector"),
    ],
)
async def test_what_was_changed_is_put_back(damage: Callable[[list[Tree]], object]) -> None:
    api = Manager()
    async with serving() as server:
        kept = webhook(api, server)
        port = await kept.start()
        before = api.entries
        damaged = api.entries
        damage(damaged)
        api.entries = damaged
        await kept.reconcile(port)
        assert api.entries == before


async def test_fields_of_a_newer_api_server_are_left_alone() -> None:
    api = Manager()
    async with serving() as server:
        kept = webhook(api, server)
        port = await kept.start()
        api.entries = [entry | {"newField": "default"} for entry in api.entries]
        api.cluster.written.clear()
        await kept.reconcile(port)
        assert api.cluster.written == []


async def test_what_was_deleted_is_made_again() -> None:
    api = Manager()
    async with serving() as server:
        kept = webhook(api, server)
        port = await kept.start()
        api.cluster.drop(SECRETS, SECRET)
        api.cluster.drop(MUTATING_WEBHOOKS, CONFIGURATION)
        await kept.reconcile(port)
        assert await api.can_call()


async def test_configurations_of_others_are_never_touched() -> None:
    api = Manager()
    foreign = ObjectKey("", "kueue-mutating-webhook-configuration")
    api.cluster.put(MUTATING_WEBHOOKS, {"webhooks": [{"name": "x"}]}, foreign)
    before = api.cluster.find(MUTATING_WEBHOOKS, foreign)
    async with serving() as server:
        await webhook(api, server).start()
    assert api.cluster.find(MUTATING_WEBHOOKS, foreign) == before


@dataclass
class Witness:
    """Notes, whenever a certificate is taken into service, whether the API server trusts its authority by then."""

    api: Manager
    trusted: list[bool] = field(default_factory=list)

    def watch(self, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
        load = server.load

        def noting(certificate: Serving) -> None:
            newest = certificate.bundle.split(b"-----END CERTIFICATE-----")[0]
            self.trusted.append(newest in self.api.bundle())
            load(certificate)

        monkeypatch.setattr(server, "load", noting)


async def test_no_certificate_is_served_before_it_is_trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    api = Manager()
    clock = VirtualClock(NOW - LIFETIME, NOW)  # so the last certificate is one that the machine's clock accepts
    async with serving() as server:
        kept = webhook(api, server, now=clock.now)
        port = await kept.start()
        first, witness = api.data, Witness(api)
        witness.watch(server, monkeypatch)
        while clock.at < clock.end:
            clock.at += timedelta(days=7)
            await kept.reconcile(port)
        assert api.data != first
        assert await api.can_call()
    assert len(witness.trusted) > 50
    assert all(witness.trusted)


async def test_it_is_looked_at_four_times_a_minute() -> None:
    api, ports = Manager(), list[int]()
    clock = VirtualClock(NOW, NOW + timedelta(seconds=45))
    async with serving() as server:
        with pytest.raises(TimeoutError):
            await keep_webhook(webhook(api, server, now=clock.now), clock=clock, started=ports.append)
    assert len(ports) == 1
    assert clock.slept == [15.0] * 4


async def test_an_error_is_tried_again_soon() -> None:
    api = Manager()
    clock = VirtualClock(NOW, NOW + timedelta(seconds=30))
    failures: list[ApiError] = [ServerError(500, "InternalError", "no"), Conflict(409, "Conflict", "no")]

    def fail(_verb: str, _plural: str) -> None:
        if clock.at > NOW and failures:
            raise failures.pop(0)

    api.cluster.fault = fail
    async with serving() as server:
        with pytest.raises(TimeoutError):
            await keep_webhook(webhook(api, server, now=clock.now), clock=clock, started=lambda _port: None)
    assert clock.slept == [15.0, 5.0, 15.0], "the conflict was settled at once"


async def test_a_certificate_that_openssl_refuses_later_does_not_end_the_manager(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = VirtualClock(NOW, NOW + timedelta(seconds=15))

    def refuse(_certificate: Serving) -> None:
        raise ssl.SSLError(1, "ee key too small")

    async with serving() as server:
        monkeypatch.setattr(server, "load", refuse)
        with capture_logs() as entries, pytest.raises(TimeoutError):
            await keep_webhook(webhook(Manager(), server, now=clock.now), clock=clock, started=lambda _port: None)
    assert [entry["event"] for entry in entries if entry["log_level"] == "warning"] == ["webhook.not_kept"]


async def test_a_standby_waits_for_the_leader_to_put_the_webhook_in_place_and_then_serves_it() -> None:
    api = Manager()
    clock = VirtualClock(NOW, NOW + timedelta(seconds=30))
    writes, service = ("create", "patch"), Service("ours", "hook")

    def refuse(verb: str, _plural: str) -> None:
        if verb in writes:
            raise NotLeading("not sent")

    api.cluster.fault = refuse
    began: list[timedelta] = []

    async def lead() -> None:
        async with serving() as leader:
            api.cluster.fault = lambda _verb, _plural: None
            await webhook(api, leader, address=service).start()
            api.cluster.fault = refuse

    async with serving() as server:
        standby = webhook(api, server, now=clock.now, address=service)
        slept = clock.sleep

        async def sleep(seconds: float) -> None:
            if len(clock.slept) == 3:
                await lead()
            await slept(seconds)

        clock.sleep = sleep  # type: ignore[method-assign]
        with pytest.raises(TimeoutError):
            await keep_webhook(standby, clock=clock, started=lambda _port: began.append(clock.now() - NOW))
    assert began == [timedelta(seconds=4)]
    assert clock.slept[:4] == [1.0] * 4


@pytest.mark.parametrize(
    "passing",
    [ClusterUnreachable("", "no answer in time"), Throttled(429, "TooManyRequests", "no"), ServerError(500, "", "no")],
    ids=["no answer", "too many requests", "an error of the server"],
)
async def test_what_goes_by_itself_does_not_end_a_manager_that_starts(passing: MultiKueueError) -> None:
    api, began = Manager(), list[timedelta]()
    clock = VirtualClock(NOW, NOW + timedelta(seconds=30))

    def fail_at_first(_verb: str, _plural: str) -> None:
        if clock.at == NOW:
            raise passing

    api.cluster.fault = fail_at_first
    async with serving() as server:
        starting = webhook(api, server, now=clock.now)
        with pytest.raises(TimeoutError):
            await keep_webhook(starting, clock=clock, started=lambda _port: began.append(clock.now() - NOW))
    assert began == [timedelta(seconds=5)]


async def test_a_secret_that_never_stands_still_is_an_error() -> None:
    api = Manager()
    api.cluster.put(SECRETS, {"data": {}}, SECRET)

    def move(verb: str, _plural: str) -> None:
        if verb == "patch":
            api.cluster.change(SECRETS, SECRET, {})

    api.cluster.fault = move
    async with serving() as server:
        with pytest.raises(Conflict, match="keeps changing"):
            await webhook(api, server).start()


@pytest.mark.parametrize(
    ("address", "port", "expected"),
    [
        pytest.param(
            Service("ours", "hook"),
            None,
            {"service": {"namespace": "ours", "name": "hook", "path": WEBHOOK_PATH, "port": 443}},
            id="a service",
        ),
        pytest.param("https://a.example:99", None, {"url": f"https://a.example:99{WEBHOOK_PATH}"}, id="a URL"),
        pytest.param(
            "https://a.example:99", 7, {"url": f"https://a.example:7{WEBHOOK_PATH}"}, id="a port that was taken"
        ),
        pytest.param("https://a.example", None, {"url": f"https://a.example{WEBHOOK_PATH}"}, id="the usual port"),
        pytest.param("https://[::1]:9", None, {"url": f"https://[::1]:9{WEBHOOK_PATH}"}, id="an IPv6 address"),
    ],
)
async def test_how_the_api_server_calls_us(address: Service | str, port: int | None, expected: Tree) -> None:
    assert client_config(address, b"ca", port=port) == {**expected, "caBundle": "Y2E="}


async def test_the_names_it_calls_us_by() -> None:
    assert names_of("https://10.0.0.1:9443") == ("10.0.0.1",)
    assert names_of(Service("ours", "hook")) == ("hook.ours.svc", "hook.ours.svc.cluster.local", "hook.ours", "hook")


async def test_what_is_asked_about() -> None:
    create, update = webhooks({}, namespace="ours", failure_policy="Fail")
    assert (create["rules"][0]["operations"], create["failurePolicy"]) == (["CREATE"], "Fail")
    assert (update["rules"][0]["operations"], update["failurePolicy"]) == (["UPDATE"], "Ignore")
    for entry in (create, update):
        assert entry["namespaceSelector"]["matchExpressions"][0]["values"] == ["kube-system", "ours"]
        assert entry["objectSelector"]["matchExpressions"][0]["key"] == "kueue.x-k8s.io/queue-name"
        assert (entry["sideEffects"], entry["timeoutSeconds"]) == ("None", 5)


async def test_each_kind_in_use_is_asked_about_there_or_not() -> None:
    used = [adapter.kind for adapter in FRAMEWORKS.values()]
    for entry in webhooks({}, namespace="ours", failure_policy="Fail", kinds=used):
        asked = {(*rule["apiGroups"], *rule["apiVersions"], *rule["resources"]) for rule in entry["rules"]}
        assert asked == {(kind.group, kind.version, kind.plural) for kind in used}


async def test_what_makes_jobs_is_asked_about_whenever_it_is_written() -> None:
    found = webhooks({}, namespace="ours", failure_policy="Fail", templates=[kinds.DEPLOYMENTS])
    (entry,) = [each for each in found if each["name"] == "templates.multikueue.dev"]

    assert entry["failurePolicy"] == "Fail"
    assert [(rule["resources"], rule["operations"]) for rule in entry["rules"]] == [
        (["deployments"], ["CREATE", "UPDATE"])
    ]
    assert "matchConditions" not in entry


DEFAULTING = ["a", "kube-system", "ours", "b"]


async def test_what_names_no_queue_is_asked_about_where_there_is_one_for_it() -> None:
    used, made = [adapter.kind for adapter in FRAMEWORKS.values()], [kinds.DEPLOYMENTS]
    *others, last = webhooks(
        {}, namespace="ours", failure_policy="Fail", kinds=used, templates=made, defaulting=DEFAULTING
    )

    assert others == webhooks({}, namespace="ours", failure_policy="Fail", kinds=used, templates=made)
    assert (last["name"], last["failurePolicy"]) == ("default.jobs.multikueue.dev", "Fail")
    (there,), (without,) = (last[f"{what}Selector"]["matchExpressions"] for what in ("namespace", "object"))
    assert there == {"key": "kubernetes.io/metadata.name", "operator": "In", "values": ["a", "b"]}
    assert without == {"key": "kueue.x-k8s.io/queue-name", "operator": "DoesNotExist"}
    asked = [(rule["resources"], rule["operations"]) for rule in last["rules"]]
    assert asked == [([kind.plural], ["CREATE"]) for kind in [*used, *made]]


@pytest.mark.parametrize("namespaces", [[], ["kube-system", "ours"]], ids=["nowhere", "where nothing is asked about"])
async def test_without_such_a_place_it_is_not_asked_about(namespaces: list[str]) -> None:
    found = webhooks({}, namespace="ours", failure_policy="Fail", defaulting=namespaces)
    assert [entry["name"] for entry in found] == ["create.jobs.multikueue.dev", "update.jobs.multikueue.dev"]


async def test_the_registration_follows_the_places_at_the_end_of_a_pause() -> None:
    api, places, pauses, asked = Manager(), list[str](), list[float](), list[int]()

    async def pause(seconds: float) -> None:
        pauses.append(seconds)
        asked.append(len(api.entries))
        if len(pauses) == 3:
            raise TimeoutError
        places[:] = ["team"] if len(pauses) == 1 else []

    async with serving() as server:
        kept, clock = webhook(api, server, defaulting=lambda: places), VirtualClock(NOW, NOW)
        with pytest.raises(TimeoutError):
            await keep_webhook(kept, clock=clock, started=lambda _port: None, pause=pause)
    assert asked == [2, 3, 2]
    assert (pauses, clock.slept) == ([15.0] * 3, [])
