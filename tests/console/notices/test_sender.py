from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from fakekube.front_end.authority import Authority
from multikueue.errors import ConfigurationError
from multikueue_console.history.store import HistoryUnavailable, RunHistory
from multikueue_console.history.story import news_of
from multikueue_console.notices import sender
from multikueue_console.notices.outbox import Outbox
from multikueue_console.notices.sender import Sender
from multikueue_console.notices.settings import NoticeSettings
from tests.console.history.lives import at, finished, running, submitted
from tests.console.notices.receiver import OK, Receiver, receiving, status
from tests.console.notices.test_outbox import ALL

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sender, "EVERY", 0.01)
    monkeypatch.setattr(sender, "DEADLINE", 0.5)
    monkeypatch.setattr(sender, "LONGEST_PAUSE", 0.05)


@pytest.fixture
def history(tmp_path: Path) -> Iterator[RunHistory]:
    opened = RunHistory.open(f"sqlite:///{tmp_path / 'history.db'}")
    yield opened
    opened.close()


@asynccontextmanager
async def sending(history: RunHistory, url: str, said: list[str], **settings: Any) -> AsyncIterator[None]:
    """A recorder's sender, with jobs `train` that runs and `slow` that waits for two hours."""
    told = NoticeSettings(to=url, queues=(ALL,), **settings)
    outbox = Outbox(history, told)
    outbox.begin(at(0))
    wait = news_of(submitted("slow").build()).wait
    assert wait is not None
    made = Sender(outbox, told, lambda: [wait], lambda: at(120), tell=said.append)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(made.run)
        yield
        tasks.cancel_scope.cancel()


async def until(receiver: Receiver, count: int) -> None:
    with anyio.fail_after(10):
        while len(receiver.events) < count:
            await receiver.arrived.wait()


async def spoken(said: list[str]) -> None:
    with anyio.fail_after(10):
        while True:
            if said:
                return
            await anyio.sleep(0.01)


async def settled(history: RunHistory, *expected: str) -> None:
    """Waits until nothing but this is due."""
    with anyio.fail_after(10):
        while True:
            outbox = Outbox(history, NoticeSettings(to="https://a", queues=(ALL,)))
            if sorted(each.run.name for each in outbox.due([], at(120))) == sorted(expected):
                return
            await anyio.sleep(0.01)


async def test_notices_arrive_once_as_cloudevents_also_after_a_restart(history: RunHistory, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("secret\n")
    history.record([news_of(running().build())], at(11))
    async with receiving() as receiver:
        for _ in range(2):
            async with sending(history, receiver.url, [], token_file=str(tmp_path / "token"), source="/hub"):
                await until(receiver, 2)
                await settled(history)
                await anyio.sleep(0.05)
    assert sorted(receiver.kinds) == ["slow waits", "train started"]
    assert {each["source"] for each in receiver.events} == {"/hub"}
    assert receiver.headers[0]["content-type"] == "application/cloudevents+json; charset=UTF-8"
    assert receiver.headers[0]["authorization"] == "Bearer secret"


LIES = {
    "it is slow": b"",
    "500": status(500),
    "not this token": status(401),
    "not yet": status(429, "Retry-After: 0"),
    "a redirect": status(307, "Location: http://127.0.0.1:9/"),
    "a status that is none": b"HTTP/1.1 OK\r\n\r\n",
    "no HTTP": b"\x00\x01\x02 SSH-2.0\r\n\r\n",
    "a body that is not what it says": b"HTTP/1.1 202 OK\r\nTransfer-Encoding: chunked\r\n\r\nzzz",
    "headers without an end": b"HTTP/1.1 204 So\r\n" + b"X: " + b"a" * 100_000,
}


@pytest.mark.parametrize("answer", LIES.values(), ids=LIES)
async def test_what_was_not_confirmed_is_sent_again_by_the_same_identifier(history: RunHistory, answer: bytes) -> None:
    history.record([news_of(running().build())], at(11))
    said: list[str] = []
    async with receiving(answer, answer, OK) as receiver, sending(history, receiver.url, said):
        await until(receiver, 4)
        await settled(history)
    first, again = receiver.events[:2], receiver.events[2:]
    assert sorted(each["id"] for each in first) == sorted(each["id"] for each in again)
    assert [each.partition(":")[0] for each in said] == ["Notices wait", "Notices are sent again."]
    assert {each.split()[1] for each in receiver.paths} == {"/jobs"}


async def test_of_an_answer_the_status_counts_alone(history: RunHistory) -> None:
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: 100000000\r\n\r\n" + b"no" * 1000
    history.record([news_of(running().build())], at(11))
    async with receiving(answer) as receiver, sending(history, receiver.url, []):
        await until(receiver, 2)
        await settled(history)
        await anyio.sleep(0.05)
    assert len(receiver.events) == 2


async def test_a_notice_that_is_refused_is_told_and_not_sent_again(history: RunHistory) -> None:
    history.record([news_of(running().build())], at(11))
    said: list[str] = []
    async with receiving(status(400)) as receiver, sending(history, receiver.url, said):
        await until(receiver, 2)
        await settled(history)
        await anyio.sleep(0.05)
    assert len(receiver.events) == 2
    assert (
        sorted(said)[1]
        == "The receiver refused the notice uid-train/start/2026-01-01T12:09:00Z (400). It is not sent again."
    )


async def test_a_receiver_that_is_gone_gets_nothing_until_the_next_start(history: RunHistory) -> None:
    history.record([news_of(running().build())], at(11))
    said: list[str] = []
    async with receiving(status(410)) as receiver, sending(history, receiver.url, said):
        await until(receiver, 2)
        history.record([news_of(finished("bad", end=100, reason="Failed"))], at(101))
        await anyio.sleep(0.1)
    assert len(receiver.events) == 2
    assert said == ["The receiver is gone for good (410): no notice is sent until the next start."]
    await settled(history, "train", "bad", "bad")


async def test_notices_wait_for_a_receiver_that_is_away(history: RunHistory) -> None:
    history.record([news_of(running().build())], at(11))
    said: list[str] = []
    async with sending(history, "http://127.0.0.1:9/jobs", said):
        await spoken(said)
        await anyio.sleep(0.1)
    assert len(said) == 1
    assert "does not answer" in said[0]
    await settled(history, "train")


async def test_what_was_confirmed_while_the_history_was_away_is_not_sent_again(
    history: RunHistory, monkeypatch: pytest.MonkeyPatch
) -> None:
    history.record([news_of(running().build())], at(11))
    settle, away = Outbox.settle, [True, True]

    def refusing(outbox: Outbox, notices: Any) -> None:
        if notices and away:
            away.pop()
            raise HistoryUnavailable("the disk is full")
        settle(outbox, notices)

    monkeypatch.setattr(Outbox, "settle", refusing)
    said: list[str] = []
    async with receiving() as receiver, sending(history, receiver.url, said):
        await settled(history)
        await anyio.sleep(0.05)
    assert len(receiver.events) == 2
    assert said[0] == "Notices wait: the disk is full"


async def test_what_was_confirmed_when_the_recorder_is_stopped_is_not_sent_again(history: RunHistory) -> None:
    history.record([news_of(running().build())], at(11))
    async with receiving(OK, b"") as receiver:
        async with sending(history, receiver.url, []):
            await until(receiver, 2)
            await anyio.sleep(0.05)
        confirmed = receiver.events[0]["id"]
        receiver.answers.append(OK)
        async with sending(history, receiver.url, []):
            await until(receiver, 3)
            await settled(history)
    assert [each["id"] for each in receiver.events].count(confirmed) == 1


async def test_only_the_authority_in_the_settings_is_trusted(history: RunHistory, tmp_path: Path) -> None:
    history.record([news_of(running().build())], at(11))
    tls, roots = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH), tmp_path / "ca.crt"
    authority = Authority()
    authority.issue("hooks", "127.0.0.1").load_into(tls)
    said: list[str] = []
    async with receiving(tls=tls) as receiver:
        async with sending(history, receiver.url, said):
            await spoken(said)
        assert receiver.events == []
        assert "CERTIFICATE_VERIFY_FAILED" in said[0]
        roots.write_bytes(authority.pem)
        async with sending(history, receiver.url, [], ca_file=str(roots)):
            await until(receiver, 2)
            await settled(history)


async def test_a_file_without_certificates_is_refused(history: RunHistory, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="ca_file"):
        async with sending(history, "https://127.0.0.1:9", [], ca_file=str(tmp_path / "none.crt")):
            pass
