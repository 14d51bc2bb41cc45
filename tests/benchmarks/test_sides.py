"""Which Kueue is the peer."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from benchmarks.sides import LIFTED, Lifted, Peer
from benchmarks.work.core import Setting
from testbed.bed import Testbed

pytestmark = pytest.mark.anyio


class Bed:
    """Keeps the options with which a Kueue is started on its manager cluster."""

    manager = "the manager cluster"

    def __init__(self) -> None:
        self.started: list[Any] = []

    async def start_kueue(self, plane: str, **options: Any) -> None:
        self.started.append((plane, options))


async def test_the_peer_is_as_shipped_or_another_binary_or_without_limits() -> None:
    bed, binary = Bed(), Path("newer/kueue")
    entered = cast(Testbed, bed)
    for side in (Peer(entered), Setting(print, kueue=binary).sides["peer"](entered), Lifted(entered, binary=binary)):
        await side.start()
    assert bed.started == [
        (bed.manager, {"configuration": None, "binary": None}),
        (bed.manager, {"configuration": None, "binary": binary}),
        (bed.manager, {"configuration": LIFTED, "binary": binary}),
    ]
