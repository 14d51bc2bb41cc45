"""What differs on purpose covers one thing each, and no more."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.parity import play as playing
from tests.parity.builders import bad
from tests.parity.compare import Disagreement
from tests.parity.deviations import KNOWN, Deviation, reason
from tests.parity.play import play
from tests.parity.story import parsed

ONE = Deviation("s", (3, 3), "ClusterQueue *", "pending", "why")


def found(story: str = "s", step: int = 3, item: str = "ClusterQueue q", field: str = "pending") -> Disagreement:
    return Disagreement(story, step, "finish", item, field, 1, 0)


def test_it_covers_its_field_of_its_objects_in_its_step() -> None:
    assert reason(found(), [ONE]) == "why"


@pytest.mark.parametrize(
    "other",
    [found(story="t"), found(step=4), found(step=2), found(item="LocalQueue q"), found(field="reserving")],
    ids=["another story", "a later step", "an earlier step", "another kind", "another field"],
)
def test_it_covers_nothing_else(other: Disagreement) -> None:
    assert reason(other, [ONE]) == ""


def test_it_covers_all_from_its_first_step_to_its_last() -> None:
    longer = Deviation("s", (3, 5), "*", "*", "why")
    assert [reason(found(step=step), [longer]) for step in (2, 3, 5, 6)] == ["", "why", "why", ""]


def test_a_story_that_differs_only_on_purpose_agrees(monkeypatch: pytest.MonkeyPatch) -> None:
    deliberate = Deviation("bad", (3, 3), "ClusterQueue q", "admitted", "on purpose")
    monkeypatch.setattr(playing, "reason", lambda each: reason(each, [deliberate]))
    outcome = play(parsed(bad()))
    assert outcome.agrees
    assert outcome.deviations == ["on purpose"]


def test_of_certain_values_it_covers_no_others() -> None:
    assert reason(found(), [replace(ONE, values=(1, 0))]) == "why"
    assert reason(found(), [replace(ONE, values=(0, 1))]) == ""


def test_each_story_is_listed_once_with_a_reason_and_what_is_meant_everywhere_for_certain_values() -> None:
    everywhere = [each for each in KNOWN if each.story == "*"]
    assert len({each.story for each in KNOWN} - {"*"}) == len(KNOWN) - len(everywhere)
    assert all(each.values for each in everywhere)
    assert all(each.why for each in KNOWN)
