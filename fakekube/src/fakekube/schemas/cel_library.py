"""The CEL library without its command line.

Its package imports the command line first, and with it a terminal toolkit, which takes half a second. An empty module
in the place of the command line avoids that; an earlier import of the library leaves it whole.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cel import Context, OptionalValue, Program
    from cel import compile as compiled
    from cel.stdlib import STDLIB_FUNCTIONS
else:
    if "cel" not in sys.modules:
        sys.modules["cel.cli"] = ModuleType("cel.cli")
    _cel = import_module("cel")
    Context, OptionalValue, Program, compiled = _cel.Context, _cel.OptionalValue, _cel.Program, _cel.compile
    STDLIB_FUNCTIONS = import_module("cel.stdlib").STDLIB_FUNCTIONS

__all__ = ["STDLIB_FUNCTIONS", "Context", "OptionalValue", "Program", "compiled"]
