from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from multikueue.api.kind import Kind
from multikueue.api.kinds import JOBS, STATEFUL_SETS, WORKLOADS
from multikueue.store.workers.sight import EVERYWHERE, NAMESPACES_ANNOTATION, Lack, Sight, namespaces_of
from multikueue.testing import NOW, multikueue_cluster

LATER = NOW + timedelta(minutes=1)


def limited(*namespaces: str) -> Sight:
    sight = Sight(NOW)
    sight.offer(namespaces, NOW)
    return sight


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
    assert Sight(NOW).blindness("c") is None
    assert limited("a", "b").blindness("b") is None
    assert limited("a", "b").blindness("c") == Lack("it does not offer namespace c", NOW)
    assert limited().blindness("a") is not None


@pytest.mark.parametrize("kind", [WORKLOADS, JOBS], ids=lambda kind: kind.name)
def test_a_namespace_that_is_refused_costs_that_namespace(kind: Kind[Any]) -> None:
    sight = limited("a", "b")
    assert sight.note(kind, "a", "you may not", NOW)
    assert sight.blindness("a") == Lack("you may not", NOW, NOW)
    assert sight.blindness("b") is None
    assert list(sight.blind()) == [("a", "you may not")]


def test_a_kind_of_jobs_that_is_lacking_costs_its_jobs_alone() -> None:
    sight = limited("a", "b")
    sight.note(STATEFUL_SETS, "a", "you may not", NOW)
    assert sight.lack(STATEFUL_SETS.name, "a") == Lack("you may not", NOW, NOW)
    assert sight.lack(STATEFUL_SETS.name, "b") is None
    assert sight.blindness("a") is None


def test_the_same_lack_is_no_news_and_lasts_since_it_began() -> None:
    sight = limited("a")
    assert sight.note(JOBS, "a", "you may not", NOW)
    assert not sight.note(JOBS, "a", "you may not", LATER)
    assert sight.blindness("a") == Lack("you may not", NOW, LATER)
    assert sight.note(JOBS, "a", "", LATER)
    assert not sight.note(JOBS, "a", "", LATER)
    assert sight.blindness("a") is None


def test_what_was_lacking_before_other_namespaces_were_offered_says_nothing() -> None:
    sight = limited("a", "b")
    sight.note(JOBS, "a", "you may not", NOW)
    assert not sight.offer(("a", "b"), LATER)
    assert sight.blindness("a") is not None
    assert sight.offer(("a",), LATER)
    assert sight.blindness("a") is None
    assert sight.blindness("b") == Lack("it does not offer namespace b", LATER)
