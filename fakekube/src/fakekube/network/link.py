"""Links between a client and an API server, and their faults."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum

from fakekube.model.wire import Refused, Request, Response

__all__ = ["Fate", "Link", "State", "Weather"]


class State(Enum):
    """The state of a link. A fault breaks the open watches, except HANG and MUTE, which only silence them, and NAMELESS."""

    UP = "up"
    REFUSE = "refuse"
    """Connections are refused: no request arrives."""
    RESET = "reset"
    """Connections break: the request may have arrived or not, and no answer returns."""
    HANG = "hang"
    """No request arrives and no answer returns. When the link is up again, requests whose client still waits arrive,
    late."""
    NAMELESS = "nameless"
    """The name of the server is looked up, without an answer: a request waits as in HANG, and open streams go on."""
    MUTE = "mute"
    """Requests arrive and are carried out; answers return when the link is up again, to clients that still wait."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Weather:
    """Random faults of a link that is up. Probabilities in [0, 1], times in seconds."""

    latency: tuple[float, float] = (0.0005, 0.003)
    """The shortest and the longest delay; each direction is drawn separately."""
    lost_request: float = 0.0
    lost_answer: float = 0.0
    """The request is carried out, but the connection breaks before the answer returns."""
    late: float = 0.0
    """The answer is delayed by up to `lateness`."""
    lateness: float = 5.0
    unwilling: float = 0.0
    """The server answers with one of `answers` and does nothing."""
    answers: tuple[int, ...] = (429, 500, 503)
    broken_watch: float = 0.0
    """The stream breaks before a line of a watch."""
    torn_line: float = 0.0
    """Half a line of a watch arrives, then the stream breaks."""
    doubled_line: float = 0.0
    slow_line: float = 0.0
    """A line of a watch, and so all lines after it, is delayed by up to `lateness`."""


CALM = Weather()


@dataclass(frozen=True, slots=True)
class Fate:
    """The course of one request. Times in seconds; `answer` is the server's answer if it does not carry out the
    request."""

    there: float = 0.0
    back: float = 0.0
    refused: bool = False
    arrives: bool = True
    returns: bool = True
    answer: Response | None = None


@dataclass(slots=True)
class Link:
    """The link from one client to one server. Its owner changes `state` (through `become`) and `weather` at any
    time."""

    rng: random.Random
    weather: Weather = CALM
    state: State = State.UP
    age: int = field(default=0, init=False)
    """Increments when the open connections break."""
    watchers: dict[object, Callable[[], None]] = field(default_factory=dict, init=False)
    """Callbacks of the open streams and waiting requests, on a change of the state or a break of connections."""

    @property
    def deaf(self) -> bool:
        """Whether no request arrives now."""
        return self.state in (State.HANG, State.NAMELESS)

    @property
    def silent(self) -> bool:
        """Whether no answer returns now."""
        return self.state in (State.HANG, State.MUTE)

    def become(self, state: State) -> None:
        before, self.state = self.state, state
        if state in (State.REFUSE, State.RESET) and before is not state:
            self.age += 1
        self._tell()

    def cut(self) -> None:
        """Break the open connections. New ones can be made."""
        self.age += 1
        self._tell()

    def _tell(self) -> None:
        for tell in tuple(self.watchers.values()):
            tell()

    def fate(self, request: Request) -> Fate:
        match self.state:
            case State.REFUSE:
                return Fate(there=self._way(), refused=True)
            case State.RESET:
                return Fate(there=self._way(), arrives=self.rng.random() < 0.5, returns=False)
        return self._fate_in_weather(request)

    def line_delay(self) -> float | None:
        """Seconds until the next line of a watch arrives; None if the stream breaks instead."""
        weather = self.weather
        if weather.broken_watch and self.rng.random() < weather.broken_watch:
            return None
        return self._way() + self._lateness(weather.slow_line)

    def tears_line(self) -> bool:
        return bool(self.weather.torn_line) and self.rng.random() < self.weather.torn_line

    def doubles_line(self) -> bool:
        return bool(self.weather.doubled_line) and self.rng.random() < self.weather.doubled_line

    def _fate_in_weather(self, request: Request) -> Fate:
        weather = self.weather
        there, back = self._way(), self._way() + self._lateness(weather.late)
        if weather.unwilling and self.rng.random() < weather.unwilling:
            return Fate(there=there, back=back, answer=_unwilling(self.rng.choice(weather.answers), request))
        if weather.lost_request and self.rng.random() < weather.lost_request:
            return Fate(there=there, arrives=False, returns=False)
        if weather.lost_answer and self.rng.random() < weather.lost_answer:
            return Fate(there=there, back=back, returns=False)
        return Fate(there=there, back=back)

    def _way(self) -> float:
        shortest, longest = self.weather.latency
        return shortest + (longest - shortest) * self.rng.random()

    def _lateness(self, chance: float) -> float:
        return self.weather.lateness * self.rng.random() if chance and self.rng.random() < chance else 0.0


_WORDS = {
    409: ("Conflict", "the object has been modified; please apply your changes to the latest version and try again"),
    410: ("Expired", "too old resource version"),
    429: ("TooManyRequests", "the server has received too many requests and has asked us to try again later"),
    500: ("InternalError", "an error on the server has prevented the request from succeeding"),
    503: ("ServiceUnavailable", "the server is currently unable to handle the request"),
}


def _unwilling(code: int, request: Request) -> Response:
    reason, message = _WORDS[code]
    return Refused(code, reason, f"{request.method}: {message}", retry_after=1 if code == 429 else None).response()
