"""The table of the experiment in sharing."""

from __future__ import annotations

from benchmarks.sharing.compared import COLUMNS, as_markdown, as_text, measure
from benchmarks.sharing.crowd import Crowd


def test_the_figures_of_each_policy_stand_beside_each_other() -> None:
    results = measure(Crowd(users=3, hours=0.1), [1], ["fifo", "quota"])
    lines = as_text(results).splitlines()
    assert lines[0].split() == ["fifo", "quota"]
    assert [line.rsplit(maxsplit=2)[0] for line in lines[1 : 1 + len(COLUMNS)]] == list(COLUMNS.values())
    assert lines[-1].startswith("quota: ")
    assert results["fifo"].makespan > 0
    shown = as_markdown(results).splitlines()
    assert [line.split(" | ")[0].strip("| ") for line in shown[2:]] == list(COLUMNS.values())
    assert {line.count("|") for line in shown} == {4}
