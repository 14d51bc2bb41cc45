"""What can be said about the image without building one. That its commands work is in tests/real."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.project.files import ROOT, pyproject, read

Instruction = tuple[str, str]


def stages() -> list[list[Instruction]]:
    """The instructions of each stage, from its FROM on."""
    text = re.sub(r"^#.*\n", "", read("Dockerfile"), flags=re.MULTILINE).replace("\\\n", " ")
    instructions = [tuple(line.split(None, 1)) for line in text.splitlines() if line.strip()]
    found: list[list[Instruction]] = []
    for word, rest in instructions:
        if word == "FROM":
            found.append([])
        if found:
            found[-1].append((word, rest))
    return found


def chain(*, with_console: bool) -> tuple[list[Instruction], list[Instruction]]:
    """What builds the image of the manager, or that with the console, and the image. The last one is what is built unasked."""
    build, more, console, manager = stages()
    return ([*build, *more[1:]], console) if with_console else (build, manager)


IMAGES = pytest.mark.parametrize("with_console", [False, True], ids=["the manager", "with the console"])


def said(stage: list[Instruction], word: str) -> list[str]:
    return [rest for instruction, rest in stage if instruction == word]


def test_the_stages_are_what_others_call_them() -> None:
    assert [stage[0][1].partition(" AS ")[2] for stage in stages()] == ["build", "build-console", "console", ""]
    assert stages()[1][0][1].split()[0] == "build"


@IMAGES
def test_what_builds_is_not_in_the_image(*, with_console: bool) -> None:
    _, final = chain(with_console=with_console)

    source = "build-console" if with_console else "build"
    assert [copy.split()[0] for copy in said(final, "COPY")] == [f"--from={source}"]
    assert said(final, "RUN") == ["python -m pip uninstall --yes --quiet --root-user-action ignore pip"]


def test_all_stages_have_the_same_python_and_one_we_support() -> None:
    build, _, console, final = stages()
    (version,) = re.findall(r"^ARG PYTHON=(.*)-slim@", read("Dockerfile"), re.MULTILINE)

    assert build[0][1].split()[0] == console[0][1].split()[0] == final[0][1]
    minimum = pyproject()["project"]["requires-python"].removeprefix(">=")
    assert tuple(map(int, version.split("."))) >= tuple(map(int, minimum.split(".")))


def test_the_base_image_is_named_by_digest() -> None:
    """A tag alone may be anything tomorrow; and another tag with the digest of this one would be this one."""
    assert {stage[0][1].split()[0] for stage in stages()} == {"python:${PYTHON}", "build"}
    (argument,) = re.findall(r"^ARG (.*=.*)$", read("Dockerfile"), re.MULTILINE)
    assert re.fullmatch(r"PYTHON=\d+\.\d+-slim@sha256:[0-9a-f]{64}", argument)


def test_what_comes_from_outside_has_the_hash_that_is_written_down() -> None:
    """Or is not from outside: what was built here is installed without looking anywhere else."""
    installs = [run for run in said(chain(with_console=True)[0], "RUN") if "pip" in run and " install " in run]

    assert len(installs) == 5
    assert all("--require-hashes" in run or {"--no-index", "--no-deps"} <= set(run.split()) for run in installs)
    assert {part for run in installs for part in run.split() if part.startswith("requirements/")} == {
        "requirements/build.txt",
        "requirements/console.txt",
        "requirements/image.txt",
    }


UNUSED = ("client/api", "client/models")
"""Of kubernetes_asyncio, what the manager never imports."""

LOADS = """
from multikueue.kube.auth.tokens import spare_models
spare_models()
from kubernetes_asyncio.client import Configuration
from kubernetes_asyncio.config import ConfigException, load_kube_config_from_dict
from kubernetes_asyncio.config.exec_provider import ExecProvider
from kubernetes_asyncio.config.kube_config import ConfigNode
import kubernetes_asyncio
print(*kubernetes_asyncio.__path__)
"""


def test_the_classes_of_the_whole_api_are_left_out_and_nobody_misses_them(tmp_path: Path) -> None:
    (removal,) = [run for run in said(stages()[0], "RUN") if "rmtree" in run]
    spec = find_spec("kubernetes_asyncio")
    assert spec is not None
    assert spec.origin is not None
    library = tmp_path / "lib" / "python3.13" / "site-packages" / "kubernetes_asyncio"
    shutil.copytree(Path(spec.origin).parent, library, ignore=shutil.ignore_patterns("__pycache__"))
    before = {str(path.relative_to(library)) for path in library.rglob("*") if path.is_dir()}

    python, *words = shlex.split(removal.replace("/opt/multikueue", str(tmp_path)))
    subprocess.run([sys.executable, *words], check=True, timeout=30)

    after = {str(path.relative_to(library)) for path in library.rglob("*") if path.is_dir()}
    assert python == "python"
    assert before - after == set(UNUSED)
    environment = os.environ | {"PYTHONPATH": str(library.parent)}
    told = subprocess.run([sys.executable, "-c", LOADS], env=environment, capture_output=True, text=True, timeout=30)
    assert told.stdout.split() == [str(library)], told.stderr


@IMAGES
def test_it_runs_as_nobody_in_particular(*, with_console: bool) -> None:
    """By number, or Kubernetes could not tell that it is not root."""
    (user,) = said(chain(with_console=with_console)[1], "USER")

    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", user)


@IMAGES
def test_bytecode_is_compiled_after_all_is_installed(*, with_console: bool) -> None:
    runs = said(chain(with_console=with_console)[0], "RUN")

    assert "pip" in runs[-2]
    assert "install" in runs[-2]
    assert shlex.split(runs[-1])[:3] == ["python", "-m", "compileall"]


@IMAGES
def test_what_is_installed_goes_where_it_is_found(*, with_console: bool) -> None:
    build, final = chain(with_console=with_console)
    (venv,) = [shlex.split(run)[-1] for run in said(build, "RUN") if " venv " in run]

    assert [copy.split()[1:] for copy in said(final, "COPY")] == [[venv, venv]]
    assert any(f"PATH={venv}/bin:$PATH" in env for env in said(final, "ENV"))
    assert said(final, "ENTRYPOINT") == ['["multikueue"]']
    assert "multikueue" in pyproject()["project"]["scripts"]


def test_the_context_has_what_is_copied_and_no_more() -> None:
    copied = {part for copy in said(chain(with_console=True)[0], "COPY") for part in copy.split()[:-1]}
    let_in = {line.removeprefix("!") for line in read(".dockerignore").splitlines() if line.startswith("!")}

    assert copied == let_in
    assert all((ROOT / part).exists() for part in copied)
    packages = {
        path.partition("/")[0] for path in pyproject()["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    }
    project = pyproject()["project"]
    assert copied == {
        "pyproject.toml",
        "requirements",
        project["readme"],
        *project["license-files"],
        *packages,
        "console",
    }
