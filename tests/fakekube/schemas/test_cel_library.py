"""The CEL library comes without what it is not needed for."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import sys
from fakekube.schemas import cel_library
assert cel_library.compiled("self.a == 1").execute(cel_library.Context({"self": {"a": 1}}))
assert "prompt_toolkit" not in sys.modules
"""

WHOLE = """
import cel
from fakekube.schemas import cel_library
assert cel_library.compiled is cel.compile
"""


def test_its_command_line_stays_out() -> None:
    subprocess.run([sys.executable, "-c", PROGRAM], check=True)


def test_a_library_that_is_there_already_is_used() -> None:
    subprocess.run([sys.executable, "-c", WHOLE], check=True)
