"""Sends notices until each is confirmed, and keeps quiet towards a receiver that is away."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from enum import IntEnum, auto
from typing import NamedTuple

import aiohttp
import anyio
import anyio.to_thread

from multikueue.errors import ConfigurationError
from multikueue_console.history.runs import Run
from multikueue_console.history.store import HistoryUnavailable
from multikueue_console.notices.notice import Notice, event_of
from multikueue_console.notices.outbox import Outbox
from multikueue_console.notices.settings import NoticeSettings

__all__ = ["Sender"]

EVERY = 2.0
"""Seconds between two looks at what there is to send."""

DEADLINE = 10.0
"""Seconds in which a receiver answers."""

LONGEST_PAUSE = 300.0
"""Seconds between two attempts while the receiver is away."""

PARALLEL = 8
"""Notices that are under way at once, and confirmed together."""

REFUSED = frozenset({400, 413, 414, 415, 422})
"""The answers by which a receiver will never take this notice. Another one, 401 or 404 too, may be put right there."""


class _Verdict(IntEnum):
    DONE = auto()
    AWAY = auto()
    GONE = auto()


class _Answer(NamedTuple):
    """`problem`: why it does not work, and `pause` the seconds that the receiver asks for."""

    verdict: _Verdict
    problem: str = ""
    pause: float = 0.0


class Sender:
    """`waits`: the jobs that wait now. `tell` is called with a sentence when something is wrong, and when that is over.

    Nothing of an answer is read but its status, and `Retry-After`; a redirect is not followed, as the token is for the address
    in the settings alone.
    """

    def __init__(
        self,
        outbox: Outbox,
        settings: NoticeSettings,
        waits: Callable[[], Iterable[Run]],
        now: Callable[[], datetime],
        *,
        tell: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._outbox, self._settings, self._waits, self._now, self._tell = outbox, settings, waits, now, tell
        self._tls = _tls(settings)
        self._confirmed: dict[str, Notice] = {}
        self._wrong, self._pause, self._asked_pause = "", EVERY, 0.0

    async def run(self) -> None:
        """Send until it is cancelled, or the receiver says that it is gone (410)."""
        timeout = aiohttp.ClientTimeout(total=DEADLINE)
        connector = aiohttp.TCPConnector(ssl=self._tls, limit=PARALLEL)
        async with aiohttp.ClientSession(timeout=timeout, connector=connector, trust_env=True) as session:
            began = False
            while True:
                try:
                    if not began:
                        await anyio.to_thread.run_sync(self._outbox.begin, self._now())
                        began = True
                    if not await self._round(session):
                        return
                except HistoryUnavailable as error:
                    self._stumble(f"Notices wait: {error}")
                await anyio.sleep(max(self._pause, self._asked_pause))

    async def _round(self, session: aiohttp.ClientSession) -> bool:
        """Send what is due, until nothing is or the receiver is away. False: it is gone for good."""
        await self._settle([])
        lost = await anyio.to_thread.run_sync(self._outbox.bound, self._now())
        if lost:
            self._tell(f"{lost} notices were given up: they are too old, or too many wait.")
        while True:
            waits = list(self._waits())
            due = await anyio.to_thread.run_sync(self._outbox.due, waits, self._now())
            for begin in range(0, len(due), PARALLEL):
                worst = await self._send_some(session, due[begin : begin + PARALLEL])
                if worst.verdict is _Verdict.GONE:
                    self._tell("The receiver is gone for good (410): no notice is sent until the next start.")
                    return False
                if worst.verdict is _Verdict.AWAY:
                    self._stumble(worst.problem, worst.pause)
                    return True
                self._recover()
            if not due:
                return True

    async def _send_some(self, session: aiohttp.ClientSession, notices: Sequence[Notice]) -> _Answer:
        """Send these at once; the worst answer. What was confirmed is recorded, whatever becomes of the rest."""
        answers: list[_Answer] = []
        done: list[Notice] = []

        async def send(notice: Notice) -> None:
            answer = await self._send(session, notice)
            answers.append(answer)
            if answer.verdict is _Verdict.DONE:
                done.append(notice)

        try:
            async with anyio.create_task_group() as tasks:
                for each in notices:
                    tasks.start_soon(send, each)
        finally:
            with anyio.CancelScope(shield=True):
                await self._settle(done)
        return max(answers, key=lambda each: each.verdict)

    async def _settle(self, done: Iterable[Notice]) -> None:
        """What the history could not take in is remembered, and recorded next time."""
        self._confirmed.update({each.id: each for each in done})
        if self._confirmed:
            await anyio.to_thread.run_sync(self._outbox.settle, list(self._confirmed.values()))
            self._confirmed.clear()

    async def _send(self, session: aiohttp.ClientSession, notice: Notice) -> _Answer:
        headers = {"Content-Type": "application/cloudevents+json; charset=UTF-8"}
        try:
            if self._settings.token_file:  # read each time: it may be renewed
                token = await anyio.Path(self._settings.token_file).read_text()
                headers["Authorization"] = f"Bearer {token.strip()}"
        except (OSError, ValueError) as error:
            return _Answer(_Verdict.AWAY, f"Notices wait: the token cannot be read: {error}")
        try:
            body = event_of(notice, self._settings.source)
            async with session.post(self._settings.to, data=body, headers=headers, allow_redirects=False) as answer:
                answer.close()  # whatever else it says is not read
                return self._judged(notice, answer.status, answer.headers.get("Retry-After", ""))
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            why = str(error) or type(error).__name__
            return _Answer(_Verdict.AWAY, f"Notices wait: the receiver does not answer: {why:.200}")

    def _judged(self, notice: Notice, status: int, pause: str) -> _Answer:
        if 200 <= status < 300:
            return _Answer(_Verdict.DONE)
        if status == 410:
            return _Answer(_Verdict.GONE)
        if status in REFUSED:
            self._tell(f"The receiver refused the notice {notice.id} ({status}). It is not sent again.")
            return _Answer(_Verdict.DONE)
        seconds = min(float(pause), LONGEST_PAUSE) if pause.isdecimal() else 0.0
        return _Answer(_Verdict.AWAY, f"Notices wait: the receiver answers {status}", seconds)

    def _recover(self) -> None:
        if self._wrong:
            self._tell("Notices are sent again.")
        self._wrong, self._pause, self._asked_pause = "", EVERY, 0.0

    def _stumble(self, problem: str, asked_pause: float = 0.0) -> None:
        """Something does not work: tell it once, and wait longer next time."""
        self._pause = min(2 * self._pause, LONGEST_PAUSE)
        self._asked_pause = asked_pause
        if problem != self._wrong:
            self._wrong = problem
            self._tell(problem)


def _tls(settings: NoticeSettings) -> ssl.SSLContext:
    """Trusts the system's roots, or only those of the file. Raises ConfigurationError."""
    try:
        return ssl.create_default_context(cafile=settings.ca_file or None)
    except (OSError, ssl.SSLError) as error:
        raise ConfigurationError(f"ca_file: {settings.ca_file}: {error}") from None
