"""Drawn stories: the same from the same seed, valid, and apart from each other."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.parity.draw import CONFIGURATIONS, IfIdle, Some, draw
from tests.parity.play import play
from tests.parity.story import ACTIONS, Object, parsed


def strings(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for each in value.values():
            yield from strings(each)
    elif isinstance(value, list):
        for each in value:
            yield from strings(each)
    elif isinstance(value, str):
        yield value


def steps(story: Object, action: str) -> list[Any]:
    return [step[action] for step in story["steps"] if action in step]


def without_choices(story: Object) -> Object:
    """What can be played before Kueue has decided anything."""
    fixed = [step for step in story["steps"] if not {"apply", "create", "check_active"}.isdisjoint(step)]
    return {**story, "steps": [{**step, "expect": {}} for step in fixed]}


def test_a_seed_and_a_number_make_one_story() -> None:
    assert draw(7, 3) == draw(7, 3)
    assert draw(7, 3) != draw(7, 4)
    assert draw(7, 3)["steps"] != draw(8, 3)["steps"]


def test_a_story_is_named_after_its_number_and_its_seed() -> None:
    assert re.fullmatch("r0090-drawn-(classical|fair)-7", draw(7, 90)["name"])


def test_drawn_again_it_is_the_same_story_under_other_names() -> None:
    first, again = draw(7, 3), draw(7, 3, time=1)
    assert str(again["steps"]) == str(first["steps"]).replace("r0003", "s0003")
    assert len(again["name"]) == len(first["name"])


def test_all_names_of_a_story_start_alike() -> None:
    """Else stories on one control plane could touch each other."""
    for number in range(100):
        names = {body["metadata"]["name"] for bodies in steps(draw(1, number), "apply") for body in bodies}
        assert all(name.startswith(f"r{number:04d}-") for name in names)


def test_each_step_has_one_action() -> None:
    for number in range(100):
        assert all(len([each for each in ACTIONS if each in step]) == 1 for step in draw(2, number)["steps"])


def test_each_configuration_is_drawn() -> None:
    drawn = [draw(1, number) for number in range(60)]
    assert all(any(story["config"] == each for story in drawn) for each in CONFIGURATIONS)
    assert all(("fair" in story["features"]) == bool(story["config"]) for story in drawn)


def test_no_work_is_made_for_a_queue_while_it_is_stopped() -> None:
    met = 0
    for number in range(200):
        stopped = ""
        for step in draw(3, number)["steps"]:
            for element in step.get("patch", ()):
                if isinstance(element["name"], IfIdle):
                    stopped, met = element["name"].name, met + 1
                elif element["patch"]["spec"].get("stopPolicy") == "None":
                    stopped = ""
            assert stopped not in {body["spec"]["queueName"] for body in step.get("create", ())} - {""}
    assert met > 10


def test_no_queue_is_drawn_that_would_crash_kueue() -> None:
    alone = [
        (story["features"], body["spec"].get("preemption", {}))
        for story in (draw(6, number) for number in range(200))
        for bodies in steps(story, "apply")
        for body in bodies
        if body["kind"] == "ClusterQueue" and "cohortName" not in body["spec"]
    ]
    assert any("fair" in features for features, _ in alone)
    assert any("classical" in features and "withinClusterQueue" in rules for features, rules in alone)
    assert not any("fair" in features and "withinClusterQueue" in rules for features, rules in alone)


def test_all_that_can_happen_does() -> None:
    found = {
        action for number in range(100) for step in draw(4, number)["steps"] for action in ACTIONS if action in step
    }
    assert found == set(ACTIONS) - {"wait"}


def test_whom_something_happens_to_is_left_open() -> None:
    finished = [each for number in range(50) for names in steps(draw(4, number), "finish") for each in names]
    assert finished
    assert all(isinstance(each, Some) for each in finished)


@pytest.mark.parametrize("number", range(12))
def test_our_api_server_takes_what_is_drawn(number: int) -> None:
    outcome = play(parsed(without_choices(draw(5, number))))
    assert not outcome.error
