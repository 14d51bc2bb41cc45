"""What others decided: tiers open in order, clusters come at once and go late, and a nomination by hand stays."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from multikueue.api.meta import ObjectKey
from multikueue.store.caches.placements import Named
from multikueue.strategy import Fleet, Nomination, Workload
from multikueue.testing import NOW, FleetBuilder, check_strategy, fleet, strategy_workload
from multikueue.workload.strategy_call import call_strategy
from multikueue_strategies.external import External
from tests.store.hub import KEY, Hub

SECOND = timedelta(seconds=1)
STRATEGY = External(tier_patience=timedelta(minutes=1), shrink_after=10 * SECOND)


def abc(*, now: datetime = NOW) -> FleetBuilder:
    return fleet("a", "b", "c").at(now)


def ask(fleet_: FleetBuilder, *nominated: str, at: datetime = NOW, strategy: External = STRATEGY) -> Nomination:
    return strategy.nominate(strategy_workload().nominated(*nominated, at=at).build(), fleet_.build())


@pytest.mark.parametrize(
    "strategy",
    [
        External(),
        STRATEGY,
        External(tier_patience=timedelta(), shrink_after=timedelta()),
        External(placement="gpu", tier_patience=timedelta(days=400)),
    ],
    ids=["as it comes", "with options", "without patience", "with much patience"],
)
def test_it_keeps_the_contract(strategy: External) -> None:
    check_strategy(strategy)


@pytest.mark.parametrize("option", ["tier_patience", "shrink_after"])
def test_a_duration_below_nothing_is_refused(option: str) -> None:
    with pytest.raises(ValueError, match="expected durations of 0 or more"):
        External(**{option: -SECOND})  # type: ignore[arg-type]


# Tiers.


def test_it_nominates_the_clusters_decided_for_and_nobody_else() -> None:
    assert ask(abc().placement("p", ("c", "a"))) == Nomination(("c", "a"), reason="Placement p")


def test_the_first_tier_comes_first_and_the_next_after_patience() -> None:
    tiers = abc().placement("p", ("a",), ("b",), ("c",))
    assert ask(tiers) == Nomination(("a",), revisit_after=timedelta(minutes=1), reason="Placement p")
    assert ask(tiers.later(59 * SECOND), "a") == Nomination(("a",), revisit_after=SECOND, reason="Placement p")
    second = ask(tiers.later(60 * SECOND), "a")
    assert second.clusters == ("a", "b")
    later = NOW + 60 * SECOND
    assert ask(tiers.at(later), "a", "b", at=later).clusters == ("a", "b")
    assert ask(tiers.at(later + 60 * SECOND), "a", "b", at=later).clusters == ("a", "b", "c")
    assert ask(tiers.at(later), "a", "b", "c", at=later).revisit_after is None


@pytest.mark.parametrize(
    ("fleet_", "clusters"),
    [
        pytest.param(abc().unusable("a"), ("b",), id="none of the first tier can be used"),
        pytest.param(fleet("b", "c"), ("b",), id="none of the first tier is in the config"),
        pytest.param(abc().unusable("a").unusable("b"), ("c",), id="nor of the second"),
        pytest.param(abc().unusable("a").unusable("b").unusable("c"), (), id="nobody at all"),
    ],
)
def test_a_tier_that_cannot_be_used_is_passed_over(fleet_: FleetBuilder, clusters: tuple[str, ...]) -> None:
    assert ask(fleet_.placement("p", ("a",), ("b",), ("c",))).clusters == clusters


def test_a_tier_where_all_failed_is_passed_over_unless_all_did() -> None:
    tiers = abc().placement("p", ("a", "b"), ("c",)).build()
    failed = strategy_workload().failed_on("a")
    assert STRATEGY.nominate(failed.build(), tiers).clusters == ("a", "b")
    assert STRATEGY.nominate(failed.failed_on("b").build(), tiers).clusters == ("c",)
    assert STRATEGY.nominate(failed.failed_on("b").failed_on("c").build(), tiers).clusters == ("a", "b")


def test_a_worker_of_the_first_tier_that_comes_back_joins() -> None:
    assert ask(abc().placement("p", ("a",), ("b",)), "b").clusters == ("a", "b")


def test_without_a_known_time_of_nomination_the_reservation_counts() -> None:
    tiers = abc(now=NOW + 59 * SECOND).placement("p", ("a",), ("b",))
    workload = Workload(namespace="team", name="wl", nominated_clusters=("a",), reserved_at=NOW)
    assert STRATEGY.nominate(workload, tiers.build()).clusters == ("a",)
    assert STRATEGY.nominate(workload, tiers.later(SECOND).build()).clusters == ("a", "b")


# Coming and going.


def test_a_cluster_that_is_decided_for_joins_at_once() -> None:
    assert ask(abc().placement("p", ("a", "b")), "a").clusters == ("a", "b")


def test_a_cluster_that_leaves_keeps_its_copy_for_a_while_and_gets_no_new_one() -> None:
    left = abc().placement("p", ("a",), absent={"b": NOW, "c": NOW})
    assert ask(left, "a", "b") == Nomination(("a", "b"), revisit_after=10 * SECOND, reason="Placement p")
    assert ask(left).clusters == ("a",)
    assert ask(left.later(9 * SECOND), "b") == Nomination(("a", "b"), revisit_after=SECOND, reason="Placement p")
    assert ask(left.later(10 * SECOND), "a", "b") == Nomination(("a",), reason="Placement p")


def test_a_cluster_of_which_nothing_is_known_keeps_its_copy() -> None:
    unread = abc(now=NOW + timedelta(days=1)).placement("p", problem="not read yet")
    assert ask(unread, "b") == Nomination(("b",), reason="not read yet")


def test_a_cluster_that_leaves_and_cannot_be_used_loses_its_place() -> None:
    assert ask(abc().unusable("b").placement("p", ("a",), absent={"b": NOW}), "b").clusters == ("a",)


def test_a_worker_of_a_later_tier_that_is_nominated_stays() -> None:
    """Slices are regrouped now and then; that is no reason to withdraw anything."""
    assert ask(abc().placement("p", ("a",), ("b",), ("c",)), "c").clusters == ("a", "b", "c")


# Problems.


def test_with_a_problem_nobody_new_is_nominated_and_who_is_still_decided_for_stays() -> None:
    broken = abc().placement("p", ("a", "b"), problem="Placement p is misconfigured: x", absent={"c": NOW})
    assert ask(broken) == Nomination(reason="Placement p is misconfigured: x")
    assert ask(broken, "b", "c").clusters == ("b", "c")
    assert ask(broken.later(timedelta(hours=1)), "b", "c") == Nomination(
        ("b",), reason="Placement p is misconfigured: x"
    )


def test_names_that_are_not_in_the_config_are_told_and_ignored() -> None:
    names = tuple(f"x{number:02}" for number in range(12))
    shown = ", ".join(names[:10])
    assert ask(abc().placement("p", ("a", *names))) == Nomination(
        ("a",), reason=f"Placement p; not in the MultiKueueConfig: {shown} and 2 more"
    )


def test_where_nobody_can_be_nominated_the_reason_says_who_was_decided_for_and_why_not() -> None:
    gone = abc().unusable("a", why="cordoned").unusable("b", why="not connected").unusable("c", why="cordoned")
    assert ask(gone.placement("p", ("a",), ("b", "x"))).reason == (
        "Placement p; not usable: a: cordoned, b: not connected; not in the MultiKueueConfig: x"
    )


def test_a_reason_is_never_longer_than_a_strategy_may_give() -> None:
    names = tuple(f"{number}-" + "x" * 300 for number in range(20))
    for fleet_ in (abc().placement("p", problem="x" * 5000), abc().placement("p", names)):
        assert len(call_strategy(STRATEGY, strategy_workload().build(), fleet_.build()).reason) == 1000
    by_hand = strategy_workload().nominated(*names).build()
    assert len(call_strategy(STRATEGY, by_hand, abc().build()).reason) == 1000


def test_that_a_worker_comes_and_goes_does_not_change_the_reason_of_who_is_nominated() -> None:
    """The reason is written into each workload whenever it changes."""
    whole = abc().placement("p", ("a", "b"))
    assert ask(whole, "a", "b").reason == ask(whole.unusable("b"), "a", "b").reason


# Without a Placement.


@pytest.mark.parametrize(
    ("nominated", "reason"),
    [
        pytest.param(("b",), "", id="one"),
        pytest.param(("x", "c", "b"), "", id="names that nobody knows among them, in any order"),
        pytest.param(("x",), "not in the MultiKueueConfig: x", id="only names that nobody knows"),
        pytest.param((), "no Placement is named, and nobody else has nominated one", id="nobody yet"),
    ],
)
def test_what_somebody_else_nominated_stays_as_it_is(nominated: tuple[str, ...], reason: str) -> None:
    for each in (abc(), abc().unusable("b"), abc().later(timedelta(days=1))):
        assert ask(each, *nominated) == Nomination(nominated, reason=reason)


def test_a_name_that_is_there_twice_counts_once() -> None:
    assert ask(abc(), "b", "b") == Nomination(("b",))


def test_of_a_full_list_only_what_is_recorded_counts() -> None:
    """Who was named beside it before is not nominated by somebody else."""
    names = tuple(f"w{number}" for number in range(25))
    assert ask(fleet(*names), *names) == Nomination(names[:20])


# Histories: decisions change write by write, as the controller writes them.

NAMES = ("a", "b", "c", "d", "e")
PASS = st.dictionaries(st.sampled_from((*NAMES, "elsewhere")), st.integers(min_value=0, max_value=2)).map(
    lambda ranks: [[name for name, rank in ranks.items() if rank == number] for number in sorted({*ranks.values()})]
)
"""What a pass decides: clusters by group, each in one."""


class Waiting:
    """A workload that waits under the strategy, over a hub that decides and changes its mind."""

    def __init__(self, *, slice_size: int) -> None:
        self.hub = Hub(slice_size=slice_size)
        self.hub.place()
        self.nominated: tuple[str, ...] = ()
        self.strategy = External(tier_patience=timedelta(), shrink_after=10 * SECOND)

    def look(self) -> set[str]:
        seen = self.hub.placements.view(ObjectKey("team", "wl"), Named(KEY), NAMES)
        workers = fleet(*NAMES).build().workers
        workload = strategy_workload().nominated(*self.nominated).build()
        for _ in range(4):  # one tier a time
            question = Fleet(workers=workers, now=self.hub.time, placement=seen)
            workload = strategy_workload().nominated(*self.strategy.nominate(workload, question).clusters).build()
        self.nominated = workload.nominated_clusters
        return set(self.nominated)


@settings(max_examples=150)
@given(st.lists(PASS, min_size=1, max_size=4), st.integers(min_value=1, max_value=3), st.booleans())
def test_while_decisions_are_rewritten_nobody_who_stays_ever_loses_its_place(
    passes: list[list[list[str]]], slice_size: int, restarted: bool
) -> None:
    waiting = Waiting(slice_size=slice_size)
    before: set[str] = set()
    for groups in passes:
        wanted = {name for group in groups for name in group} & set(NAMES)
        for write in waiting.hub.passes(groups):
            write()
            waiting.hub.later(SECOND / 100)
            if restarted:
                waiting.hub.start()
            assert before & wanted <= waiting.look()
        assert wanted <= waiting.look()
        waiting.hub.later(10 * SECOND)
        assert waiting.look() == wanted
        before = wanted


def test_a_swap_between_slices_that_leaves_the_counts_as_they_were_is_no_flap() -> None:
    """Half-way through, the slices hold as many clusters as the status says, and `b` is in none of them."""
    waiting = Waiting(slice_size=2)
    waiting.hub.decide(["a", "b"], ["c"])
    assert waiting.look() == {"a", "b", "c"}
    seen = []
    for write in waiting.hub.passes([["a", "d"], ["b"]]):
        write()
        seen.append(waiting.look())
    assert seen == [{"a", "b", "c", "d"}] * 3
    waiting.hub.later(10 * SECOND)
    assert waiting.look() == {"a", "b", "d"}
