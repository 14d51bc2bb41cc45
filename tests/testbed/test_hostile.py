"""What `make hostile` plays, how it lies, and how it judges."""

from __future__ import annotations

import json
import ssl
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import aiohttp
import pytest

from testbed import objects
from testbed.client import ApiError, Client
from testbed.hostile.crowd import rounds
from testbed.hostile.liar import Liar
from testbed.hostile.liars import Liars
from testbed.hostile.play import CASES
from testbed.hostile.report import Row, Totals, as_json, line
from testbed.hostile.stage import SILENCE
from testbed.hostile.vitals import in_buckets
from testbed.hostile.workers import LIES, answered, changed, conditions, endless, items, listed
from testbed.objects import NAMESPACE
from testbed.sandbox import SandboxBed


def row(**more: Any) -> Row:
    basis: dict[str, Any] = {"who": "tenant", "what": "odd", "became": "refused", "control": 1.0, "innocent": 1.0}
    return Row(**basis | more)


def totals(**more: Any) -> Totals:
    basis: dict[str, Any] = {"memory_before": 100.0, "peak": 100.0, "memory": 100.0, "turn_before": 0.01, "turn": 0.01}
    return Totals(**basis | more)


def test_there_are_many_and_no_two_alike() -> None:
    told = [f"{case.who} {case.what}" for case in CASES]
    assert len(told) == len(set(told)) >= 60
    assert {case.who for case in CASES} == {"tenant", "worker", "admin", "network"}


@pytest.mark.parametrize(
    ("judged", "fault"),
    [
        pytest.param(row(), "", id="one that changes nothing passes"),
        pytest.param(row(control=2.0, innocent=3.9), "", id="less than twice the control is in time"),
        pytest.param(row(control=2.0, innocent=4.1), "late", id="more than that is late"),
        pytest.param(row(control=0.1, innocent=1.9), "", id="tiny times are not compared"),
        pytest.param(row(innocent=None), "did not run", id="an innocent job that never ran fails"),
        pytest.param(row(control=None), "", id="without a control it is enough to run"),
        pytest.param(row(harm=["the manager ended"]), "the manager ended", id="harm to others fails"),
        pytest.param(row(became=SILENCE), "neither ran nor says", id="what neither runs nor says why fails"),
        pytest.param(totals(), "", id="the same memory passes"),
        pytest.param(totals(peak=149.0), "", id="less than half of it more passes"),
        pytest.param(totals(peak=151.0), "memory grew to 1.51", id="more than that fails"),
        pytest.param(totals(turn=0.24), "", id="a turn below 250 ms passes"),
        pytest.param(totals(turn=0.26), "260 ms", id="a longer one fails"),
        pytest.param(totals(turn_before=0.2, turn=0.39), "", id="a slow machine is compared with itself"),
        pytest.param(totals(turn_before=0.2, turn=0.41), "410 ms", id="and may be twice as slow"),
        pytest.param(totals(turn=None), "", id="turns that nobody measures are not judged"),
    ],
)
def test_judgement(judged: Row | Totals, fault: str) -> None:
    assert len(judged.faults) == bool(fault)
    assert fault in "".join(judged.faults)


def test_a_row_is_told_with_its_faults_below() -> None:
    told = line(row(harm=["the manager ended"], innocent=None)).splitlines()
    assert told[0].startswith("tenant  odd")
    assert [text.split("FAILED  ")[1] for text in told[1:]] == [
        "the manager ended",
        "the innocent job did not run, or did not end",
    ]


def test_memory_is_told_at_its_peak_and_at_the_end() -> None:
    assert totals(memory_before=80.0, peak=120.0, memory=100.0).lines()[0] == (
        "memory: 80 MiB before, 120 MiB at its peak (1.50 of before; at most 1.5), 100 MiB at the end (1.25 of before)"
    )


def test_as_json_each_row_has_its_faults() -> None:
    assert '"faults": [\n          "the manager ended"\n        ]' in as_json(
        [([row(harm=["the manager ended"])], totals())]
    )


def test_turns_are_told_by_the_bucket_that_they_fall_into() -> None:
    text = "\n".join(
        f'multikueue_event_loop_turn_seconds_bucket{{le="{bound}",role="r"}} {count}.0'
        for bound, count in (("0.05", 7), ("0.1", 7), ("0.25", 9), ("+Inf", 9))
    )
    assert in_buckets(text) == {0.05: 7, 0.1: 0, 0.25: 2, float("inf"): 0}


@pytest.fixture(name="liar", scope="module")
async def _liar(anyio_backend: str) -> AsyncIterator[tuple[Liar, SandboxBed]]:
    async with (
        SandboxBed.start(workers=1) as bed,
        Liar.before(bed.workers[0], bed.folder) as liar,
    ):
        yield liar, bed


@pytest.fixture(name="client")
async def _client(liar: tuple[Liar, SandboxBed]) -> AsyncIterator[Client]:
    """Somebody who asks the liar."""
    async with liar[1].workers[0].client(server=liar[0].url) as client:
        yield client
    liar[0].tell(None)


@pytest.mark.anyio
async def test_until_it_is_told_to_lie_it_passes_everything_on(liar: tuple[Liar, SandboxBed], client: Client) -> None:
    made = await client.create(objects.namespace("one"))
    assert (await client.get(NAMESPACE, "one"))["metadata"]["uid"] == made["metadata"]["uid"]
    async with client.changes(NAMESPACE) as changes:
        await client.create(objects.namespace("two"))
        assert (await anext(changes))[1]["metadata"]["name"] == "two"
    assert liar[0].told == 0


@pytest.mark.anyio
async def test_lies(liar: tuple[Liar, SandboxBed], client: Client) -> None:
    await client.list(NAMESPACE)
    liar[0].tell(listed(endless, "namespaces"))
    assert await client.list(NAMESPACE) == []
    liar[0].tell(changed("namespaces", conditions("Odd", message="m")))
    found = await client.list(NAMESPACE)
    assert {body["status"]["conditions"][0]["type"] for body in found} == {"Odd"}
    liar[0].tell(answered(429, b"{}"))
    with pytest.raises(ApiError, match="429"):
        await client.list(NAMESPACE)
    assert liar[0].told == 1
    liar[0].tell(items("no object"))
    assert await client.list(NAMESPACE)


@pytest.mark.anyio
@pytest.mark.parametrize(
    "what", ["changes of all that it has without pause", "bookmarks without pause, in chunks of a byte"]
)
async def test_a_watch_without_pause_is_one(liar: tuple[Liar, SandboxBed], client: Client, what: str) -> None:
    await client.apply(objects.namespace("one"))
    liar[0].tell(LIES[what])
    path = "/api/v1/namespaces"
    assert any(body["metadata"]["name"] == "one" for body in await client.list(NAMESPACE)), "lists are true"
    async with (
        aiohttp.ClientSession() as session,
        session.get(
            f"{liar[0].url}{path}?watch=true",
            ssl=ssl.create_default_context(cadata=liar[1].workers[0].ca.decode()),
            headers={"Authorization": f"Bearer {liar[1].workers[0].tokens['admin']}"},
        ) as answer,
    ):
        lines = [json.loads(await answer.content.readline()) for _ in range(50)]
    assert {each["type"] for each in lines} == {"MODIFIED" if "changes" in what else "BOOKMARK"}
    versions = [int(each["object"]["metadata"]["resourceVersion"]) for each in lines]
    assert versions == sorted(versions)


def test_in_the_rounds_of_a_crowd_each_lie_is_told_and_no_two_are_alike() -> None:
    assert {what for manners in rounds() for what in manners} == LIES.keys()
    assert all(len(set(manners)) == 4 for manners in rounds())
    assert rounds() == rounds()
    assert len(LIES) > 40


@pytest.mark.anyio
async def test_liars_take_orders(liar: tuple[Liar, SandboxBed]) -> None:
    bed = liar[1]
    plane = bed.workers[0]
    certificate, key = plane.identity.authority.issue("liar", "127.0.0.1").write(bed.folder / "liars")
    files = {"certificate": str(certificate), "key": str(key)}
    async with AsyncExitStack() as stack:
        liars = Liars(stack)
        url = await liars.take({"do": "stand", "url": plane.url, "ca": plane.ca.decode(), **files})
        async with plane.client(server=url) as client:
            await client.apply(objects.namespace("one"))
            await liars.take({"do": "tell", "url": url, "what": "nothing, with status 204"})
            with pytest.raises(ValueError, match="Expecting value"):
                await client.list(NAMESPACE)
            await liars.take({"do": "tell", "url": url, "what": ""})
            assert await client.list(NAMESPACE)
