from __future__ import annotations

from tests.cli.conftest import authority, cli, world

__all__ = ["authority", "cli", "world"]
