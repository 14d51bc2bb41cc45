"""Which of the jobs above another one it belongs to, and how that stands."""

from __future__ import annotations

import pytest

from multikueue.jobs.framework.adapter import Adapter
from multikueue.jobs.framework.nesting import MOST_HOPS, Ancestor, Nested, is_whole, nested
from multikueue.jobs.integrations.frameworks import FRAMEWORKS
from multikueue.jobs.kinds.pods.group import POD_GROUP

PLAIN = Ancestor(is_in_queue=False, is_admitted=False)
WAITING = Ancestor(is_in_queue=True, is_admitted=False)
ADMITTED = Ancestor(is_in_queue=True, is_admitted=True)
LINES: dict[str, tuple[list[Ancestor | None], Nested | None]] = {
    "nothing is above it": ([], None),
    "what is above it is in no queue": ([PLAIN, PLAIN], None),
    "one that waits": ([WAITING], Nested.WAITING),
    "one that is admitted": ([ADMITTED], Nested.ADMITTED),
    "one further up": ([PLAIN, PLAIN, ADMITTED], Nested.ADMITTED),
    "one below others that are in none": ([WAITING, PLAIN], Nested.WAITING),
    "of several the uppermost counts": ([ADMITTED, WAITING], Nested.WAITING),
    "and the lower ones do not": ([WAITING, ADMITTED], Nested.ADMITTED),
    "one that is not seen": ([None], Nested.UNSEEN),
    "one that is not seen above one that is": ([ADMITTED, None], Nested.UNSEEN),
    "as many as may be": ([*[PLAIN] * (MOST_HOPS - 1), ADMITTED], Nested.ADMITTED),
    "one more": ([*[PLAIN] * MOST_HOPS, ADMITTED], Nested.TOO_DEEP),
}


@pytest.mark.parametrize(("line", "expected"), LINES.values(), ids=LINES)
def test_what_a_job_belongs_to(line: list[Ancestor | None], expected: Nested | None) -> None:
    assert nested(line) is expected


def test_a_line_that_goes_round_is_looked_at_no_further() -> None:
    def forever() -> Ancestor:
        seen.append(None)
        return ADMITTED

    seen: list[None] = []
    assert nested(iter(forever, None)) is Nested.TOO_DEEP
    assert len(seen) == MOST_HOPS + 1


WHOLE = {name: (adapter, name not in ("pod", "statefulset")) for name, adapter in FRAMEWORKS.items()}


@pytest.mark.parametrize(("adapter", "expected"), [*WHOLE.values(), (POD_GROUP, False)], ids=[*WHOLE, "pod group"])
def test_jobs_with_a_field_that_holds_them_may_belong_to_each_other(adapter: Adapter, expected: bool) -> None:
    assert is_whole(adapter) is expected
