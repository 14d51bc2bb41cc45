"""`python -m benchmarks.profiled FILE ...`: the `multikueue` command under cProfile, by CPU time instead of the clock.

On a shared machine a clock would charge a function with the time of other processes.
"""

from __future__ import annotations

import cProfile
import sys
import time

from multikueue.cli import main


def profiled(file: str, words: list[str]) -> None:
    """Run the command; the profile is written when it ends."""
    profiler = cProfile.Profile(time.process_time)
    profiler.enable()
    try:
        main(words)
    finally:
        profiler.disable()
        profiler.dump_stats(file)


if __name__ == "__main__":
    profiled(sys.argv[1], sys.argv[2:])
