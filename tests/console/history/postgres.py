"""A PostgreSQL server of the tests: its own cluster in a folder, on a Unix socket, without fsync."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

__all__ = ["server"]

NEEDED = "needs PostgreSQL: make postgresql"


def _programs() -> Path | None:
    """The newest release that Debian's packages have installed, or what is on the path."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=lambda path: int(path.parts[-3]))
    on_path = shutil.which("postgres")
    return found[-1].parent if found else Path(on_path).parent if on_path else None


@contextmanager
def server() -> Iterator[str]:
    """The URL of its database. Skips the test where PostgreSQL is not installed. It refuses to run as root, so root starts
    it as the user of the package."""
    programs = _programs()
    if programs is None:
        pytest.skip(NEEDED)
    user = "postgres" if os.geteuid() == 0 else pwd.getpwuid(os.geteuid()).pw_name
    folder = Path(tempfile.mkdtemp(prefix="history-"))
    if os.geteuid() == 0:
        shutil.chown(folder, user)
    as_user = {"user": user} if os.geteuid() == 0 else {}

    def run(program: str, *arguments: str) -> None:
        command = [programs / program, *arguments]
        subprocess.run(command, check=True, cwd=folder, stdout=subprocess.DEVNULL, timeout=60, **as_user)  # type: ignore[call-overload]

    data = str(folder / "data")
    try:
        run("initdb", "-D", data, "-A", "trust", "--no-sync", "-E", "UTF8", "--locale=C")
        quick = f"-k {folder} -c listen_addresses= -c fsync=off -c max_connections=20"
        run("pg_ctl", "-D", data, "-w", "-l", str(folder / "log"), "-o", quick, "start")
        try:
            yield f"postgresql://{user}@/postgres?host={folder}"
        finally:
            run("pg_ctl", "-D", data, "-m", "immediate", "-w", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
