"""docs/strategies.md: its example is installed and run as it is written, its tables of options are those of the code."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from multikueue import registry
from tests.project.files import blocks, read, rows, section

TEXT = read("docs/strategies.md")
OURS = ("all-at-once", "composed", "external", "incremental")
FILES = re.findall(r"<!-- file: (\S+) -->\n```\w*\n(.*?)```", TEXT, re.DOTALL)
CHECKS = [
    line
    for block in blocks(TEXT, "")
    for line in block.splitlines()
    if line.startswith("multikueue strategies") and "cheapest" in line
]


def project(folder: Path) -> Path:
    for name, text in FILES:
        (folder / name).write_text(text)
    return folder


def run(*words: str, cwd: Path, site: Path | None = None) -> str:
    path = os.pathsep.join([str(site)] if site else [])
    done = subprocess.run(
        words, cwd=cwd, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the example is installed: what its pyproject.toml asks for, put where pip would put it, without a network."""
    folder, target = project(tmp_path_factory.mktemp("project")), tmp_path_factory.mktemp("site")
    wanted = tomllib.loads((folder / "pyproject.toml").read_text())
    name, version = wanted["project"]["name"], wanted["project"]["version"]
    for file in wanted["tool"]["hatch"]["build"]["targets"]["wheel"]["only-include"]:
        shutil.copy(folder / file, target)
    info = target / f"{name}-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    points = wanted["project"]["entry-points"][registry.STRATEGIES.name]
    lines = [f"[{registry.STRATEGIES.name}]", *(f"{point} = {value}" for point, value in points.items())]
    (info / "entry_points.txt").write_text("\n".join(lines))
    return target


def test_the_example_is_all_there_and_short() -> None:
    assert [name for name, _ in FILES] == ["cheapest.py", "pyproject.toml"]
    source = dict(FILES)["cheapest.py"]
    assert len(source.splitlines()) <= 25
    assert tomllib.loads(dict(FILES)["pyproject.toml"])["project"]["entry-points"][registry.STRATEGIES.name]
    assert len(CHECKS) == 3


def test_the_example_can_be_checked_before_it_is_installed(tmp_path: Path) -> None:
    (before, *_) = CHECKS
    out = run(sys.executable, "-m", *shlex.split(before), cwd=project(tmp_path))
    assert "ok" in out
    assert "failed" not in out


def test_the_installed_example_is_shown_and_checked_as_written(site: Path, tmp_path: Path) -> None:
    _, show, check = CHECKS
    shown = run(sys.executable, "-m", *shlex.split(show), cwd=tmp_path, site=site)
    assert "cheapest 1.0" in shown
    assert "The cheapest worker first, and the next one after `patience`." in shown
    assert "patience: duration = 120s" in shown
    assert "failed" not in run(sys.executable, "-m", *shlex.split(check), cwd=tmp_path, site=site)


def test_the_installed_example_nominates(site: Path, tmp_path: Path) -> None:
    """Loaded with the options that the document gives it, asked at once, before and after its patience."""
    options = re.findall(r"STRATEGY__NAME=cheapest \w+__OPTIONS='(\{.*\})'", TEXT)
    assert len(options) == 1
    script = f"""
import json
from datetime import timedelta
from multikueue import registry
from multikueue.testing import fleet, strategy_workload
strategy = registry.load("cheapest", {{**json.loads({options[0]!r}), "prices": {{"b": 1.0, "c": 0.5}}}})
assert not registry.is_ours("cheapest", {{}})
told = []
for nominated, later in ((), 0), (("c",), 59), (("c",), 60), (("c", "b", "a"), 60):
    workload = strategy_workload().nominated(*nominated).build()
    told.append(strategy.nominate(workload, fleet("a", "b", "c").later(timedelta(seconds=later)).build()).clusters)
print(json.dumps(told))
"""
    told = json.loads(run(sys.executable, "-c", script, cwd=tmp_path, site=site))
    assert told == [["c"], ["c"], ["c", "b"], ["c", "b", "a"]]


def test_the_scorer_is_checked_and_used_as_it_is_written(site: Path, tmp_path: Path) -> None:
    ((file, source),) = re.findall(r"<!-- part: (\S+) -->\n```python\n(.*?)```", TEXT, re.DOTALL)
    assert len(source.splitlines()) <= 15
    (tmp_path / file).write_text(source)
    assert "`multikueue strategies check newest:Newest`" in TEXT
    out = run(sys.executable, "-m", "multikueue", "strategies", "check", "newest:Newest", cwd=tmp_path)
    assert "ok" in out
    assert "failed" not in out
    info = tmp_path / "newest-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: newest\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[multikueue.scorers]\nnewest = newest:Newest\n")
    script = """
from multikueue import registry
from multikueue.testing import fleet, strategy_workload
strategy = registry.load("composed", {"scorers": ["newest"]})
workers = fleet().worker("a", labels={"version": "1.36"}).worker("b", labels={"version": "1.37"}).worker("c")
print(strategy.nominate(strategy_workload().build(), workers.build()).reason)
"""
    assert run(sys.executable, "-c", script, cwd=tmp_path, site=tmp_path) == "b (1.00: version 1.37)\n"


def test_the_example_of_composed_is_one(tmp_path: Path) -> None:
    (options,) = re.findall(r"STRATEGY__NAME=composed\n\w+__OPTIONS='(\{.*?\})'", TEXT, re.DOTALL)
    strategy = registry.load("composed", json.loads(options))
    assert [type(each).__name__ for each in strategy.filters] == ["ClusterNames", "Taints", "Labels"]


@pytest.mark.parametrize("group", [registry.FILTERS, registry.SCORERS], ids=["filters", "scorers"])
def test_each_part_is_told_with_its_options(group: registry.Group) -> None:
    part = section(TEXT, "Filters and scorers")
    _, _, table = part.partition(f"| {group.noun.capitalize()} |")
    told = {name.strip("`"): cells[-1] for name, cells in rows(table.partition("\n\n")[0])}
    there = {name: registry.describe(name, group).options for name in registry.names(group)}
    assert told == {name: ", ".join(f"`{option.name}`" for option in options) or "-" for name, options in there.items()}


@pytest.mark.parametrize("name", OURS)
def test_the_options_of_a_strategy_are_told_as_they_are(name: str) -> None:
    part = re.split("\n#{3,4} ", section(TEXT, name))[0].replace("\\|", "or")
    told = [(option, *(cell.strip("`") for cell in cells[:2])) for option, cells in rows(part)]
    there = registry.describe(name).options
    assert told == [(each.name, each.type.replace("|", "or"), str(each.default)) for each in there]


def test_each_strategy_of_ours_has_its_section() -> None:
    assert [name for name in registry.names() if registry.is_ours(name, {})] == list(OURS)
