"""Watches of one cluster recover together."""

from __future__ import annotations

from typing import Any, cast

import pytest

from multikueue.api.kind import Kind
from multikueue.api.kinds import CLUSTER_QUEUES, JOBS, WORKLOADS
from multikueue.kube.reflector import OnState
from multikueue.manager import reflector_group as module
from multikueue.manager.reflector_group import ReflectorGroup
from multikueue.roles import Watch
from multikueue.store.caches.cache import Cache
from multikueue.testing import NOW
from tests.cluster import Cluster


def test_the_first_watch_that_stands_again_hurries_the_others_and_what_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    hurried: list[str] = []

    class Watching:
        def __init__(self, _client: object, kind: Kind[Any], *_more: object, on_state: OnState, **_how: object) -> None:
            self.name, self.on_state = kind.plural, on_state

        def hurry(self) -> None:
            hurried.append(self.name)

    monkeypatch.setattr(module, "Reflector", Watching)
    reflector_group = ReflectorGroup(Cluster("manager", lambda: NOW), lambda: hurried.append("queues"))
    jobs, queues, workloads = (
        cast("Watching", reflector_group.reflector(Watch(kind, Cache(lambda *_: None))))
        for kind in (JOBS, CLUSTER_QUEUES, WORKLOADS)
    )
    jobs.on_state(True, "")
    assert hurried == [], "nobody is in trouble"
    for watching in (jobs, queues):
        watching.on_state(False, "no connection")
    queues.on_state(True, "")
    assert hurried == ["jobs", "queues"]
    workloads.on_state(True, "")
    assert hurried == ["jobs", "queues"], "it was not in trouble itself"
