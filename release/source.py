"""The commit that a release is made of, as a folder of its own: what is not committed is not released."""

from __future__ import annotations

import json
import re
import subprocess
import tarfile
import tomllib
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

__all__ = ["DISTRIBUTIONS", "ReleaseError", "Source", "exported", "with_url", "wrong_versions"]

DISTRIBUTIONS = {
    "multikueue": "",
    "fakekube": "fakekube",
    "multikueue-console": "console",
    "multikueue-simulator": "simulator",
}
"""Each distribution, and its folder in the repository."""

VERSIONS = (
    *((f"{folder}/pyproject.toml".lstrip("/"), r'^version = "(.+)"$') for folder in DISTRIBUTIONS.values()),
    ("multikueue/__init__.py", r'^__version__ = "(.+)"$'),
    ("deploy/chart/Chart.yaml", r"^version: (.+)$"),
    ("deploy/chart/Chart.yaml", r"^appVersion: (.+)$"),
    *(
        (f"deploy/overlays/{overlay}/kustomization.yaml", r"^ +newTag: (.+)$")
        for overlay in ("standalone", "beside-kueue", "external-dispatcher")
    ),
    ("deploy/components/console/kustomization.yaml", r"^ +newTag: (.+)$"),
)
"""Where the version is written: a file, and the line in it."""


class ReleaseError(Exception):
    """Why nothing can be released, in one sentence."""


@dataclass(frozen=True, slots=True)
class Source:
    """A commit as a folder. `epoch` is its time, in seconds: the time of every file in every artefact."""

    folder: Path
    commit: str
    epoch: int


def exported(repository: Path, folder: Path, revision: str = "HEAD") -> Source:
    """Write the files of a revision into `folder`. Raises ReleaseError where git cannot."""
    commit, epoch = _git(repository, "log", "-1", "--format=%H %ct", revision).decode().split()
    files = _git(repository, "archive", "--format=tar", commit)
    folder.mkdir(parents=True, exist_ok=True)
    with tarfile.open(fileobj=BytesIO(files)) as archive:
        archive.extractall(folder, filter="data")
    return Source(folder, commit, int(epoch))


def _git(repository: Path, *arguments: str) -> bytes:
    try:
        return subprocess.run(["git", *arguments], cwd=repository, check=True, capture_output=True).stdout
    except FileNotFoundError:
        raise ReleaseError("a release is made of a commit, so it needs git on the PATH") from None
    except subprocess.CalledProcessError as error:
        raise ReleaseError(f"git {arguments[0]}: {error.stderr.decode().strip()}") from None


def wrong_versions(source: Path, version: str) -> list[str]:
    """The places that have another version, each with what it has."""
    found = ((path, re.findall(line, _text(source / path), re.MULTILINE)) for path, line in VERSIONS)
    return [f"{path} has {' and '.join(versions) or 'none'}" for path, versions in found if versions != [version]]


def _text(file: Path) -> str:
    return file.read_text() if file.is_file() else ""


def with_url(source: Path, url: str) -> None:
    """Name the project's page in the metadata of each distribution and of the chart. The repository itself names none."""
    for folder in DISTRIBUTIONS.values():
        file = source / folder / "pyproject.toml"
        text = file.read_text()
        assert "urls" not in tomllib.loads(text)["project"]
        file.write_text(f"{text}\n[project.urls]\nHomepage = {json.dumps(url)}\n")
    with (source / "deploy/chart/Chart.yaml").open("a") as chart:
        chart.write(f"home: {json.dumps(url)}\n")
