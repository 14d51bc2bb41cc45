"""The micro benchmarks measure what they say."""

from __future__ import annotations

import pytest

from benchmarks import micro
from benchmarks.figures import at_least, at_most
from multikueue.api.kueue.workload import Workload
from multikueue.kube.decode import change_of


def test_an_event_is_a_workload_of_the_size_of_real_ones() -> None:
    line = micro.event(41)
    change = change_of(Workload)(line)
    assert 3_700 < len(line) < 3_900
    assert (change.object.metadata.name, change.object.version) == ("wl-41", 42)
    assert change.object.has("QuotaReserved")


def test_all_events_end_up_in_the_cache() -> None:
    assert micro.fill([micro.event(number) for number in range(5)]) == 5


def test_each_workload_gets_quota(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(micro, "OBJECTS", 100)
    assert micro._admit_all() == 20


def test_the_decisions_are_about_three_stages_of_a_workload() -> None:
    phases = [micro.decided(case).phase.name for case in micro._cases()]
    assert phases == ["NOMINATING", "NOMINATING", "ADMITTED"]


@pytest.mark.parametrize(
    ("value", "met"), [(10.0, True), (9.9, False)], ids=["at the limit is met", "below the limit is missed"]
)
def test_a_result_is_held_to_its_target(value: float, met: bool) -> None:
    assert micro.Result("x", value, at_least(10)).met is met
    assert micro.Result("x", -value, at_most(-10)).met is met
