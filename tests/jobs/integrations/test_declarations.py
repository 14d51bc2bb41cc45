from __future__ import annotations

import inspect
from itertools import takewhile

from multikueue.jobs.integrations import declarations
from multikueue.jobs.integrations.declarations import DECLARATIONS


def test_each_kind_is_declared_once_under_the_name_kueue_gives_it() -> None:
    assert (
        len({each.framework for each in DECLARATIONS}) == len({each.kind for each in DECLARATIONS}) == len(DECLARATIONS)
    )
    assert all(each.framework.endswith(f"/{each.kind.lower()}") for each in DECLARATIONS)
    assert all(each.plural == f"{each.kind.lower()}s" for each in DECLARATIONS)


def test_a_declaration_is_short() -> None:
    lines = iter(inspect.getsource(declarations).splitlines())
    for line in lines:
        if "= Declaration(" in line:
            assert len(list(takewhile(lambda each: each != ")", lines))) < 25, line
