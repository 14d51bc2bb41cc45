from __future__ import annotations

import anyio
import pytest

from multikueue.runtime import first

pytestmark = pytest.mark.anyio


async def test_the_first_to_end_ends_the_others() -> None:
    ended: list[str] = []

    async def patient() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            ended.append("patient")

    async def quick() -> None:
        await anyio.lowlevel.checkpoint()
        ended.append("quick")

    await first(patient, quick)

    assert ended == ["quick", "patient"]


async def test_what_one_raises_is_raised_and_ends_the_others() -> None:
    async def fails() -> None:
        raise ValueError("no")

    with pytest.raises(ExceptionGroup) as raised:
        await first(anyio.sleep_forever, fails)

    assert raised.group_contains(ValueError, match="no")
