"""Buttons on all pages for whoever started the console: pages press them, and the one who started it does what they say."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

__all__ = ["Button", "Buttons", "Press", "button_of"]

Press = Callable[[str, str], None]
"""What is told of a button that was pressed: its name, and the cluster, empty for a button that is about none."""


class Button(msgspec.Struct, frozen=True):
    """`name`: what is told once it is pressed; `title`: what is on it. `is_of_cluster`: it is about one cluster, which the page
    lets people choose."""

    name: str
    title: str
    is_of_cluster: bool = False


class Buttons:
    """The buttons there are, by name, and who is told. Without any, pages show none."""

    def __init__(self, all_: Sequence[Button] = (), press: Press = lambda _name, _cluster: None) -> None:
        self._all, self._press = {each.name: each for each in all_}, press

    def shown(self) -> list[dict[str, Any]]:
        """What pages know of them."""
        return [msgspec.to_builtins(each) for each in self._all.values()]

    def press(self, name: str, cluster: str) -> bool:
        """Tell that it was pressed. Returns whether there is such a button, and it is about a cluster if one is named."""
        found = self._all.get(name)
        if found is None or found.is_of_cluster is not bool(cluster):
            return False
        self._press(name, cluster)
        return True


def button_of(text: str, *, is_of_cluster: bool) -> Button:
    """The button that an option describes as NAME=TITLE. Raises ValueError if it has no name or no title."""
    name, _, title = text.partition("=")
    if not name.isalpha() or not title:
        raise ValueError(f"expected NAME=TITLE, not {text!r}")
    return Button(name, title, is_of_cluster)
