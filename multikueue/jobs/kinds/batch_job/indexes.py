"""Sets of completion indexes as the status of an Indexed Job has them: `0,2-4`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

__all__ = ["count_indexes"]


def count_indexes(texts: Iterable[str], *, below: int) -> int:
    """The number of indexes from 0 to `below` (not included) that any of the texts names.

    An index in two texts counts once. What is no index and no range is ignored: it says nothing about any pod.
    """
    counted, after = 0, 0
    for first, last in sorted(interval for text in texts for interval in _intervals(text)):
        begin, end = max(first, after), min(last + 1, below)
        if begin < end:
            counted += end - begin
            after = end
    return counted


def _intervals(text: str) -> Iterator[tuple[int, int]]:
    for interval in text.split(",") if text else ():
        first, is_range, last = interval.partition("-")
        if _is_index(first) and (_is_index(last) or not is_range):
            yield int(first), int(last or first)


def _is_index(text: str) -> bool:
    return text.isascii() and text.isdecimal()
