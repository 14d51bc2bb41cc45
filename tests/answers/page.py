"""Writes docs/why.md from the situations: `python -m tests.answers.page docs/why.md`, as `make docs` does."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from multikueue.answers.answer import answer
from multikueue.answers.codes import Code
from tests.answers.situations import FINE, FIX, LATER, NEVER, PASSING, Situation

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

This page is written from a table of situations by `make docs`, and a test holds each of them to its answer.
"""


def page() -> str:
    return "\n".join((_HEAD, *_tables(), "## Codes\n", *_codes(), ""))


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


def _codes() -> Iterator[str]:
    yield "| Code | Meaning |\n|---|---|"
    yield from (_cells((f"`{code.name}`", code.value)) for code in Code)


def _cells(texts: Iterable[str]) -> str:
    return f"| {' | '.join(text.replace('|', chr(92) + '|') for text in texts)} |"


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(page())
