"""One obstacle with its repair, and the words that the rules share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from difflib import get_close_matches

from multikueue.answers.codes import Code
from multikueue.answers.seen import Seen
from multikueue.api.meta import Value
from multikueue.api.values.foreign import excerpt

__all__ = [
    "ADMINISTRATOR",
    "BATCH_ADMINISTRATOR",
    "OWNER",
    "WORKER_ADMINISTRATOR",
    "Obstacle",
    "Repair",
    "Rule",
    "foreign",
    "names",
    "nearest",
    "obstacle",
    "span",
]

OWNER = "anyone who may change the job"
BATCH_ADMINISTRATOR = "anyone who may patch workloads, as the role multikueue-batch-admin"
ADMINISTRATOR = "an administrator of the manager cluster"
WORKER_ADMINISTRATOR = "an administrator of the worker"

_NAMED = 5


class Repair(Value, frozen=True):
    """What removes an obstacle: commands as they are typed, in their order, words in capitals for what the reader chooses;
    and who may run them."""

    commands: tuple[str, ...]
    by: str

    def __str__(self) -> str:
        return f"{', then '.join(f'`{each}`' for each in self.commands)} ({self.by})"


class Obstacle(Value, frozen=True):
    """`code` is the name of a `Code`. `text` is a clause without a stop. `repair` is None where only time helps, or where what
    helps is no command."""

    code: str
    text: str
    repair: Repair | None = None


Rule = Callable[[Seen, datetime], Obstacle | None]


def obstacle(code: Code, text: str, *commands: str, by: str = OWNER) -> Obstacle:
    return Obstacle(code=code.name, text=text, repair=Repair(commands=commands, by=by) if commands else None)


def nearest(word: str, known: Iterable[str]) -> str:
    """The known name that was probably meant; empty if none is near."""
    return next(iter(get_close_matches(word, sorted(known), n=1)), "")


def names(found: Sequence[str]) -> str:
    """At most five names in a row, and how many more."""
    more = f" and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
    return ", ".join(found[:_NAMED]) + more


def span(time: timedelta) -> str:
    minutes, seconds = divmod(int(time.total_seconds()), 60)
    return f"{minutes} minutes" if minutes and not seconds else f"{int(time.total_seconds())} seconds"


def foreign(text: str) -> str:
    """A message of another program as part of a sentence: short, in one line, without a stop."""
    return " ".join(excerpt(text).split()).rstrip(". ")
