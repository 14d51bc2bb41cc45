"""Pages of the docs that are followed: a person types all of their commands, and saves all of their YAML, in order.

A block of code in no language is typed. One of YAML is saved in the file that the text right before it names. There is no other
code. A comment `<!-- meanwhile: WORDS -->` on a line of its own, which no reader sees, is an event between them that the test
plays.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from textwrap import dedent

__all__ = ["Commands", "Event", "File", "parts"]

PART = re.compile(
    r"^ *<!-- meanwhile: (?P<event>[^\n]+) -->\n|^(?P<indent> *)```(?P<language>\w*)\n(?P<text>.*?)^(?P=indent)```\n",
    re.MULTILINE | re.DOTALL,
)
CODE = re.compile(r"```|~~~|^(?:    |\t).*", re.MULTILINE)
"""Whatever Markdown may take for a block of code."""
FILE = re.compile(r"`([\w-]+\.yaml)`")


@dataclass(frozen=True, slots=True)
class Event:
    """What happens meanwhile."""

    words: str


@dataclass(frozen=True, slots=True)
class Commands:
    """Lines that a person types."""

    text: str


@dataclass(frozen=True, slots=True)
class File:
    """What a person saves."""

    name: str
    text: str


def parts(page: str) -> Iterator[Event | Commands | File]:
    """All code of a page, in order. Raises AssertionError for code that a person could neither type nor save."""
    end = 0
    for part in PART.finditer(page):
        said, end = page[end : part.start()], part.end()
        assert not CODE.search(said), f"this is code, and nobody runs it:\n{said}"
        text = dedent(part["text"] or "")
        if part["event"]:
            yield Event(part["event"])
        elif not part["language"]:
            yield Commands(text)
        else:
            names = FILE.findall(said.rstrip().rpartition("\n\n")[2])
            assert part["language"] == "yaml", f"nobody runs this:\n{text}"
            assert len(names) == 1, f"this has to be in a file that is named before it:\n{text}"
            yield File(names[0], text)
    assert not CODE.search(page[end:]), f"this is code, and nobody runs it:\n{page[end:]}"
