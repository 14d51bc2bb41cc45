"""Fresh stories: Kueue is asked again where we differ, and what it decides otherwise then says nothing about us."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.parity import fresh
from tests.parity.builders import bad, good
from tests.parity.draw import LETTERS
from tests.parity.record import prefix
from tests.parity.story import Object


class Kueues:
    """Stand in for drawing and recording: story `number` is recorded as `stories[number]`, time after time."""

    def __init__(self, *stories: Sequence[Object]) -> None:
        self.stories = stories
        self.started: list[Object] = []
        self.asked: list[list[str]] = []

    def draw(self, _seed: int, number: int, *, time: int = 0) -> Object:
        answers = self.stories[number]
        story = answers[min(time, len(answers) - 1)]
        return {**story, "name": f"{LETTERS[time]}{number}-story"}

    def recordings(self, _plane: Any, stories: Sequence[Object], *, say: fresh.Say) -> list[Object]:
        self.asked.append([story["name"] for story in stories])
        return [story for story in stories if story["steps"]]

    @contextmanager
    def a_kueue(self, config: Object) -> Iterator[None]:
        self.started.append(config)
        yield


def put_in(kueues: Kueues, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("draw", "recordings", "a_kueue"):
        monkeypatch.setattr(fresh, name, getattr(kueues, name))


def compared(monkeypatch: pytest.MonkeyPatch, *stories: Sequence[Object], keep: Path | None = None) -> Any:
    kueues = Kueues(*stories)
    put_in(kueues, monkeypatch)
    said: list[str] = []
    found = fresh.compare(1, len(stories), say=said.append, keep=keep)
    return kueues, found, said


def test_where_we_agree_nobody_is_asked_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    kueues, found, said = compared(monkeypatch, [good()], [good()], keep=tmp_path)
    assert kueues.asked == [["r0-story", "r1-story"]]
    assert [outcome.agrees for outcome in found.outcomes] == [True, True]
    assert (found.left_out, said) == ([], ["2 stories under {}"])
    assert json.loads((tmp_path / "r1-story.json").read_text())["steps"] == good()["steps"]


def test_where_we_differ_kueue_is_asked_again_and_says_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    kueues, found, said = compared(monkeypatch, [good()], [bad()])
    assert said[1:] == ["r1-story, step 3 (finish), ClusterQueue q, admitted: expected 2, got 1"]
    assert kueues.asked == [["r0-story", "r1-story"], [f"{letter}1-story" for letter in LETTERS[1:]]]
    assert [outcome.agrees for outcome in found.outcomes] == [True, False]


@pytest.mark.parametrize("otherwise", [1, fresh.AGAIN], ids=["the next time", "the last time"])
def test_what_kueue_decides_otherwise_once_is_left_out(monkeypatch: pytest.MonkeyPatch, otherwise: int) -> None:
    _, found, said = compared(monkeypatch, [good()], [*[bad()] * otherwise, good()])
    assert [outcome.story for outcome in found.outcomes] == ["r0-story"]
    assert found.left_out == ["r1-story"]
    assert said[1:] == ["r1-story, left out: Kueue decides it otherwise when asked again"]


def test_what_could_not_be_recorded_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    _, found, _ = compared(monkeypatch, [good()], [{**good(), "steps": []}])
    assert found.left_out == ["r1-story"]


def test_what_could_not_be_recorded_again_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    _, found, _ = compared(monkeypatch, [good()], [bad(), {**bad(), "steps": []}, bad()])
    assert found.left_out == ["r1-story"]


def test_each_configuration_has_a_kueue_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    fair = {**good(), "config": {"fairSharing": {}}}
    kueues, _, _ = compared(monkeypatch, [good()], [fair], [good()])
    assert kueues.started == [{}, {"fairSharing": {}}]


def test_only_those_of_one_configuration_are_compared_if_one_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    config: Object = {"resources": {"excludeResourcePrefixes": ["example.org/"]}}
    special = {**good(), "config": config}
    kueues = Kueues([good()], [special], [good()], [special])
    put_in(kueues, monkeypatch)
    found = fresh.compare(1, 2, say=print, configuration=config)
    assert all(outcome.agrees for outcome in found.outcomes)
    assert kueues.asked == [["r1-story", "r3-story"]]


def test_a_second_recording_is_compared_under_the_names_of_the_first() -> None:
    first: Object = {"name": "r1-story", "steps": ["r1-q"]}
    again: Object = {"name": "s1-story", "steps": ["s1-q"]}
    assert fresh._named_as(first, again)["steps"] == first["steps"]
    assert prefix(again["name"]) == "s1"
