"""The command: what it plays, what it prints, and its exit status."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.parity import fresh
from tests.parity.__main__ import main
from tests.parity.builders import bad, good
from tests.parity.play import play
from tests.parity.story import parsed

WRONG = "bad, step 3 (finish), ClusterQueue q, admitted: expected 2, got 1"


def put(directory: Path, *stories: dict[str, object]) -> str:
    for story in stories:
        (directory / f"{story['name']}.json").write_text(json.dumps(story))
    return str(directory)


def test_all_agree(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([put(tmp_path, good())]) == 0
    assert capsys.readouterr().out == "1 agree, 0 differ\n"


def test_one_differs_and_the_others_have_their_turn(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    put(tmp_path, bad(), good())
    (tmp_path / "broken.json").write_text("{")
    assert main([str(tmp_path)]) == 1
    first, second, last = capsys.readouterr().out.splitlines()
    assert first == WRONG
    assert second.startswith("broken, step 1: no story: DecodeError")
    assert last == "1 agree, 2 differ"


def test_a_summary_has_figures_instead_of_lines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([put(tmp_path, bad(), good()), "--summary"]) == 1
    feature, last = capsys.readouterr().out.splitlines()
    assert feature.split() == ["nominal", "1", "agree", "1", "differ"]
    assert last == "1 agree, 1 differ"


def test_stories_are_chosen_by_name_and_by_feature(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    directory = put(tmp_path, bad(), good(), good("fair", ("fair",)))
    assert main([directory, "go*", "--names"]) == 0
    assert capsys.readouterr().out == "good agrees\n1 agree, 0 differ\n"
    assert main([directory, "--feature", "fair"]) == 0
    assert capsys.readouterr().out == "1 agree, 0 differ\n"
    assert main([directory, "--without", "nominal", "--names"]) == 0
    assert capsys.readouterr().out == "fair agrees\n1 agree, 0 differ\n"


def test_where_there_is_nothing_to_play_nothing_agrees(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([put(tmp_path, good()), "nobody"]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err == f"no stories to play in {tmp_path}\n"


def test_without_stories_and_without_a_wish_for_fresh_ones_it_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert "--fresh" in capsys.readouterr().err


def test_fresh_stories_are_compared_and_the_seed_and_the_release_are_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[tuple[int, int]] = []

    def compare(seed: int, count: int, *, say: fresh.Say, keep: Path | None, with_written: bool) -> fresh.Findings:
        asked.append((seed, count))
        assert not with_written
        say(WRONG)
        return fresh.Findings([play(parsed(good())), play(parsed(bad()))], ["r3"])

    monkeypatch.setattr(fresh, "compare", compare)
    monkeypatch.setenv("KUEUE", "0.18.2")
    assert main(["--fresh", "3", "--seed", "7"]) == 1
    assert asked == [(7, 3)]
    lines = capsys.readouterr().out.splitlines()
    assert lines == ["seed 7, Kueue 0.18.2", WRONG, "1 left out", "seed 7, Kueue 0.18.2: 1 agree, 1 differ"]
    assert main(["--fresh", "3"]) == 1
    assert asked[1][0] != 7
