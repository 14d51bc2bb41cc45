"""`multikueue webhook remove`: for when a manager was stopped by hand."""

from __future__ import annotations

from typing import Any

import pytest

from multikueue.api.kinds import MUTATING_WEBHOOKS
from multikueue.api.meta import ObjectKey
from multikueue.cli.terminal.output import CLEAR_LINE
from tests.cli.conftest import Run, World

COMMAND = ("webhook", "remove")
NAME = "mutatingwebhookconfigurations/multikueue-manager"
OURS = {"app.kubernetes.io/managed-by": "multikueue"}


def registered(world: World, labels: dict[str, str]) -> None:
    body: dict[str, Any] = {"metadata": {"name": "multikueue-manager", "labels": labels}, "webhooks": []}
    world.manager.add(MUTATING_WEBHOOKS, body)


def is_there(world: World) -> bool:
    return world.manager.find(MUTATING_WEBHOOKS, ObjectKey("", "multikueue-manager")) is not None


@pytest.mark.parametrize(("words", "stays"), [((), False), (("--dry-run",), True)], ids=["removed", "a dry run"])
def test_the_registration_is_removed(world: World, cli: Run, words: tuple[str, ...], stays: bool) -> None:
    registered(world, OURS)
    result = cli(*COMMAND, *words)
    assert (result.code, result.out) == (0, "")
    assert f"{NAME} removed" in result.err
    assert ("dry run" in result.err, is_there(world)) == (stays, stays)


@pytest.mark.usefixtures("terminal")
def test_on_a_terminal_it_shows_that_it_is_at_work(world: World, cli: Run) -> None:
    registered(world, OURS)
    said = cli(*COMMAND).err
    assert f"removing {NAME}" in said
    assert said.endswith(f"{CLEAR_LINE}{NAME} removed\n")


def test_where_there_is_none_it_says_so(world: World, cli: Run) -> None:
    result = cli(*COMMAND)
    assert (result.code, is_there(world)) == (0, False)
    assert "nothing to remove" in result.err


def test_one_of_somebody_else_stays(world: World, cli: Run) -> None:
    registered(world, {})
    result = cli(*COMMAND)
    assert (result.code, is_there(world)) == (1, True)
    assert "is not ours" in result.err
