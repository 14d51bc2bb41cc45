"""What a server tells by the way."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from email.utils import format_datetime

import pytest

from multikueue.api.kinds import NAMESPACES
from multikueue.cli.access.connection import ContextChoice, now
from multikueue.cli.access.server_facts import ServerFacts
from tests.cli.conftest import World


@pytest.mark.parametrize("seconds", [-90, 0, 90], ids=["behind", "the same", "ahead"])
def test_a_clock_is_told_to_the_second(seconds: int) -> None:
    facts = ServerFacts()

    facts.hear("", {}, {"Date": format_datetime(now() + timedelta(seconds=seconds), usegmt=True)})

    assert facts.ahead is not None
    assert abs(facts.ahead - timedelta(seconds=seconds)) <= timedelta(seconds=1)


@pytest.mark.parametrize("headers", [{}, {"Date": "yesterday"}], ids=["no header", "no date"])
def test_what_is_no_date_tells_nothing(headers: Mapping[str, str]) -> None:
    facts = ServerFacts()
    facts.hear("", {}, headers)

    assert facts.ahead is None


@pytest.mark.anyio
async def test_answers_set_it(world: World) -> None:
    facts = ServerFacts()
    async with ContextChoice(world.kubeconfig, "worker").connect(facts) as client:
        assert facts.ahead is None
        await client.list(NAMESPACES)

        await facts.look_at_certificate()

    assert facts.ahead is not None
    assert abs(facts.ahead) <= timedelta(seconds=5)
    assert facts.ends is not None
    assert facts.ends > now()


@pytest.mark.anyio
async def test_a_server_that_nobody_asked_has_no_certificate() -> None:
    facts = ServerFacts()
    await facts.look_at_certificate()

    assert facts.ends is None
