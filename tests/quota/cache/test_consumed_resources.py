"""What LocalQueues used of late (quota-engine 5.1, QE-341 to QE-343)."""

from __future__ import annotations

import math
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from multikueue.api.kueue.queues import AdmissionFairSharingStatus, FairSharingStatus, LocalQueue, QueueStatus
from multikueue.api.kueue.workload import workload_spec
from multikueue.quota.cache.consumed_resources import ConsumedResources, UsageDecay
from multikueue.quota.requests.amounts import demand
from tests.builders import Builder, local_queue, workload
from tests.quota.builders import after, key_of

MINUTE = timedelta(minutes=1)
A, B = key_of("lq-a"), key_of("lq-b")
GIB = 1024**3

PASTS = {
    "QE-343 half of it after its half-life": (5, 5, {"cpu": 8000}, {}, {"cpu": "4"}),
    "QE-343 and half of what is used": (5, 5, {"cpu": 8000}, {"cpu": 4000}, {"cpu": "6"}),
    "QE-343 each resource for itself": (
        5,
        5,
        {"cpu": 8000, "gpu": 16},
        {"cpu": 4000, "gpu": 4},
        {"cpu": "6", "gpu": "10"},
    ),
    "QE-343 cut off at billionths": (10, 5, {"cpu": 8000}, {"cpu": 4000}, {"cpu": "6828427124n"}),
    "QE-343 of it hardly less after a fraction": (24 * 60, 5, {"cpu": 8000}, {}, {"cpu": "7980769063n"}),
    "#13761 less than a thousandth": (7 * 24 * 60, 5, {}, {"cpu": 1000}, {"cpu": "343763n"}),
    "#13761 of one device": (7 * 24 * 60, 5, {}, {"gpu": 1}, {"gpu": "343763n"}),
    "of bytes too": (10, 10, {"memory": 3}, {}, {"memory": "1500m"}),
    "of large numbers as Kueue writes them": (5, 5, {"memory": 4 * GIB}, {}, {"memory": str(2 * GIB)}),
}


def used(amounts: dict[str, int]) -> dict[tuple[str, str], int]:
    return {("default", name): amount for name, amount in amounts.items()}


def told(history: ConsumedResources, name: str = "lq-a") -> dict[str, Any] | None:
    found = history.status(key_of(name))
    return dict(found.consumed_resources) if found else None


def queue(name: str = "lq-a", **consumed: str) -> LocalQueue:
    """A LocalQueue whose status tells of a history, of NOW."""
    plain = local_queue(name, "cq").build()
    return _with_history(plain, consumed) if consumed else plain


def _with_history(plain: LocalQueue, consumed: dict[str, str], seconds: float = 0) -> LocalQueue:
    history = AdmissionFairSharingStatus({**consumed}, after(seconds))
    return LocalQueue(
        metadata=plain.metadata, spec=plain.spec, status=QueueStatus(fair_sharing=FairSharingStatus(0, history))
    )


@pytest.mark.parametrize(("half_life", "minutes", "past", "present", "expected"), PASTS.values(), ids=PASTS)
def test_what_was_used_fades(
    half_life: int, minutes: int, past: dict[str, int], present: dict[str, int], expected: dict[str, str]
) -> None:
    history = ConsumedResources(UsageDecay(half_life=half_life * MINUTE, may_begin_with_usage=True))
    history.sample(queue(), used(past), after(0))
    history.sample(queue(), used(present), after(60 * minutes))
    assert told(history) == expected


CUTS = {
    "as before 0.19.1": (10, 5, {"cpu": 8000}, {"cpu": 4000}, {"cpu": "6827m"}),
    "less than a thousandth": (7 * 24 * 60, 5, {}, {"cpu": 1000}, {"cpu": "0"}),
}


@pytest.mark.parametrize(("half_life", "minutes", "past", "present", "expected"), CUTS.values(), ids=CUTS)
def test_before_it_was_cut_off_at_thousandths(
    half_life: int, minutes: int, past: dict[str, int], present: dict[str, int], expected: dict[str, str]
) -> None:
    decay = UsageDecay(half_life=half_life * MINUTE, may_begin_with_usage=True, is_cut_at_thousandths=True)
    history = ConsumedResources(decay)
    history.sample(queue(), used(past), after(0))
    history.sample(queue(), used(present), after(60 * minutes))
    assert told(history) == expected


@pytest.mark.parametrize("days", [1, 7, 30, 365])
def test_what_runs_shows_in_the_end_whatever_the_half_life(days: int) -> None:
    history = ConsumedResources(UsageDecay(half_life=timedelta(days=days)))
    for number in range(12 * 24):
        history.sample(queue(), used({"cpu": 1000, "gpu": 1}), after(300 * number))
    assert history.usage(A) == pytest.approx(2 * (1 - 0.5 ** ((12 * 24 - 1) / (12 * 24 * days))), rel=1e-3)


def test_qe_343_without_half_life_nothing_is_remembered() -> None:
    history = ConsumedResources(UsageDecay(half_life=timedelta()))
    history.sample(queue(), used({"cpu": 8000}), after(0))
    assert told(history) == {}


@pytest.mark.parametrize(("may_begin_with_usage", "seen"), [(True, {"cpu": "3"}), (False, {"cpu": "0"})])
def test_qe_343_at_first_sight_it_is_nothing_or_what_is_used_now(
    may_begin_with_usage: bool, seen: dict[str, str]
) -> None:
    history = ConsumedResources(UsageDecay(half_life=5 * MINUTE, may_begin_with_usage=may_begin_with_usage))
    assert history.status(A) is None
    assert history.sample(queue("lq-a"), {}, after(0)) == 5 * MINUTE
    assert history.sample(queue("lq-b"), used({"cpu": 3000}), after(0)) == 5 * MINUTE
    assert (told(history, "lq-a"), told(history, "lq-b")) == ({}, seen)


def test_qe_343_between_two_samplings_it_stays() -> None:
    history = ConsumedResources(UsageDecay(half_life=5 * MINUTE))
    history.set_queue(queue(cpu="8"))
    assert history.sample(queue(cpu="8"), {}, after(240)) == MINUTE
    assert told(history) == {"cpu": "8"}


def test_a_status_that_tells_nothing_is_filled_at_once() -> None:
    history = ConsumedResources(UsageDecay(half_life=5 * MINUTE))
    history.sample(queue(), used({"cpu": 8000}), after(0))
    assert history.sample(queue(), {}, after(60)) == 5 * MINUTE


def test_history_outlives_a_process() -> None:
    history = ConsumedResources(UsageDecay(half_life=5 * MINUTE))
    history.set_queue(queue(cpu="8"))
    history.sample(queue(cpu="8"), {}, after(300))
    assert told(history) == {"cpu": "4"}


def test_a_status_that_tells_of_less_than_nothing_puts_nobody_first() -> None:
    history = ConsumedResources(UsageDecay(half_life=5 * MINUTE))
    history.set_queue(queue(cpu="-8"))
    assert (told(history), history.usage(A)) == ({"cpu": "0"}, 0)


def test_a_standby_follows_and_an_old_status_changes_nothing() -> None:
    history = ConsumedResources(UsageDecay(half_life=5 * MINUTE))
    history.set_queue(_with_history(queue(), {"cpu": "8"}))
    history.set_queue(_with_history(queue(), {"cpu": "5"}, 60))
    history.set_queue(_with_history(queue(), {"cpu": "8"}))
    assert told(history) == {"cpu": "5"}


def test_times_are_whole_seconds_so_that_what_is_read_back_is_what_was_written() -> None:
    history = ConsumedResources(UsageDecay(half_life=5 * MINUTE))
    history.sample(queue(), {}, after(0.7))
    found = history.status(A)
    assert found
    assert found.last_update == after(0)


USAGES = {
    "resources as they are": ({}, "1", 8 + 2),
    "QE-342 resources by their weights": ({"cpu": 0.0, "gpu": 3.0}, "1", 6),
    "QE-342 by the weight of the queue": ({}, "2", 5),
    "more than any with a weight of 0": ({}, "0", math.inf),
}


@pytest.mark.parametrize(("weights", "weight", "expected"), USAGES.values(), ids=USAGES)
def test_usage_is_compared(weights: dict[str, float], weight: str, expected: float) -> None:
    history = ConsumedResources(UsageDecay(half_life=5 * MINUTE, weights=weights))
    builder = local_queue("lq-a", "cq").fair_weight(weight)
    history.set_queue(_with_history(builder.build(), {"cpu": "8", "gpu": "2"}))
    assert history.usage(A) == expected


def test_qe_341_a_queue_without_history_used_nothing() -> None:
    assert ConsumedResources(UsageDecay(half_life=5 * MINUTE)).usage(A) == 0


def asks(**resources: Any) -> Builder[Any]:
    return workload("wl").request(**resources)


def charged(history: ConsumedResources, **resources: Any) -> None:
    history.charge(A, key_of("wl"), demand(workload_spec(asks(**resources).build())))


def test_quota_costs_at_once_what_an_interval_of_it_would() -> None:
    history = ConsumedResources(UsageDecay(half_life=5 * MINUTE))
    charged(history, cpu=4)
    assert (history.usage(A), history.usage(B)) == (2, 0)


def test_and_admission_makes_history_of_it() -> None:
    history = ConsumedResources(UsageDecay(half_life=5 * MINUTE))
    history.sample(queue(), {}, after(0))
    charged(history, cpu=4)
    history.admitted(A, key_of("wl"), takes=used({"cpu": 4000}), used=used({"cpu": 4000}), now=after(300))
    assert told(history) == {"cpu": "4"}  # half of 4 since the last sampling, and the penalty
    assert history.usage(A) == 4
    history.admitted(A, key_of("wl"), takes=used({"cpu": 4000}), used=used({"cpu": 4000}), now=after(300))
    assert history.usage(A) == 4


@pytest.mark.parametrize("ahead", [1, 600, 10**6, 2 * 10**9], ids=["a second", "ten minutes", "days", "decades"])
def test_a_history_of_later_than_now_neither_grows_nor_stands_still(ahead: int) -> None:
    """The clock of the leader before was ahead, or somebody else wrote the status."""
    history = ConsumedResources(UsageDecay(half_life=MINUTE, interval=5 * MINUTE))
    history.set_queue(_with_history(queue(), {"cpu": "8"}, ahead))
    wl = workload("wl").request(cpu=1).build()
    history.charge(A, wl.key, demand(workload_spec(wl)))
    history.admitted(A, wl.key, takes={}, used={}, now=after(0))
    assert told(history) == {"cpu": "8"}
    history.set_queue(_with_history(queue(), {"cpu": "8"}, ahead))
    assert history.sample(_with_history(queue(), {"cpu": "8"}, ahead), {}, after(0)) == 5 * MINUTE
    history.sample(queue(), {}, after(300))
    assert told(history) == {"cpu": "250m"}


def test_quota_that_is_given_back_costs_nothing() -> None:
    history = ConsumedResources(UsageDecay(half_life=5 * MINUTE))
    charged(history, cpu=4)
    assert history.discharge(A, key_of("wl"))
    assert not history.discharge(A, key_of("wl"))
    assert history.usage(A) == 0


def test_what_was_admitted_before_we_began_costs_nothing_more() -> None:
    history = ConsumedResources(UsageDecay(half_life=5 * MINUTE))
    history.admitted(A, key_of("old"), takes=used({"cpu": 4000}), used=used({"cpu": 4000}), now=after(0))
    assert history.status(A) is None


def test_nothing_is_remembered_of_a_queue_that_is_gone() -> None:
    history = ConsumedResources(UsageDecay(half_life=5 * MINUTE))
    history.set_queue(queue(cpu="8"))
    charged(history, cpu=4)
    history.remove_queue(A)
    assert (history.usage(A), history.status(A)) == (0, None)


@given(
    past=st.integers(0, 10**12),
    present=st.integers(0, 10**12),
    elapsed=st.integers(0, 10**6),
    half=st.integers(1, 10**6),
)
def test_history_stays_between_what_was_and_what_is(past: int, present: int, elapsed: int, half: int) -> None:
    decay = UsageDecay(half_life=timedelta(seconds=half))
    found = decay.decayed({"gpu": past}, {"gpu": present}, timedelta(seconds=elapsed))["gpu"]
    assert min(past, present) - 2 <= found <= max(past, present)
