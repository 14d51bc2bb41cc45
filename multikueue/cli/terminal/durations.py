"""Durations as one types them."""

from __future__ import annotations

import re
from datetime import timedelta

import typer

__all__ = ["parse_duration"]

_DURATION = re.compile(r"(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?")


def parse_duration(text: str) -> timedelta:
    """A duration such as `30d`, `12h` or `1h30m`."""
    match = _DURATION.fullmatch(text)
    if not text or match is None:
        raise typer.BadParameter(f"expected a duration such as 30d, 12h or 1h30m, got {text!r}")
    try:
        days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
        return timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)
    except (OverflowError, ValueError):  # ValueError: more digits than Python reads
        raise typer.BadParameter(f"{text!r} is too long: expected a duration such as 30d, 12h or 1h30m") from None
