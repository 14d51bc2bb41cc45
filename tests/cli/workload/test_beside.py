"""What is printed beside an answer."""

from __future__ import annotations

import pytest

from multikueue.answers.seen import Seen
from multikueue.cli.terminal.formats import Format
from multikueue.cli.workload.beside import print_elsewhere, print_workers
from multikueue.cli.workload.pod_policies import Elsewhere
from multikueue.cli.workload.seen import Inspection
from multikueue.quota.visibility.differences import MISSING, Difference
from multikueue.workload.nomination.prospects import Prospect, State


def test_each_worker_has_its_row(capsys: pytest.CaptureFixture[str]) -> None:
    waits = Prospect(cluster="w1", state=State.WAITS.value, place=2, message="1 more needed")
    print_workers([waits, Prospect(cluster="w2", state=State.CORDONED.value)], Format.TABLE)
    assert [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()[-3:]] == [
        "CLUSTER ANSWER PLACE MESSAGE",
        "w1 waits there 2 1 more needed",
        "w2 is cordoned - -",
    ]


def test_what_is_the_same_everywhere_is_not_told(capsys: pytest.CaptureFixture[str]) -> None:
    found = Inspection(Seen(name="job/train", namespace="a"))
    print_elsewhere(found)
    assert capsys.readouterr().out == ""
    missing = Difference(
        subject="PriorityClass high", field="", manager="there", worker=MISSING, meaning="no pods", advice="create it"
    )
    found.elsewhere = [Elsewhere("w1", missing)]
    print_elsewhere(found)
    assert "  On w1, PriorityClass high: " in capsys.readouterr().out
