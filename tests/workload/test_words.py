"""The words of our check, by the release of Kueue that is followed."""

from __future__ import annotations

import pytest

from multikueue.api.kueue.compatibility import Compatibility, Release
from multikueue.workload import words
from tests.workload.builders import case_of, reserved


@pytest.mark.parametrize(
    ("release", "said"),
    [
        ("0.18", ('The workload got reservation on "w1"', 'Reserving remote no longer exists on worker cluster "w1"')),
        ("0.19", ('The workload was admitted on "w1"', 'Admitting remote no longer exists on worker cluster "w1"')),
    ],
)
def test_a_worker_reserves_up_to_0_18_and_admits_since(release: Release, said: tuple[str, str]) -> None:
    followed = case_of(reserved(), compatibility=Compatibility.of(release))
    assert (words.won(followed, "w1"), words.gone(followed, "w1")) == said


@pytest.mark.parametrize(
    ("release", "is_always_said", "said"),
    [
        ("0.18", False, "over"),
        ("0.18", True, 'over, Previously: "Pending"'),
        ("0.19", False, 'over, Previously: "Pending"'),
    ],
    ids=["not up to 0.18", "but for what always says it", "since 0.19"],
)
def test_the_state_that_a_check_leaves_is_said(release: Release, is_always_said: bool, said: str) -> None:
    followed = case_of(reserved(), compatibility=Compatibility.of(release))
    assert words.with_state_before(followed, "over", is_required=is_always_said) == said
