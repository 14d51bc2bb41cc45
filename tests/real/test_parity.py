"""Freshly drawn stories: a real Kueue and our manager decide alike.

The seed is fixed, so that a failure is one of ours; `make parity FRESH=300` draws others.
"""

from __future__ import annotations

import pytest

from tests.parity import fresh
from tests.parity.draw import CONFIGURATIONS
from tests.parity.story import Object
from tests.real.skipping import needs_programs

pytestmark = [
    pytest.mark.real,
    pytest.mark.timeout(600),
    needs_programs("it starts a Kueue of its own, under another configuration"),
]

SEED = 11
STORIES = 4
"""Each comes to rest after each step, which takes Kueue its time."""


@pytest.mark.parametrize("configuration", CONFIGURATIONS[:2], ids=["classical", "fair sharing"])
def test_kueue_and_we_decide_alike(configuration: Object) -> None:
    said: list[str] = [f"seed {SEED}"]
    found = fresh.compare(SEED, STORIES, say=said.append, configuration=configuration)
    assert all(outcome.agrees for outcome in found.outcomes), "\n".join(said)
    assert len(found.left_out) <= STORIES // 2, "\n".join(said)
