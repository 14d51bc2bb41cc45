"""Which verdicts are news after which."""

from __future__ import annotations

import pytest

from multikueue.api.kueue.workload import PodSetRequest
from multikueue.quota.workload.outcome import LOST, OVERLAPPING, Verdict, is_news
from tests.quota.builders import Play, key_of, wants

NONE = "couldn't assign flavors to pod set"
SHORT = "insufficient unused quota for {} in flavor {}, {} more needed"
LARGE = (
    "insufficient quota for cpu in flavor b, previously considered podsets requests ({}) + current podset request (9) > "
    "maximum capacity ({})"
)
TAINT = "untolerated taint {gpu NoSchedule <nil>} in flavor c"


def short(resource: str = "cpu", flavor: str = "a", missing: str = "4") -> str:
    return SHORT.format(resource, flavor, missing)


def said(*reasons: str, pod_set: str = "main") -> str:
    return f"{NONE} {pod_set}: {', '.join(reasons)}"


PENDING = ". Pending the preemption of {} workload(s)"

NO_NEWS = {
    "the same": (said(short()), said(short())),
    "another amount is missing": (said(short(missing="3500m")), said(short())),
    "another resource is missing": (said(short("memory", missing="3Gi")), said(short())),
    "another flavor lacks it": (said(short(flavor="b")), said(short())),
    "two resources are missing": (said(short(), short("memory")), said(short())),
    "one resource is missing": (said(short("example.com/gpu")), said(short(), short("example.com/gpu"))),
    "another pod set gets none": (said(short(), pod_set="worker"), said(short(), pod_set="head")),
    "two pod sets get none": (f"{said(short())}; {said(short(), pod_set='worker')}", said(short())),
    "amounts before what lasts": (said(short(missing="1"), TAINT), said(short(), TAINT)),
    "amounts behind what lasts": (
        said(LARGE.format("0", "8"), short(missing="1")),
        said(LARGE.format("0", "8"), short()),
    ),
    "amounts about what lasts": (said(short(), TAINT, short(flavor="d")), said(TAINT, short())),
    "what its other pod sets take": (said(LARGE.format("3", "8")), said(LARGE.format("0", "8"))),
    "fewer are on their way out": (said(short()) + PENDING.format(1), said(short(missing="9")) + PENDING.format(3)),
    "another one was faster": (LOST, said(short())),
    "another one preempts": (OVERLAPPING, said(short())),
}

NEWS = {
    "quota is missing": (said(short()), "The workload is deactivated"),
    "quota is missing, after a lost contest": (said(short()), LOST),
    "a taint": (said(short(), TAINT), said(short())),
    "no taint any more": (said(short()), said(short(), TAINT)),
    "no quota is missing, only a taint is in the way": (said(TAINT, pod_set="worker"), said(short())),
    "it is larger than all there is": (said(LARGE.format("0", "8")), said(short())),
    "there is more than there was": (said(LARGE.format("0", "16")), said(LARGE.format("0", "8"))),
    "others are on their way out": (said(short()) + PENDING.format(1), said(short())),
    "nobody is on the way out any more": (said(short()), said(short()) + PENDING.format(1)),
    "a contest lost after an eviction": (LOST, "Preempted to accommodate a workload"),
    "its namespace": ("Workload namespace doesn't match ClusterQueue selector", said(short())),
}


@pytest.mark.parametrize("what", NO_NEWS)
def test_amounts_that_moved_are_no_news(what: str) -> None:
    assert not is_news(*NO_NEWS[what])


@pytest.mark.parametrize("what", NEWS)
def test_what_lasts_is_news(what: str) -> None:
    assert is_news(*NEWS[what])


def test_so_is_another_reason_and_another_demand() -> None:
    told = Verdict(said(short()))
    assert Verdict(said(short(missing="2"))).is_news_after(None)
    assert not Verdict(said(short(missing="2"))).is_news_after(told)
    assert Verdict(told.message, reason="WaitingForQuota").is_news_after(told)
    assert Verdict(told.message, (PodSetRequest(name="main"),)).is_news_after(told)


@pytest.mark.parametrize("waiting", [1, 2, 5])
def test_what_the_engine_says_of_any_of_them_has_the_amounts_of_now(waiting: int) -> None:
    """And the texts are those that a cycle writes."""
    play = Play.with_queue(cpu=4)
    play.submit(*(wants(f"small-{n}", cpu="1") for n in range(4)))
    play.settle()
    names = [f"large-{n}" for n in range(waiting)]
    play.submit(*(wants(name, cpu="4") for name in names))
    play.settle()
    assert {play.verdict(name) for name in names} == {said(short(flavor="default"))}
    for left in (3, 2, 1):
        play.finish(f"small-{left}")
        play.wait(1)
        play.settle()
        assert {play.verdict(name) for name in names} == {said(short(flavor="default", missing=str(left)))}
        texts = {each.message for name in names for each in play.workloads[key_of(name)].status.conditions}
        assert texts == {said(short(flavor="default"))}
