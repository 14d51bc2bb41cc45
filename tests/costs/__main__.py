"""The counts as a table of docs/scale.md: `python -m tests.costs`."""

from __future__ import annotations

from collections.abc import Iterator

from tests.costs.counting import DECODES
from tests.costs.fleet import STRATEGIES, costs
from tests.costs.test_jobs import SIZES

SHOWN = ("cases", "remotes", "decisions", "workload reconciles", "job reconciles", "outbox turns", DECODES)


def table() -> Iterator[str]:
    yield f"| Strategy | workers | {' | '.join(SHOWN)} |"
    yield f"| --- | --: |{' --: |' * len(SHOWN)}"
    for strategy in STRATEGIES:
        for workers, (jobs, warm_ups) in SIZES.items():
            found = costs(workers, jobs, warm_ups)[strategy.name]
            yield f"| {strategy.name} | {workers} | {' | '.join(f'{found[what]:.0f}' for what in SHOWN)} |"


if __name__ == "__main__":
    print("\n".join(table()))
