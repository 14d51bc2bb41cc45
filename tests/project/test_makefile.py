"""The Makefile says what it can do, and whoever names a target names one that exists."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.project.files import CLUSTERS, DOCS, MEMBERS, ROOT, code, make_targets, pyproject, read

MENTION = re.compile(r"\bmake((?: +[a-z][a-z-]*)+)")


def mentioned(text: str) -> set[str]:
    return {target for words in MENTION.findall(text) for target in words.split()}


def mentions() -> Iterator[tuple[str, set[str]]]:
    for path in DOCS:
        yield path.name, mentioned("\n".join(code(path.read_text())))
    yield ".ci/run", mentioned(read(".ci/run"))


def test_each_target_is_phony_and_described() -> None:
    phony = set(re.findall(r"^\.PHONY: (\S+)$", read("Makefile"), re.MULTILINE))

    assert phony == make_targets()


@pytest.mark.parametrize("targets", [targets for _, targets in mentions()], ids=[place for place, _ in mentions()])
def test_each_target_that_is_named_somewhere_exists(targets: set[str]) -> None:
    assert targets <= make_targets()


@pytest.mark.parametrize("target", ["check", "test", "testbed", "test-real"])
def test_ci_runs_the_steps_that_the_readme_names(target: str) -> None:
    ran = mentioned(read(".ci/run"))

    assert target in ran
    assert target in mentioned("\n".join(code(read("README.md"))))


def test_the_release_of_a_testbed_can_be_given_to_any_target() -> None:
    """`make test-real KUEUE=0.18.2` builds that one and runs on it."""
    probe = ["make", "--silent", "--eval", "probe: ; @echo $$KUEUE", "probe", "KUEUE=0.18.2"]
    assert subprocess.run(probe, cwd=ROOT, check=True, capture_output=True, text=True).stdout == "0.18.2\n"
    assert re.search(r"^test-real: testbed\b", read("Makefile"), re.MULTILINE)


@pytest.mark.parametrize("path", [".ci/run", "kind-configs/up.sh", "kind-configs/down.sh"])
def test_a_script_can_be_run_and_stops_at_the_first_error(path: str) -> None:
    script = ROOT / path

    subprocess.run(["bash", "-n", script], check=True)
    assert script.stat().st_mode & 0o111 == 0o111
    assert script.read_text().startswith("#!/usr/bin/env bash\n")
    assert "set -euo pipefail" in script.read_text()


def test_the_environment_has_nothing_that_is_not_in_the_lock(tmp_path: Path) -> None:
    uv, asked, venv = tmp_path / "uv", tmp_path / "asked", tmp_path / "venv"
    uv.write_text(f'#!/bin/sh\nmkdir -p "{venv}"\necho "$@" >> "{asked}"\n')
    uv.chmod(0o755)
    subprocess.run(["make", "--silent", f"UV={uv}", f"VENV={venv}", f"{venv}/.ready"], cwd=ROOT, check=True)
    words = [line.split() for line in asked.read_text().splitlines()]
    made, ours = [call for call in words if call[0] == "pip"]
    assert (made[1], made[-2:]) == ("sync", ["--require-hashes", "requirements/dev.txt"])
    folders = [str(folder.relative_to(ROOT)) for folder in MEMBERS.values()]
    assert (ours[1], ours[-2 * len(folders) :]) == (
        "install",
        [word for folder in folders for word in ("--editable", folder)],
    )


def test_the_real_tests_keep_the_strictness_of_the_fast_ones() -> None:
    fast = pyproject()["tool"]["pytest"]["ini_options"]["addopts"]
    real = re.search(r'-o addopts="([^"]+)" tests/real', read("Makefile"))

    assert real
    assert real[1].split() == [option for option in fast if not option.startswith("--ignore")]


def test_the_kind_tests_know_the_contexts_of_the_kind_clusters() -> None:
    contexts = re.search(r"^KIND_CONTEXTS := (\S+)$", read("Makefile"), re.MULTILINE)

    assert contexts
    assert contexts[1].split(",") == [f"kind-{name}" for name in CLUSTERS]
