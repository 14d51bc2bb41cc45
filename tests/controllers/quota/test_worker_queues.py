"""Reading the queues of workers."""

from __future__ import annotations

import pytest

from multikueue.controllers.quota.worker_queues import rules_of, why_unread
from multikueue.errors import Forbidden, MultiKueueError, ServerError
from multikueue.settings import load


@pytest.mark.parametrize("text", ["0%", "10%", "100%", "10%,cpu=4", "cpu=500m, memory=5%", "a.b/c=1Gi", "cpu=.5"])
def test_a_reserve_that_the_settings_take_can_be_followed(text: str) -> None:
    rules_of(load(capacity_follow__reserve=text).capacity_follow)


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (Forbidden(403, "Forbidden", "no"), "may not be read: no: register it again"),
        (ServerError(500, "", "no"), "cannot be read: "),
    ],
    ids=["rights are missing", "it fails"],
)
def test_a_worker_that_is_not_read_has_a_reason_and_a_repair(error: MultiKueueError, told: str) -> None:
    assert why_unread(error).startswith(told)
