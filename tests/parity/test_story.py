"""Stories are read from files and chosen by name and feature."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.parity.builders import a_story, good
from tests.parity.story import BadStory, Choice, Story, find, parsed, read


def chosen(directory: Path, choice: Choice) -> list[str]:
    return [name for name, _ in find(directory, choice)]


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    for name, features in {"b-fair": ("fair",), "a-plain": ("nominal",), "c-both": ("fair", "nominal")}.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(good(name, features)))
    (tmp_path / "README.md").write_text("no story")
    return tmp_path


def test_a_step_has_an_action_its_elements_and_what_is_expected() -> None:
    story = parsed(
        a_story(
            {"wait": 5, "expect": {"workloads": {}}}, {"complete_evictions": "all", "completed": ["a"], "expect": {}}
        )
    )
    first, second = story.steps
    assert (first.action, first.elements, first.expect, first.completed) == ("wait", (5,), {"workloads": {}}, None)
    assert (second.action, second.elements, second.completed) == ("complete_evictions", ("all",), ("a",))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{", "DecodeError"),
        ("[]", "TypeError"),
        (json.dumps({"name": "x"}), "KeyError: 'steps'"),
        (json.dumps(a_story({"expect": {}})), "expected one action in a step, got expect"),
        (
            json.dumps(a_story({"wait": 1, "finish": [], "expect": {}})),
            "expected one action in a step, got finish, wait",
        ),
        (json.dumps(a_story({"wait": 1})), "KeyError: 'expect'"),
    ],
)
def test_what_is_no_story_says_why(tmp_path: Path, text: str, problem: str) -> None:
    file = tmp_path / "file.json"
    file.write_text(text)
    with pytest.raises(BadStory, match=problem):
        read(file)


@pytest.mark.parametrize(
    ("choice", "names"),
    [
        (Choice(), ["a-plain", "b-fair", "c-both"]),
        (Choice(names=("b*", "c-both")), ["b-fair", "c-both"]),
        (Choice(features=frozenset({"fair"})), ["b-fair", "c-both"]),
        (Choice(without=frozenset({"nominal"})), ["b-fair"]),
        (Choice(names=("c*",), features=frozenset({"taints"})), []),
    ],
)
def test_stories_are_chosen_by_name_and_feature_and_come_in_order(
    directory: Path, choice: Choice, names: list[str]
) -> None:
    assert chosen(directory, choice) == names


def test_a_file_that_is_no_story_comes_as_its_error(directory: Path) -> None:
    (directory / "broken.json").write_text("{")
    found = dict(find(directory, Choice(features=frozenset({"fair"}))))
    assert isinstance(found["broken"], BadStory)
    assert isinstance(found["b-fair"], Story)
