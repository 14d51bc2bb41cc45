"""The programs of the testbed: built once by `make testbed`, found in a few milliseconds ever after.

They are Go tool dependencies of two small modules (`go.mod` here and in `ocm/`). Their place is a folder in the
user's cache whose name depends on these files and on how we link, so that all clones of one version share one build.
A program appears there by a rename, when it is complete: an interrupted build goes on where it stopped.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

__all__ = ["NotInstalledError", "Programs", "find", "install", "module_folder"]

HERE = Path(__file__).parent
KUBERNETES_VERSION = "v1.35.4"

Say = Callable[[str], None]


class NotInstalledError(RuntimeError):
    """A program is missing; the message says what to run."""


@dataclass(frozen=True, slots=True)
class Programs:
    """Where the programs are."""

    etcd: Path
    kube_apiserver: Path
    kube_controller_manager: Path
    kubectl: Path
    kueue: Path
    placement: Path


@dataclass(frozen=True, slots=True)
class _Build:
    """One program to build: `package` of the module in `folder`, called `program` once installed."""

    program: str
    package: str
    folder: Path = HERE
    flags: tuple[str, ...] = ()

    @property
    def binary(self) -> str:
        """The name `go install` gives it: the last part of the path that is not a major version."""
        return [part for part in self.package.split("/") if part != "v3"][-1]


def _version_flags() -> str:
    # Without a version from the linker kube-apiserver calls itself v0.0.0, which Kueue refuses.
    major, minor, _ = KUBERNETES_VERSION.removeprefix("v").split(".")
    values = {"gitVersion": KUBERNETES_VERSION, "gitMajor": major, "gitMinor": minor}
    return " ".join(f"-X k8s.io/component-base/version.{name}={value}" for name, value in values.items())


COMMON_FLAGS = ("-trimpath",)
KUBERNETES_FLAGS = (f"-ldflags=-s -w {_version_flags()}",)
PLAIN_FLAGS = ("-ldflags=-s -w",)

BUILDS = (
    _Build("etcd", "go.etcd.io/etcd/server/v3", flags=PLAIN_FLAGS),
    _Build("kubectl", "k8s.io/kubernetes/cmd/kubectl", flags=KUBERNETES_FLAGS),
    _Build("kueue", "sigs.k8s.io/kueue/cmd/kueue", flags=PLAIN_FLAGS),
    _Build("kube-apiserver", "k8s.io/kubernetes/cmd/kube-apiserver", flags=KUBERNETES_FLAGS),
    _Build("kube-controller-manager", "k8s.io/kubernetes/cmd/kube-controller-manager", flags=KUBERNETES_FLAGS),
    _Build("placement", "open-cluster-management.io/ocm/cmd/placement", folder=HERE / "ocm", flags=PLAIN_FLAGS),
)

# Modules whose files we read: CRDs, and Kueue's own configuration and webhooks.
MODULES: Mapping[str, Path] = {
    "sigs.k8s.io/kueue": HERE,
    "sigs.k8s.io/jobset": HERE,
    "sigs.k8s.io/lws": HERE,
    "sigs.k8s.io/cluster-inventory-api": HERE,
    "github.com/kubeflow/mpi-operator": HERE,
    "github.com/kubeflow/training-operator": HERE,
    "github.com/kubeflow/trainer/v2": HERE,
    "github.com/project-codeflare/appwrapper": HERE,
    "github.com/ray-project/kuberay/ray-operator": HERE,
    "open-cluster-management.io/api": HERE / "ocm",
}

# What KUBEBUILDER_ASSETS may hold, as for controller-runtime's envtest.
ASSETS = frozenset({"etcd", "kube-apiserver", "kube-controller-manager", "kubectl"})


def find() -> Programs:
    """Find the installed programs without running anything."""
    return Programs(**{build.program.replace("-", "_"): _find(build.program) for build in BUILDS})


def _find(program: str) -> Path:
    for folder in _places(program):
        if (folder / program).is_file():
            return folder / program
    raise NotInstalledError(f"{program} is not in {_installation()}: run `make testbed`")


def _places(program: str) -> Iterator[Path]:
    assets = os.environ.get("KUBEBUILDER_ASSETS")
    if assets and program in ASSETS:
        yield Path(assets)
    yield _installation()


def module_folder(module: str) -> Path:
    """The folder of a Go module in the module cache, as noted by the installation."""
    note = _installation() / "modules.json"
    if not note.is_file():
        raise NotInstalledError(f"there is no {note}: run `make testbed`")
    folder = Path(json.loads(note.read_bytes())[module])
    if not folder.is_dir():
        raise NotInstalledError(f"{folder} went away (a cleaned Go module cache?): run `make testbed`")
    return folder


def install(say: Say = print) -> Path:
    """Build what is missing, one program after the other, and return their folder. Doing it again does nothing."""
    target = _installation()
    target.mkdir(parents=True, exist_ok=True)
    with _alone(target, say):
        _forget_other_go(target)
        _build_missing(target, say)
        _note_modules(target)
    say(f"the programs are in {target}")
    return target


def _build_missing(target: Path, say: Say) -> None:
    missing = [build for build in BUILDS if not _is_here(build.program)]
    for number, build in enumerate(missing, start=1):
        say(f"building {build.program}, {number} of {len(missing)} (Kubernetes itself takes minutes)")
        began = time.monotonic()
        _build(build, target)
        say(f"built {build.program} in {time.monotonic() - began:.0f} s")


def _is_here(program: str) -> bool:
    return any((folder / program).is_file() for folder in _places(program))


def _build(build: _Build, target: Path) -> None:
    workplace = target / "building"
    workplace.mkdir(exist_ok=True)
    _go("install", *COMMON_FLAGS, *build.flags, build.package, folder=build.folder, GOBIN=str(workplace))
    (workplace / build.binary).rename(target / build.program)


def _note_modules(target: Path) -> None:
    note = target / "modules.json"
    if _is_current(note):
        return
    folders = {module: _download(module, folder) for module, folder in MODULES.items()}
    _write_whole(note, json.dumps(folders, indent=1))


def _is_current(note: Path) -> bool:
    noted: dict[str, str] = json.loads(note.read_bytes()) if note.is_file() else {}
    return noted.keys() == MODULES.keys() and all(Path(folder).is_dir() for folder in noted.values())


def _download(module: str, folder: Path) -> str:
    _go("mod", "download", module, folder=folder)
    return _go("list", "-m", "-f", "{{.Dir}}", module, folder=folder)


def _forget_other_go(target: Path) -> None:
    """Programs of another Go version are built again."""
    note, version = target / "go-version", _go("env", "GOVERSION", folder=HERE)
    if note.is_file() and note.read_text() != version:
        for build in BUILDS:
            (target / build.program).unlink(missing_ok=True)
    _write_whole(note, version)


def _go(*arguments: str, folder: Path, **env: str) -> str:
    try:
        result = subprocess.run(
            ["go", *arguments], cwd=folder, env={**os.environ, **env}, stdout=subprocess.PIPE, text=True, check=True
        )
    except FileNotFoundError:
        raise NotInstalledError("the testbed needs Go on the PATH, see https://go.dev/doc/install") from None
    except subprocess.CalledProcessError as error:
        raise NotInstalledError(f"`go {' '.join(arguments)}` in {folder} failed with code {error.returncode}") from None
    return result.stdout.strip()


def _installation() -> Path:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "multikueue-testbed" / _key()


def _key() -> str:
    digest = hashlib.sha256()
    for name in ("go.mod", "go.sum", "ocm/go.mod", "ocm/go.sum"):
        digest.update((HERE / name).read_bytes())
    digest.update(repr([COMMON_FLAGS, BUILDS_FLAGS]).encode())
    return digest.hexdigest()[:16]


BUILDS_FLAGS = tuple((build.program, build.flags) for build in BUILDS)


@contextmanager
def _alone(target: Path, say: Say) -> Iterator[None]:
    """One installation at a time; a second `make testbed` waits for the first."""
    with (target / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("another `make testbed` is at work; waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _write_whole(path: Path, text: str) -> None:
    draft = path.with_suffix(".new")
    draft.write_text(text)
    draft.replace(path)
