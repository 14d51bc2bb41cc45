from __future__ import annotations

import csv
import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from multikueue.cli import main
from multikueue.runtime.clock import SystemClock
from multikueue_console.history.runs import Outcome, Run, RunEnd, RunNews
from multikueue_console.history.store import RunHistory

NOW = SystemClock().now()


def run_of(name: str, *, user: str, hours_ago: float, hours: float, gpu: float = 1) -> RunNews:
    start = NOW - timedelta(hours=hours_ago)
    run = Run(
        workload=name,
        attempt="one",
        namespace="team",
        name=name,
        queue="main",
        user=user,
        cluster="east",
        cpu=4,
        gpu=gpu,
        queued_at=start - timedelta(minutes=30),
        reserved_at=start,
        started_at=start,
    )
    return RunNews(
        workload=name, run=run, end=RunEnd(run=run, at=start + timedelta(hours=hours), outcome=Outcome.SUCCEEDED)
    )


Report = Callable[..., str]


def ended(*arguments: str) -> object:
    """The exit code of the command."""
    with pytest.raises(SystemExit) as exit_:
        main(["report", *arguments])
    return exit_.value.code


@pytest.fixture
def report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Report:
    """Runs the command on a history of three runs, and returns what it printed."""
    url = f"sqlite:///{tmp_path / 'history.db'}"
    monkeypatch.setenv("MULTIKUEUE_HISTORY", url)
    history = RunHistory.open(url)
    runs = [
        run_of("one", user="ada", hours_ago=10, hours=4),
        run_of("two", user="=bob()", hours_ago=9, hours=2, gpu=2),
        run_of("old", user="eve", hours_ago=500, hours=2),
    ]
    history.record(runs, NOW)
    history.close()

    def call(*arguments: str) -> str:
        assert ended(*arguments) == 0
        return capsys.readouterr().out

    return call


def test_people_get_a_table_by_user(report: Report) -> None:
    title, bob, ada = report().splitlines()
    assert " ".join(title.split()).startswith("USER ENDED FAILED EVICTED PREEMPTED MEAN WAIT LONGEST WAIT CPU HOURS")
    assert ada.split() == ["ada", "1", "0", "0", "0", "30m", "30m", "16.0", "4.0"]
    assert bob.split()[-1] == "4.0"


def test_programs_get_json_in_hours_and_seconds(report: Report) -> None:
    found = json.loads(report("-o", "json", "--by", "cluster,user", "--since", "30d"))["items"]
    assert [(each["cluster"], each["user"], each["gpu_hours"]) for each in found] == [
        ("east", "=bob()", 4.0),
        ("east", "ada", 4.0),
        ("east", "eve", 2.0),
    ]
    assert found[0]["wait_mean"] == 1800


def test_a_spreadsheet_gets_no_formula(report: Report) -> None:
    rows = list(csv.DictReader(report("-o", "csv").splitlines()))
    assert [row["user"] for row in rows] == ["'=bob()", "ada"]


def test_parquet_is_a_file_with_typed_columns(report: Report, tmp_path: Path) -> None:
    from pyarrow import parquet

    file = tmp_path / "use.parquet"
    assert report("-o", "parquet", "--file", str(file), "--by", "user,day") == ""
    table = parquet.read_table(file)
    assert {"user", "day", "gpu_hours"} <= set(table.column_names)
    assert sum(table["gpu_hours"].to_pylist()) == 8


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        pytest.param(["--by", "moon"], "there is no dimension 'moon'", id="an unknown dimension"),
        pytest.param(["-o", "parquet"], "needs --file", id="parquet on a terminal"),
        pytest.param(["--history", "mysql://x"], "sqlite:///FILE", id="another database"),
    ],
)
def test_what_is_wrong_is_told(
    arguments: list[str], problem: str, report: Report, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ended(*arguments) == 2
    assert problem in capsys.readouterr().err


def test_nothing_is_told_in_a_sentence(report: Report, capsys: pytest.CaptureFixture[str]) -> None:
    assert ended("--since", "1m") == 0
    assert "Nothing was recorded" in capsys.readouterr().err


def test_gaps_are_told(report: Report, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    history = RunHistory.open(f"sqlite:///{tmp_path / 'history.db'}")
    history.record((), NOW + timedelta(minutes=5))
    history.close()
    assert ended() == 0
    assert "nothing was recorded; what clusters did not show" in capsys.readouterr().err
