"""Writes docs/why.md from the situations: `python -m tests.answers.page docs/why.md`, as `make docs` does."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from multikueue.answers.answer import answer
from multikueue.answers.codes import Code
from tests.answers.situations import FINE, FIX, LATER, NEVER, PASSING, SITUATIONS, Situation

__all__ = ["page"]

_PARTS = (
    ("What can never be", NEVER),
    ("What somebody has to change", FIX),
    ("What passes by itself", PASSING),
    ("Nothing stands in the way", FINE),
)

_HEAD = """\
# Why a job does not run

`multikueue why JOB` looks at the job, its Workload, its queues, the workers and its pods, as far as you may read them,
and answers with a state and what stands in the way: first what can never be, then what somebody has to change, then
what passes by itself. The first sentence has the state and the heaviest obstacle. `What helps` has the commands, with
words in capitals for what you choose, and who may run them. `Before` is what happened: a preemption, an eviction, an
attempt on a worker.

| State | Meaning |
|---|---|
| `Pending` | It waits, or is being stopped to wait again. |
| `Starting` | A worker has admitted it, and none of its pods is ready. |
| `Running` | A pod is ready. |
| `Finished`, `Failed` | It is over. |
| `Held` | It does not queue until somebody releases it. |
| `Unknown` | The worker that has it does not answer. |

With `-o json` or `-o yaml` programs read the same: `job`, `workload`, `state`, `since`, `cluster`, `summary`,
`obstacles` with `code`, `text` and `repair`, `past`, `notSeen`. A code keeps its meaning in all releases.

`jobs list`, `jobs show`, `submit --dry-run` and the [visibility API](metrics.md#who-waits-and-why-the-visibility-api) say the
same. Where a list says less, it would cost too much to know more ([below](#what-a-list-does-not-look-for)).

This page is written from a table of situations by `make docs`, and a test holds each of them to its answer.
"""


def page() -> str:
    parts = (_HEAD, *_tables(), "## What a list does not look for\n", *_prices(), "", "## Codes\n", *_codes(), "")
    return "\n".join(parts)


def _tables() -> Iterator[str]:
    for title, situations in _PARTS:
        yield f"## {title}\n"
        yield "| Situation | What `why` says | Code | What helps |\n|---|---|---|---|"
        yield from (_row(each) for each in situations)
        yield ""


def _row(situation: Situation) -> str:
    told = answer(situation.seen, LATER)
    first = next(iter(told.obstacles), None)
    helps = str(first.repair) if first and first.repair else ""
    code = f"`{first.code}`" if first else ""
    return _cells((situation.how, told.summary, code, helps))


def _prices() -> Iterator[str]:
    yield "| Situation | What `why` says | What a list says | Why |\n|---|---|---|---|"
    for each in SITUATIONS:
        if each.price and each.code and each.coarse:
            yield _cells((each.how, f"`{each.code.name}`", f"`{each.coarse.name}`", each.price))


def _codes() -> Iterator[str]:
    yield "| Code | Meaning |\n|---|---|"
    yield from (_cells((f"`{code.name}`", code.value)) for code in Code)


def _cells(texts: Iterable[str]) -> str:
    return f"| {' | '.join(text.replace('|', chr(92) + '|') for text in texts)} |"


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(page())
