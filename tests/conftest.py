"""What all tests share: anyio's plugin on asyncio only, since kube/ speaks aiohttp."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--server",
        choices=("sandbox", "https", "process", "real"),
        default="sandbox",
        help="what tests/contract runs against: both faces of the sandbox, one of them, or a real control plane",
    )
