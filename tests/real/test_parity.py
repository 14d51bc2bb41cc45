"""Freshly drawn stories: a real Kueue and our manager decide alike."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future

import pytest

from tests.real.fresh_stories import CONFIGURED, STORIES, Told
from tests.real.skipping import needs_programs

pytestmark = [
    pytest.mark.real,
    pytest.mark.timeout(600),
    needs_programs("it starts a Kueue of its own, under another configuration"),
]


@pytest.mark.parametrize("configured", CONFIGURED)
def test_kueue_and_we_decide_alike(fresh_stories: Mapping[str, Future[Told]], configured: str) -> None:
    found, said = fresh_stories[configured].result()
    assert all(outcome.agrees for outcome in found.outcomes), said
    assert len(found.left_out) <= STORIES // 2, said
