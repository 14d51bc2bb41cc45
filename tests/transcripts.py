"""Pages of the docs whose commands are run, and whose outputs are compared with what the commands say.

A page is Markdown. In its blocks of `console`, a line after `$ ` is a command, and what follows is its output, errors
included. A comment `<!-- meanwhile: WORDS -->` on a line of its own, which no reader sees, is an event between commands
that the test plays. Everything else is text.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

__all__ = ["Command", "alike", "lost", "replayed"]

OPEN, CLOSE, PROMPT = "```console", "```", "$ "
MEANWHILE = re.compile(r"<!-- meanwhile: (.+) -->")

VOLATILE = (
    (re.compile(r"\b(job-[\w.-]+)-[0-9a-f]{5}\b"), r"\1-HASH"),  # before ages, as which 6629d would be read
    (re.compile(r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d)?Z?)?"), "TIME"),
    (re.compile(r"\b\d\d:\d\d(?::\d\d)?\b"), "TIME"),
    (re.compile(r"\b(?:\d+(?:\.\d+)?(?:ms|[smhd]))+(?= |$)", re.MULTILINE), "AGE"),
    (re.compile(r"\b(v|Kueue )\d+\.\d+(?:\.\d+)?\b"), r"\1RELEASE"),
    (re.compile(r"(ClientConnectionFailed): .+"), r"\1: WHY"),  # the call that was the first to fail
    (re.compile(r" {2,}"), "  "),  # columns are as wide as what is in them
    (re.compile(r" +$", re.MULTILINE), ""),
)
"""Parts of an output that differ from run to run, and the texts in their place."""


@dataclass(frozen=True, slots=True)
class Command:
    """A command of a page with the output it has there."""

    words: str
    output: str


async def replayed(
    page: str, run: Callable[[str], Awaitable[str]], play: Callable[[str], Awaitable[object]]
) -> tuple[str, list[tuple[Command, str]]]:
    """The page with the outputs of now, and the commands that answered something else, each with its answer.

    `run` runs the words of a command; `play` plays an event. An output that is alike stays as it is on the page.
    """
    lines, differences = [], []
    for part in _parts(page):
        if isinstance(part, Command):
            answer = await run(part.words)
            if not alike(answer, part.output):
                differences.append((part, answer))
            shown = part.output if alike(answer, part.output) else answer
            lines += [PROMPT + part.words, *shown.splitlines()]
        else:
            lines.append(part)
            if event := MEANWHILE.fullmatch(part):
                await play(event[1])
    return "\n".join(lines) + "\n", differences


def alike(one: str, other: str) -> bool:
    """Whether two outputs are equal but for what is volatile, and the order of their lines."""
    return _masked(one) == _masked(other)


def lost(answer: str, page: str) -> list[str]:
    """The lines that the answer lacks, if it has no others than the page; they are masked."""
    there, here = Counter(_masked(page)), Counter(_masked(answer))
    return [] if here - there else sorted((there - here).elements())


def _masked(text: str) -> list[str]:
    """The lines, sorted: what happens in the same second has no order."""
    for pattern, stand_in in VOLATILE:
        text = pattern.sub(stand_in, text)
    return sorted(text.strip().splitlines())


def _parts(page: str) -> list[Command | str]:
    """Lines of text, and commands."""
    parts: list[Command | str] = []
    inside = False
    for line in page.splitlines():
        inside = line != CLOSE if inside else line == OPEN
        last = parts[-1] if parts else None
        if inside and line.startswith(PROMPT):
            parts.append(Command(line.removeprefix(PROMPT), ""))
        elif inside and isinstance(last, Command):
            parts[-1] = Command(last.words, f"{last.output}{line}\n")
        else:
            parts.append(line)
    return parts
