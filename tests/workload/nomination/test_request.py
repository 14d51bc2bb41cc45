"""When a strategy is asked, what it is told, and what is remembered for them in the workload."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from multikueue.strategy import Nomination
from multikueue.testing import NOW
from multikueue.workload.case import MAX_NOMINATED, Case
from multikueue.workload.decide import decide
from multikueue.workload.nomination.request import failure_note, failures, nominated_before, nomination_request, usable
from multikueue.workload.strategy_call import NominationResult
from tests.builders import workload
from tests.builders.workloads import WorkloadBuilder
from tests.workload.builders import (
    EARLIER,
    EVERYWHERE,
    RESERVED,
    away,
    but,
    case_of,
    copy,
    reserved,
    unusable,
    with_nomination,
    won,
    worker,
)

AT = NOW - timedelta(minutes=3)


ASKED: dict[str, tuple[WorkloadBuilder | None, dict[str, Any], bool]] = {
    "waits for a worker": (reserved(), {}, True),
    "has a winner": (won(), {}, False),
    "is gone": (None, {}, False),
    "cannot be dispatched": (reserved(), {"problem": "no adapter"}, False),
}


@pytest.mark.parametrize(("local", "known", "expected"), ASKED.values(), ids=ASKED)
def test_a_strategy_is_asked_only_where_somebody_is_to_be_nominated(
    local: WorkloadBuilder | None, known: dict[str, Any], *, expected: bool
) -> None:
    asked: list[Case] = []

    def ask(case: Case) -> Case:
        asked.append(case)
        return with_nomination(case)

    decide(case_of(local, worker("w1"), **known), ask)
    assert bool(asked) is expected


@pytest.mark.parametrize(
    ("local", "kind"),
    [(reserved(), "Job"), (workload("wl").queue("main").reserved("cq", at=RESERVED), "")],
    ids=["a Job's", "nobody's"],
)
def test_the_request_tells_of_what_kind_the_job_is(local: WorkloadBuilder, kind: str) -> None:
    assert nomination_request(case_of(local, worker("w1"))).workload.kind == kind


def test_the_request_tells_the_workload_and_its_fleet() -> None:
    local = reserved().nominated("w1").condition("multikueue.dev/Nominated", reason="X", message="", at=AT)
    local = local.condition("multikueue.dev/FailedOn", message="w2 at 2026-01-01T11:00:00Z")
    fleet = unusable("w1", ""), unusable("w2", "cordoned")
    request = nomination_request(case_of(local, worker("w1"), worker("w2"), fleet=fleet))
    assert request is not None
    assert (request.workload.queue, request.workload.cluster_queue, request.workload.reserved_at) == (
        "main",
        "cq",
        RESERVED,
    )
    assert (request.workload.nominated_clusters, request.workload.nominated_at) == (("w1",), AT)
    assert request.workload.failed_on == {"w2": NOW - timedelta(hours=1)}
    assert [(w.name, w.usable, w.why) for w in request.fleet.workers] == [("w1", True, ""), ("w2", False, "cordoned")]
    assert request.fleet.now == NOW


def test_without_a_nomination_there_is_no_time_of_one() -> None:
    request = nomination_request(
        case_of(reserved().condition("multikueue.dev/Nominated", reason="X", at=AT), worker("w1"))
    )
    assert request is not None
    assert request.workload.nominated_at is None


def test_a_nomination_longer_than_the_status_is_found_by_its_copies_and_the_last_result() -> None:
    names = tuple(f"w{n}" for n in range(25))
    recorded = names[:MAX_NOMINATED]
    seen = case_of(
        reserved().nominated(*recorded),
        *(worker(name) for name in names[:21]),
        worker("w21", copy()),
        worker("w22", copy(EARLIER)),
        worker("w23"),
        replace(worker("w24", copy()), is_configured=False),
    )
    assert nominated_before(seen) == (*recorded, "w21")
    request = nomination_request(seen)
    assert request is not None
    called = replace(
        seen,
        nomination_result=NominationResult(request=request, by=EVERYWHERE, nomination=Nomination((*recorded, "w23"))),
    )
    assert nominated_before(called) == (*recorded, "w23", "w21")


def test_usable_is_who_is_configured_and_fit() -> None:
    seen = case_of(
        reserved(),
        worker("w1"),
        away(worker("w2")),
        but(worker("w3"), unfit="taken"),
        replace(worker("w4"), is_configured=False),
    )
    assert usable(seen) == ("w1",)


# Where attempts failed.

NAMES = st.from_regex(r"[a-z0-9]([-a-z0-9.]{0,20}[a-z0-9])?", fullmatch=True)
TIMES = st.integers(0, 7_000_000_000).map(lambda seconds: datetime.fromtimestamp(seconds, UTC))


@given(known=st.dictionaries(NAMES, TIMES, max_size=30), cluster=NAMES, now=TIMES)
def test_what_is_noted_is_read_again_the_latest_first_and_twenty_at_most(
    known: dict[str, datetime], cluster: str, now: datetime
) -> None:
    found = failures(failure_note(known, cluster, now))
    assert next(iter(found)) == cluster
    assert found[cluster] == now
    assert found.items() <= (known | {cluster: now}).items()
    assert len(found) == min(20, len({*known, cluster}))


@given(st.text() | st.lists(NAMES | st.sampled_from([" at ", "; ", "2026-01-01T00:00:00Z"])).map("".join))
def test_whatever_is_written_there_is_read_without_an_error(text: str) -> None:
    for at in failures(text).values():
        assert at.tzinfo is not None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "w1",
        "w1 at",
        "w1 at noon",
        " at 2026-01-01T00:00:00Z",
        "w1 at 2026-01-01T00:00:00",
        "w1 at 0001-01-01T00:00:00+05:00",
        ";;;",
    ],
)
def test_what_makes_no_sense_is_ignored(text: str) -> None:
    assert failures(text) == {}
    assert failures(f"{text}; w9 at 2026-01-01T00:00:00Z") == {"w9": datetime(2026, 1, 1, tzinfo=UTC)}
