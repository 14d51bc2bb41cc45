"""Freshly drawn stories: a real Kueue and our manager decide alike.

The seed is fixed, so that a failure is one of ours; `make parity FRESH=300` draws others.
"""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

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

CONFIGURED = {"classical": CONFIGURATIONS[0], "fair sharing": CONFIGURATIONS[1]}


@pytest.fixture(scope="module")
def compared() -> dict[str, tuple[fresh.Findings, str]]:
    """What was found under each configuration, and what was said on the way.

    All at once, since a story mostly waits, and in processes, since the limit to what we compute is a signal.
    """
    with ProcessPoolExecutor(mp_context=get_context("spawn")) as processes:
        return dict(zip(CONFIGURED, processes.map(_compared, CONFIGURED.values()), strict=True))


def _compared(configuration: Object) -> tuple[fresh.Findings, str]:
    said = [f"seed {SEED}"]
    found = fresh.compare(SEED, STORIES, say=said.append, configuration=configuration)
    return found, "\n".join(said)


@pytest.mark.parametrize("configured", CONFIGURED)
def test_kueue_and_we_decide_alike(compared: dict[str, tuple[fresh.Findings, str]], configured: str) -> None:
    found, said = compared[configured]
    assert all(outcome.agrees for outcome in found.outcomes), said
    assert len(found.left_out) <= STORIES // 2, said
