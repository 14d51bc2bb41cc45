"""Finding and building the programs, without building any."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from testbed import programs
from testbed.programs import BUILDS, NotInstalledError


@pytest.fixture(name="cache", autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    return tmp_path


@pytest.fixture(name="go")
def _go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A `go` that notes what it is asked, and makes empty programs."""
    folder = tmp_path / "path"
    folder.mkdir()
    go = folder / "go"
    go.write_text(
        "#!/bin/sh\n"
        f'echo "$@" >> {tmp_path}/calls\n'
        'eval "last=\\${$#}"\n'
        'name=$(basename "${last%/v3}")\n'
        'case "$1" in\n'
        "  env) echo go1.26 ;;\n"
        '  install) touch "$GOBIN/$name" ;;\n'
        f"  list) mkdir -p {tmp_path}/modules/$name && echo {tmp_path}/modules/$name ;;\n"
        "esac\n"
    )
    go.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    return tmp_path / "calls"


def test_a_missing_program_says_what_to_run() -> None:
    with pytest.raises(NotInstalledError, match="make testbed"):
        programs.find()
    with pytest.raises(NotInstalledError, match="make testbed"):
        programs.module_folder("sigs.k8s.io/kueue")


def test_installing_builds_each_program_once(go: Path) -> None:
    folder = programs.install(lambda line: None)
    first = go.read_text()
    programs.install(lambda line: None)
    assert first.count("install ") == len(BUILDS)
    assert go.read_text().count("install ") == len(BUILDS)
    assert programs.find().etcd == folder / "etcd"
    assert programs.module_folder("sigs.k8s.io/kueue").name == "kueue"


def test_an_interrupted_installation_goes_on_where_it_stopped(go: Path) -> None:
    folder = programs.install(lambda line: None)
    (folder / "kueue").unlink()
    (folder / "building" / "kueue").touch()
    go.unlink()
    programs.install(lambda line: None)
    assert go.read_text().count("install ") == 1


def test_programs_of_another_go_version_are_built_again(go: Path) -> None:
    folder = programs.install(lambda line: None)
    (folder / "go-version").write_text("go1.25")
    go.unlink()
    programs.install(lambda line: None)
    assert go.read_text().count("install ") == len(BUILDS)


def test_kubebuilder_assets_come_first(go: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assets = tmp_path / "assets"
    assets.mkdir()
    for name in ("etcd", "kube-apiserver", "kubectl"):
        (assets / name).touch()
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(assets))
    folder = programs.install(lambda line: None)
    found = programs.find()
    assert (found.etcd, found.kueue) == (assets / "etcd", folder / "kueue")
    assert go.read_text().count("install ") == len(BUILDS) - 3


def test_without_go_the_error_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(NotInstalledError, match="needs Go"):
        programs.install(lambda line: None)


def test_kube_apiserver_is_linked_with_its_version() -> None:
    flags = next(build.flags for build in BUILDS if build.program == "kube-apiserver")
    assert "-X k8s.io/component-base/version.gitVersion=v1.35.4" in flags[0]


def test_a_module_that_went_away_says_what_to_run(go: Path) -> None:
    folder = programs.install(lambda line: None)
    (folder / "modules.json").write_text(json.dumps({"sigs.k8s.io/kueue": "/nowhere"}))
    with pytest.raises(NotInstalledError, match="went away"):
        programs.module_folder("sigs.k8s.io/kueue")
