"""The option for the history, and a history that is closed in the end."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from multikueue_console.history.store import Keep, RunHistory

__all__ = ["HistoryUrl", "opened"]

HistoryUrl = Annotated[
    str | None,
    typer.Option(
        "--history",
        envvar="MULTIKUEUE_HISTORY",
        metavar="URL",
        help="sqlite:///FILE or postgresql://... (default: a file of yours)",
        show_default=False,
    ),
]


@contextmanager
def opened(url: str | None, keep: Keep | None = None) -> Iterator[RunHistory]:
    """The history at the URL, or at the usual place. Raises ConfigurationError and HistoryUnavailable."""
    from multikueue_console.history.store import RunHistory

    history = RunHistory.open(url or _usual_url(), keep)
    try:
        yield history
    finally:
        history.close()


def _usual_url() -> str:
    """A file of the user, where programs keep their state; its folder is made."""
    state = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local/state") / "multikueue"
    state.mkdir(parents=True, exist_ok=True, mode=0o700)
    return f"sqlite:///{state / 'history.db'}"
