"""The clock of a server, by the header of its answers."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from email.utils import format_datetime

import pytest

from multikueue.api.kinds import NAMESPACES
from multikueue.cli.access.connection import ContextChoice, now
from multikueue.cli.access.server_clock import ServerClock
from tests.cli.conftest import World


@pytest.mark.parametrize("seconds", [-90, 0, 90], ids=["behind", "the same", "ahead"])
def test_a_clock_is_told_to_the_second(seconds: int) -> None:
    clock = ServerClock()

    clock.hear({"Date": format_datetime(now() + timedelta(seconds=seconds), usegmt=True)})

    assert clock.ahead is not None
    assert abs(clock.ahead - timedelta(seconds=seconds)) <= timedelta(seconds=1)


@pytest.mark.parametrize("headers", [{}, {"Date": "yesterday"}], ids=["no header", "no date"])
def test_what_is_no_date_tells_nothing(headers: Mapping[str, str]) -> None:
    clock = ServerClock()
    clock.hear(headers)

    assert clock.ahead is None


@pytest.mark.anyio
async def test_answers_set_it(world: World) -> None:
    clock = ServerClock()
    async with ContextChoice(world.kubeconfig, "worker").connect(clock) as client:
        assert clock.ahead is None
        await client.list(NAMESPACES)

    assert clock.ahead is not None
    assert abs(clock.ahead) <= timedelta(seconds=5)
