"""Who has quota: as statuses show it and as it is assumed, it is counted once, and comes back whole."""

from __future__ import annotations

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from multikueue.api.kueue.workload import Admission, Workload, workload_spec
from tests.builders import cluster_queue, cohort, limits, workload
from tests.quota.builders import Play, key_of, two_queues, wants


def test_a_reservation_made_by_another_process_counts() -> None:
    play = Play.with_queue(cpu=4)
    play.submit(wants("a", cpu=3).reserved("cq"))

    assert play.used() == "3"
    play.submit(wants("b", cpu=2))
    assert play.run() == []


def test_seeing_a_reserved_workload_again_changes_nothing() -> None:
    play = Play.with_queue(cpu=4)
    play.submit(wants("a", cpu=3).reserved("cq"))
    play.wait(2)
    play.run()

    play.submit(wants("a", cpu=3).reserved("cq").labels(seen="again"))

    assert play.used() == "3"
    assert play.engine.scheduler.next_look(play.now) is None


def test_a_queue_that_is_recreated_knows_what_it_lent() -> None:
    play = Play.with_queue(cpu=4)
    play.submit(wants("a", cpu=3).reserved("cq"))
    play.engine.observe(cluster_queue("cq").build(), None, play.now)
    play.apply(cluster_queue("cq").quota("default", cpu=4).build())
    play.submit(wants("b", cpu=2))

    assert play.used() == "3"
    assert play.run() == []


# --- invariants ------------------------------------------------------------------------------------------------------

EVENTS = st.lists(
    st.tuples(
        st.sampled_from(["submit", "cycle", "write", "forget", "finish", "delete", "deactivate", "evict", "wait"]),
        st.integers(0, 5),
        st.integers(0, 5),
    ),
    max_size=40,
)


def cohort_play() -> Play:
    play = two_queues(
        cluster_queue("a").cohort("c").quota("default", cpu=limits(5, borrowing=3, lending=4)).build(),
        cluster_queue("b").cohort("c").quota("default", cpu=4).build(),
    )
    play.apply(cohort("c").quota("default", cpu=2).build())
    return play


def act(play: Play, event: str, index: int, amount: int) -> None:
    name = f"w{index}"
    key = key_of(name)
    match event:
        case "submit" if key not in play.workloads:
            play.submit(wants(name, queue="ab"[index % 2], cpu=amount))
        case "cycle":
            play.cycle()
        case "write" if key in play.workloads:
            play.write(key)
        case "forget":
            play.engine.scheduler.forget(key, play.now)
        case "finish" if key in play.workloads:
            play.finish(name)
        case "delete" if key in play.workloads:
            play.engine.observe(play.workloads.pop(key), None, play.now)
        case "deactivate" if key in play.workloads:
            value = play.workloads[key]
            inactive = wants(name, queue="ab"[index % 2], cpu=amount).inactive().build()
            play.see(msgspec.structs.replace(inactive, status=value.status))
        case "evict" if key in play.workloads:
            value = play.workloads[key]
            evicted = workload(name).evicted().build().status.conditions
            conditions = (*(c for c in value.status.conditions if c.type != "Evicted"), *evicted)
            play.see(
                msgspec.structs.replace(value, status=msgspec.structs.replace(value.status, conditions=conditions))
            )
        case "wait":
            play.wait(amount / 2)


def holds(play: Play, value: Workload) -> Admission | None:
    """What a workload holds by its status or by assumption, as an observer would say."""
    if value.has("Finished") or not workload_spec(value).active:
        return None
    return play.engine.scheduler.reservation(value.key) or (
        value.status.admission if value.has("QuotaReserved") else None
    )


def total(play: Play, queue: str) -> int:
    held = (holds(play, value) for value in play.workloads.values())
    assignments = (pods for each in held if each and each.cluster_queue == queue for pods in each.pod_set_assignments)
    return sum(int(pods.resource_usage["cpu"]) for pods in assignments)


@settings(max_examples=150)
@given(EVENTS)
def test_usage_is_what_the_workloads_hold_and_never_more_than_the_tree_allows(
    events: list[tuple[str, int, int]],
) -> None:
    play = cohort_play()
    for event in events:
        act(play, *event)
        used = {queue: total(play, queue) for queue in ("a", "b")}
        assert {queue: int(play.used(queue)) for queue in used} == used
        assert used["a"] <= 8
        assert max(0, used["a"] - 1) + used["b"] <= 4 + 4 + 2


@settings(max_examples=60)
@given(EVENTS)
def test_when_all_is_gone_nothing_is_left(events: list[tuple[str, int, int]]) -> None:
    play = cohort_play()
    for event in events:
        act(play, *event)
    for key in list(play.workloads):
        play.engine.observe(play.workloads[key], None, play.now)
    play.wait(2)
    play.run()
    play.submit(wants("borrower", queue="a", cpu=8), wants("other", queue="b", cpu=3))

    assert play.run() == ["other", "borrower"]


@settings(max_examples=60)
@given(EVENTS)
def test_assuming_and_forgetting_restores_the_queues(events: list[tuple[str, int, int]]) -> None:
    play = cohort_play()
    for event in events:
        act(play, *event)
    before = {name: (play.used(name), play.engine.view.pending_in(name)) for name in ("a", "b")}
    reserved = play.engine.scheduler.cycle(play.now).reserved
    for key in reserved:
        play.engine.scheduler.forget(key, play.now)

    assert {name: (play.used(name), play.engine.view.pending_in(name)) for name in ("a", "b")} == before
