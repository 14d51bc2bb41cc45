"""The plugin for kubectl as Krew installs it: an archive, and the manifest that names it."""

from __future__ import annotations

import hashlib
from pathlib import Path

import yaml

from release.archives import packed
from release.source import Source

__all__ = ["archive", "archive_name", "manifest"]

LAUNCHER = "release/kubectl-multikueue.sh"
PLUGIN = "kubectl-multikueue"
REQUIREMENTS = "requirements/image.txt"

SHORT = "Submit jobs of one cluster to many, and see why they wait"
DESCRIPTION = """\
The command line of the MultiKueue manager: submit jobs, see where they run and why they wait, register and look after workers.
"""
CAVEATS = """\
It needs Python 3.11 or newer. The first call installs what it needs into ~/.cache/multikueue, by pip and with the hashes of the
release.
"""


def archive_name(version: str) -> str:
    return f"{PLUGIN}-{version}.tar.gz"


def archive(source: Source, wheel: Path) -> bytes:
    """The launcher, the wheel of the manager, the lock of what it needs, and the licence."""
    files = {
        PLUGIN: source.folder / LAUNCHER,
        "LICENSE": source.folder / "LICENSE",
        "requirements.txt": source.folder / REQUIREMENTS,
        wheel.name: wheel,
    }
    return packed(sorted(files.items()), epoch=source.epoch)


def manifest(packed: bytes, version: str, *, url: str, downloads: str) -> bytes:
    """`url` is the project's page, `downloads` the address of the folder where the files of the release are."""
    systems = [{"key": "os", "operator": "In", "values": ["darwin", "linux"]}]
    platform = {
        "selector": {"matchExpressions": systems},
        "uri": f"{downloads.rstrip('/')}/{archive_name(version)}",
        "sha256": hashlib.sha256(packed).hexdigest(),
        "files": [{"from": "*", "to": "."}],
        "bin": PLUGIN,
    }
    spec = {
        "version": f"v{version}",
        **({"homepage": url} if url else {}),
        "shortDescription": SHORT,
        "description": DESCRIPTION,
        "caveats": CAVEATS,
        "platforms": [platform],
    }
    body = {
        "apiVersion": "krew.googlecontainertools.github.com/v1alpha2",
        "kind": "Plugin",
        "metadata": {"name": "multikueue"},
        "spec": spec,
    }
    return yaml.safe_dump(body, sort_keys=False).encode()
