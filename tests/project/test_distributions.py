"""What each distribution made here has in its wheel: the manager's has no line of the simulator."""

from __future__ import annotations

import re

import pytest
from hatchling.builders.wheel import WheelBuilder

from multikueue import __version__
from tests.project.files import MEMBERS, ROOT, pyproject, read

PACKAGES = {
    "multikueue": {"multikueue", "multikueue_strategies"},
    "fakekube": {"fakekube"},
    "multikueue-console": {"multikueue_console"},
    "multikueue-simulator": {"multikueue_simulator"},
}
OF_THE_API_SERVER = {"common-expression-language", "jsonpatch", "jsonschema-rs"}


def selected(name: str) -> set[str]:
    """The files that hatchling takes into the wheel, as they are called in there."""
    return {file.distribution_path for file in WheelBuilder(str(MEMBERS[name])).recurse_included_files()}


def required(name: str) -> set[str]:
    return {re.split(r"[\[<>=]", requirement)[0] for requirement in pyproject(name)["project"]["dependencies"]}


@pytest.mark.parametrize("name", MEMBERS)
def test_a_wheel_has_its_packages_and_nothing_else(name: str) -> None:
    files = selected(name)

    assert {path.partition("/")[0] for path in files} == PACKAGES[name]
    assert {f"{package}/py.typed" for package in PACKAGES[name]} <= files


def test_each_line_of_the_manager_is_in_its_wheel() -> None:
    ours = {str(path.relative_to(ROOT)) for path in (ROOT / "multikueue").rglob("*.py")}

    assert ours <= selected("multikueue")


def test_the_manager_brings_no_simulated_command_and_needs_nothing_for_one() -> None:
    project = pyproject()["project"]

    assert "multikueue.commands" not in project["entry-points"]
    assert required("multikueue").isdisjoint(
        {"fakekube", "multikueue-console", "multikueue-simulator", *OF_THE_API_SERVER}
    )
    assert set(project["optional-dependencies"]) == {"fast", "traces"}
    assert not any(re.search(rf"^{name}==", read("requirements/image.txt"), re.MULTILINE) for name in OF_THE_API_SERVER)


def test_the_api_server_needs_nothing_of_ours_and_the_simulator_needs_both() -> None:
    assert required("fakekube").isdisjoint(MEMBERS)
    assert {"fakekube", "multikueue"} <= required("multikueue-simulator")


def test_all_have_the_same_version() -> None:
    assert {pyproject(name)["project"]["version"] for name in MEMBERS} == {__version__}
