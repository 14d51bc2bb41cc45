from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import msgspec
import pytest

from multikueue.api.kubernetes.builtins import Lease, LeaseSpec, record_of, render_micro_time

NOON = datetime(2026, 1, 2, 12, 0, tzinfo=UTC)


def lease(spec: object) -> Lease:
    return msgspec.json.decode(msgspec.json.encode({"metadata": {"name": "m"}, "spec": spec}), type=Lease)


def test_a_record_of_kubernetes_own_is_read() -> None:
    found = record_of(
        lease(
            {
                "holderIdentity": "pod-1_ab",
                "leaseDurationSeconds": 15,
                "acquireTime": "2026-01-02T11:00:00.123456Z",
                "renewTime": "2026-01-02T12:00:00.000000Z",
                "leaseTransitions": 7,
                "strategy": None,
            }
        )
    )

    assert (found.holder_identity, found.lease_duration_seconds, found.lease_transitions) == ("pod-1_ab", 15, 7)
    assert found.renew_time == NOON


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({}, id="nothing said"),
        pytest.param(None, id="null"),
        pytest.param({"holderIdentity": 7}, id="a holder that is a number"),
        pytest.param({"renewTime": "yesterday"}, id="a time that is none"),
        pytest.param([], id="a list"),
        pytest.param("held", id="a text"),
    ],
)
def test_garbage_is_a_record_that_says_nothing(spec: object) -> None:
    assert record_of(lease(spec)) == LeaseSpec()


def test_no_lease_says_nothing() -> None:
    assert record_of(None) == record_of(Lease()) == LeaseSpec()


@pytest.mark.parametrize(
    ("when", "text"),
    [
        pytest.param(NOON, "2026-01-02T12:00:00.000000Z", id="six digits even if they are zeros"),
        pytest.param(
            datetime(2026, 1, 2, 7, 0, 0, 5, tzinfo=timezone(timedelta(hours=-5))),
            "2026-01-02T12:00:00.000005Z",
            id="New York's time in UTC",
        ),
    ],
)
def test_times_are_written_as_micro_times(when: datetime, text: str) -> None:
    assert render_micro_time(when) == text
