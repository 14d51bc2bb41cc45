"""What becomes of a request on a link: by the state the link is in, then by the weather."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import msgspec
import pytest

from fakekube.model.wire import Request
from fakekube.network.link import Fate, Link, State, Weather

GET = Request(method="GET", path="/api")


def link(seed: int = 1, **weather: Any) -> Link:
    return Link(random.Random(seed), Weather(**weather))


def test_on_a_fine_day_everything_arrives_within_the_latency() -> None:
    calm = link(latency=(0.1, 0.2))
    for _ in range(100):
        fate = calm.fate(GET)
        assert (fate.arrives, fate.returns, fate.refused, fate.answer) == (True, True, False, None)
        assert all(0.1 <= way <= 0.2 for way in (fate.there, fate.back))


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        pytest.param(State.REFUSE, Fate(refused=True), id="refused: nothing was sent"),
        pytest.param(State.HANG, Fate(), id="hanging: it waits for better times"),
        pytest.param(State.MUTE, Fate(), id="mute: its answer waits for better times"),
    ],
)
def test_a_broken_link(state: State, expected: Fate) -> None:
    broken = link(latency=(0.0, 0.0))
    broken.become(state)
    assert broken.fate(GET) == expected


def test_a_link_that_resets_loses_answers_of_what_was_done_and_of_what_was_not() -> None:
    broken = link()
    broken.become(State.RESET)
    fates = [broken.fate(GET) for _ in range(50)]
    assert {fate.arrives for fate in fates} == {True, False}
    assert not any(fate.returns for fate in fates)


@pytest.mark.parametrize(
    ("weather", "seen"),
    [
        pytest.param({"lost_request": 1.0}, lambda f: not f.arrives and not f.returns, id="requests get lost"),
        pytest.param({"lost_answer": 1.0}, lambda f: f.arrives and not f.returns, id="answers get lost"),
        pytest.param({"late": 1.0, "lateness": 9.0}, lambda f: f.back > 0.003, id="answers are late"),
        pytest.param({"unwilling": 1.0}, lambda f: f.answer is not None, id="servers are unwilling"),
    ],
)
def test_bad_weather(weather: dict[str, Any], seen: object) -> None:
    assert callable(seen)
    assert seen(link(1, **weather).fate(GET))


def test_an_unwilling_server_says_so_as_kubernetes_does_and_when_to_come_back() -> None:
    answer = link(unwilling=1.0, answers=(429,)).fate(GET).answer
    assert answer is not None
    body = msgspec.json.decode(answer.body)
    assert (answer.status, body["kind"], body["reason"]) == (429, "Status", "TooManyRequests")
    assert answer.headers["Retry-After"] == "1"


def test_chances_are_what_they_say() -> None:
    rainy = link(lost_answer=0.25)
    lost = Counter(rainy.fate(GET).returns for _ in range(2000))[False]
    assert 400 < lost < 600


@pytest.mark.parametrize(
    ("state", "breaks"),
    [(State.REFUSE, 1), (State.RESET, 1), (State.HANG, 0), (State.MUTE, 0)],
    ids=["refuse", "reset", "hang", "mute"],
)
def test_what_is_open_breaks_when_a_link_breaks_and_not_when_it_falls_silent(state: State, breaks: int) -> None:
    one, told = link(), list[int]()
    one.watchers["stream"] = lambda: told.append(one.age)
    one.become(state)
    assert one.age == breaks
    assert told == [breaks]


def test_the_same_seed_brings_the_same_luck() -> None:
    assert [link(7, lost_answer=0.5).fate(GET) for _ in range(3)] == [
        link(7, lost_answer=0.5).fate(GET) for _ in range(3)
    ]
