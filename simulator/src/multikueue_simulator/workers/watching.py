"""The base of a cluster's simulated controllers: caches filled by watches, and a work queue of keys."""

from __future__ import annotations

import random
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from anyio.abc import TaskGroup

from multikueue.api.kind import Kind
from multikueue.kube.cluster_client import WatchingClient
from multikueue.kube.reflector import Pace, Reflector
from multikueue.runtime import Backoff
from multikueue.store.caches.cache import Cache

__all__ = ["reflect", "retries"]

_FIRST, _LONGEST = timedelta(milliseconds=200), timedelta(seconds=30)


def retries(rng: random.Random) -> Backoff:
    """The back-off of failed keys."""
    return Backoff(first=_FIRST, cap=_LONGEST, draw=rng.random)


async def reflect(
    tasks: TaskGroup, client: WatchingClient, caches: Sequence[tuple[Kind[Any], Cache[Any]]], *, rng: random.Random
) -> None:
    """Keep each cache equal to its collection while the task group runs. Returns once all are filled."""
    reflectors = [
        Reflector(client, kind, cache, on_state=_ignore, pace=Pace(idle=_IDLE, jitter=rng.random))
        for kind, cache in caches
    ]
    for reflector in reflectors:
        tasks.start_soon(reflector.run)
    for reflector in reflectors:
        await reflector.synced.wait()


_IDLE = 600.0
"""Seconds of silence after which a watch counts as dead: more than any watch may last, as no real network is
involved."""


def _ignore(_stands: bool, _why: str) -> None:
    pass
