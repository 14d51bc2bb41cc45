"""What all tests share: anyio's plugin on asyncio only, since kube/ speaks aiohttp."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings

# How long an example takes tells of the machine, which may be busy.
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")


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
