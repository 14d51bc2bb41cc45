"""What is written can be played, and tells releases apart where it is meant to."""

from __future__ import annotations

from typing import Any

import pytest

from multikueue.api.kueue.compatibility import Release
from tests.parity import play as playing
from tests.parity import seen
from tests.parity.play import play
from tests.parity.story import Object, parsed
from tests.parity.written import FIRST, STORIES, can_be_told_of, written

OTHERWISE = (
    "is_asked_for",
    "same_back_by_share",
    "asks_for_the_same",
    "of_what_is_contested",
    "cohort_that_borrows",
    "another_flavor",
    "that_pods_claim",
)
"""Those in which 0.16 and 0.19 differ."""

BY_PATCH = ("where_it_borrows_less", "again_and_again", "into_credits_once_each")
"""Those in which 0.19.0 and 0.19.2 differ."""


def decided(story: Object, release: Release, monkeypatch: pytest.MonkeyPatch) -> list[Object]:
    """What we decide after each step."""
    states: list[Object] = []
    steps = [{**each, "expect": {}} for each in story["steps"]]

    def note(_story: Any, _number: int, _step: Any, stage: playing.Stage, _outcome: Any) -> None:
        states.append(seen.state(stage.site))

    monkeypatch.setattr(playing, "_compare", note)
    outcome = play(parsed({**story, "steps": steps, "kueue": release}))
    assert outcome.error == ""
    return states


@pytest.mark.parametrize("number", range(FIRST, FIRST + len(STORIES)), ids=[each.__name__ for each in STORIES])
def test_it_can_be_played_and_differs_between_releases_where_it_is_meant_to(
    number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    story = written(number)
    name = STORIES[number - FIRST].__name__
    old, new, newest = (decided(story, release, monkeypatch) for release in ("0.16", "0.19", "0.19.2"))
    assert len(new) == len(story["steps"])
    assert (old != new) is name.endswith(OTHERWISE)
    assert (new != newest) is name.endswith(BY_PATCH)


def test_told_again_it_has_other_names_of_the_same_length() -> None:
    first, again = written(FIRST), written(FIRST, time=1)
    assert first["name"] != again["name"]
    assert len(first["name"]) == len(again["name"])


def test_what_needs_a_feature_gate_is_told_of_releases_that_have_it() -> None:
    gated = {
        each.__name__
        for number, each in enumerate(STORIES, FIRST)
        if can_be_told_of(number, "0.19") and not can_be_told_of(number, "0.18")
    }
    assert gated == {
        "_why_work_waits_once_it_was_looked_at",
        "_why_work_waits_from_the_beginning",
        "_its_queues_hold_work_up",
        "_behind_a_head_that_waits",
    }
