"""Sets of completion indexes, as the status of an Indexed Job has them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from multikueue.jobs.kinds.batch_job.indexes import count_indexes

INDEXES = st.frozensets(st.integers(0, 14), max_size=15)


def rendered(indexes: frozenset[int]) -> str:
    """As Kubernetes writes them: `0,2-4`."""
    ranges: list[list[int]] = []
    for index in sorted(indexes):
        if ranges and ranges[-1][1] == index - 1:
            ranges[-1][1] = index
        else:
            ranges.append([index, index])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in ranges)


@given(over=INDEXES, failed=INDEXES, below=st.integers(0, 12))
def test_indexes_are_counted_once_and_only_below_the_completions(
    over: frozenset[int], failed: frozenset[int], below: int
) -> None:
    assert count_indexes((rendered(over), rendered(failed)), below=below) == sum(i < below for i in over | failed)


@given(st.text(alphabet="0123456789-, x²", max_size=12), st.integers(0, 20))
def test_any_text_of_indexes_has_a_count_within_bounds(text: str, below: int) -> None:
    assert 0 <= count_indexes((text,), below=below) <= below
