from __future__ import annotations

from datetime import datetime, timedelta

from multikueue.api.meta import ObjectMeta
from multikueue.api.multikueue.ocm import AddOnPlacementScore, AddOnPlacementScoreStatus, PlacementScore
from multikueue.store.caches.hub_scores import HubScores
from multikueue.strategy import Fleet, Worker
from multikueue.testing import NOW


def score(cluster: str, until: datetime | None = None, name: str = "usage", **values: int) -> AddOnPlacementScore:
    scores = tuple(PlacementScore(each, value) for each, value in values.items())
    metadata = ObjectMeta(name=name, namespace=cluster, uid=f"{cluster}-{name}", resource_version="1")
    return AddOnPlacementScore(metadata=metadata, status=AddOnPlacementScoreStatus(scores, until))


def test_scores_are_those_of_all_objects_of_a_cluster_that_are_not_over() -> None:
    time = [NOW]
    scores = HubScores(lambda: time[0])
    scores.cache.upsert(score("a", gpu=42, cpu=-7))
    scores.cache.upsert(score("a", NOW + timedelta(minutes=1), name="power", green=100))
    scores.cache.upsert(score("b", gpu=1))

    assert scores.of("a") == {"usage/gpu": 42, "usage/cpu": -7, "power/green": 100}
    time[0] += timedelta(minutes=1)
    assert scores.of("a") == {"usage/gpu": 42, "usage/cpu": -7}
    assert scores.of("c") == {}


def test_a_fleet_is_shown_with_them_and_the_first_question_has_them_watched() -> None:
    asked: list[str] = []
    scores = HubScores(lambda: NOW)
    scores.need = lambda: asked.append("watch")
    scores.cache.upsert(score("a", gpu=42))

    shown = scores.shown(Fleet(workers=(Worker(name="a"), Worker(name="b")), now=NOW))

    assert [worker.scores for worker in shown.workers] == [{"usage/gpu": 42}, {}]
    assert asked == ["watch"]
