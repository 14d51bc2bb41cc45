"""The tests of this room run in virtual time."""

from __future__ import annotations

from typing import Any

import pytest

from multikueue_simulator.time import VirtualLoop


@pytest.fixture(scope="session")
def anyio_backend() -> tuple[str, dict[str, Any]]:
    return "asyncio", {"loop_factory": VirtualLoop}
