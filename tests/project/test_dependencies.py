"""docs/dependencies.md has a reason for each dependency, and for nothing else."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import pytest

from tests.project.files import MEMBERS, ROOT, pyproject, read, rows, section

DOCUMENT = "docs/dependencies.md"


def name_of(requirement: str) -> str:
    """The name with its extras, without version and marker."""
    match = re.match(r"[\w.-]+(\[[\w,-]+\])?", requirement)
    assert match, requirement
    return match[0]


def named(requirements: Iterable[str]) -> set[str]:
    return {name_of(requirement) for requirement in requirements}


def go_tools(path: str) -> set[str]:
    text = read(path)
    block = re.search(r"^tool \((.*?)^\)", text, re.MULTILINE | re.DOTALL)
    return set(block[1].split()) if block else set(re.findall(r"^tool (\S+)$", text, re.MULTILINE))


GO_MODULES = sorted(str(path.relative_to(ROOT)) for path in (ROOT / "testbed" / "modules").glob("*/go.mod"))


def declared() -> dict[str, set[str]]:
    """Section of the document to what the project declares there."""
    project: dict[str, Any] = pyproject()
    extras = project["project"]["optional-dependencies"]
    return {
        "At run time": named(project["project"]["dependencies"]),
        **{f"Extra `{extra}`": named(requirements) for extra, requirements in extras.items()},
        **{
            f"Of `{name}`": named(pyproject(name)["project"]["dependencies"])
            for name in MEMBERS
            if name != "multikueue"
        },
        **{
            f"Extras of `{name}`": set().union(*(named(each) for each in extras.values()))
            for name in MEMBERS
            if name != "multikueue" and (extras := pyproject(name)["project"].get("optional-dependencies"))
        },
        "For development": named(project["dependency-groups"]["dev"]),
        "To take guards out": named(project["dependency-groups"]["mutation"]),
        "To look at the console": named(project["dependency-groups"]["browser"]),
        "To build the site": named(project["dependency-groups"]["site"]),
        "To build the package": named(project["dependency-groups"]["build"]),
        "Programs of the testbed": set().union(*(go_tools(path) for path in GO_MODULES)),
    }


@pytest.mark.parametrize(("title", "names"), [*declared().items()], ids=[*declared()])
def test_each_dependency_is_in_its_section_and_nothing_else_is(title: str, names: set[str]) -> None:
    assert names
    assert {name for name, _ in rows(section(read(DOCUMENT), title))} == names


def test_each_dependency_has_a_reason() -> None:
    for name, cells in rows(read(DOCUMENT)):
        assert all(len(cell) > 15 for cell in cells), f"{name} has no reason"


def test_what_was_left_out_is_no_dependency() -> None:
    left_out = {name for name, _ in rows(section(read(DOCUMENT), "Considered and left out"))}

    assert left_out
    assert left_out.isdisjoint(set().union(*declared().values()))


def test_there_is_no_other_group_of_dependencies() -> None:
    assert set(pyproject()["dependency-groups"]) == {"browser", "build", "dev", "mutation", "site"}


def test_what_builds_the_package_is_locked() -> None:
    assert set(pyproject()["build-system"]["requires"]) <= set(pyproject()["dependency-groups"]["build"])
