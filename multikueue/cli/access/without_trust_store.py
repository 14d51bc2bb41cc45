"""Loads aiohttp without the system's certificates, which it reads twice as it is loaded: a tenth of a short command's CPU.

It reads them for contexts that no command uses; those that commands use are made in `kube.auth`. To be imported before
anything of `kube`. The manager does not import this: a strategy may use aiohttp as it is.
"""

from __future__ import annotations

import ssl
from typing import Any

_contexts: Any = ssl.SSLContext
_contexts.set_default_verify_paths = lambda _: None
try:
    import aiohttp  # noqa: F401
finally:
    del _contexts.set_default_verify_paths  # that of its base class counts again
