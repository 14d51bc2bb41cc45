"""The program of one replica: `multikueue run` under a host name of its own, with a clock that the test sets.

    python replica.py NAME FOLDER run ...

FOLDER is its working directory. There the file `clock` has the error of its wall clock in seconds, as a double, at any time.
"""

from __future__ import annotations

import mmap
import os
import socket
import struct
import sys
import time
from pathlib import Path
from unittest.mock import patch

CLOCK = "clock"
SECONDS = struct.Struct("d")


def main() -> None:
    name, folder, *words = sys.argv[1:]
    os.chdir(folder)
    with Path(CLOCK).open("rb") as file:
        error = mmap.mmap(file.fileno(), SECONDS.size, prot=mmap.PROT_READ)
    wall = time.time
    # Before anything of ours is imported: a default argument keeps the function that it was given.
    patch.object(time, "time", lambda: wall() + SECONDS.unpack_from(error)[0]).start()
    patch.object(socket, "gethostname", lambda: name).start()
    sys.argv = ["multikueue", *words]
    from multikueue.cli import main as command

    if any(name.startswith("TIMINGS__") for name in os.environ):
        sys.path.append(str(Path(__file__).parents[2]))
        from testbed import timed_manager

        timed_manager.install()
    command()


if __name__ == "__main__":
    main()
