"""The settings in force, and what a new tree changes in them."""

from __future__ import annotations

from datetime import timedelta

import anyio
import pytest

from multikueue.settings import InForce, Settings, Timings, leaves, load
from multikueue.settings.tree import GONE


def test_what_is_live_is_put_into_force_and_the_rest_waits() -> None:
    cell = InForce(Settings())
    new = load(
        dispatch__worker_lost_timeout="5s", dispatch__origin="other", quota__requeue_first="1s", log__level="debug"
    )

    change = cell.take(new)

    assert [leaf.name for leaf in change.applied] == [
        "dispatch.worker_lost_timeout",
        "quota.requeue_first",
        "log.level",
    ]
    assert [leaf.name for leaf in change.waiting] == ["dispatch.origin"]
    assert cell.dispatch.worker_lost_timeout == timedelta(seconds=5)
    assert cell.quota.requeue_first == timedelta(seconds=1)
    assert cell.settings.log.level == "debug"
    assert cell.dispatch.origin == "multikueue"


def test_what_waits_goes_on_waiting() -> None:
    cell, new = InForce(Settings()), load(dispatch__origin="other")
    assert cell.take(new).waiting == cell.take(new).waiting != ()


def test_the_strategy_is_live_with_its_options() -> None:
    cell = InForce(Settings())
    cell.take(load(dispatch__strategy__name="incremental", dispatch__strategy__options={"step": 2}))
    assert (cell.dispatch.strategy.name, cell.dispatch.strategy.options) == ("incremental", {"step": 2})


@pytest.mark.anyio
async def test_a_change_wakes_who_waits_for_it_and_no_change_wakes_nobody() -> None:
    cell, woken = InForce(Settings()), anyio.Event()

    async def wait() -> None:
        await cell.changed()
        woken.set()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(wait)
        await anyio.wait_all_tasks_blocked()
        cell.take(Settings())
        cell.take(load(dispatch__origin="other"))
        await anyio.wait_all_tasks_blocked()
        assert not woken.is_set()
        cell.take(load(log__level="debug"))
        with anyio.fail_after(5):
            await woken.wait()


def test_settings_that_must_be_in_order_are_live_together_or_not_at_all() -> None:
    """What is in force is then in order too, although only a part of the new tree is taken."""
    live = {leaf.name: leaf.is_live for leaf in leaves()}
    for group, pairs in {
        "quota": [("requeue_first", "requeue_cap")],
        "leader_election": [("renew_deadline", "lease_duration"), ("retry_period", "renew_deadline")],
    }.items():
        for one, other in pairs:
            assert live[f"{group}.{one}"] == live[f"{group}.{other}"]


@pytest.mark.parametrize(
    ("shorter", "longer"),
    [("suspect_after", "isolate_after"), ("retry_first", "retry_cap"), ("reconnect_first", "reconnect_cap")],
)
def test_they_are_in_order(shorter: str, longer: str) -> None:
    assert getattr(Timings(), shorter) < getattr(Timings(), longer)


def test_a_worker_is_isolated_before_it_is_lost() -> None:
    assert Timings().isolate_after < Settings().dispatch.worker_lost_timeout


@pytest.mark.parametrize("name", Timings.__struct_fields__)
def test_each_was_a_setting_once_and_the_error_says_so(name: str) -> None:
    assert f"dispatch.{name}" in GONE
