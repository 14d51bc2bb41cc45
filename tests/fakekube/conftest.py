"""What the tests of the sandbox share."""

from __future__ import annotations

import pytest

from tests.fakekube.builders import Bench


@pytest.fixture
def bench() -> Bench:
    return Bench()
