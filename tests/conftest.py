"""What all tests share: anyio's plugin on asyncio only, since kube/ speaks aiohttp."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"
