"""How the Workloads of an elastic job are joined, and what that means for what is on the workers."""

from __future__ import annotations

import msgspec
import pytest

from multikueue.api.kueue.workload import ELASTIC_ANNOTATION, REPLACES_ANNOTATION, Workload
from multikueue.api.meta import ObjectKey
from multikueue.dispatch.slices import NO_SLICE, Slice
from multikueue.store.caches.cache import Cache
from multikueue.store.caches.slices import Slices, replaced
from tests.builders import workload
from tests.builders.workloads import WorkloadBuilder, pod_set


def of_job(name: str, *, replaces: str = "", job: str = "job") -> WorkloadBuilder:
    marks = {ELASTIC_ANNOTATION: "true"} | ({REPLACES_ANNOTATION: f"default/{replaces}"} if replaces else {})
    return workload(name).queue("main").request(cpu=1).owner_job(job).annotations(marks)


def holding(builder: WorkloadBuilder, *, cluster: str = "w1") -> WorkloadBuilder:
    return builder.reserved("cq").check("mk").cluster_name(cluster)


def placed(builder: WorkloadBuilder) -> WorkloadBuilder:
    return holding(builder).check("mk", "Ready").admitted()


def gone_by(builder: WorkloadBuilder) -> WorkloadBuilder:
    return placed(builder).finished("WorkloadSliceReplaced")


def slices(*seen: WorkloadBuilder) -> Slices:
    cache: Cache[Workload] = Cache(indexes={"replaces": replaced})
    for each in seen:
        cache.upsert(each.build())
    return Slices(cache)


OLD, NEW = of_job("old"), of_job("new", replaces="old")
THIRD = of_job("third", replaces="new")

JOINED: dict[str, tuple[tuple[WorkloadBuilder, ...], WorkloadBuilder, Slice]] = {
    "one that is not elastic": ((), workload("old"), NO_SLICE),
    "the first": ((), placed(OLD), Slice(is_elastic=True)),
    "the next, which waits for quota": ((placed(OLD),), NEW, Slice(is_elastic=True, is_too_early=True)),
    "the next, which has quota before the first is finished": (
        (placed(OLD),),
        holding(NEW),
        Slice(is_elastic=True, stays="w1", is_too_early=True),
    ),
    "the next, once the first is finished": ((gone_by(OLD),), holding(NEW), Slice(is_elastic=True, stays="w1")),
    "the next, once the first is gone": ((), holding(NEW), Slice(is_elastic=True, stays="w1")),
    "the next, for which somebody else reserved": (
        (placed(OLD),),
        NEW.reserved("cq").check("mk"),
        Slice(is_elastic=True, stays="w1", is_too_early=True),
    ),
    "the same, once the first is finished": (
        (gone_by(OLD),),
        NEW.reserved("cq").check("mk"),
        Slice(is_elastic=True, stays="w1"),
    ),
    "the same, at its second attempt": (
        (gone_by(OLD),),
        NEW.reserved("cq").check("mk").condition("Evicted", "False", reason="QuotaReserved"),
        Slice(is_elastic=True),
    ),
    "the same, once the first was evicted": (
        (placed(OLD).evicted(),),
        NEW.reserved("cq").check("mk"),
        Slice(is_elastic=True, is_too_early=True),
    ),
    "the next, once it runs": ((gone_by(OLD),), placed(NEW), Slice(is_elastic=True)),
    "one that says that it replaces one of another job": (
        (placed(of_job("old", job="other")),),
        NEW,
        Slice(is_elastic=True),
    ),
    "the first, once the next has its place": ((placed(NEW),), gone_by(OLD), Slice(is_elastic=True, heir=("w1",))),
    "the first, while the next still waits": ((NEW,), gone_by(OLD), Slice(is_elastic=True, heir=("w1",))),
    "the first, once the third has its place": (
        (gone_by(NEW), placed(THIRD)),
        gone_by(OLD),
        Slice(is_elastic=True, heir=("w1",)),
    ),
    "the first, once the next is evicted": ((placed(NEW).evicted(),), gone_by(OLD), NO_SLICE),
    "the first, once the next is finished too": ((placed(NEW).finished(),), gone_by(OLD), NO_SLICE),
    "the first, once the next is being deleted": ((placed(NEW).deleted(),), gone_by(OLD), NO_SLICE),
}


@pytest.mark.parametrize(("others", "local", "joined"), JOINED.values(), ids=JOINED.keys())
def test_how_a_workload_is_joined(others: tuple[WorkloadBuilder, ...], local: WorkloadBuilder, joined: Slice) -> None:
    seen = local.build()
    assert slices(*others, local).of(seen.key, seen, is_job_running=False) == joined


OUT_OF_STEP = holding(NEW).finished("OutOfSync")

NOBODY: dict[str, tuple[tuple[WorkloadBuilder, ...], WorkloadBuilder, bool]] = {
    "the next is out of step for a moment": ((OUT_OF_STEP,), gone_by(OLD), True),
    "and the one out of step is itself looked at": ((gone_by(OLD),), OUT_OF_STEP, True),
    "the next is not seen": ((), gone_by(OLD), True),
    "the next was evicted": ((holding(NEW).evicted(),), gone_by(OLD), False),
    "the job has ended": ((placed(NEW).finished(),), placed(OLD).finished(), False),
}


@pytest.mark.parametrize(("others", "local", "keeps"), NOBODY.values(), ids=NOBODY.keys())
def test_while_the_job_runs_it_keeps_what_is_there(
    others: tuple[WorkloadBuilder, ...], local: WorkloadBuilder, keeps: bool
) -> None:
    """Kueue, beside which we run, may finish a slice in the moment of making it, and take that back."""
    seen, joined = local.build(), slices(*others, local)
    assert joined.of(seen.key, seen, is_job_running=True) == (
        Slice(is_elastic=True, heir=("w1",)) if keeps else NO_SLICE
    )
    assert joined.of(seen.key, seen, is_job_running=False) == NO_SLICE


def test_one_that_is_gone_has_an_heir_where_that_is() -> None:
    assert slices(placed(NEW)).of(ObjectKey("default", "old"), None, is_job_running=False) == Slice(
        is_elastic=True, heir=("w1",)
    )
    assert slices().of(ObjectKey("default", "old"), None, is_job_running=False) == NO_SLICE


BEFORE: dict[str, tuple[tuple[WorkloadBuilder, ...], WorkloadBuilder, tuple[str, ...]]] = {
    "the first has nobody before it": ((), OLD, ()),
    "what still has quota keeps what it has": ((placed(OLD),), NEW, ()),
    "what is finished leaves it": ((gone_by(OLD),), NEW, ("old",)),
    "as does all before": ((gone_by(OLD), gone_by(NEW)), THIRD, ("new", "old")),
    "and what is gone": ((), NEW, ("old",)),
    "what is finished inherits nothing": ((gone_by(OLD),), placed(NEW).finished(), ()),
    "nor does what is being deleted": ((gone_by(OLD),), NEW.deleted(), ()),
    "of another job there is nothing to inherit": ((gone_by(of_job("old", job="other")),), NEW, ()),
    "two that replace each other": (
        (gone_by(of_job("old", replaces="new")),),
        NEW,
        ("old",),
    ),
}


@pytest.mark.parametrize(("others", "local", "before"), BEFORE.values(), ids=BEFORE.keys())
def test_whose_objects_are_its_own(
    others: tuple[WorkloadBuilder, ...], local: WorkloadBuilder, before: tuple[str, ...]
) -> None:
    assert tuple(key.name for key in slices(*others, local).before(local.build())) == before


def test_two_that_replace_each_other_have_no_heir() -> None:
    one, other = gone_by(of_job("one", replaces="other")), gone_by(of_job("other", replaces="one"))
    assert slices(one, other).replacement(ObjectKey("default", "one")) is None


STAYS: dict[str, tuple[WorkloadBuilder, str | None]] = {
    "where the one before it runs": (placed(OLD), "w1"),
    "where the one before it is to stay itself": (holding(OLD), "w1"),
    "nowhere, if that does not run yet": (OLD.reserved("cq").check("mk").nominated("w1"), None),
    "nowhere, if that is being evicted": (placed(OLD).evicted(), None),
    "nowhere, if that is of another job": (placed(of_job("old", job="other")), None),
}


@pytest.mark.parametrize(("before", "cluster"), STAYS.values(), ids=STAYS.keys())
def test_where_it_is_to_stay(before: WorkloadBuilder, cluster: str | None) -> None:
    assert slices(before, NEW).stays(NEW.build()) == cluster


def test_the_successor_is_the_one_that_has_quota() -> None:
    assert slices(OLD, NEW).successor(OLD.build()) is None
    assert slices(OLD, holding(NEW)).successor(OLD.build()) == holding(NEW).build()
    assert slices(OLD, placed(NEW).finished()).successor(OLD.build()) is None


def asking(builder: WorkloadBuilder, pool: str, count: int) -> WorkloadBuilder:
    pods = pod_set(count=count)
    return builder.pod_sets(pods.node_selector(pool=pool) if pool else pods)


@pytest.mark.parametrize(
    ("seen", "later", "pool"),
    [
        ((asking(OLD, "", 1),), asking(NEW, "home", 2), None),
        ((asking(OLD, "mine", 1),), asking(NEW, "home", 2), "mine"),
        ((asking(OLD, "", 1), asking(NEW, "home", 2)), asking(THIRD, "home", 3), None),
        ((asking(NEW, "", 2),), asking(THIRD, "home", 3), None),
        ((), asking(NEW, "home", 2), "home"),
        ((asking(of_job("old", job="another"), "", 1),), asking(NEW, "home", 2), "home"),
        ((asking(of_job("old", replaces="new"), "", 1),), asking(NEW, "home", 2), None),
    ],
    ids=[
        "the demands of the flavors at home are not its user's",
        "its user's own demands stay",
        "the second after it goes by the first, too",
        "or by the first that is still there",
        "where none is, it is as it is",
        "that of another job is none",
        "two that name one another end somewhere",
    ],
)
def test_a_later_slice_asks_for_what_the_first_one_asked(
    seen: tuple[WorkloadBuilder, ...], later: WorkloadBuilder, pool: str | None
) -> None:
    asked = msgspec.json.decode(slices(*seen, later).as_asked(later.build()).spec)["podSets"]
    assert [(each["count"], each["template"]["spec"].get("nodeSelector", {}).get("pool")) for each in asked] == [
        (msgspec.json.decode(later.build().spec)["podSets"][0]["count"], pool)
    ]


def test_a_later_slice_that_asks_for_the_same_stays_the_same_value() -> None:
    later = asking(NEW, "", 2).build()
    assert slices(asking(OLD, "", 1)).as_asked(later) is later
