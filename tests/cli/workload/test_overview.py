"""A list and `why` say the same of each situation, as far as a list looks without a manager that tells it more."""

from __future__ import annotations

from datetime import timedelta

import pytest
from msgspec.structs import replace

from multikueue.answers.answer import answer
from multikueue.cli.workload import overview
from multikueue.cli.workload.explanation import lines
from tests.answers.situations import LATER, SITUATIONS, Situation
from tests.answers.test_doors import listed
from tests.builders import NOW, local_queue, workload

COARSE = {"WaitsForQuota", "WaitsOnWorkers", "PodsStarting", "NextInLine", "NoManager"}
"""What a list says where `why` looks at quota, at the head of a strict queue, workers and pods."""


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
