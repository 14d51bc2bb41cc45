"""`multikueue strategies`: no cluster is needed but to explain a choice."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from multikueue.api import kinds
from tests.builders import workload
from tests.cli.commands.test_why import telling
from tests.cli.conftest import Run, World
from tests.strategies.distributions import HEADER, LAST_ONLY, distribution

BAD = """
@dataclass
class Bad:
    remembered: str = ""

    def nominate(self, workload: Workload, fleet: Fleet) -> Nomination:
        self.remembered += "x"
        return Nomination(("nobody",) if len(fleet.workers) == 1 else (), reason=self.remembered)
"""


@pytest.fixture(autouse=True)
def _stranger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A distribution of somebody else's: one strategy that works, one that cannot be imported."""
    monkeypatch.syspath_prepend(
        str(distribution(tmp_path, "stranger", HEADER + LAST_ONLY, last_only="LastOnly", broken="Missing"))
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield
    for name in ("stranger", "at_work"):
        sys.modules.pop(name, None)


def test_list_shows_ours_and_those_of_others_and_what_is_broken(cli: Run) -> None:
    result = cli("strategies", "list")
    assert result.code == 0
    assert result.lines[0].split() == ["NAME", "KIND", "PACKAGE", "SUMMARY"]
    rows = {line.split()[0]: line for line in result.lines[1:]}
    assert {"all-at-once", "external", "incremental", "last-only", "broken"} <= set(rows)
    assert re.split(" {3,}", rows["last-only"])[1:] == [
        "strategy",
        "stranger 1.2",
        "The last `count` usable workers, and no others.",
    ]
    assert "broken: strategy 'broken': stranger:Missing cannot be imported" in rows["broken"]


def test_list_wide_names_the_options(cli: Run) -> None:
    (line,) = [line for line in cli("strategies", "list", "-o", "wide").lines if line.startswith("incremental")]
    assert line.endswith("step, round_length, order, give_back_after")


@pytest.mark.parametrize(("format_", "parse"), [("json", json.loads), ("yaml", yaml.safe_load)])
def test_list_for_programs(cli: Run, format_: str, parse: object) -> None:
    assert callable(parse)
    items = {item["metadata"]["name"]: item for item in parse(cli("strategies", "list", "-o", format_).out)["items"]}
    assert items["last-only"] == {
        "kind": "strategy",
        "metadata": {"name": "last-only"},
        "package": "stranger 1.2",
        "help": "The last `count` usable workers, and no others.",
        "options": [{"name": "count", "type": "int", "default": "1"}],
    }


def test_names_alone(cli: Run) -> None:
    assert "strategy/incremental" in cli("strategies", "list", "-o", "name").lines
    assert cli("strategies", "show", "incremental", "-o", "name").out == "strategy/incremental\n"


def test_parts_of_composed_are_listed_shown_and_checked_by_their_kind(cli: Run) -> None:
    assert {"filter/labels", "scorer/tiers"} <= set(cli("strategies", "list", "-o", "name").lines)
    for name in ("tiers", "scorer/tiers"):
        shown = cli("strategies", "show", name).lines
        assert shown[0] == "Scorer tiers"
        assert "  order: tuple[str, ...]" in shown
    checked = cli("strategies", "check", "scorer/tiers", "--option", "order=[reserved, spot]")
    assert checked.code == 0
    assert not [line for line in checked.lines if "nominates" in line]
    refused = cli("strategies", "show", "scorer/labels")
    assert refused.code == 2
    assert "scorer 'labels': expected one that is installed: data, hub, order" in refused.err


def test_show_tells_what_it_does_and_its_options(cli: Run) -> None:
    lines = cli("strategies", "show", "last-only").lines
    assert lines == [
        "Strategy last-only",
        "  Package:  stranger 1.2",
        "What it does",
        "  The last `count` usable workers, and no others.",
        "Options",
        "  count: int = 1",
    ]
    assert cli("strategies", "show", "all-at-once").lines[-2:] == [
        "Options",
        "  give_back_after: duration | None = None",
    ]


def test_show_for_programs(cli: Run) -> None:
    assert json.loads(cli("strategies", "show", "last-only", "-o", "json").out)["options"][0]["name"] == "count"


def test_show_of_one_that_is_not_there_names_those_that_are(cli: Run) -> None:
    result = cli("strategies", "show", "best")
    assert result.code == 2
    assert result.err.startswith("error: strategy 'best': expected one that is installed: all-at-once, ")


@pytest.mark.parametrize(
    "words",
    [
        ("incremental",),
        ("incremental", "--option", "step=2", "--option", "round_length=30s", "--option", "order=name"),
        ("last-only", "--option", "count=2"),
        ("stranger:LastOnly",),
    ],
    ids=["ours", "with options", "somebody else's", "by module and class"],
)
def test_check_of_a_good_one_ends_with_0(cli: Run, words: tuple[str, ...]) -> None:
    result = cli("strategies", "check", *words)
    assert (result.code, result.err) == (0, "")
    assert {line.split()[-1] for line in result.lines[1:]} == {"ok"}


def test_check_of_a_bad_one_ends_with_1_and_names_each_promise_it_breaks(cli: Run, tmp_path: Path) -> None:
    (tmp_path / "at_work.py").write_text(HEADER + BAD.replace("@dataclass\n", "@dataclass(frozen=False)\n"))
    result = cli("strategies", "check", "at_work:Bad")
    assert result.code == 2  # not even a strategy
    assert "expected at_work:Bad to be a frozen dataclass with a method nominate" in result.err
    hidden = BAD.replace("@dataclass\n", "@dataclass(frozen=True)\n").replace(
        'self.remembered += "x"', 'object.__setattr__(self, "remembered", self.remembered[:50] + "x")'
    )
    sys.modules.pop("at_work", None)
    (tmp_path / "at_work_2.py").write_text(HEADER + hidden)
    result = cli("strategies", "check", "at_work_2:Bad")
    assert result.code == 1
    failed = {line.rsplit(maxsplit=1)[0].strip() for line in result.lines if line.endswith("failed")}
    assert failed == {
        "explains itself",
        "answers each question soundly",
        "answers the same every time",
        "stays as it is",
    }
    assert result.err.count("error: Bad ") == 4
    assert "strategy Bad nominated nobody, not in its fleet of a" in result.err


def test_a_promise_that_was_not_asked_is_not_kept(cli: Run, tmp_path: Path) -> None:
    silent = (
        HEADER
        + '''
@dataclass(frozen=True)
class Silent:
    """Says nothing."""

    def nominate(self, workload: object, fleet: object) -> object:
        raise ValueError("no")
'''
    )
    (tmp_path / "at_work_3.py").write_text(silent)
    result = cli("strategies", "check", "at_work_3:Silent")
    assert result.code == 1
    states = {line.rsplit("  ", 1)[0].strip(): line.rsplit("  ", 1)[1].strip() for line in result.lines[1:]}
    assert states["answers each question soundly"] == "failed"
    assert {name for name, state in states.items() if state == "not asked"} == {
        "nominates what can be used",
        "leaves the question as it is",
        "answers the same every time",
    }


def test_check_for_programs(cli: Run) -> None:
    items = json.loads(cli("strategies", "check", "incremental", "-o", "json").out)["items"]
    assert {item["kept"] for item in items} == {True}


@pytest.mark.parametrize(
    ("words", "code", "problem"),
    [
        (("incremental", "--option", "step"), 1, "--option step: expected name=value"),
        (("incremental", "--option", "step=[1"), 1, "--option step=[1: expected a value in YAML: "),
        (("incremental", "--option", "steps=1"), 2, "there is no option steps; its options are: step: int = 3; "),
        (
            ("nowhere:Nothing",),
            2,
            "strategy 'nowhere:Nothing': nowhere:Nothing cannot be imported: ModuleNotFoundError",
        ),
        ((":Nothing",), 2, "strategy ':Nothing': expected module:Class"),
        (("broken",), 2, "stranger:Missing cannot be imported: AttributeError"),
    ],
)
def test_what_cannot_be_checked_is_told(cli: Run, words: tuple[str, ...], code: int, problem: str) -> None:
    result = cli("strategies", "check", *words)
    assert result.code == code
    assert problem in result.err


@pytest.fixture
def waiting(world: World) -> World:
    """A workload that waits for a worker."""
    chosen = workload("chosen", namespace="a").queue("main").request(cpu=6).reserved("cq").check().nominated("w1")
    world.manager.add(kinds.WORKLOADS, chosen.build())
    return world


CHOICE: dict[str, Any] = {
    "strategy": "composed",
    "reason": "w1 (0.75: place 1)",
    "workers": [
        {
            "worker": "w1",
            "nominated": True,
            "total": 0.75,
            "scores": [{"scorer": "order", "weight": 1.0, "value": 0.75, "reason": "place 1"}],
        },
        {"worker": "w2", "filter": "taints", "refused": "taint gpu is not tolerated"},
        {"worker": "w3", "usable": False, "why": "cordoned"},
    ],
}


def test_the_choice_of_a_waiting_workload_is_explained_as_the_manager_sees_it(waiting: World, cli: Run) -> None:
    telling(waiting, "chosen", {"choice": CHOICE})
    result = cli("strategies", "explain", "-n", "a", "chosen")
    assert (result.code, result.err) == (0, "")
    assert [line.split(maxsplit=1) for line in result.lines[-4:]] == [
        ["WORKER", "COPY   TOTAL   WHY"],
        ["w1", "yes    0.75    order 0.75: place 1"],
        ["w2", "-      -       refused by taints: taint gpu is not tolerated"],
        ["w3", "-      -       cordoned"],
    ]
    items = json.loads(cli("strategies", "explain", "-n", "a", "chosen", "-o", "json").out)["items"]
    assert items[0]["scores"] == CHOICE["workers"][0]["scores"]


@pytest.mark.parametrize(
    ("told", "message"),
    [
        ({}, "chosen does not wait for a worker"),
        ({"choice": {"strategy": "mine", "problem": "it raised KeyError"}}, "mine cannot be asked: it raised KeyError"),
    ],
    ids=["it has a worker, or no quota", "the strategy is broken"],
)
def test_where_there_is_no_choice_it_is_said(waiting: World, cli: Run, told: dict[str, Any], message: str) -> None:
    telling(waiting, "chosen", told)
    assert message in cli("strategies", "explain", "-n", "a", "chosen").err


def test_without_the_api_of_the_manager_the_command_says_where_it_is(waiting: World, cli: Run) -> None:
    result = cli("strategies", "explain", "-n", "a", "chosen")
    assert result.code == 1
    assert "the manager's visibility API does not say (docs/metrics.md)" in result.err
