"""structlog without rich.

structlog imports rich for tracebacks that we never show, which takes longer than the rest of structlog. So rich is
hidden while structlog loads; later imports find it.
"""

from __future__ import annotations

import sys

__all__ = ["structlog"]

_HIDDEN = "rich" not in sys.modules

if _HIDDEN:
    sys.modules["rich"] = None  # type: ignore[assignment]  # None makes the import fail
try:
    import structlog
finally:
    if _HIDDEN:
        del sys.modules["rich"]
