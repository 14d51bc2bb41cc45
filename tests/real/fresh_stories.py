"""Freshly drawn stories, told by real Kueues beside the tests: a story mostly waits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context

from tests.parity import fresh
from tests.parity.draw import CONFIGURATIONS
from tests.parity.story import Object

SEED = 11
"""It is fixed, so that a failure is one of ours; `make parity FRESH=300` draws others."""

STORIES = 4
"""Each comes to rest after each step, which takes Kueue its time."""

CONFIGURED = {"classical": CONFIGURATIONS[0], "fair sharing": CONFIGURATIONS[1]}

Told = tuple[fresh.Findings, str]
"""What was found, and what was said on the way."""


@contextmanager
def begun() -> Iterator[Mapping[str, Future[Told]]]:
    """What comes of the stories under each configuration. In processes, since the limit to what we compute is a signal."""
    with ProcessPoolExecutor(mp_context=get_context("spawn")) as processes:
        yield {name: processes.submit(_told, configuration) for name, configuration in CONFIGURED.items()}


def _told(configuration: Object) -> Told:
    said = [f"seed {SEED}"]
    found = fresh.compare(SEED, STORIES, say=said.append, configuration=configuration)
    return found, "\n".join(said)
