"""Archives of the same files are the same bytes."""

from __future__ import annotations

import os
import tarfile
from io import BytesIO
from pathlib import Path

from release.archives import checksums, packed


def folder(place: Path) -> list[tuple[str, Path]]:
    place.mkdir()
    (place / "a").write_text("first")
    (place / "b.sh").write_text("#!/bin/sh\n")
    (place / "b.sh").chmod(0o755)
    return [("it/a", place / "a"), ("it/b.sh", place / "b.sh")]


def test_who_packs_where_and_when_does_not_matter(tmp_path: Path) -> None:
    one, other = folder(tmp_path / "one"), folder(tmp_path / "other")
    os.utime(tmp_path / "one" / "a", (1, 1))

    assert packed(one, epoch=1_700_000_000) == packed(other, epoch=1_700_000_000)


def test_files_have_the_time_of_the_commit_and_can_be_run_if_they_could(tmp_path: Path) -> None:
    with tarfile.open(fileobj=BytesIO(packed(folder(tmp_path / "one"), epoch=1_700_000_000))) as archive:
        members = {member.name: (member.mtime, member.mode, member.uid) for member in archive.getmembers()}

    assert members == {"it/a": (1_700_000_000, 0o644, 0), "it/b.sh": (1_700_000_000, 0o755, 0)}


def test_checksums_are_as_sha256sum_writes_them_in_order(tmp_path: Path) -> None:
    files = [path for _, path in folder(tmp_path / "one")]

    assert checksums(reversed(files)).splitlines() == [
        "a7937b64b8caa58f03721bb6bacf5c78cb235febe0e70b1b84cd99541461a08e  a",
        "a8076d3d28d21e02012b20eaf7dbf75409a6277134439025f282e368e3305abf  b.sh",
    ]
