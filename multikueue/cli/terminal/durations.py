"""Durations on the command line, by the grammar of the settings."""

from __future__ import annotations

from datetime import timedelta

import typer

__all__ = ["parse_duration"]


def parse_duration(text: str) -> timedelta:
    """A duration such as `30d`, `1h30m`, `1.5h`, `500ms`, `PT1H` or `90` (seconds)."""
    from multikueue.durations import parse_duration as parse

    found = parse(text)
    if found is None:
        raise typer.BadParameter(f"expected a duration such as 30d, 12h or 1h30m, got {text[:100]!r}")
    return found
