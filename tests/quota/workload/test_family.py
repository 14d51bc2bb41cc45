"""What becomes of the variants of a parent, and what the parent has by them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

import pytest
from msgspec.structs import replace

from multikueue.api.kueue.concurrent_admission import GATE, PARENT_LABEL, flavor_of
from multikueue.api.kueue.preemption_gates import BLOCKED, with_state
from multikueue.api.kueue.workload import DEACTIVATION_TARGET, Workload
from multikueue.quota.workload.family import (
    Action,
    Create,
    Delete,
    Family,
    Mark,
    Reprioritize,
    SetActive,
    actions,
    admission_of,
    family_of,
    gate_to_open,
    holder,
    loss_of,
)
from multikueue.testing import NOW, ClusterQueueBuilder, WorkloadBuilder, cluster_queue, workload

FLAVORS = ("reserved", "demand", "spot")
QUEUE = cluster_queue("cq").quota("reserved", cpu=1).quota("demand", cpu=9).quota("spot", cpu=9)
MINUTE = timedelta(minutes=1)
PARENT = workload("wl").queue("lq").request(cpu=1).labels({PARENT_LABEL: "true"})


def variant(flavor: str) -> WorkloadBuilder:
    return workload(f"wl-{flavor}").queue("lq").request(cpu=1).variant("wl", flavor)


def admitted(flavor: str) -> WorkloadBuilder:
    return variant(flavor).reserved(flavors={"cpu": flavor}).admitted()


def family(
    *variants: WorkloadBuilder,
    parent: WorkloadBuilder = PARENT,
    queue: ClusterQueueBuilder = QUEUE,
    mode: str = "TryPreferredFlavors",
    down_to: str | None = None,
) -> Family:
    """A family whose other flavors have variants that wait."""
    given = {flavor_of(each.build()): each for each in variants}
    all_ = {flavor: variant(flavor) for flavor in FLAVORS} | given
    return family_of(
        parent.build(), [each.build() for each in all_.values()], queue.concurrently(mode, down_to=down_to).build().spec
    )


def words(found: Sequence[Action]) -> list[str]:
    return [_word(each) for each in found]


def _word(action: Action) -> str:
    match action:
        case Mark():
            return "mark"
        case Create(flavor):
            return f"create {flavor}"
        case Delete(gone, _):
            return f"delete {flavor_of(gone)}"
        case Reprioritize(other):
            return f"priority of {flavor_of(other)}"
        case SetActive(other, is_active, _):
            return f"{'+' if is_active else '-'}{flavor_of(other)}"


# Which there are.


def test_a_new_parent_is_marked_and_gets_a_variant_for_each_flavor_in_order() -> None:
    new = workload("wl").queue("lq").request(cpu=1).build()
    found = tuple(actions(family_of(new, (), QUEUE.concurrently().build().spec)))
    assert words(found) == ["mark", "create reserved", "create demand", "create spot"]


def test_a_parent_behind_admission_gates_gets_none_yet() -> None:
    assert not tuple(actions(family_of(PARENT.build(), (), QUEUE.concurrently().build().spec), is_gated=True))


ENDED = {"finished": PARENT.finished(), "being deleted": PARENT.deleted()}


@pytest.mark.parametrize("parent", ENDED.values(), ids=ENDED.keys())
def test_a_parent_that_ends_gets_none(parent: WorkloadBuilder) -> None:
    assert not tuple(actions(family_of(parent.build(), (), QUEUE.concurrently().build().spec)))


def test_with_a_variant_for_each_flavor_nothing_is_to_do() -> None:
    assert not tuple(actions(family()))


def test_a_variant_that_is_being_deleted_is_made_again() -> None:
    assert words(tuple(actions(family(variant("spot").deleted())))) == ["create spot"]


def test_a_flavor_that_left_the_queue_takes_its_variant_along() -> None:
    assert words(tuple(actions(family(variant("gone"))))) == ["delete gone"]


def test_without_a_policy_all_variants_go() -> None:
    found = tuple(actions(family_of(PARENT.build(), [variant("spot").build()], QUEUE.build().spec)))
    assert words(found) == ["delete spot"]


def twins(flavor: str) -> Family:
    """A family with a variant that is made by hand, whose name comes first, beside one with quota."""
    by_hand = replace(variant(flavor).build(), metadata=replace(variant(flavor).build().metadata, name="a"))
    others = [variant(each).build() for each in FLAVORS if each != flavor]
    return family_of(
        PARENT.reserved(flavors={"cpu": flavor}).build(),
        [by_hand, admitted(flavor).build(), *others],
        QUEUE.concurrently().build().spec,
    )


def test_of_two_for_one_flavor_the_one_without_quota_goes() -> None:
    found = tuple(actions(twins("spot")))
    assert [each.variant.metadata.name for each in found if isinstance(each, Delete)] == ["a"]
    assert len(found) == 1


def test_the_parent_has_the_quota_of_the_one_that_has_it() -> None:
    assert holder(twins("spot")) == admitted("spot").build()
    assert loss_of(twins("spot")) is None


OTHER = {"more pods": PARENT.count(2), "another queue": PARENT.queue("other")}


@pytest.mark.parametrize("parent", OTHER.values(), ids=OTHER.keys())
def test_a_parent_that_asks_for_something_else_gets_other_variants(parent: WorkloadBuilder) -> None:
    assert words(tuple(actions(family(parent=parent)))) == [
        *(f"delete {flavor}" for flavor in FLAVORS),
        *(f"create {flavor}" for flavor in FLAVORS),
    ]


def test_variants_follow_the_priority_of_their_parent() -> None:
    found = tuple(actions(family(parent=PARENT.priority(7))))
    assert words(found) == [f"priority of {flavor}" for flavor in FLAVORS]


CLASSES = {
    "none stays none": ("", "", ["priority of reserved"]),
    "one follows another": ("low", "high", ["priority of reserved"]),
    "one does not come": ("", "high", []),
    "one does not go": ("low", "", []),
}


@pytest.mark.parametrize(("old", "new", "expected"), CLASSES.values(), ids=CLASSES.keys())
def test_with_quota_a_variant_follows_a_class_only_where_the_api_server_lets_it(
    old: str, new: str, expected: list[str]
) -> None:
    others = [variant(flavor).priority(7, workload_class=new) for flavor in ("demand", "spot")]
    one = variant("reserved").priority(1, workload_class=old).reserved(flavors={"cpu": "reserved"})
    found = family(one, *others, parent=PARENT.priority(7, workload_class=new))
    assert words(tuple(actions(found))) == expected


# Which may have quota.

ACTIVITY: dict[str, tuple[Family, list[str]]] = {
    "on the last flavor, all others may still come": (family(admitted("spot")), []),
    "on the first flavor, all others end": (family(admitted("reserved")), ["-demand", "-spot"]),
    "on one between, only those behind it end": (family(admitted("demand")), ["-spot"]),
    "of two that are admitted, the preferred one stays": (
        family(admitted("reserved"), admitted("spot")),
        ["-demand", "-spot"],
    ),
    "only down to the last acceptable flavor others may come": (
        family(admitted("spot"), down_to="reserved"),
        ["-demand"],
    ),
    "those down to it are made active again": (
        family(admitted("spot"), variant("reserved").inactive(), variant("demand").inactive(), down_to="reserved"),
        ["+reserved"],
    ),
    "what stays on its first flavor ends all others": (
        family(admitted("spot"), mode="RetainFirstAdmission"),
        ["-reserved", "-demand"],
    ),
    "with none admitted all may come": (
        family(variant("reserved").inactive(), variant("demand").inactive()),
        ["+reserved", "+demand"],
    ),
    "one on its way out still counts": (family(admitted("demand").evicted("FlavorMigration")), ["-spot"]),
    "quota alone is no admission": (family(variant("reserved").reserved(flavors={"cpu": "reserved"})), []),
    "one that a check rejected stays as it is": (
        family(variant("reserved").inactive().evicted("DeactivatedDueToAdmissionCheck").unreserved()),
        [],
    ),
    "one that a check rejects is not made active before it is evicted": (
        family(
            variant("reserved")
            .reserved(flavors={"cpu": "reserved"})
            .inactive()
            .condition(DEACTIVATION_TARGET, reason="AdmissionCheck")
        ),
        [],
    ),
    "one that its sibling ended comes again": (
        family(variant("reserved").inactive().evicted("Deactivated").unreserved()),
        ["+reserved"],
    ),
    "an inactive parent takes none": (family(parent=PARENT.inactive()), ["-reserved", "-demand", "-spot"]),
    "a parent in its back-off takes none": (
        family(parent=PARENT.requeue_state(1, at=NOW)),
        ["-reserved", "-demand", "-spot"],
    ),
    "a parent that a check evicts keeps its quota until nothing of it runs": (
        family(
            admitted("spot"),
            parent=PARENT.reserved(flavors={"cpu": "spot"}).evicted("AdmissionCheck").requeue_state(1, at=NOW),
        ),
        [],
    ),
    "then its variant goes, too": (
        family(admitted("spot"), parent=PARENT.unreserved().evicted("AdmissionCheck").requeue_state(1, at=NOW)),
        ["-reserved", "-demand", "-spot"],
    ),
    "a parent that lost its variant waits for the next": (
        family(parent=PARENT.reserved(flavors={"cpu": "spot"}).evicted("VariantEvicted")),
        [],
    ),
    "a delay that a check asks for is no back-off": (
        family(
            admitted("reserved"),
            variant("demand").inactive(),
            variant("spot").inactive(),
            parent=PARENT.reserved(flavors={"cpu": "reserved"}).requeue_state(1, at=NOW),
        ),
        [],
    ),
}


@pytest.mark.parametrize(("given", "expected"), ACTIVITY.values(), ids=ACTIVITY.keys())
def test_which_may_have_quota(given: Family, expected: list[str]) -> None:
    assert words(tuple(actions(given))) == expected


# What the parent has.


def test_the_parent_takes_the_admission_of_the_most_preferred_that_is_admitted() -> None:
    both = family(admitted("demand"), admitted("spot"))
    assert admission_of(both) == admitted("demand").build().status.admission


NOTHING = {
    "none is admitted": family(variant("spot").reserved(flavors={"cpu": "spot"})),
    "the one admitted is on its way out": family(admitted("spot").evicted()),
    "it has quota already": family(admitted("spot"), parent=PARENT.reserved(flavors={"cpu": "spot"})),
    "it is not active": family(admitted("spot"), parent=PARENT.inactive()),
}


@pytest.mark.parametrize("given", NOTHING.values(), ids=NOTHING.keys())
def test_the_parent_takes_nothing_where(given: Family) -> None:
    assert admission_of(given) is None


RUNNING = PARENT.reserved(flavors={"cpu": "spot"})

LOSSES = {
    "it has no quota": (family(admitted("spot").evicted()), ""),
    "its variant is well": (family(admitted("spot"), parent=RUNNING), ""),
    "its variant is evicted": (family(admitted("spot").evicted(), parent=RUNNING), "VariantEvicted"),
    "its variant has no quota": (family(parent=RUNNING), "ConcurrentAdmission"),
    "another is evicted that waited for its checks": (
        family(admitted("spot"), variant("reserved").reserved(flavors={"cpu": "reserved"}).evicted(), parent=RUNNING),
        "",
    ),
    "it goes already": (family(admitted("spot").evicted(), parent=RUNNING.evicted("VariantEvicted")), ""),
}


@pytest.mark.parametrize(("given", "reason"), LOSSES.values(), ids=LOSSES.keys())
def test_when_the_parent_has_to_give_its_quota_up(given: Family, reason: str) -> None:
    loss = loss_of(given)
    assert (loss.reason if loss is not None else "") == reason


def test_what_asks_for_nothing_has_the_quota_of_the_one_that_is_admitted() -> None:
    nothing = workload("wl").queue("lq").labels({PARENT_LABEL: "true"}).reserved()
    one = workload("wl-spot").queue("lq").variant("wl", "spot").reserved().admitted().build()
    assert holder(family_of(nothing.build(), [one], QUEUE.concurrently().build().spec)) == one


# Who may preempt.


def blocked(flavor: str) -> WorkloadBuilder:
    return variant(flavor).condition(BLOCKED, "True", reason="PreemptionGated")


def opened(builder: WorkloadBuilder, at: datetime) -> Workload:
    value = builder.build()
    return replace(value, status=with_state(value.status, GATE, "Open", at))


def of(*variants: Workload) -> Family:
    return family_of(PARENT.build(), variants, QUEUE.concurrently().build().spec)


def test_nobody_preempts_who_need_not() -> None:
    assert gate_to_open(family(), NOW) == (None, None)


def test_the_most_preferred_preempts_first() -> None:
    spot, demand = blocked("spot").build(), blocked("demand").build()
    assert gate_to_open(of(spot, demand), NOW) == (demand, 5 * MINUTE)


def test_the_next_one_waits_for_five_minutes() -> None:
    first, second = opened(blocked("demand"), NOW), blocked("spot").build()
    assert gate_to_open(of(first, second), NOW + MINUTE) == (None, 4 * MINUTE)
    assert gate_to_open(of(first, second), NOW + 5 * MINUTE) == (second, 5 * MINUTE)


def test_one_that_has_quota_by_now_holds_up_nobody() -> None:
    first, second = opened(blocked("demand").reserved(), NOW), blocked("spot").build()
    assert gate_to_open(of(first, second), NOW + MINUTE) == (second, 5 * MINUTE)


def test_one_that_is_not_active_preempts_nobody() -> None:
    assert gate_to_open(of(blocked("spot").inactive().build()), NOW) == (None, None)
