"""The order in which everything of a release is made. The same commit gives the same bytes, whenever and wherever."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from uv import find_uv_bin

from release import krew
from release.archives import checksums, packed
from release.bill import settled
from release.chart import archive
from release.crds import crds
from release.notes import notes
from release.source import ReleaseError, Source, exported, with_url, wrong_versions
from testbed.programs import Release, releases

__all__ = ["CHECKSUMS", "distributions", "image_names", "provenance", "release", "sign"]

CHECKSUMS = "SHA256SUMS"
KREW = "multikueue.yaml"
"""The manifest for Krew; its index wants the plugin's name."""

CHART = "deploy/chart"
NAMESPACE = "multikueue-release"
"""What `ssh-keygen -Y` calls the purpose of a signature: one for a release counts for nothing else."""

BUILD = ("build", "--offline", "--all-packages", "--no-build-isolation", "--no-create-gitignore")
BILL = ("export", "--quiet", "--locked", "--offline", "--no-emit-workspace", "--no-dev", "--extra", "fast")

Say = Callable[[str], None]


def release(
    repository: Path,
    version: str,
    into: Path,
    *,
    url: str = "",
    downloads: str = "",
    key: Path | None = None,
    say: Say = print,
) -> None:
    """Make all of it out of the newest commit. `url` is the project's page, `downloads` the address of the folder where the
    files of the release will be, `key` an SSH key to sign with.

    Without `url` the metadata has no URL, and there is no provenance, which is about one; without `downloads` there is no
    manifest for Krew. Raises ReleaseError where the commit
    has another version, and NotInstalledError without Go.
    """
    into.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        source = exported(repository, Path(folder) / "source")
        if wrong := wrong_versions(source.folder, version):
            raise ReleaseError(f"the commit is not {version}: {'; '.join(wrong)}")
        if url:
            with_url(source.folder, url)
        made = list(_made(source, version, into, say))
        plugin = into / krew.archive_name(version)
        made.append(_written(plugin, krew.archive(source, into / f"multikueue-{version}-py3-none-any.whl")))
    made += [image for name in image_names(version) if (image := into / name).is_file()]
    (into / KREW).unlink(missing_ok=True)
    if downloads:
        told = krew.manifest(plugin.read_bytes(), version, url=url, downloads=downloads)
        made.append(_written(into / KREW, told))
    said = into / f"multikueue-{version}.intoto.json"
    said.unlink(missing_ok=True)  # one of an earlier run, which may be of another commit
    if url:
        made.append(_written(said, provenance(made, source, version, url)))
    sums = _written(into / CHECKSUMS, checksums(made).encode())
    (into / f"{CHECKSUMS}.sig").unlink(missing_ok=True)
    if key is not None:
        sign(sums, key)
    say(f"{len(made)} files of {version}, made of {source.commit[:12]}, are in {into}")


def image_names(version: str) -> tuple[str, str]:
    """The files that `make image` writes: the manager, and the console."""
    return f"multikueue-{version}-image.tar", f"multikueue-console-{version}-image.tar"


def _made(source: Source, version: str, into: Path, say: Say) -> Iterator[Path]:
    say("wheels and source distributions")
    yield from distributions(source, into)
    say("chart, bill of materials, manifests and notes")
    yield _written(into / f"multikueue-{version}.tgz", archive(source.folder / CHART, epoch=source.epoch))
    yield _written(
        into / f"multikueue-{version}.cdx.json",
        settled(_uv(source, *BILL, "--format", "cyclonedx1.5"), epoch=source.epoch),
    )
    yield _written(into / f"multikueue-deploy-{version}.tgz", _manifests(source))
    yield _written(into / f"multikueue-{version}.md", notes(source.folder, version, epoch=source.epoch).encode())
    for known in map(Release, releases()):
        say(f"CRDs of Kueue {known.kueue}")
        name = f"kueue-{known.kueue}-crds.yaml"
        yield _written(into / name, crds(known, name).encode())


def distributions(source: Source, into: Path) -> list[Path]:
    """The source distributions, and the wheels that are built of them."""
    with tempfile.TemporaryDirectory() as folder:
        _uv(source, *BUILD, "--python", sys.executable, "--out-dir", folder)
        return [Path(shutil.copy(file, into)) for file in sorted(Path(folder).iterdir())]


def _uv(source: Source, *arguments: str) -> bytes:
    environment = {**os.environ, "SOURCE_DATE_EPOCH": str(source.epoch), "VIRTUAL_ENV": sys.prefix}
    ran = subprocess.run([find_uv_bin(), *arguments], cwd=source.folder, env=environment, capture_output=True)
    if ran.returncode:
        raise ReleaseError(f"uv {arguments[0]}: {ran.stderr.decode().strip()}")
    return ran.stdout


def _manifests(source: Source) -> bytes:
    """The folder `deploy/` without the chart, which has an archive of its own."""
    chart = source.folder / CHART
    found = sorted((source.folder / "deploy").rglob("*.yaml"))
    files = [path for path in found if path.is_file() and chart not in path.parents]
    return packed(((str(path.relative_to(source.folder)), path) for path in files), epoch=source.epoch)


def _written(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


def provenance(files: Iterable[Path], source: Source, version: str, url: str) -> bytes:
    """Where the files come from, as an in-toto statement with SLSA's provenance. It is signed by way of the checksums."""
    subjects = [
        {"name": file.name, "digest": {"sha256": hashlib.sha256(file.read_bytes()).hexdigest()}}
        for file in sorted(files)
    ]
    statement: dict[str, Any] = {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": subjects,
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": f"{url}#make-release",
                "externalParameters": {"version": version},
                "resolvedDependencies": [{"uri": f"git+{url}@{source.commit}", "digest": {"gitCommit": source.commit}}],
            },
            "runDetails": {"builder": {"id": url}},
        },
    }
    return json.dumps(statement, indent=2).encode() + b"\n"


def sign(file: Path, key: Path) -> None:
    """Write `FILE.sig`, which `ssh-keygen -Y verify` checks."""
    try:
        subprocess.run(["ssh-keygen", "-Y", "sign", "-f", key, "-n", NAMESPACE, file], check=True, capture_output=True)
    except FileNotFoundError:
        raise ReleaseError("signing needs ssh-keygen on the PATH") from None
    except subprocess.CalledProcessError as error:
        raise ReleaseError(f"ssh-keygen: {error.stderr.decode().strip()}") from None
