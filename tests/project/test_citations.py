"""What docstrings and comments cite as the source of a rule has its place in the docs."""

from __future__ import annotations

import ast
import re
import tokenize
from collections.abc import Iterator
from functools import cache
from io import StringIO
from pathlib import Path

import pytest

from tests.project.files import ROOT, read

FOLDERS = ("multikueue", "strategies", "console", "fakekube", "simulator", "testbed", "benchmarks", "release", "tests")
SCENARIOS = "tests/quota/scenarios.md"
PAGES = {
    "contract": "docs/contract.md",
    "quota-engine": "docs/quota-rules.md",
    "quota-scenarios": SCENARIOS,
    "ocm.md": "docs/ocm.md",
}
"""How a page is cited, with the numbers of its headings."""
IDS = {
    r"CX-\d+": "docs/contract.md",
    r"MK-\d+": "docs/contract.md",
    r"I\d+": "docs/invariants.md",
    r"QE-\d+": SCENARIOS,
}
"""What is cited by an id."""

_NUMBER = r"\d+(?:\.\d+)*"
_ITEM = rf"(?:{_NUMBER}(?: step \d+| E\d+)?(?:(?:-| to ){_NUMBER})?|E\d+)"
_CITATION = re.compile(rf"\b({'|'.join(map(re.escape, PAGES))}) ({_ITEM}(?:(?:,| and|, and) {_ITEM})*)")
_STEP = re.compile(r" step \d+")
_ID = re.compile(rf"\b({'|'.join(IDS)})\b")
_ELSEWHERE = re.compile(
    rf"\b(?:python-stack|multikueue-contract|ocm {_NUMBER}|(?:design|style|peers|peer-faults)(?:\.md)? {_NUMBER})"
)
"""What nobody outside can look up."""


def texts(source: str) -> Iterator[str]:
    """The docstrings of a file, those of attributes too, and its comments, each on one line."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Expr(value=ast.Constant(value=str(text))):
                yield " ".join(text.split())
    tokens = tokenize.generate_tokens(StringIO(source).readline)
    yield " ".join(token.string.lstrip("#: ") for token in tokens if token.type == tokenize.COMMENT)


@cache
def places(page: str) -> frozenset[str]:
    """What can be cited of a page: the numbers of its headings, and the ids that head a row of a table."""
    text = read(page)
    headings = re.findall(rf"^##+ ({_NUMBER})\.? ", text, re.MULTILINE)
    cells = " ".join(re.findall(r"^\| ([^|]+) \|", text, re.MULTILINE))
    return frozenset((*headings, *_ID.findall(cells), *re.findall(r"\bE\d+\b", cells)))


def cited(text: str) -> Iterator[tuple[str, str]]:
    """Pages and what is cited of them: numbers of headings, both ends of a range, and ids."""
    for name, items in _CITATION.findall(text):
        yield from ((PAGES[name], place) for place in re.findall(rf"E\d+|{_NUMBER}", _STEP.sub("", items)))
    for place in _ID.findall(text):
        yield next(page for form, page in IDS.items() if re.fullmatch(form, place)), place


def problems(text: str) -> list[str]:
    """What a text cites and nobody can find."""
    missing = [f"{place} is not in {page}" for page, place in cited(text) if place not in places(page)]
    return missing + [f"{found} is in no page" for found in _ELSEWHERE.findall(text)]


@pytest.mark.parametrize("folder", FOLDERS)
def test_what_is_cited_is_in_the_docs(folder: str) -> None:
    files = {path: path.read_text() for path in sorted((ROOT / folder).rglob("*.py")) if path != Path(__file__)}
    may_cite = {path: source for path, source in files.items() if _ID.search(source) or _names_a_page(source)}
    found = {
        str(path.relative_to(ROOT)): [problem for text in texts(source) for problem in problems(text)]
        for path, source in may_cite.items()
    }
    assert {path: each for path, each in found.items() if each} == {}


def _names_a_page(source: str) -> bool:
    return any(word in source for word in (*PAGES, "ocm ", "python-stack", "design", "style", "peer"))


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ('"""Rules (contract 3.6 step 2, 5.3)."""', []),
        ('"""Rules (contract 3.1 E3, E4)."""', []),
        ('"""Rules (contract 3.99)."""', ["3.99 is not in docs/contract.md"]),
        ('"""Rules (contract 3.1 E9)."""', ["E9 is not in docs/contract.md"]),
        ('"""Rules (contract 3.1, 3.99, 5.3)."""', ["3.99 is not in docs/contract.md"]),
        ('"""Rules (contract\n3.99)."""', ["3.99 is not in docs/contract.md"]),
        ('"""Rules (quota-engine 1.1-1.99)."""', ["1.99 is not in docs/quota-rules.md"]),
        ('"""Stories (quota-scenarios 9.5, 9.99)."""', ["9.99 is not in tests/quota/scenarios.md"]),
        (
            '"""Rules (quota-engine 3.2 to 3.98; contract 3.99)."""',
            ["3.98 is not in docs/quota-rules.md", "3.99 is not in docs/contract.md"],
        ),
        ('"""Rules (ocm.md 2.4)."""', []),
        ('"""Rules (ocm.md 2.99)."""', ["2.99 is not in docs/ocm.md"]),
        ("x = 1  # as in contract 3.99", ["3.99 is not in docs/contract.md"]),
        ('x = 1\n"""By CX-999."""', ["CX-999 is not in docs/contract.md"]),
        ('"""By QE-999 and I99."""', ["QE-999 is not in tests/quota/scenarios.md", "I99 is not in docs/invariants.md"]),
        ('"""By design 5.6."""', ["design 5.6 is in no page"]),
        ('"""By python-stack 5.2."""', ["python-stack is in no page"]),
        ('x = "contract 3.99"', []),
        ('"""The contract of 3 parties, by design."""', []),
    ],
)
def test_a_citation_is_found_and_looked_up(source: str, found: list[str]) -> None:
    assert [problem for text in texts(source) for problem in problems(text)] == found
