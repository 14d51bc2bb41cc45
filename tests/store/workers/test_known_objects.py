"""What is expected of a worker before its caches show it."""

from __future__ import annotations

from datetime import timedelta

from multikueue.api.meta import ObjectKey
from multikueue.dispatch.remote import Asked, Unfit
from multikueue.store.workers.known_objects import Expectations
from multikueue.testing import NOW

KEY, OTHER = ObjectKey("default", "wl"), ObjectKey("default", "other")
ASKED = Asked("attempt", NOW)


def test_a_job_that_was_asked_for_may_be_there_until_the_outcome_is_known() -> None:
    expected = Expectations()
    expected.ask(KEY, ASKED)
    assert expected
    assert (expected.asked(KEY), expected.asked(OTHER)) == (ASKED, None)
    expected.answered(KEY)
    assert not expected


def test_a_copy_is_in_the_making_for_as_long_as_its_request() -> None:
    expected = Expectations()
    with expected.creating(KEY):
        assert expected.is_creating(KEY)
        assert expected
    assert not expected.is_creating(KEY)


def test_a_worker_is_passed_over_for_a_time() -> None:
    expected, taken = Expectations(), Unfit("taken", NOW + timedelta(minutes=5))
    expected.pass_over(KEY, taken)
    assert (expected.unfit(KEY, NOW), expected.unfit(OTHER, NOW)) == (taken, None)
    assert expected.is_passed_over(KEY)
    assert expected.unfit(KEY, taken.until) is None
    assert not expected.is_passed_over(KEY)


def test_of_a_workload_that_is_gone_only_what_may_still_come_is_kept() -> None:
    expected = Expectations()
    expected.ask(KEY, ASKED)
    expected.look(KEY, NOW)
    expected.pass_over(KEY, Unfit("taken", NOW))
    expected.forget(KEY)
    assert expected.asked(KEY) == ASKED
    assert (expected.about(KEY)[1], expected.is_passed_over(KEY)) == (None, False)


def test_of_another_cluster_only_what_is_being_made_is_known() -> None:
    expected = Expectations()
    expected.ask(KEY, ASKED)
    expected.look(KEY, NOW)
    with expected.creating(OTHER):
        expected.clear()
        assert (expected.asked(KEY), expected.about(KEY)[1]) == (None, None)
        assert expected.is_creating(OTHER)
