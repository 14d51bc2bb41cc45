"""Which workers could ever hold a workload, by their Kueue's words, and what becomes of what fits none."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from multikueue.api.kueue.workload import FITS_NO_WORKER, Workload
from multikueue.api.meta import find_condition
from multikueue.dispatch.remote import Reach, Remote
from multikueue.workload import fit
from multikueue.workload.decide import decide
from multikueue.workload.phases import Phase
from tests.builders import NOW, pod_set
from tests.builders.workloads import WorkloadBuilder
from tests.workload.builders import (
    EARLIER,
    RESERVED,
    admitted_copy,
    away,
    case_of,
    copy,
    decided,
    pending,
    remote_job,
    reserved,
    told,
    unusable,
    with_nomination,
    worker,
)

TOO_MUCH = (
    "couldn't assign flavors to pod set main: insufficient quota for cpu in flavor default, previously considered podsets "
    "requests (0) + current podset request (6) > maximum capacity (4)"
)
SPOT = TOO_MUCH.replace("flavor default", "flavor spot").replace("capacity (4)", "capacity (2)")
BUSY = "couldn't assign flavors to pod set main: insufficient unused quota for cpu in flavor default, 1 more needed"
TAINTED = "couldn't assign flavors to pod set main: untolerated taint {gpu yes NoSchedule <nil>} in flavor default"
ONE, TWO = {"cpu": ["default"]}, {"cpu": ["default", "spot"]}

VERDICTS: dict[str, tuple[str, dict[str, list[str]] | None, str]] = {
    "more than there ever is": (TOO_MUCH, ONE, "cpu 6 of 4 at most in flavor default"),
    "nothing is known of its queue": (TOO_MUCH, None, ""),
    "it has a flavor more": (TOO_MUCH, TWO, ""),
    "it has none of that any more": (TOO_MUCH, {"memory": ["default"]}, ""),
    "more than there ever is of each": (
        f"{TOO_MUCH}, {SPOT.partition(': ')[2]}",
        TWO,
        "cpu 6 of 4 at most in flavor default, cpu 6 of 2 at most in flavor spot",
    ),
    "one flavor is only busy": (f"{TOO_MUCH}, {BUSY.partition(': ')[2].replace('default', 'spot')}", TWO, ""),
    "together with the pods before": (
        TOO_MUCH.replace("(0)", "(3)"),
        ONE,
        "cpu 3 + 6 of 4 at most in flavor default",
    ),
    "busy": (BUSY, ONE, ""),
    "a taint": (TAINTED, ONE, "flavor default does not suit"),
    "a taint, and another flavor": (TAINTED, TWO, ""),
    "a taint, and too much elsewhere": (
        f"{TAINTED}, {SPOT.partition(': ')[2]}",
        TWO,
        "cpu 6 of 2 at most in flavor spot",
    ),
    "no such nodes": (
        "couldn't assign flavors to pod set main: flavor default doesn't match node affinity",
        ONE,
        "flavor default does not suit",
    ),
    "a resource that its queue does not have": (
        "couldn't assign flavors to pod set main: resource nvidia.com/gpu unavailable in ClusterQueue",
        None,
        "nvidia.com/gpu is in no resource group",
    ),
    "the second pod set": (
        f"{BUSY}; {TOO_MUCH.replace('set main', 'set second')}",
        ONE,
        "cpu 6 of 4 at most in flavor default",
    ),
    "a template of claims": (
        "spec.podSets[0].template.spec.resourceClaims[0]: Internal error: failed to get claim spec for "
        "ResourceClaimTemplate gpu in podset main",
        ONE,
        "",
    ),
    "other words": ("Workload no longer fits after processing another workload", ONE, ""),
}


def too_large(text: str = TOO_MUCH) -> Workload:
    return copy().unreserved(message=text).build()


@pytest.mark.parametrize(("text", "flavors", "wanted"), VERDICTS.values(), ids=VERDICTS.keys())
def test_what_a_worker_lacks(text: str, flavors: dict[str, list[str]] | None, wanted: str) -> None:
    assert fit.lack(too_large(text), flavors) == wanted


def test_no_word_is_no_verdict() -> None:
    assert (fit.lack(None, ONE), fit.lack(copy().build(), ONE), fit.is_suspected(None)) == ("", "", False)
    assert fit.lack(admitted_copy().build(), ONE) == ""
    assert (fit.is_suspected(too_large()), fit.is_suspected(too_large(BUSY))) == (True, False)


def test_of_what_may_be_admitted_in_part_nothing_is_said() -> None:
    partly = copy().pod_sets(pod_set("main", count=6).min_count(1).request(cpu=1)).unreserved(message=TOO_MUCH)
    assert fit.lack(partly.build(), ONE) == ""


def test_a_worker_s_words_stay_short_and_harmless() -> None:
    odd = TOO_MUCH.replace("(6)", "(6; x: w9)")
    assert ";" not in fit.lack(too_large(odd), ONE)
    assert len(fit.lack(too_large(odd.replace("(4)", f"({'9' * 5000})")), ONE)) <= 200
    assert fit.lack(msgspec.structs.replace(too_large(), spec=msgspec.Raw(b'{"podSets": 1}')), ONE) == ""


# One workload on all its workers.

LACK = "cpu 6 of 4 at most in flavor default"


def never(name: str, **more: Any) -> Remote:
    return worker(name, too_large(), never=LACK, **more)


STARTED = NOW + timedelta(minutes=1)
HALF = worker("w2", copy())

FLEETS: dict[str, tuple[tuple[Remote, ...], Phase]] = {
    "no worker": ((never("w1"), never("w2")), Phase.FITS_NOWHERE),
    "one may": ((never("w1"), HALF), Phase.NOMINATING),
    "one was not asked": ((never("w1"), worker("w2")), Phase.NOMINATING),
    "the other is away": ((never("w1"), away(worker("w2"))), Phase.FITS_NOWHERE),
    "the other is in trouble for a moment": ((never("w1"), away(HALF, reach=Reach.SUSPECT)), Phase.NOMINATING),
    "the other has something of somebody else in its place": (
        (never("w1"), worker("w2", unfit="taken")),
        Phase.FITS_NOWHERE,
    ),
    "all are away": ((away(never("w1")), away(never("w2"))), Phase.NOMINATING),
    "said of an earlier attempt": (
        (worker("w1", copy(EARLIER).unreserved(message=TOO_MUCH), never=LACK),),
        Phase.NOMINATING,
    ),
    "one admitted it": ((never("w1"), worker("w2", admitted_copy())), Phase.ADMITTED),
}


@pytest.mark.parametrize(("remotes", "phase"), FLEETS.values(), ids=FLEETS.keys())
def test_when_it_fits_nowhere(remotes: tuple[Remote, ...], phase: Phase) -> None:
    assert decided(reserved().nominated("w1", "w2"), *remotes).phase is phase


def test_it_gives_its_quota_back_at_once_and_says_why() -> None:
    decision = decided(reserved().nominated("w1", "w2"), never("w1"), never("w2"))
    assert decision.status is not None
    check, said = decision.status.admission_checks[0], find_condition(decision.status.conditions, FITS_NO_WORKER)
    words = f"No worker can ever hold it: {LACK}: w1, w2"
    assert (check.state, check.message) == ("Retry", f'{words}, Previously: "Pending"')
    assert said is not None
    assert (said.status, said.message, said.last_transition_time) == ("True", f"{LACK}: w1, w2", NOW)
    assert [(event.type, event.reason, event.message) for event in decision.events] == [
        ("Warning", "FitsNoWorker", words)
    ]


HOUR_AGO = NOW - timedelta(hours=1)


@pytest.mark.parametrize(
    ("note", "events", "since"),
    [(f"{LACK}: w1", [], HOUR_AGO), (f"{LACK}: w2", [f"No worker can ever hold it: {LACK}: w1"], NOW)],
    ids=["the same", "another"],
)
def test_the_event_comes_once_for_each_note(note: str, events: list[str], since: datetime) -> None:
    known = reserved().nominated("w1").condition(FITS_NO_WORKER, message=note, at=HOUR_AGO)
    decision = decided(known, never("w1"))
    assert decision.status is not None
    said = find_condition(decision.status.conditions, FITS_NO_WORKER)
    assert said is not None
    assert ([event.message for event in decision.events], said.last_transition_time) == (events, since)


def test_nothing_is_said_before_the_attempt_can_be_given_up() -> None:
    local = reserved().nominated("w1")
    decision = decided(local, never("w1"), now=RESERVED + timedelta(seconds=1))
    assert (decision.phase, decision.status, decision.events) == (Phase.FITS_NOWHERE, local.build().status, ())


def test_a_win_takes_the_note_away() -> None:
    known = reserved().nominated("w1").condition(FITS_NO_WORKER, message=f"{LACK}: w1")
    won_ = decided(known, worker("w1", admitted_copy(), remote_job()))
    assert won_.status is not None
    assert won_.status.cluster_name == "w1"
    assert find_condition(won_.status.conditions, FITS_NO_WORKER) is None


def test_a_worker_that_can_never_hold_it_keeps_its_copy_and_takes_nobody_s_place() -> None:
    local = reserved().nominated("w1", "w2")
    decision = decided(local, never("w1"), HALF)
    assert (told(decision), decision.status) == ([], local.build().status)
    shown = {each.name: (each.usable, each.why) for each in case_of(local, never("w1"), HALF).shown.workers}
    assert shown == {"w1": (False, f"can never hold it: {LACK}"), "w2": (True, "")}


def test_whose_word_has_to_be_confirmed() -> None:
    doubtful = worker("w1", too_large()), never("w2"), worker("w3", copy()), away(worker("w4", too_large()))
    assert list(fit.unconfirmed(case_of(reserved(), *doubtful))) == ["w1"]


# What is kept of it.


def test_what_is_noted_can_be_read_again() -> None:
    found = {"w1": LACK, "w2": "x is in no resource group", "w3": LACK}
    text = fit.note(found)
    assert text == f"{LACK}: w1, w3; x is in no resource group: w2"
    assert fit.named_in(text) == found
    assert fit.named_in("") == {}


def test_who_lacks_the_kind_is_told_and_not_named_among_the_asked() -> None:
    text = fit.note({"w1": LACK}, {"w2": "Job.x is not there", "w3": "Job.x is not there"})
    assert text == f"Job.x is not there (w2, w3); {LACK}: w1"
    assert fit.named_in(text) == {"w1": LACK}
    assert fit.note({}, {"w2": "Job.x is not there"}) == "Job.x is not there (w2)"


MISSING = {
    "all workers": ({"w1": "no such kind", "w2": "no such kind"}, Phase.FITS_NOWHERE),
    "one of them, and the other is away": ({"w1": "no such kind"}, Phase.NOMINATING),
    "none": ({}, Phase.NOMINATING),
}


@pytest.mark.parametrize(("missing", "phase"), MISSING.values(), ids=MISSING.keys())
def test_where_no_worker_has_such_jobs(missing: dict[str, str], phase: Phase) -> None:
    seen = case_of(reserved(), fleet=(unusable("w1", "no such kind"), unusable("w2", "away")))
    decision = decide(with_nomination(replace(seen, fleet=replace(seen.fleet, missing=missing))))
    assert decision.phase is phase


def test_a_note_has_an_end() -> None:
    text = fit.note({f"w{n}": f"{'x' * 200}{n}" for n in range(1000)})
    assert len(text) < 5000
    assert text.endswith("and 980 workers more")


PARKED = pending().condition(FITS_NO_WORKER, message=f"{LACK}: w1, w2").evicted("AdmissionCheck").check()

CHANGES: dict[str, tuple[WorkloadBuilder, tuple[str, ...], bool, bool]] = {
    "nothing": (PARKED, ("w1", "w2"), False, False),
    "one is away": (PARKED, ("w1",), False, False),
    "another worker": (PARKED, ("w1", "w2", "w3"), False, True),
    "a worker has something else": (PARKED, ("w1", "w2"), True, True),
    "it never did not fit": (pending().evicted("AdmissionCheck"), ("w3",), True, False),
    "it has quota": (reserved().condition(FITS_NO_WORKER, message=f"{LACK}: w1"), ("w3",), True, False),
    "too many to name": (
        pending().condition(FITS_NO_WORKER, message="x: w1; and 99 workers more").evicted("AdmissionCheck"),
        ("w3",),
        False,
        False,
    ),
}


@pytest.mark.parametrize(("local", "usable", "news", "wanted"), CHANGES.values(), ids=CHANGES.keys())
def test_what_has_it_tried_again_at_once(
    local: WorkloadBuilder, usable: tuple[str, ...], news: bool, wanted: bool
) -> None:
    assert fit.may_fit_now(as_seen(local), usable, has_news=news) is wanted


def as_seen(local: WorkloadBuilder) -> Workload:
    """Its conditions are of its present spec."""
    made = local.build()
    seen = tuple(
        msgspec.structs.replace(each, observed_generation=made.metadata.generation) for each in made.status.conditions
    )
    return msgspec.structs.replace(made, status=msgspec.structs.replace(made.status, conditions=seen))


def test_another_spec_and_the_delay_of_a_check() -> None:
    parked = as_seen(PARKED)
    changed = msgspec.structs.replace(parked, metadata=msgspec.structs.replace(parked.metadata, generation=7))
    assert fit.may_fit_now(changed, ("w1", "w2"), has_news=False)
    checks = tuple(msgspec.structs.replace(c, requeue_after_seconds=60) for c in parked.status.admission_checks)
    delayed = msgspec.structs.replace(parked, status=msgspec.structs.replace(parked.status, admission_checks=checks))
    assert not fit.may_fit_now(delayed, ("w3",), has_news=True)
