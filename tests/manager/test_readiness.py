"""What the manager is ready for, and what it says is missing."""

from __future__ import annotations

from multikueue.manager.readiness import Readiness


def test_the_first_that_is_missing_is_named_and_the_others_are_listed() -> None:
    readiness = Readiness(caches=["jobs", "workloads"], has_webhook=True)
    told = [readiness.problem]
    for name in ("cache-workloads", "cache-jobs", "workers", "webhook"):
        readiness.reached(name)
        told.append(readiness.problem)
    assert told == [
        "cache-jobs: not listed yet",
        "cache-jobs: not listed yet",
        "workers: no first contact yet",
        "webhook: not in place yet",
        None,
    ]
    assert readiness.details == {"cache-jobs": "", "cache-workloads": "", "workers": "", "webhook": ""}


def test_without_a_webhook_none_is_waited_for() -> None:
    assert "webhook" not in Readiness(caches=["jobs"], has_webhook=False).details
