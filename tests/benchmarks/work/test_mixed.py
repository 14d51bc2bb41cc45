"""Mixed jobs: of all sizes and priorities, and how much they ask for together."""

from __future__ import annotations

import pytest

from benchmarks.work.mixed import KINDS, cpu_of, mixed


def test_there_are_ten_sizes_three_priorities_and_all_kinds_of_both() -> None:
    kinds = mixed()
    assert len({each.cpu for each in kinds}) == 10
    assert len({each.priority_class for each in kinds}) == 3
    assert len(set(kinds)) == KINDS == 30


@pytest.mark.parametrize("jobs", [0, 1, 10, 31])
def test_so_many_ask_for_so_much_together(jobs: int) -> None:
    asks = [mixed(2100)[number % KINDS].cpu or "" for number in range(jobs)]
    assert cpu_of(jobs, 2100) == sum(int(cpu.removesuffix("m")) for cpu in asks)
