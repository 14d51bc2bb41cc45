"""A release is made of a commit, and of nothing else that lies about."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
import yaml

from multikueue import __version__
from release.source import DISTRIBUTIONS, ReleaseError, exported, with_url, wrong_versions
from tests.project.files import MEMBERS, ROOT


@pytest.fixture(name="repository")
def _repository(tmp_path: Path) -> Path:
    folder = tmp_path / "repository"
    folder.mkdir()
    (folder / "kept").write_text("committed")
    who = ("-c", "user.name=a", "-c", "user.email=a@example.org")
    for words in (("init", "--quiet"), ("add", "kept"), (*who, "commit", "--quiet", "--message", "First")):
        subprocess.run(["git", *words], cwd=folder, check=True)
    return folder


def test_what_is_not_committed_is_not_in_it(repository: Path, tmp_path: Path) -> None:
    (repository / "kept").write_text("changed")
    (repository / "new").touch()

    source = exported(repository, tmp_path / "source")

    assert {path.name: path.read_text() for path in source.folder.iterdir()} == {"kept": "committed"}
    assert len(source.commit) == 40
    assert source.epoch > 1_700_000_000


def test_a_folder_that_is_no_repository_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ReleaseError, match=r"git log: .*not a git repository"):
        exported(tmp_path, tmp_path / "source")


def test_every_place_has_the_version_of_the_program() -> None:
    assert wrong_versions(ROOT, __version__) == []


def test_places_with_another_version_are_named() -> None:
    wrong = wrong_versions(ROOT, "9.9.9")

    assert f"pyproject.toml has {__version__}" in wrong
    assert f"deploy/overlays/standalone/kustomization.yaml has {__version__}" in wrong


def test_the_distributions_are_those_of_the_repository() -> None:
    assert {name: ROOT / folder for name, folder in DISTRIBUTIONS.items()} == MEMBERS


def test_the_page_of_the_project_is_in_all_metadata(tmp_path: Path) -> None:
    for folder in DISTRIBUTIONS.values():
        (tmp_path / folder).mkdir(exist_ok=True)
        (tmp_path / folder / "pyproject.toml").write_text((ROOT / folder / "pyproject.toml").read_text())

    chart = tmp_path / "deploy/chart/Chart.yaml"
    chart.parent.mkdir(parents=True)
    chart.write_text((ROOT / "deploy/chart/Chart.yaml").read_text())

    with_url(tmp_path, "https://example.org/it")

    for folder in DISTRIBUTIONS.values():
        assert (tmp_path / folder / "pyproject.toml").read_text().endswith('Homepage = "https://example.org/it"\n')
    assert yaml.safe_load(chart.read_text())["home"] == "https://example.org/it"
