"""Buttons of whoever started the console."""

from __future__ import annotations

import pytest

from multikueue_console.web.buttons import Button, Buttons, button_of


@pytest.mark.parametrize(
    ("name", "cluster", "is_told"),
    [
        ("burst", "", True),
        ("burst", "east", False),
        ("kill", "east", True),
        ("kill", "", False),
        ("nothing", "", False),
    ],
    ids=["for all", "for all, but of a cluster", "of a cluster", "of a cluster, without one", "not there"],
)
def test_a_button_is_told_with_a_cluster_or_without_as_it_is_made(name: str, cluster: str, is_told: bool) -> None:
    told: list[tuple[str, str]] = []
    buttons = Buttons(
        [Button("burst", "Submit"), Button("kill", "Kill", is_of_cluster=True)], lambda *each: told.append(each)
    )
    assert buttons.press(name, cluster) is is_told
    assert told == [(name, cluster)] * is_told


def test_an_option_describes_a_button_by_name_and_title() -> None:
    assert button_of("kill=Kill it = now", is_of_cluster=True) == Button("kill", "Kill it = now", is_of_cluster=True)


@pytest.mark.parametrize("text", ["", "kill", "kill=", "=Kill", "kill it=Kill"])
def test_a_button_has_a_name_of_letters_and_a_title(text: str) -> None:
    with pytest.raises(ValueError, match="NAME=TITLE"):
        button_of(text, is_of_cluster=False)
