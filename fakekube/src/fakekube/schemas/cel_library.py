"""The CEL library without its command line.

Its package imports the command line first, and that a terminal toolkit: half a second for nothing. An empty module in its
place spares us that; whoever has imported the library before has it whole.
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
