"""Sessions of browsers: a cookie that is a random text, and what stands behind it here."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import sha256

from multikueue_console.web.rights import Person

__all__ = ["COOKIE", "Session", "Sessions"]

COOKIE = "multikueue-console"

IDLE = 12 * 3600.0
"""Seconds after its last request after which a session ends."""

MOST_SESSIONS = 2_000

RATE, BURST = 40.0, 200.0
"""Requests a session may make in a second, and at once."""

MOST_STREAMS = 8
"""Streams that one session may have open: a browser with as many pages."""


_PROGRAM = "program:"


@dataclass(slots=True)
class Session:
    """One browser, or one program. `left`: requests that it may make at once. `is_over`: its token is not valid any more."""

    person: Person
    used: float
    left: float = field(default=BURST)
    is_over: bool = False

    def spend(self, now: float) -> bool:
        """Whether it may make one more request now."""
        self.left = min(BURST, self.left + (now - self.used) * RATE)
        self.used = now
        if self.left < 1:
            return False
        self.left -= 1
        return True


class Sessions:
    """The open sessions, the longest unused first."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._open: dict[str, Session] = {}
        self._once: set[str] = set()

    def ticket(self) -> str:
        """A text that opens one session, once."""
        made = secrets.token_urlsafe(32)
        self._once.add(made)
        return made

    def redeem(self, ticket: str) -> bool:
        """Whether it is a ticket that nobody has used yet; it is used now."""
        found = next((each for each in self._once if secrets.compare_digest(each.encode(), ticket.encode())), None)
        self._once.discard(found or "")
        return found is not None

    def begin(self, person: Person, name: str = "") -> str:
        """Opens a session; returns its cookie, or the name of a program's session (`name_of`)."""
        name = name or secrets.token_urlsafe(32)
        self._open[name] = Session(person, self._monotonic())
        while len(self._open) > MOST_SESSIONS:
            del self._open[next(iter(self._open))]
        return name

    def find(self, cookie: str) -> Session | None:
        """The session of a cookie, now the last one that was used."""
        found = self._open.pop(cookie, None)
        if found is None or found.is_over or self._monotonic() - found.used > IDLE:
            return None
        self._open[cookie] = found
        return found

    @staticmethod
    def name_of(token: str) -> str:
        """The name of the session of a program that comes with this token each time, and with no cookie."""
        return f"{_PROGRAM}{sha256(token.encode()).hexdigest()}"

    def of_browser(self, cookie: str) -> Session | None:
        """As `find`, of browsers alone."""
        return None if cookie.startswith(_PROGRAM) else self.find(cookie)

    def end(self, cookie: str) -> None:
        self._open.pop(cookie, None)
