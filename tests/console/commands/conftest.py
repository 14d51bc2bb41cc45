from __future__ import annotations

from tests.cli.conftest import authority, world

__all__ = ["authority", "world"]
