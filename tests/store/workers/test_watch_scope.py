from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from multikueue.api.kind import Kind
from multikueue.api.kinds import JOBS, STATEFUL_SETS, WORKLOADS
from multikueue.store.workers.watch_scope import (
    EVERYWHERE,
    NAMESPACES_ANNOTATION,
    WatchFailure,
    WatchScope,
    namespaces_of,
)
from tests.builders import NOW, multikueue_cluster

LATER = NOW + timedelta(minutes=1)


def limited(*namespaces: str) -> WatchScope:
    scope = WatchScope(NOW)
    scope.offer(namespaces, NOW)
    return scope


@pytest.mark.parametrize(
    ("text", "namespaces"),
    [
        pytest.param(None, EVERYWHERE, id="no word of it: all"),
        pytest.param("b, a,b,", ("a", "b"), id="some"),
        pytest.param("", (), id="none"),
        pytest.param("a/../b,Team,*", (), id="what can be no namespace is none, and never all"),
    ],
)
def test_a_cluster_says_which_namespaces_it_offers(text: str | None, namespaces: tuple[str, ...]) -> None:
    annotations = {} if text is None else {NAMESPACES_ANNOTATION: text}
    assert namespaces_of(multikueue_cluster("w1").annotations(annotations).build()) == namespaces


def test_what_is_not_offered_is_not_seen_and_all_is_by_default() -> None:
    assert WatchScope(NOW).namespace_failure("c") is None
    assert limited("a", "b").namespace_failure("b") is None
    assert limited("a", "b").namespace_failure("c") == WatchFailure("it does not offer namespace c", NOW)
    assert limited().namespace_failure("a") is not None


@pytest.mark.parametrize("kind", [WORKLOADS, JOBS], ids=lambda kind: kind.name)
def test_a_namespace_that_is_refused_costs_that_namespace(kind: Kind[Any]) -> None:
    scope = limited("a", "b")
    assert scope.record(kind, "a", "you may not", NOW)
    assert scope.namespace_failure("a") == WatchFailure("you may not", NOW, NOW)
    assert scope.namespace_failure("b") is None
    assert list(scope.failed_namespaces()) == [("a", "you may not")]


def test_a_kind_of_jobs_that_is_lacking_costs_its_jobs_alone() -> None:
    scope = limited("a", "b")
    scope.record(STATEFUL_SETS, "a", "you may not", NOW)
    assert scope.failure(STATEFUL_SETS.name, "a") == WatchFailure("you may not", NOW, NOW)
    assert scope.failure(STATEFUL_SETS.name, "b") is None
    assert scope.namespace_failure("a") is None


def test_the_same_lack_is_no_news_and_lasts_since_it_began() -> None:
    scope = limited("a")
    assert scope.record(JOBS, "a", "you may not", NOW)
    assert not scope.record(JOBS, "a", "you may not", LATER)
    assert scope.namespace_failure("a") == WatchFailure("you may not", NOW, LATER)
    assert scope.record(JOBS, "a", "", LATER)
    assert not scope.record(JOBS, "a", "", LATER)
    assert scope.namespace_failure("a") is None


def test_what_was_lacking_before_other_namespaces_were_offered_says_nothing() -> None:
    scope = limited("a", "b")
    scope.record(JOBS, "a", "you may not", NOW)
    assert not scope.offer(("a", "b"), LATER)
    assert scope.namespace_failure("a") is not None
    assert scope.offer(("a",), LATER)
    assert scope.namespace_failure("a") is None
    assert scope.namespace_failure("b") == WatchFailure("it does not offer namespace b", LATER)
