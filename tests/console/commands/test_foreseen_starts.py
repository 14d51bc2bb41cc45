from __future__ import annotations

from pathlib import Path

import pytest

from multikueue.api.meta import ObjectKey
from multikueue_console.commands.foreseen_starts import Outlook
from multikueue_console.commands.stored import opened
from tests.builders import flavor, namespace
from tests.console.terminal.fleets import a_fleet

WAITING = ObjectKey("team-a", "llama-2")


@pytest.mark.anyio
async def test_estimates_are_told_in_a_sentence_and_unknown_ones_as_unknown(tmp_path: Path) -> None:
    fleet = a_fleet()
    with opened(f"sqlite:///{tmp_path / 'history.db'}") as history:
        outlook = Outlook(fleet)
        assert outlook.expected(WAITING) == ""
        await outlook.compute(history, [namespace("team-a").build(), flavor("a100").build()])
    assert outlook.expected(WAITING).startswith("unknown")
    assert outlook.expected(ObjectKey("team-a", "bert")) == ""
