"""What a release has is the same bytes each time, complete, and can be installed and checked by whoever gets it."""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from email.message import Message
from email.parser import Parser
from pathlib import Path

import pytest
import yaml
from uv import find_uv_bin

from multikueue import __version__
from release import artefacts, krew
from release.artefacts import CHECKSUMS, distributions, provenance, release
from release.source import ReleaseError, Source, with_url
from tests.project.files import MEMBERS, ROOT

URL = "https://example.org/multikueue"
EPOCH = 1_790_000_000
Command = list[str | Path]
PACKAGES = {
    "multikueue": {"multikueue", "multikueue_strategies"},
    "fakekube": {"fakekube"},
    "multikueue-console": {"multikueue_console"},
    "multikueue-simulator": {"multikueue_simulator"},
}


def source(folder: Path) -> Source:
    """What is in git's index of this repository or beside it, as a folder of its own."""
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, check=True)
    for name in listed.stdout.decode().splitlines():
        if (
            re.match(r"(multikueue|strategies|console|fakekube|simulator|deploy/chart)/|[^/]+$", name)
            and (ROOT / name).is_file()
        ):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, folder / name)
    with_url(folder, URL)
    return Source(folder, "0" * 40, EPOCH)


@pytest.fixture(name="built", scope="module")
def _built(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The files of all distributions by name, with the folder of the source as `source`."""
    folder, into = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("built")
    return {path.name: path for path in distributions(source(folder), into)} | {"source": folder}


def wheel(built: dict[str, Path], name: str) -> Path:
    return built[f"{name.replace('-', '_')}-{__version__}-py3-none-any.whl"]


def metadata(path: Path) -> Message:
    with zipfile.ZipFile(path) as files:
        (name,) = [name for name in files.namelist() if name.endswith(".dist-info/METADATA")]
        return Parser().parse(io.TextIOWrapper(files.open(name)))


def test_each_distribution_has_a_wheel_and_its_source(built: dict[str, Path]) -> None:
    stems = [f"{name.replace('-', '_')}-{__version__}" for name in MEMBERS]

    assert built.keys() - {"source"} == {f"{stem}{end}" for stem in stems for end in ("-py3-none-any.whl", ".tar.gz")}


def test_two_builds_are_equal_byte_for_byte(built: dict[str, Path], tmp_path: Path) -> None:
    again = distributions(source(tmp_path / "elsewhere"), tmp_path)

    assert [path.name for path in again if path.read_bytes() != built[path.name].read_bytes()] == []


def test_the_source_distribution_and_the_source_make_the_same_wheel(built: dict[str, Path], tmp_path: Path) -> None:
    """Those of `built` are made of the source distributions."""
    command: Command = [find_uv_bin(), *artefacts.BUILD, "--wheel", "--python", sys.executable, "--out-dir", tmp_path]
    environment = os.environ | {"SOURCE_DATE_EPOCH": str(EPOCH), "VIRTUAL_ENV": sys.prefix}
    subprocess.run(command, cwd=built["source"], env=environment, check=True, capture_output=True)

    wheels = sorted(tmp_path.glob("*.whl"))
    assert len(wheels) == len(MEMBERS)
    assert [path.name for path in wheels if path.read_bytes() != built[path.name].read_bytes()] == []


@pytest.mark.parametrize("name", MEMBERS)
def test_a_wheel_has_nothing_of_a_name_that_others_may_have(built: dict[str, Path], name: str) -> None:
    with zipfile.ZipFile(wheel(built, name)) as files:
        names = files.namelist()

    assert {path.partition("/")[0] for path in names if ".dist-info/" not in path} == PACKAGES[name]
    assert {f"{package}/py.typed" for package in PACKAGES[name]} <= {*names}


@pytest.mark.parametrize("name", MEMBERS)
def test_metadata_says_who_made_it_under_which_licence_and_where_more_is(built: dict[str, Path], name: str) -> None:
    said = metadata(wheel(built, name))

    assert (said["Version"], said["License-Expression"]) == (__version__, "Apache-2.0")
    assert said["Author"] == "The multikueue authors"
    assert said["Project-URL"] == f"Homepage, {URL}"
    assert said["Description-Content-Type"] == "text/markdown"
    assert said.get_payload()


@pytest.mark.parametrize("name", MEMBERS)
def test_a_source_distribution_has_no_more_than_is_built_of_it(built: dict[str, Path], name: str) -> None:
    stem = f"{name.replace('-', '_')}-{__version__}"
    with tarfile.open(built[f"{stem}.tar.gz"]) as files:
        tops = {path.split("/")[1] for path in files.getnames()}

    assert tops - {".gitignore", "LICENSE", "PKG-INFO", "README.md", "pyproject.toml"} <= {
        "multikueue",
        "strategies",
        "src",
    }


@pytest.fixture(name="installed", scope="module")
def _installed(built: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Programs of an empty environment with the wheels; what they need is of the lock, from the cache of uv or the index."""
    venv = tmp_path_factory.mktemp("empty") / "venv"
    subprocess.run(
        [find_uv_bin(), "venv", "--quiet", "--python", sys.executable, venv], check=True, capture_output=True
    )
    wheels = [wheel(built, name) for name in MEMBERS]
    install: Command = [find_uv_bin(), "pip", "install", "--quiet", "--python", venv / "bin/python"]
    locked: Command = ["--constraints", ROOT / "requirements/dev.txt"]
    for where in (["--offline"], []):
        done = subprocess.run(
            [*install, *where, *locked, *wheels], capture_output=True, text=True, timeout=240, check=False
        )
        if done.returncode == 0:
            return venv / "bin"
    pytest.skip(f"needs the packages of the lock, in uv's cache or from their index: {done.stderr}")


@pytest.mark.timeout(300)
def test_help_of_an_installed_wheel_names_the_commands(installed: Path) -> None:
    for program in ("multikueue", "kubectl-multikueue"):
        told = subprocess.run([installed / program, "--help"], check=True, capture_output=True, text=True, timeout=30)
        assert "submit" in told.stdout


@pytest.mark.timeout(300)
def test_installed_strategies_are_known_by_their_old_names(installed: Path) -> None:
    told = subprocess.run(
        [installed / "multikueue", "strategies", "list", "-o", "name"], check=True, capture_output=True
    )

    assert {"strategy/all-at-once", "strategy/incremental", "scorer/tiers", "filter/labels"} <= {
        *told.stdout.decode().split()
    }


@pytest.mark.timeout(300)
def test_the_demo_runs_out_of_installed_wheels(installed: Path, tmp_path: Path) -> None:
    play: Command = [installed / "multikueue", "demo", "--act", "preemption", "--speed", "10"]
    told = subprocess.run(play, check=True, capture_output=True, text=True, timeout=240, cwd=tmp_path)

    assert re.search(r"^jobs finished +4$", told.stdout, re.MULTILINE)


DOWNLOADS = "https://files.example.org/multikueue/"


@pytest.mark.timeout(300)
def test_kubectls_plugin_is_what_krews_manifest_says_and_runs(
    built: dict[str, Path], installed: Path, tmp_path: Path
) -> None:
    """Its first call makes an environment by pip; here that is there already, with the same wheels."""
    made = krew.archive(Source(ROOT, "0" * 40, EPOCH), wheel(built, "multikueue"))
    told = yaml.safe_load(krew.manifest(made, __version__, url=URL, downloads=DOWNLOADS))
    assert (told["kind"], told["metadata"]["name"]) == ("Plugin", "multikueue")
    assert (told["spec"]["version"], told["spec"]["homepage"]) == (f"v{__version__}", URL)
    (platform,) = told["spec"]["platforms"]
    assert platform["uri"] == f"{DOWNLOADS}{krew.archive_name(__version__)}"
    assert platform["sha256"] == hashlib.sha256(made).hexdigest()

    with tarfile.open(fileobj=io.BytesIO(made)) as files:
        files.extractall(tmp_path / "plugin", filter="data")
    (tmp_path / "cache/multikueue").mkdir(parents=True)
    (tmp_path / "cache/multikueue" / wheel(built, "multikueue").stem).symlink_to(installed.parent)
    linked = tmp_path / "kubectl-multikueue"  # as Krew does it
    linked.symlink_to(tmp_path / "plugin" / platform["bin"])
    environment = os.environ | {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    done = subprocess.run([linked, "version", "--help"], env=environment, capture_output=True, text=True, check=True)
    assert "kubectl multikueue version" in done.stdout


def test_kubectls_plugin_makes_its_environment_of_the_lock_and_the_wheel_at_the_first_call(tmp_path: Path) -> None:
    """A Python that only notes what it is asked stands in for the real one."""
    (tmp_path / "multikueue-0.1.0-py3-none-any.whl").touch()
    plugin = shutil.copy(ROOT / krew.LAUNCHER, tmp_path / krew.PLUGIN)
    python = tmp_path / "python"
    python.write_text(
        '#!/bin/sh\necho "$@" >> "$NOTES"\n[ "$2" != venv ] || { mkdir -p "$3/bin"; cp "$0" "$3/bin/python"; }\n'
    )
    python.chmod(0o755)
    notes, cache = tmp_path / "notes", tmp_path / "cache"
    environment = os.environ | {"PYTHON": str(python), "NOTES": str(notes), "XDG_CACHE_HOME": str(cache)}
    for _ in range(2):
        subprocess.run([plugin, "jobs", "list"], env=environment, check=True, capture_output=True)

    asked = notes.read_text().splitlines()
    assert sum(" venv " in f" {line}" for line in asked) == 1
    lock, own = [line for line in asked if "pip install" in line]
    assert "--require-hashes" in lock
    assert "--no-deps --no-index" in own
    assert sum(line.endswith("jobs list") for line in asked) == 2
    assert [path.name for path in (cache / "multikueue").iterdir()] == ["multikueue-0.1.0-py3-none-any"]


def test_a_commit_of_another_version_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ReleaseError, match=r"the commit is not 9.9.9: pyproject.toml has"):
        release(ROOT, "9.9.9", tmp_path)


def test_provenance_names_the_commit_and_each_file(tmp_path: Path) -> None:
    (tmp_path / "a.whl").write_text("first")
    statement = json.loads(provenance([tmp_path / "a.whl"], Source(tmp_path, "abc", EPOCH), "0.1.0", URL))

    (subject,) = statement["subject"]
    assert subject["name"] == "a.whl"
    assert subject["digest"]["sha256"].startswith("a7937b64")
    (made_of,) = statement["predicate"]["buildDefinition"]["resolvedDependencies"]
    assert made_of == {"uri": f"git+{URL}@abc", "digest": {"gitCommit": "abc"}}


@pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="needs ssh-keygen")
def test_signed_checksums_can_be_verified(tmp_path: Path) -> None:
    key, sums = tmp_path / "key", tmp_path / CHECKSUMS
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
    sums.write_text("00  a\n")

    artefacts.sign(sums, key)

    (tmp_path / "signers").write_text(f"release@example.org {key.with_suffix('.pub').read_text()}")
    verify: Command = ["ssh-keygen", "-Y", "verify", "-f", tmp_path / "signers", "-I", "release@example.org"]
    verify += ["-n", artefacts.NAMESPACE, "-s", sums.with_name(f"{CHECKSUMS}.sig")]
    assert b"Good" in subprocess.run(verify, input=sums.read_bytes(), capture_output=True, check=True).stdout
