"""No setting of the one who runs the tests reaches them."""

from __future__ import annotations

import os

import pytest

from multikueue.settings import ENV_PREFIX


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith(ENV_PREFIX):
            monkeypatch.delenv(name)
