"""Stories are read from files and chosen by name and feature."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.parity.builders import a_story, good
from tests.parity.story import PACK, BadStory, Choice, Story, find, of_kueue, pack, parsed, told


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
def test_what_is_no_story_says_why(text: str, problem: str) -> None:
    with pytest.raises(BadStory, match=problem):
        told(text.encode())


def test_a_story_tells_of_a_release_the_first_one_if_it_does_not_say() -> None:
    assert parsed(a_story()).release == "0.16"
    assert parsed({**a_story(), "kueue": "0.19"}).release == "0.19"
    with pytest.raises(BadStory, match=r"expected a story of Kueue 0\.16, 0\.18, 0\.19, 0\.19\.2, got 0\.17"):
        parsed({**a_story(), "kueue": "0.17"})


@pytest.mark.parametrize(
    ("version", "release"),
    [((0, 16, 2), "0.16"), ((0, 17, 7), "0.16"), ((0, 18, 2), "0.18"), ((0, 19, 1), "0.19"), ((1, 0, 0), "0.19.2")],
)
def test_what_a_kueue_decides_is_told_of_the_release_whose_rules_it_has(version: tuple[int, ...], release: str) -> None:
    assert of_kueue(version) == release


def test_stories_in_a_pack_are_those_that_were_put_in(
    directory: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    elsewhere = tmp_path_factory.mktemp("packs")
    assert pack(directory, elsewhere / f"all{PACK}") == 3
    assert list(find(elsewhere, Choice())) == list(find(directory, Choice()))
    assert chosen(elsewhere, Choice(names=("b*",))) == ["b-fair"]


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
