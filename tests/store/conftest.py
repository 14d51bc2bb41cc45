"""What all tests of the store have in common."""

from __future__ import annotations

import pytest

from multikueue.store.caches import packing


@pytest.fixture(autouse=True)
def _packed_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is over is packed at once; `test_packing.py` has what stays whole for a while."""
    monkeypatch.setattr(packing, "NEWEST", 0)
