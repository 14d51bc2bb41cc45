"""What queues spend, and what they are told of it."""

from __future__ import annotations

from datetime import timedelta
from random import Random

import pytest
from msgspec.structs import replace

from multikueue.api.kueue.queues import MAX_SPEND_ANNOTATION
from multikueue.api.meta import ObjectKey, find_condition
from multikueue.quota.capacity.spend import (
    SAMPLED,
    SPEND_LIMIT_REACHED,
    WEEK,
    Account,
    Ledger,
    SpendLimit,
    limit_of,
    limit_problem,
    told_account,
)
from tests.builders import NOW, cluster_queue, local_queue

HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
CQ, LQ = ObjectKey("", "cq"), ObjectKey("default", "main")
BOTH = (LQ, CQ)
A, B = ObjectKey("default", "a"), ObjectKey("default", "b")


def limited(text: str = "100/24h") -> Ledger:
    ledger = Ledger()
    ledger.set_queue(cluster_queue("cq").annotations({MAX_SPEND_ANNOTATION: text}).build(), NOW)
    ledger.set_queue(local_queue("main").build(), NOW)
    return ledger


@pytest.mark.parametrize(
    ("text", "limit"),
    [
        ("100/7d", SpendLimit(100, WEEK)),
        ("0.5/90m", SpendLimit(0.5, 90 * timedelta(minutes=1))),
        ("0/1h", SpendLimit(0, HOUR)),
        ("100", SpendLimit()),
        ("100/0s", SpendLimit()),
        ("-1/1h", SpendLimit()),
        ("1e3/1h", SpendLimit()),
        ("nan/1h", SpendLimit()),
        ("100/99999999999d", SpendLimit()),
    ],
)
def test_the_limit_is_in_an_annotation(text: str, limit: SpendLimit) -> None:
    queue = local_queue("main").annotations({MAX_SPEND_ANNOTATION: text}).build()
    assert limit_of(queue) == limit
    problem = limit_problem(queue)
    assert bool(problem) is (limit.most is None)
    if problem:
        assert problem.startswith("LocalQueue default/main: annotation multikueue.dev/max-spend: expected an amount")
        assert problem.endswith(f'such as "100/7d", got "{text}"')


def test_no_annotation_is_no_problem() -> None:
    assert (limit_of(cluster_queue("cq").build()), limit_problem(cluster_queue("cq").build())) == (SpendLimit(), "")


def test_what_was_spent_long_ago_counts_less() -> None:
    account = Account(at=NOW, begun=NOW, limit=SpendLimit(None, DAY), spent=100)
    assert account.spent_by(NOW) == 100
    assert account.spent_by(NOW + DAY) == pytest.approx(36.79, abs=0.01)
    assert account.spent_by(NOW - DAY) == 100, "a clock that goes back makes no money"


def test_who_spends_at_a_steady_rate_has_spent_what_it_spends_in_one_window() -> None:
    account = Account(at=NOW, begun=NOW, limit=SpendLimit(None, DAY))
    account.change(2.0, NOW)
    assert account.spent_by(NOW + HOUR) == pytest.approx(2, rel=0.03)
    assert account.spent_by(NOW + 20 * DAY) == pytest.approx(48)


def test_it_is_the_same_however_often_it_is_looked_at() -> None:
    often, once = (Account(at=NOW, begun=NOW, limit=SpendLimit(None, DAY)) for _ in range(2))
    for account in (often, once):
        account.change(3.0, NOW)
    for hour in range(1, 40):
        often.change(0.0, NOW + hour * HOUR)
    assert often.spent_by(NOW + 40 * HOUR) == pytest.approx(once.spent_by(NOW + 40 * HOUR))


def test_the_end_of_a_hold_is_when_the_queue_is_within_its_limit() -> None:
    account = Account(at=NOW, begun=NOW, limit=SpendLimit(100, DAY), spent=150)
    until = account.until(NOW)
    assert until is not None
    assert account.is_over(until - HOUR)
    assert not account.is_over(until + timedelta(seconds=1))


def test_what_runs_puts_the_end_off_or_lets_there_be_none() -> None:
    idle, busy, endless = (
        Account(at=NOW, begun=NOW, limit=SpendLimit(100, DAY), spent=150, rate=rate) for rate in (0.0, 2.0, 5.0)
    )
    first, later = idle.until(NOW), busy.until(NOW)
    assert first is not None
    assert later is not None
    assert first < later
    assert endless.until(NOW) is None
    assert Account(at=NOW, begun=NOW, limit=SpendLimit(100, DAY), spent=50).until(NOW) is None
    assert Account(at=NOW, begun=NOW, limit=SpendLimit(0, DAY)).until(NOW) is None, "nothing may be spent at all"


def test_each_queue_of_a_workload_spends_what_it_costs() -> None:
    ledger = limited()
    ledger.charge(A, 2.0, BOTH, since=NOW, now=NOW)
    ledger.charge(B, 1.0, (CQ,), since=NOW, now=NOW)
    assert ledger.end(A, NOW + HOUR)
    assert not ledger.end(A, NOW + HOUR)
    later = NOW + 2 * HOUR
    assert ledger.accounts[LQ].spent_by(later) == pytest.approx(2, rel=0.02)
    assert ledger.accounts[CQ].spent_by(later) == pytest.approx(4, rel=0.1)
    (shown,) = ledger.spends(BOTH, later)
    assert (shown.queue, shown.most, shown.window) == ("ClusterQueue cq", 100, DAY), (
        "those without a limit are not shown"
    )


def test_the_same_charge_again_changes_nothing_and_another_rate_counts_from_now_on() -> None:
    ledger = limited()
    ledger.charge(A, 2.0, (CQ,), since=NOW, now=NOW)
    ledger.charge(A, 2.0, (CQ,), since=NOW, now=NOW + HOUR)
    ledger.charge(A, 4.0, (CQ,), since=NOW, now=NOW + HOUR)
    assert (ledger.accounts[CQ].rate, ledger.accounts[CQ].at) == (4.0, NOW + HOUR)
    assert ledger.accounts[CQ].spent_by(NOW + HOUR) == pytest.approx(2, rel=0.03)


def test_a_restart_goes_on_from_what_the_queue_was_told_and_adds_what_ran_since() -> None:
    """A runs throughout, B ends while no manager runs."""
    first, queue = limited(), cluster_queue("cq").annotations({MAX_SPEND_ANNOTATION: "100/24h"})
    for workload in (A, B):
        first.charge(workload, 3.0, (CQ,), since=NOW, now=NOW)
    told_at = NOW + 5 * HOUR
    conditions = first.accounts[CQ].told((), generation=1, now=told_at)

    first.end(B, NOW + 6 * HOUR)
    again, back = Ledger(), NOW + 8 * HOUR
    built = queue.build()
    again.set_queue(replace(built, status=replace(built.status, conditions=conditions)), back)
    again.charge(A, 3.0, (CQ,), since=NOW, now=back)
    again.add(3.0, (CQ,), since=NOW, until=NOW + 6 * HOUR, now=back)
    assert again.accounts[CQ].spent_by(back) == pytest.approx(first.accounts[CQ].spent_by(back), abs=0.001)
    later = back + 9 * HOUR
    assert again.accounts[CQ].spent_by(later) == pytest.approx(first.accounts[CQ].spent_by(later), abs=0.001)


def test_the_sum_over_local_queues_is_that_of_their_cluster_queue() -> None:
    """Whatever begins, ends and changes its price, and whenever anybody looks."""
    draw, ledger, now = Random(7), Ledger(), NOW
    locals_ = [ObjectKey("default", f"lq-{number}") for number in range(3)]
    for _ in range(500):
        now += timedelta(minutes=draw.randrange(90))
        key = ObjectKey("default", f"wl-{draw.randrange(20)}")
        queues = (locals_[int(key.name[3:]) % 3], CQ)
        if draw.random() < 0.6:
            ledger.charge(key, draw.choice((0.0, 0.5, 7.25)), queues, since=now, now=now)
        else:
            ledger.end(key, now)
    ours = sum(ledger.accounts[queue].spent_by(now) for queue in locals_)
    assert ours == pytest.approx(ledger.accounts[CQ].spent_by(now))
    for number in range(20):
        ledger.end(ObjectKey("default", f"wl-{number}"), now)
    assert all(account.rate == pytest.approx(0, abs=1e-9) for account in ledger.accounts.values())


def test_another_window_keeps_what_was_spent() -> None:
    ledger = limited()
    ledger.charge(A, 10.0, (CQ,), since=NOW, now=NOW)
    later = NOW + 2 * HOUR
    before = ledger.accounts[CQ].spent_by(later)
    ledger.set_queue(cluster_queue("cq").annotations({MAX_SPEND_ANNOTATION: "10/1h"}).build(), later)
    assert ledger.accounts[CQ].spent_by(later) == before
    assert ledger.accounts[CQ].is_over(later)
    ledger.remove_queue(CQ)
    assert ledger.spends((CQ,), later) == ()


# What is told.


def test_the_condition_says_what_was_spent_and_whether_that_is_all() -> None:
    account = Account(at=NOW, begun=NOW, limit=SpendLimit(100, DAY), spent=99.5, rate=1.0)
    conditions = account.told((), generation=3, now=NOW)
    told = find_condition(conditions, SPEND_LIMIT_REACHED)
    assert told is not None
    assert (told.status, told.reason, told.observed_generation) == ("False", "WithinLimit", 3)
    assert told.message == "99.5000 spent by 2026-01-01T12:00:00Z, of 100 within 24h"
    account.spent = 101
    (told,) = account.told(conditions, generation=3, now=NOW)
    assert (told.status, told.reason) == ("True", "OverLimit")


@pytest.mark.parametrize("window", [timedelta(minutes=1), DAY, timedelta(milliseconds=1)], ids=str)
def test_what_was_told_within_a_second_holds_after_it(window: timedelta) -> None:
    """The time that is told has no fraction of a second. Else each look would write it again, and each write wakes a look."""
    ended = NOW + timedelta(seconds=0.2)
    account = Account(at=ended, begun=NOW, limit=SpendLimit(None, window), spent=1e6)
    conditions = account.told((), generation=1, now=NOW + timedelta(seconds=0.7))
    for seconds in (1.7, 2.9, 60.3):
        assert account.told(conditions, generation=1, now=NOW + timedelta(seconds=seconds)) is conditions


def test_it_is_told_again_after_a_while_and_not_while_nothing_is_spent() -> None:
    account = Account(at=NOW, begun=NOW, limit=SpendLimit(None, DAY), spent=10, rate=1.0)
    conditions = account.told((), generation=1, now=NOW)
    assert account.told(conditions, generation=1, now=NOW + SAMPLED / 2) is conditions
    again = account.told(conditions, generation=1, now=NOW + SAMPLED)
    assert again is not conditions
    account.change(-1.0, NOW + SAMPLED)
    assert account.told(again, generation=1, now=NOW + 9 * DAY) is again
    assert Account(at=NOW, begun=NOW).told((), generation=1, now=NOW) == (), "a queue that never spent has none"


@pytest.mark.parametrize(
    "message", ["", "a lot", "12 spent by noon, of 3", "1 spent by 9999-99-99T00:00:00Z, ", "1 spent by 2026-01-01, "]
)
def test_what_somebody_else_wrote_is_not_believed(message: str) -> None:
    told = Account(at=NOW, begun=NOW, spent=1).told((), generation=1, now=NOW)[0]
    assert told_account((replace(told, message=message),), SpendLimit(), NOW) is None


def test_however_much_was_spent_it_is_told_once_in_a_while_only() -> None:
    account = Account(at=NOW, begun=NOW, spent=3e27, rate=9e27)
    conditions = account.told((), generation=1, now=NOW)
    assert account.told(conditions, generation=1, now=NOW + SAMPLED / 2) is conditions


def test_a_time_to_come_is_now() -> None:
    conditions = Account(at=NOW + DAY, begun=NOW, spent=1).told((), generation=1, now=NOW + DAY)
    found = told_account(conditions, SpendLimit(), NOW)
    assert found is not None
    assert found.at == NOW
