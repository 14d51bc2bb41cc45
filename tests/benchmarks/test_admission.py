"""How the rates of one cluster are shown."""

from __future__ import annotations

from benchmarks.admission import Rate, as_text


def test_each_side_is_set_in_relation_to_ours() -> None:
    lines = as_text([Rate("ours", 1000, 5.0), Rate("peer", 1000, 25.0), Rate("lifted", 1000, 4.0)]).splitlines()
    assert [line.split() for line in lines] == [
        ["ours", "200.0", "jobs/s"],
        ["peer", "40.0", "jobs/s", "ours:", "5.00", "x"],
        ["lifted", "250.0", "jobs/s", "ours:", "0.80", "x"],
    ]
