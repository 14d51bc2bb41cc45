"""Finding and building the programs, without building any."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from fakekube.server.printers.discovery import VERSION
from testbed import programs
from testbed.edits import QUICK_CLIENTS, WITHOUT_MULTIKUEUE
from testbed.programs import DEFAULT_KUEUE, NotInstalledError, Release, releases

BUILDS = Release(DEFAULT_KUEUE).builds()
GATE = "if features.Enabled(features.MultiKueue) {"
MAIN = f"func setupIndexes() {{ {GATE} index() }} }} func setupControllers() {{ {GATE} control() }} }}"


@pytest.fixture(name="cache", autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    monkeypatch.delenv("KUEUE", raising=False)
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
        f"  list) mkdir -p {tmp_path}/modules/$name/cmd/kueue && echo {tmp_path}/modules/$name\n"
        f"    echo '{MAIN}' > {tmp_path}/modules/$name/cmd/kueue/main.go ;;\n"
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


def test_a_long_build_says_how_long_it_takes_and_that_it_goes_on(go: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "WORD_EVERY", 0.01)
    fake = go.parent / "path" / "go"
    fake.write_text(fake.read_text().replace("#!/bin/sh\n", "#!/bin/sh\nsleep 0.05\n"))
    said: list[str] = []

    programs.install(said.append)

    assert said[0] == f"{len(BUILDS)} of {len(BUILDS)} programs are to be built, once: {programs.ESTIMATE}"
    assert said[1] == f"building {BUILDS[0].program}, 1 of {len(BUILDS)}"
    assert said[2].startswith(f"still building {BUILDS[0].program}, ")
    assert not any("\r" in line or "\x1b" in line for line in said)

    said.clear()
    programs.install(said.append)
    assert len(said) == 1


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


def test_one_kueue_is_built_with_its_gate_on_and_without_what_it_switches_on(go: Path) -> None:
    folder = programs.install(lambda line: None)

    asked = [line for line in go.read_text().splitlines() if "-toolexec=" in line]
    assert len(asked) == 1
    *_, original, edited = shlex.split(asked[0].partition("-toolexec=")[2].partition(" -gcflags")[0])
    assert Path(original).read_text().strip() == MAIN
    before, _, after = MAIN.rpartition("MultiKueue)")
    assert Path(edited).read_text().strip() == f"{before}MultiKueue) && false{after}"
    assert (folder / "kueue-without-multikueue").is_file()


def test_a_kueue_whose_gate_is_not_found_is_not_built() -> None:
    with pytest.raises(NotInstalledError, match=r"main\.go of sigs\.k8s\.io/kueue has no"):
        WITHOUT_MULTIKUEUE.of("func setupControllers() {}")


def test_the_kueue_of_a_benchmark_is_built_when_it_is_first_asked_for(go: Path) -> None:
    file = go.parent / "modules" / "kueue" / QUICK_CLIENTS.path
    file.parent.mkdir(parents=True)
    file.write_text(f"{QUICK_CLIENTS.after} {{ {QUICK_CLIENTS.old} }}")
    built = [programs.kueue_with_quick_clients(lambda line: None) for _ in range(2)]
    [asked] = [line for line in go.read_text().splitlines() if line.startswith("install ")]
    assert f"-gcflags={QUICK_CLIENTS.package}=-dwarf=false -l" in asked
    assert built == [Release(DEFAULT_KUEUE).installation() / "kueue-with-quick-clients"] * 2
    assert built[0].is_file()


def test_a_tool_gets_the_edited_file_in_place_of_the_original(tmp_path: Path) -> None:
    original, edited = tmp_path / "main.go", tmp_path / "edited.go"
    command = [
        sys.executable,
        str(programs.WRAPPER),
        str(original),
        str(edited),
        "/bin/echo",
        "-p",
        "main",
        "./main.go",
    ]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout == f"-p main {edited}\n"


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


@pytest.mark.parametrize(
    ("kueue", "kubernetes"),
    [("0.16.2", "v1.35.4"), ("0.18.2", "v1.36.3"), ("0.19.0", "v1.36.3"), ("0.19.2", "v1.37.2")],
)
def test_kube_apiserver_is_linked_with_its_version(kueue: str, kubernetes: str) -> None:
    builds = Release(kueue).builds()
    flags = next(build.flags for build in builds if build.program == "kube-apiserver")
    assert f"-X k8s.io/component-base/version.gitVersion={kubernetes}" in flags[0]


def test_the_sandbox_plays_the_kubernetes_of_the_default() -> None:
    assert Release(DEFAULT_KUEUE).kubernetes == VERSION


@pytest.mark.parametrize("kueue", releases())
def test_a_release_is_built_from_a_module_of_its_own(kueue: str) -> None:
    release = Release(kueue)

    assert re.search(
        rf"sigs\.k8s\.io/kueue v{re.escape(kueue)}(?: // indirect)?\n", (release.folder / "go.mod").read_text()
    )


@pytest.mark.parametrize("kueue", releases())
def test_its_kubernetes_is_built_with_the_libraries_of_that_kubernetes(kueue: str) -> None:
    release = Release(kueue)
    text = (release.kubernetes_folder / "go.mod").read_text()

    assert f"k8s.io/kubernetes {release.kubernetes}" in text
    staging = set(re.findall(r"k8s\.io/(?:api|apimachinery|apiserver|client-go|kubectl|kubelet) (v\S+)", text))
    assert staging == {release.kubernetes.replace("v1.", "v0.", 1)}


def test_a_kubernetes_with_libraries_of_its_own_is_a_module_of_its_own() -> None:
    release = Release("0.19.2")
    assert release.kubernetes_folder != release.folder
    by_folder = {build.program: build.folder for build in release.builds()}
    assert {name for name, folder in by_folder.items() if folder == release.kubernetes_folder} == {
        "etcd",
        "kubectl",
        "kube-apiserver",
        "kube-controller-manager",
    }
    assert by_folder["kueue"] == release.folder


def test_each_release_has_a_place_of_its_own() -> None:
    assert len({Release(kueue).installation() for kueue in releases()}) == len(releases())


def test_the_variable_chooses_the_release(go: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = programs.install(lambda line: None)
    monkeypatch.setenv("KUEUE", "0.16.2")
    with pytest.raises(NotInstalledError, match=r"make testbed KUEUE=0\.16\.2"):
        programs.find()

    assert programs.install(lambda line: None) != folder
    assert programs.find().kueue.parent == Release("0.16.2").installation()
    assert programs.find(Release(DEFAULT_KUEUE)).kueue.parent == folder


def test_a_release_there_is_none_of_is_named_with_those_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUEUE", "0.17.1")
    with pytest.raises(NotInstalledError, match=r"KUEUE=0\.17\.1: expected one of 0\.16\.2, 0\.18\.2, 0\.19\.0"):
        programs.find()


def test_a_module_that_went_away_says_what_to_run(go: Path) -> None:
    folder = programs.install(lambda line: None)
    (folder / "modules.json").write_text(json.dumps({"sigs.k8s.io/kueue": "/nowhere"}))
    with pytest.raises(NotInstalledError, match="went away"):
        programs.module_folder("sigs.k8s.io/kueue")
