"""What one job, one reconcile and one event cost, as the tables of docs/figures.md.

`python -m tests.costs` prints them, with `--docs` into the page.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

import anyio

from benchmarks.page import FIGURES, put
from tests.costs import keys, reconciles, traces
from tests.costs.counting import DECODES, FUNCTIONS
from tests.costs.fleet import STRATEGIES, costs
from tests.costs.test_jobs import SIZES

SHOWN = ("cases", "remotes", "decisions", "workload reconciles", "job reconciles", "outbox turns", DECODES, FUNCTIONS)


def jobs() -> Iterator[str]:
    yield f"| Strategy | workers | {' | '.join(SHOWN)} |"
    yield f"| --- | --: |{' --: |' * len(SHOWN)}"
    for strategy in STRATEGIES:
        for workers, (number, warm_ups) in SIZES.items():
            found = costs(workers, number, warm_ups)[strategy.name]
            cells = (f"{found[what]:,.0f}" if what in found else "" for what in SHOWN)
            yield f"| {strategy.name} | {workers} | {' | '.join(cells)} |"


if __name__ == "__main__":
    tables = {
        "jobs": "\n".join(jobs()),
        "reconciles": reconciles.as_markdown(anyio.run(reconciles.of_a_job)),
        "traces": traces.as_markdown(traces.measure()),
        "events": keys.as_markdown(keys.measure()),
    }
    print("\n\n".join(tables.values()))
    if "--docs" in sys.argv:
        for name, table in tables.items():
            put(FIGURES, name, table)
