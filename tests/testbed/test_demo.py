"""What the demo prints, and what it submits."""

from __future__ import annotations

import pytest

from testbed import objects
from testbed.demo import Plain, plain_job
from testbed.story import Line


def test_a_table_is_aligned(capsys: pytest.CaptureFixture[str]) -> None:
    Plain().table(("job", "ran on"), [["one", "w1"], ["longer", "-"]])
    assert capsys.readouterr().out == "  job      ran on\n  one      w1\n  longer   -\n"


def test_the_jobs_of_the_demo_carry_nothing_but_the_queue() -> None:
    body = plain_job("one")
    assert body["metadata"]["labels"] == {objects.QUEUE_LABEL: "main"}
    assert {"suspend", "managedBy"}.isdisjoint(body["spec"])


def test_a_line_has_time_and_job_in_columns(capsys: pytest.CaptureFixture[str]) -> None:
    Plain().line(Line(1.234, "job-1", "submitted"))
    assert capsys.readouterr().out == "    1.23 s  job-1   submitted\n"
