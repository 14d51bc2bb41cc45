"""Prints what was seen beside an answer: each worker, and where the pods of the job are others than those that are counted."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from multikueue.cli.terminal.output import Column, heading, note, print_table

if TYPE_CHECKING:
    from multikueue.cli.terminal.formats import Form
    from multikueue.cli.workload.seen import Inspection
    from multikueue.workload.nomination.prospects import Prospect

__all__ = ["print_elsewhere", "print_workers"]

WORKERS = (Column("CLUSTER"), Column("ANSWER"), Column("PLACE"), Column("MESSAGE"))


def print_workers(workers: Iterable[Prospect], output: Form) -> None:
    heading("Workers")
    print_table(WORKERS, [(each.cluster, each.state, str(each.place or ""), each.message) for each in workers], output)


def print_elsewhere(found: Inspection) -> None:
    if found.elsewhere:
        heading("Where its pods are others")
    for each in found.elsewhere:
        print(f"  {each}")
    for text in found.uncompared:
        note(text)
