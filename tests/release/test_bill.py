"""The bill of materials says the same each time."""

from __future__ import annotations

import json
from typing import Any

from release.bill import settled


def bill(
    *, number: str = "urn:uuid:1", time: str = "2026-01-01T00:00:00Z", components: tuple[str, ...] = ("a",)
) -> bytes:
    document: dict[str, Any] = {"bomFormat": "CycloneDX", "serialNumber": number, "metadata": {"timestamp": time}}
    return json.dumps({**document, "components": components}).encode()


def test_two_writings_of_one_bill_are_equal() -> None:
    assert settled(bill(), epoch=0) == settled(bill(number="urn:uuid:2", time="2026-02-02T00:00:00Z"), epoch=0)


def test_another_bill_has_another_number() -> None:
    one, other = (json.loads(settled(bill(components=parts), epoch=0)) for parts in (("a",), ("b",)))

    assert one["serialNumber"] != other["serialNumber"]
    assert one["serialNumber"].startswith("urn:uuid:")


def test_its_time_is_that_of_the_commit() -> None:
    assert json.loads(settled(bill(), epoch=1_700_000_000))["metadata"]["timestamp"] == "2023-11-14T22:13:20Z"
