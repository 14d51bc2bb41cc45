"""Archives and lists of checksums that are the same bytes each time they are made of the same files."""

from __future__ import annotations

import gzip
import hashlib
import tarfile
from collections.abc import Iterable
from io import BytesIO
from pathlib import Path

__all__ = ["checksums", "packed"]

EXECUTABLE, PLAIN = 0o755, 0o644


def packed(files: Iterable[tuple[str, Path]], *, epoch: int) -> bytes:
    """A `.tgz` of files, each under the name that it has in there, in that order. All have the time `epoch`, in seconds, and
    belong to nobody in particular."""
    tar = BytesIO()
    with tarfile.open(fileobj=tar, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, path in files:
            member = tarfile.TarInfo(name)
            data = path.read_bytes()
            member.size, member.mtime = len(data), epoch
            member.mode = EXECUTABLE if path.stat().st_mode & 0o100 else PLAIN
            archive.addfile(member, BytesIO(data))
    return gzip.compress(tar.getvalue(), mtime=epoch)


def checksums(files: Iterable[Path]) -> str:
    """A line for each file, as `sha256sum --check` reads it."""
    return "".join(f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n" for file in sorted(files))
