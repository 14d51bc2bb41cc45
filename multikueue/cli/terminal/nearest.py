"""Names in lists, and suggestions for one that does not exist."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["there_are"]

MOST = 10
"""Maximum names in one line."""


def there_are(named: str, known: Iterable[str], *, none: str = "none") -> str:
    """`did you mean X? there are: ...`: the nearest first, the rest in their natural order."""
    from difflib import get_close_matches

    from multikueue.api.meta import natural

    names = sorted(set(known), key=natural)
    if not names:
        return f"there are {none}"
    wanted = named.rpartition("/")[2]
    close = get_close_matches(wanted, {name.rpartition("/")[2] for name in names}, n=3)
    near = [name for tail in close for name in names if name.rpartition("/")[2] == tail]
    listed = [*near, *(name for name in names if name not in near)][:MOST]
    more = f" and {len(names) - MOST} more" if len(names) > MOST else ""
    meant = f"did you mean {near[0]!r}? " if near else ""
    return f"{meant}there are: {', '.join(listed)}{more}"
