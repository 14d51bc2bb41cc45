"""What commands tell of starts, whatever the other package brings."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from importlib import metadata
from importlib.metadata import EntryPoint
from typing import Any

import pytest

from multikueue.api.meta import ObjectKey
from multikueue.cli.workload.expected_starts import ExpectedStart, as_counted, expected_starts, sentence
from multikueue.errors import ConfigurationError, Forbidden
from multikueue.testing import NOW
from tests.builders import pod_set, workload

KEY = ObjectKey("a", "train")
SOON = ExpectedStart(NOW + timedelta(minutes=4), NOW + timedelta(minutes=7), NOW + timedelta(hours=12))


@pytest.mark.parametrize(
    ("starts", "told"),
    [
        pytest.param({KEY: SOON}, "about 01-01 12:07, in 4 of 5 cases from 01-01 12:04 to 01-02 00:00 UTC", id="known"),
        pytest.param({KEY: None}, "unknown: too few jobs were seen, or too many wait before it", id="not known"),
        pytest.param({}, "", id="it does not wait"),
        pytest.param("the disk is full", "unknown: the disk is full", id="no history"),
    ],
)
def test_a_start_is_told_in_a_sentence(starts: Any, told: str) -> None:
    assert sentence(starts, KEY) == told


def test_a_cell_of_a_list_says_how_long_it_takes() -> None:
    assert SOON.within(NOW) == "4m - 12h"


class Estimates:
    """What an entry point names, and what it does."""

    error: Exception | None = None

    @classmethod
    async def of(cls, _client: Any, url: str, _more: Sequence[Any]) -> dict[ObjectKey, ExpectedStart]:
        if cls.error is not None:
            raise cls.error
        return {ObjectKey("a", url): SOON}


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("names", "error", "told"),
    [
        pytest.param([f"{__name__}:Estimates.of"], None, {KEY: SOON}, id="it is installed"),
        pytest.param([], None, "multikueue-console is not installed", id="it is not"),
        pytest.param(["nowhere:x"], None, "cannot be loaded: No module named", id="it is broken"),
        pytest.param([f"{__name__}:Estimates.of"], ConfigurationError("no such URL"), "no such URL", id="no history"),
        pytest.param(
            [f"{__name__}:Estimates.of"], Forbidden(403, "Forbidden", "no"), "it takes the right to list", id="no right"
        ),
    ],
)
async def test_estimates_come_from_another_package_or_not_at_all(
    monkeypatch: pytest.MonkeyPatch, names: list[str], error: Exception | None, told: Any
) -> None:
    points = [EntryPoint("history", name, "multikueue.estimates") for name in names]
    monkeypatch.setattr(metadata, "entry_points", lambda **_: points)
    monkeypatch.setattr(Estimates, "error", error)
    found = await expected_starts(None, "train")  # type: ignore[arg-type]
    assert told in found if isinstance(told, str) else told == found


def test_a_job_that_nobody_has_looked_at_is_counted_as_the_manager_would() -> None:
    asked = workload("train").pod_sets(pod_set().request(cpu=2).count(3)).build()
    (counted,) = as_counted(asked, None).status.resource_requests
    assert (counted.name, counted.resources) == ("main", {"cpu": "6"})
