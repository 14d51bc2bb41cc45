"""A file of a Secret or ConfigMap, as the kubelet mounts it and changes it."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

__all__ = ["mount"]


def mount(folder: Path, name: str, content: str | bytes) -> Path:
    """The path of the file: a link to `..data/NAME`, where `..data` is a link to the directory of a version.

    Called again it is an update: a new directory, the link `..data` replaced in one step, the old directory removed.
    """
    folder.mkdir(parents=True, exist_ok=True)
    data, path = folder / "..data", folder / name
    old = data.resolve() if data.is_symlink() else None
    fresh = Path(tempfile.mkdtemp(prefix="..version-", dir=folder))
    (fresh / name).write_bytes(content.encode() if isinstance(content, str) else content)
    (folder / "..data_tmp").symlink_to(fresh.name)
    os.replace(folder / "..data_tmp", data)
    if not path.is_symlink():
        path.symlink_to(f"..data/{name}")
    if old is not None:
        shutil.rmtree(old)
    return path
