"""Some of the stories recorded on Kueue 0.19.0 and 0.19.2 are decided as it decided; `make parity` plays all of them."""

from __future__ import annotations

from collections import Counter
from itertools import islice
from pathlib import Path

import pytest

from tests.parity import report
from tests.parity.play import play
from tests.parity.story import RELEASES, Choice, Story, find

STORIES = list(find(Path(__file__).parent / "stories", Choice()))
EACH = 8
"""One of so many is played here."""


def test_there_are_stories_of_the_newest_release() -> None:
    releases = Counter(story.release for _, story in STORIES if isinstance(story, Story))
    assert releases.keys() == {"0.19", RELEASES[-1]}
    assert releases.total() == len(STORIES)


@pytest.mark.parametrize("story", [pytest.param(story, id=name) for name, story in islice(STORIES, 0, None, EACH)])
def test_it_is_decided_as_kueue_decided(story: Story) -> None:
    outcome = play(story)
    assert outcome.agrees, "\n".join(report.lines(outcome))
