"""The real manager with other times than a user's: `python -m testbed.timed_manager run ...`.

The variables say which, as settings do: `TIMINGS__SUSPECT_AFTER=300ms`. In a cluster nobody has a reason to change these; a
test has, which would wait for them.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import timedelta
from functools import partial

from multikueue.cli import main
from multikueue.controllers.workers.connection import connection
from multikueue.durations import parse_duration
from multikueue.manager import process
from multikueue.settings import InForce, Timings

__all__ = ["TIMED", "command_for", "install", "variables"]

PREFIX = "TIMINGS__"
PLAIN, TIMED = ("-m", "multikueue"), ("-m", "testbed.timed_manager")

LOOP_PATIENCE = "loop_patience"


def variables(settings: Mapping[str, str]) -> dict[str, str]:
    """The environment for settings by their names without prefix, and for times."""
    return {key if key.startswith(PREFIX) else f"MULTIKUEUE_{key}": value for key, value in settings.items()}


def command_for(environment: Mapping[str, str]) -> tuple[str, ...]:
    """The arguments of Python for a manager with that environment: the one that users start, unless times are others."""
    return TIMED if any(name.startswith(PREFIX) for name in environment) else PLAIN


def install() -> None:
    """Give this process the times that its environment names."""
    told = {name.removeprefix(PREFIX).lower(): value for name, value in os.environ.items() if name.startswith(PREFIX)}
    times = {name: _duration(name, text) for name, text in told.items()}
    patience = times.pop(LOOP_PATIENCE, None)
    if patience is not None:
        connection.PATIENCE = patience.total_seconds()  # type: ignore[attr-defined]
    process.InForce = partial(InForce, timings=Timings(**times))  # type: ignore[assignment,attr-defined]


def _duration(name: str, text: str) -> timedelta:
    found = parse_duration(text)
    if found is None:
        raise SystemExit(f"{PREFIX}{name.upper()}: expected a duration as 300ms, got {text!r}")
    return found


if __name__ == "__main__":
    install()
    main()
