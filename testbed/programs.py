"""The programs of the testbed: built once by `make testbed`, and found in a few milliseconds afterwards.

They are Go tool dependencies of small modules: one for each release of Kueue (`modules/kueue-*`), with the Kubernetes that goes
with it or, where their libraries differ, beside one for that Kubernetes (`modules/kubernetes-*`), and one for OCM. The variable
KUEUE chooses the release. The place of its programs is a folder in the user's cache whose name depends on these files and the
flags, so that all clones of one version share one build. A program that is complete appears there: a build can go on.

One Kueue is built a second time, with a line of its `main.go` changed: with the feature gate MultiKueue on, and its MultiKueue
controllers not running, as whoever puts ours in their place and dispatches Pods builds it. Where the peer is measured without
limits, another one is built: its clients of workers make 1,000 calls a second, as they do by default since Kueue 0.19.4.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import shlex
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from testbed.edits import QUICK_CLIENTS, WITHOUT_MULTIKUEUE, Edit, NotInstalledError

__all__ = [
    "DEFAULT_KUEUE",
    "MODULE_FILES",
    "Build",
    "NotInstalledError",
    "Programs",
    "Release",
    "cache_folder",
    "fetched",
    "find",
    "install",
    "kueue_with_quick_clients",
    "module_folder",
    "on_demand",
    "releases",
]

MODULE_FILES = Path(__file__).parent / "modules"
OCM = MODULE_FILES / "ocm"
KUBERNETES = re.compile(r"k8s\.io/kubernetes (v\d+\.\d+\.\d+)")
DEFAULT_KUEUE = "0.19.2"

Say = Callable[[str], None]

WORD_EVERY = 30.0
"""Seconds between two words about a build that goes on."""

ESTIMATE = "all of them take some 7 minutes, and 23 on two busy cores"


@dataclass(frozen=True, slots=True)
class Programs:
    """The paths of a release's programs."""

    release: Release
    etcd: Path
    kube_apiserver: Path
    kube_controller_manager: Path
    kubectl: Path
    kueue: Path
    kueue_without_multikueue: Path
    placement: Path
    registration: Path


@dataclass(frozen=True, slots=True)
class Build:
    """One program to build: `package` of the module in `folder`, called `program` once installed; with `edit`, if any,
    in the text of one of its files."""

    program: str
    package: str
    folder: Path
    flags: tuple[str, ...]
    edit: Edit | None = None

    @property
    def binary(self) -> str:
        """The name `go install` gives it: the last part of the path that is not a major version."""
        return [part for part in self.package.split("/") if part != "v3"][-1]


WRAPPER = Path(__file__).with_name("edited_compile.py")

# Nobody debugs these programs, and a compiler ends before its garbage matters: both take a third of the CPU of the builds.
COMPILED = "-dwarf=false"
UNHURRIED = {"GOGC": "off", "GOMEMLIMIT": "2GiB"}
COMMON_FLAGS = ("-trimpath", f"-gcflags=all={COMPILED}")
PLAIN_FLAGS = ("-ldflags=-s -w",)

# Modules whose files we read, where a release has them: CRDs, and Kueue's own configuration and webhooks.
MODULES = (
    "sigs.k8s.io/kueue",
    "sigs.k8s.io/jobset",
    "sigs.k8s.io/lws",
    "sigs.k8s.io/cluster-inventory-api",
    "github.com/kubeflow/mpi-operator",
    "github.com/kubeflow/training-operator",
    "github.com/kubeflow/trainer/v2",
    "github.com/kubeflow/spark-operator/v2",
    "github.com/project-codeflare/appwrapper",
    "github.com/ray-project/kuberay/ray-operator",
)
OCM_MODULES = ("open-cluster-management.io/api",)


@dataclass(frozen=True, slots=True)
class Release:
    """A release of Kueue, such as `0.19.0`, and all that is built with it."""

    kueue: str

    @classmethod
    def chosen(cls) -> Release:
        """The release that the variable KUEUE names, else the default. Raises NotInstalledError with the known ones."""
        version = os.environ.get("KUEUE") or DEFAULT_KUEUE
        if version not in releases():
            raise NotInstalledError(f"KUEUE={version}: expected one of {', '.join(releases())}")
        return cls(version)

    @property
    def version(self) -> tuple[int, ...]:
        """The version as numbers, for comparison."""
        return tuple(map(int, self.kueue.split(".")))

    @property
    def folder(self) -> Path:
        return MODULE_FILES / f"kueue-{self.kueue}"

    @property
    def kubernetes(self) -> str:
        """The version of Kubernetes that its module names, such as `v1.36.3`."""
        found = KUBERNETES.search((self.folder / "go.mod").read_text())
        assert found is not None
        return found[1]

    @property
    def kubernetes_folder(self) -> Path:
        """The module of its Kubernetes, which is its own unless that Kubernetes has one."""
        alone = MODULE_FILES / f"kubernetes-{self.kubernetes.removeprefix('v')}"
        return alone if alone.is_dir() else self.folder

    def builds(self) -> tuple[Build, ...]:
        kubernetes = (f"-ldflags=-s -w {self._version_flags()}",)
        here, core = self.folder, self.kubernetes_folder
        return (
            Build("etcd", "go.etcd.io/etcd/server/v3", core, PLAIN_FLAGS),
            Build("kubectl", "k8s.io/kubernetes/cmd/kubectl", core, kubernetes),
            Build("kueue", "sigs.k8s.io/kueue/cmd/kueue", here, PLAIN_FLAGS),
            Build(
                "kueue-without-multikueue", "sigs.k8s.io/kueue/cmd/kueue", here, PLAIN_FLAGS, edit=WITHOUT_MULTIKUEUE
            ),
            Build("kube-apiserver", "k8s.io/kubernetes/cmd/kube-apiserver", core, kubernetes),
            Build("kube-controller-manager", "k8s.io/kubernetes/cmd/kube-controller-manager", core, kubernetes),
            Build("placement", "open-cluster-management.io/ocm/cmd/placement", OCM, PLAIN_FLAGS),
            Build("registration", "open-cluster-management.io/ocm/cmd/registration", OCM, PLAIN_FLAGS),
        )

    def modules(self) -> dict[str, Path]:
        """The modules whose files are read, each with the folder of that which names it."""
        named = (self.folder / "go.mod").read_text()
        here = [module for module in MODULES if f"{module} v" in named]
        return dict.fromkeys(here, self.folder) | dict.fromkeys(OCM_MODULES, OCM)

    def _version_flags(self) -> str:
        # Without a version from the linker kube-apiserver calls itself v0.0.0, which Kueue refuses.
        major, minor, _ = self.kubernetes.removeprefix("v").split(".")
        values = {"gitVersion": self.kubernetes, "gitMajor": major, "gitMinor": minor}
        return " ".join(f"-X k8s.io/component-base/version.{name}={value}" for name, value in values.items())

    def installation(self) -> Path:
        """The folder of its programs, which may not exist yet."""
        return cache_folder() / self._key()

    def _key(self) -> str:
        digest = hashlib.sha256()
        for folder in dict.fromkeys((self.folder, self.kubernetes_folder, OCM)):
            for name in ("go.mod", "go.sum"):
                digest.update((folder / name).read_bytes())
        plain = tuple((build.program, build.flags) for build in self.builds() if build.edit is None)
        digest.update(repr([COMMON_FLAGS, plain]).encode())
        return digest.hexdigest()[:16]


def cache_folder() -> Path:
    """Where all programs are, each set in a folder of its own."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "multikueue-testbed"


def releases() -> tuple[str, ...]:
    """The versions of all releases, oldest first."""
    names = (folder.name.removeprefix("kueue-") for folder in MODULE_FILES.glob("kueue-*"))
    return tuple(sorted(names, key=lambda name: Release(name).version))


# Programs that KUBEBUILDER_ASSETS may hold, as for controller-runtime's envtest.
ASSETS = frozenset({"etcd", "kube-apiserver", "kube-controller-manager", "kubectl"})


def find(release: Release | None = None) -> Programs:
    """Find the installed programs, of the chosen release unless one is named, without running anything."""
    release = release or Release.chosen()
    found = {build.program.replace("-", "_"): _find_one(build.program, release) for build in release.builds()}
    return Programs(release, **found)


def _find_one(program: str, release: Release) -> Path:
    """One program of a release. Raises NotInstalledError, as `find`."""
    for folder in _places(release, program):
        if (folder / program).is_file():
            return folder / program
    raise NotInstalledError(f"{program} is not in {release.installation()}: run `{_command(release)}`")


def _command(release: Release) -> str:
    return "make testbed" + ("" if release.kueue == DEFAULT_KUEUE else f" KUEUE={release.kueue}")


def _places(release: Release, program: str) -> Iterator[Path]:
    assets = os.environ.get("KUBEBUILDER_ASSETS")
    if assets and program in ASSETS:
        yield Path(assets)
    yield release.installation()


def module_folder(module: str, release: Release | None = None) -> Path:
    """The folder of a Go module in the module cache, as noted by the installation of the release."""
    release = release or Release.chosen()
    note = release.installation() / "modules.json"
    if not note.is_file():
        raise NotInstalledError(f"there is no {note}: run `{_command(release)}`")
    noted = json.loads(note.read_bytes())
    if module not in noted:
        raise NotInstalledError(f"{module} is not in {note}: run `{_command(release)}`")
    folder = Path(noted[module])
    if not folder.is_dir():
        raise NotInstalledError(f"{folder} went away (a cleaned Go module cache?): run `{_command(release)}`")
    return folder


def fetched(module: str, release: Release) -> Path:
    """The folder of a Go module in the module cache, downloaded if need be. Raises NotInstalledError without Go."""
    return Path(_download(module, release.modules()[module]))


def install(say: Say = print) -> Path:
    """Build missing programs of the chosen release, one after the other, and return their folder. A second call does
    nothing."""
    release = Release.chosen()
    target = release.installation()
    target.mkdir(parents=True, exist_ok=True)
    with _alone(target, say):
        _forget_other_go(release, target)
        _build_missing(release, target, say)
        _note_modules(release, target)
    say(f"the programs of Kueue {release.kueue} and Kubernetes {release.kubernetes} are in {target}")
    return target


def kueue_with_quick_clients(say: Say = print) -> Path:
    """The chosen release with `QUICK_CLIENTS`, built at the first call. Raises NotInstalledError where that finds no place."""
    release, package = Release.chosen(), "sigs.k8s.io/kueue/cmd/kueue"
    build = Build("kueue-with-quick-clients", package, release.folder, PLAIN_FLAGS, edit=QUICK_CLIENTS)
    return on_demand(build, release.installation(), say)


def on_demand(build: Build, target: Path, say: Say = print) -> Path:
    """A program that no cluster needs, built into `target` at the first call. Raises NotInstalledError where it cannot be."""
    target.mkdir(parents=True, exist_ok=True)
    with _alone(target, say):
        if not (target / build.program).is_file():
            say(f"building {build.program}")
            _build(build, target)
    return target / build.program


def _build_missing(release: Release, target: Path, say: Say) -> None:
    missing = [build for build in release.builds() if not _is_here(release, build.program)]
    if missing:
        say(f"{len(missing)} of {len(release.builds())} programs are to be built, once: {ESTIMATE}")
    for number, build in enumerate(missing, start=1):
        say(f"building {build.program}, {number} of {len(missing)}")
        began = time.monotonic()
        with _telling(f"still building {build.program}", say):
            _build(build, target)
        say(f"built {build.program} in {time.monotonic() - began:.0f} s")


@contextmanager
def _telling(what: str, say: Say) -> Iterator[None]:
    """Says every now and then that the block goes on, and how long it has: the compiler itself says nothing."""
    began, over = time.monotonic(), threading.Event()

    def tell() -> None:
        while not over.wait(WORD_EVERY):
            say(f"{what}, {time.monotonic() - began:.0f} s")

    teller = threading.Thread(target=tell, daemon=True)
    teller.start()
    try:
        yield
    finally:
        over.set()
        teller.join()


def _is_here(release: Release, program: str) -> bool:
    return any((folder / program).is_file() for folder in _places(release, program))


def _build(build: Build, target: Path) -> None:
    workplace = target / "building"
    workplace.mkdir(exist_ok=True)
    flags = (*COMMON_FLAGS, *build.flags, *_edited(build, workplace))
    _go("install", *flags, build.package, folder=build.folder, GOBIN=str(workplace), **UNHURRIED)
    (workplace / build.binary).rename(target / build.program)


def _edited(build: Build, workplace: Path) -> tuple[str, ...]:
    """The flags that have the compiler read an edited file in place of the module's, which Go's own overlays refuse to do.

    Everything else comes from the cache of builds; a compiler flag of no consequence makes the edited package another
    one there.
    """
    if build.edit is None:
        return ()
    original = Path(_download(build.edit.module, build.folder)) / build.edit.path
    edited = workplace / original.name
    edited.write_text(build.edit.of(original.read_text()))
    wrapper = shlex.join([sys.executable, str(WRAPPER), str(original), str(edited)])
    return (f"-toolexec={wrapper}", f"-gcflags={build.edit.package}={COMPILED} -l")


def _note_modules(release: Release, target: Path) -> None:
    note = target / "modules.json"
    if _is_current(note, release):
        return
    folders = {module: _download(module, folder) for module, folder in release.modules().items()}
    _write_whole(note, json.dumps(folders, indent=1))


def _is_current(note: Path, release: Release) -> bool:
    noted: dict[str, str] = json.loads(note.read_bytes()) if note.is_file() else {}
    return noted.keys() == release.modules().keys() and all(Path(folder).is_dir() for folder in noted.values())


def _download(module: str, folder: Path) -> str:
    _go("mod", "download", module, folder=folder)
    return _go("list", "-m", "-f", "{{.Dir}}", module, folder=folder)


def _forget_other_go(release: Release, target: Path) -> None:
    """Remove programs that another Go version built, so that they are built again."""
    note, version = target / "go-version", _go("env", "GOVERSION", folder=release.folder)
    if note.is_file() and note.read_text() != version:
        for build in release.builds():
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
