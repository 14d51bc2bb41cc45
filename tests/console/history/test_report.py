from __future__ import annotations

from multikueue_console.history.report import rows_of
from multikueue_console.history.use import Use


def test_a_row_has_hours_and_mean_waits() -> None:
    (row,) = rows_of({("ada", "2026-03-01"): Use(ended=3, waits=2, wait_seconds=90, longest_wait=60, gpu_seconds=5400)})
    assert (row.wait_mean, row.wait_max, row.gpu_hours) == (45, 60, 1.5)
    assert row.fields(["user", "day"]).items() >= {"user": "ada", "day": "2026-03-01", "ended": 3}.items()


def test_without_a_start_no_wait_is_known() -> None:
    (row,) = rows_of({(): Use(ended=1)})
    assert (row.wait_mean, row.wait_max) == (None, None)
