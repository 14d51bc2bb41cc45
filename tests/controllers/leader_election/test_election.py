"""The decision about a lease, as tables."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from multikueue.api.kubernetes.builtins import Lease
from multikueue.controllers.leader_election.election import (
    Candidate,
    Claim,
    Lost,
    Observation,
    Step,
    Wait,
    claimed,
    observe,
    released,
    step,
)
from multikueue.testing import NOW

ME = Candidate(identity="me", lease_duration=15, renew_deadline=10, retry_period=2)
AT = "2026-01-01T10:00:00.000000Z"


def lease(version: int = 1, *, uid: str = "u", **spec: Any) -> Lease:
    body = {"metadata": {"name": "m", "uid": uid, "resourceVersion": str(version)}, "spec": spec}
    return msgspec.json.decode(msgspec.json.encode(body), type=Lease)


def held(by: str = "other", seconds: int = 15, **more: Any) -> Lease:
    return lease(holderIdentity=by, leaseDurationSeconds=seconds, renewTime=AT, acquireTime=AT, **more)


def decide(found: Lease | None, *, unchanged_for: float = 0.0, leads: bool = False) -> Step:
    return step(Observation(found, 100.0), ME, is_leading=leads, now=100.0 + unchanged_for)


RELEASED = lease(**(released(NOW) | {"leaseTransitions": 3}))
EMPTIED = lease(holderIdentity="", leaseDurationSeconds=15, renewTime=AT)

WAITS: dict[str, tuple[Lease | None, float, float]] = {
    "somebody's, seen this moment": (held(), 0.0, 15.0),
    "somebody's, unchanged for nearly its time": (held(), 14.0, 1.0),
    "somebody's who asked for longer than we would": (held(seconds=40), 20.0, 20.0),
    "somebody's who wrote a shorter time than ours: maybe it is not their writing": (held(seconds=2), 5.0, 10.0),
    "somebody's without a duration": (held(seconds=0), 5.0, 10.0),
    "somebody's with a duration that nobody asks for": (held(seconds=10**9), 5.0, 10.0),
    "gone: who held it may not know yet": (None, 5.0, 10.0),
    "emptied by hand, which is no release": (EMPTIED, 5.0, 10.0),
    "there, and says nothing": (lease(), 5.0, 10.0),
    "there, and makes no sense": (lease(holderIdentity=7), 5.0, 10.0),
}


@pytest.mark.parametrize(("found", "unchanged_for", "left"), WAITS.values(), ids=WAITS)
def test_a_candidate_waits(found: Lease | None, unchanged_for: float, left: float) -> None:
    assert decide(found, unchanged_for=unchanged_for) == Wait(left)


@pytest.mark.parametrize(
    ("found", "unchanged_for"),
    [
        *(pytest.param(found, past + left, id=f"in the end: {what}") for what, (found, past, left) in WAITS.items()),
        pytest.param(RELEASED, 0.0, id="given back by its holder, at once"),
        pytest.param(held(by="me"), 0.0, id="its own: an answer was lost"),
    ],
)
def test_a_candidate_takes_it(found: Lease | None, unchanged_for: float) -> None:
    assert decide(found, unchanged_for=unchanged_for) == Claim(found)


@pytest.mark.parametrize(
    ("found", "wanted"),
    [
        pytest.param(held(by="me"), Claim(held(by="me")), id="renews its own"),
        pytest.param(None, Claim(None), id="recreates what was deleted"),
        pytest.param(EMPTIED, Claim(EMPTIED), id="fills in what was emptied"),
        pytest.param(lease(), Claim(lease()), id="fills in what says nothing"),
        pytest.param(held(), Lost("other"), id="gives way to another name, whoever wrote it"),
        pytest.param(held(seconds=1), Lost("other"), id="and to one that looks expired"),
    ],
)
def test_a_leader(found: Lease | None, wanted: Step) -> None:
    assert decide(found, leads=True) == wanted


def test_the_times_in_a_lease_count_for_nothing() -> None:
    old = lease(holderIdentity="other", leaseDurationSeconds=15, renewTime="1999-01-01T00:00:00.000000Z")
    ahead = lease(holderIdentity="other", leaseDurationSeconds=15, renewTime="2099-01-01T00:00:00.000000Z")

    assert decide(old) == decide(ahead) == Wait(15)


@pytest.mark.parametrize(
    ("now_seen", "since"),
    [
        pytest.param(held(), 100.0, id="the same version: since then"),
        pytest.param(lease(2, holderIdentity="other", leaseDurationSeconds=15), 107.0, id="a new version: since now"),
        pytest.param(lease(uid="v", holderIdentity="other"), 107.0, id="another object of the name: since now"),
        pytest.param(None, 107.0, id="gone: since now"),
    ],
)
def test_a_lease_is_unchanged_since(now_seen: Lease | None, since: float) -> None:
    assert observe(Observation(held(), 100.0), now_seen, 107.0).since == since


def test_nothing_seen_before_counts_from_now() -> None:
    assert observe(None, held(), 107.0) == Observation(held(), 107.0)
    assert observe(None, None, 107.0) == Observation(None, 107.0)
    assert observe(Observation(None, 100.0), None, 107.0) == Observation(None, 100.0)


def test_a_claim_over_anothers_counts_the_transition() -> None:
    assert claimed(held(leaseTransitions=4), ME, NOW) == {
        "holderIdentity": "me",
        "leaseDurationSeconds": 15,
        "acquireTime": "2026-01-01T12:00:00.000000Z",
        "renewTime": "2026-01-01T12:00:00.000000Z",
        "leaseTransitions": 5,
    }


def test_a_renewal_leaves_the_beginning_and_the_transitions_alone() -> None:
    assert claimed(held(by="me", leaseTransitions=4), ME, NOW).keys() == {
        "holderIdentity",
        "leaseDurationSeconds",
        "renewTime",
    }


@pytest.mark.parametrize(
    ("over", "transitions"),
    [
        pytest.param(None, 0, id="the first ever"),
        pytest.param(RELEASED, 4, id="after a release"),
        pytest.param(lease(leaseTransitions=-7), 1, id="over garbage"),
    ],
)
def test_transitions_are_kept(over: Lease | None, transitions: int) -> None:
    assert claimed(over, ME, NOW)["leaseTransitions"] == transitions


def test_a_duration_is_written_in_whole_seconds_and_never_shorter() -> None:
    short = Candidate(identity="me", lease_duration=1.2, renew_deadline=1, retry_period=0.2)

    assert claimed(None, short, NOW)["leaseDurationSeconds"] == 2


def test_a_release_is_the_one_of_client_go() -> None:
    assert released(NOW) == {
        "holderIdentity": "",
        "leaseDurationSeconds": 1,
        "renewTime": "2026-01-01T12:00:00.000000Z",
        "acquireTime": "2026-01-01T12:00:00.000000Z",
    }
