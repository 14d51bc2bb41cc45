"""Runs a tool of Go with one of its files replaced: `python edited_compile.py ORIGINAL EDITED TOOL ARGUMENT...`.

For `go build -toolexec`. Only the standard library, without our package: it is started for each tool.
"""

import os
import sys


def main(original: str, edited: str, *command: str) -> None:
    """Never returns: the tool takes the place of this process."""
    swapped = [edited if os.path.abspath(word) == original else word for word in command]  # pathlib starts slowly
    os.execv(swapped[0], swapped)


if __name__ == "__main__":
    main(*sys.argv[1:])
