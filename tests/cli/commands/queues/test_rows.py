"""The state of a queue in one word."""

from __future__ import annotations

import pytest

from multikueue.cli.commands.queues.rows import row_of, state_of
from tests.builders import NOW, ClusterQueueBuilder, cluster_queue

STATES: dict[str, tuple[ClusterQueueBuilder, str]] = {
    "nobody has looked at it": (cluster_queue("cq"), "Unknown"),
    "it is held": (cluster_queue("cq").stopped("Hold"), "Held"),
    "it is drained": (cluster_queue("cq").stopped("HoldAndDrain"), "Drained"),
}


@pytest.mark.parametrize(("queue", "word"), STATES.values(), ids=STATES)
def test_a_queue_is_in_one_state(queue: ClusterQueueBuilder, word: str) -> None:
    assert state_of(queue.build()) == word


def test_a_row_has_the_cohort_of_a_cluster_queue() -> None:
    assert row_of(cluster_queue("cq").cohort("all").build(), NOW)[:2] == ("cq", "all")
