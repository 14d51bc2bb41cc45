from __future__ import annotations

from multikueue.answers.codes import Code
from tests.answers.page import page
from tests.answers.situations import SITUATIONS
from tests.project.files import read


def test_the_page_is_that_of_today() -> None:
    assert read("docs/why.md") == page(), "make docs writes it again"


def test_each_code_and_each_situation_is_on_it() -> None:
    lines = page().splitlines()
    assert [code.name for code in Code if f"| `{code.name}` | {code.value} |" not in lines] == []
    assert [each.how for each in SITUATIONS if not any(line.startswith(f"| {each.how} |") for line in lines)] == []
