"""Ports that no two processes choose."""

from __future__ import annotations

import subprocess
import sys

from testbed import ports


def test_a_port_that_another_process_has_chosen_is_not_chosen_again() -> None:
    script = "from testbed import ports; print(ports.free_port(), flush=True); input()"
    with subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        taken = int(other.stdout.readline())
        assert not ports._claim(taken)
        other.communicate(b"\n")
    assert ports._claim(taken)


def test_ports_in_a_row_are_of_one_process_alone() -> None:
    row = ports.free_ports(3)
    assert [*row] == [row[0], row[0] + 1, row[0] + 2]
    assert ports.free_port() not in row
