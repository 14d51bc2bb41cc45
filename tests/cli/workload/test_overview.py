"""A list and `why` say the same of each situation, as far as a list looks."""

from __future__ import annotations

from datetime import timedelta

import pytest
from msgspec.structs import replace

from multikueue.answers.answer import answer
from multikueue.answers.fix import is_at_work
from multikueue.answers.seen import Seen, SeenJob
from multikueue.api.kueue.workload import any_owner_of
from multikueue.api.meta import ObjectMeta
from multikueue.cli.workload import overview
from multikueue.cli.workload.explanation import lines
from multikueue.cli.workload.overview import ListedJob, Overview
from multikueue.workload.nomination.prospects import State
from tests.answers.situations import LATER, SITUATIONS, Situation
from tests.builders import NOW, local_queue, workload

COARSE = {"WaitsForQuota", "WaitsOnWorkers", "PodsStarting", "NextInLine"}
"""What a list says where `why` looks at quota, workers and pods."""


def listed(seen: Seen) -> ListedJob:
    """As a list has it: of workers it sees whether one is away, of pods what the job counts."""
    queues = {
        each.key: each for name in seen.queues or () for each in [local_queue(name, "cq", namespace="team-a").build()]
    }
    away = {each.cluster: each for each in seen.workers if each.state == State.UNREACHABLE.value}
    found = Overview(
        "team-a",
        queues=queues if seen.queues is not None else None,
        classes=seen.classes,
        away=away,
        own_checks=frozenset({"mk"}),
    )
    job = seen.job or SeenJob(kind="Job", meta=ObjectMeta(name="train", namespace="team-a"))
    if seen.pods is not None:
        job = replace(job, ready=sum(map(is_at_work, seen.pods)))
    if seen.workload is None:
        found.jobs["u"], found.told["u"] = ({"metadata": {"name": job.meta.name}}, job), list(seen.told)
        return found.of_job("u")
    owner = any_owner_of(seen.workload)
    if owner is not None:
        found.jobs[owner.uid] = ({}, job)
    return found.of_workload(({}, seen.workload))


@pytest.mark.parametrize("situation", SITUATIONS, ids=lambda situation: situation.how)
def test_a_list_says_what_why_says(situation: Situation, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overview, "now", lambda: LATER)
    told, here = answer(situation.seen, LATER), listed(situation.seen).answer

    assert (here.state, here.cluster) == (told.state, told.cluster)
    codes = [each.obstacles[0].code if each.obstacles else "" for each in (here, told)]
    assert codes[0] == codes[1] or codes[0] in COARSE
    if codes[0] == codes[1] and codes[0] not in COARSE:
        assert here.summary == told.summary.replace("its ClusterQueue", "ClusterQueue cq")
        assert [each.repair for each in here.obstacles][:1] == [each.repair for each in told.obstacles][:1]


def test_a_line_is_that_of_the_queue() -> None:
    made = workload("a", namespace="a").queue("main")
    late, first, other = made.created(NOW + timedelta(1)), made.created(NOW), workload("o", namespace="b").queue("side")
    high = workload("high", namespace="a").queue("main").priority(3).created(NOW + timedelta(2))
    queues = [local_queue("main", "cq", namespace="a").build(), local_queue("side", "cq", namespace="b").build()]
    over = made.reserved("cq")
    names = [
        replace(each.build(), metadata=replace(each.build().metadata, name=name))
        for name, each in (("late", late), ("first", first), ("over", over))
    ]

    found = lines(queues, [*names, high.build(), other.queue("gone").build()])

    assert [each.metadata.name for each in found["cq"]] == ["high", "first", "late"]
    assert found.keys() == {"cq"}
