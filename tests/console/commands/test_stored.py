from __future__ import annotations

from pathlib import Path

import pytest

from multikueue_console.commands.stored import opened


def test_the_usual_place_is_a_file_that_only_its_user_reaches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    with opened(None) as history:
        assert history.runs() == []
    folder = tmp_path / "state" / "multikueue"
    assert (folder / "history.db").is_file()
    assert folder.stat().st_mode & 0o777 == 0o700
