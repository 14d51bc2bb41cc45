"""What docs/compatibility.md says of each switch is what the code says."""

from __future__ import annotations

from msgspec.structs import fields

from multikueue.api.kueue.compatibility import Compatibility
from tests.project.switches import NAME, PAGE, table


def test_the_table_is_that_of_today() -> None:
    assert f"<!-- {NAME} -->\n\n{table()}\n\n<!-- end -->" in PAGE.read_text(), "make docs writes it again"


def test_each_switch_is_in_it() -> None:
    assert len(table().splitlines()) == 2 + len(fields(Compatibility))
