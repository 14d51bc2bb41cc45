"""Sessions of browsers."""

from __future__ import annotations

from multikueue_console.web import sessions
from multikueue_console.web.rights import Person
from multikueue_console.web.sessions import BURST, IDLE, Sessions


class Watch:
    """A clock that stands until it is turned."""

    def __init__(self) -> None:
        self.at = 100.0

    def __call__(self) -> float:
        return self.at


def test_a_ticket_opens_once() -> None:
    held = Sessions(Watch())
    ticket = held.ticket()

    assert [held.redeem("guessed"), held.redeem(ticket), held.redeem(ticket)] == [False, True, False]


def test_a_session_ends_when_it_was_idle_for_long_or_is_ended() -> None:
    clock = Watch()
    held = Sessions(clock)
    used, ended = held.begin(Person("a")), held.begin(Person("b"))
    held.end(ended)

    assert held.find(ended) is None
    assert held.find(used) is not None
    clock.at += IDLE + 1
    assert held.find(used) is None


def test_a_session_has_a_rate() -> None:
    clock = Watch()
    held = Sessions(clock)
    session = held.find(held.begin(Person()))
    assert session is not None

    assert all(session.spend(clock()) for _ in range(int(BURST)))
    assert not session.spend(clock())
    clock.at += 1
    assert session.spend(clock())


def test_the_longest_unused_sessions_make_room() -> None:
    held = Sessions(Watch())
    first = held.begin(Person("first"))
    for number in range(sessions.MOST_SESSIONS):
        held.begin(Person(str(number)))

    assert held.find(first) is None


def test_a_program_with_a_token_has_one_session_that_no_cookie_opens() -> None:
    held = Sessions(Watch())
    name = held.name_of("secret")
    held.begin(Person("robot"), name)

    assert "secret" not in name
    assert held.find(name) is held.find(held.name_of("secret"))
    assert held.of_browser(name) is None
