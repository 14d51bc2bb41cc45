"""structlog without rich.

It would load rich for tracebacks that we never show, and that takes longer than all the rest of it. So rich looks as if it
were not installed while structlog loads; whoever needs it later has it.
"""

from __future__ import annotations

import sys

__all__ = ["structlog"]

_HIDDEN = "rich" not in sys.modules

if _HIDDEN:
    sys.modules["rich"] = None  # type: ignore[assignment]  # what makes an import fail
try:
    import structlog
finally:
    if _HIDDEN:
        del sys.modules["rich"]
