"""The setting that kinds of work share."""

from __future__ import annotations

import pytest

from benchmarks.work.core import Setting


def setting(**more: object) -> Setting:
    return Setting(print, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("more", "names"),
    [
        pytest.param({}, ["ours", "script", "peer"], id="all take turns"),
        pytest.param({"peer": False}, ["ours", "script"], id="without the peer"),
        pytest.param({"simulated": True}, ["ours", "script"], id="no Kueue runs on simulated clusters"),
    ],
)
def test_sides(more: dict[str, object], names: list[str]) -> None:
    assert list(setting(**more).sides) == names


def test_a_number_of_jobs_goes_before_that_of_the_kind() -> None:
    assert (setting().burst(60), setting(jobs=3).burst(60)) == (60, 3)
