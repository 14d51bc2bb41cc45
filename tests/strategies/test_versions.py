"""The filter `versions`: what it refuses by the release of Kueue on a worker, and in which words."""

from __future__ import annotations

import pytest

from multikueue.strategy import Worker
from multikueue.testing import check_strategy, fleet, strategy_workload
from multikueue_strategies.versions import Versions

NOBODY = fleet().build()
JOB_SET = strategy_workload().kind("JobSet").build()


@pytest.mark.parametrize(
    "part", [Versions(), Versions(least="0.18", kinds={"JobSet": "0.19"})], ids=["without options", "with options"]
)
def test_it_keeps_the_contract(part: Versions) -> None:
    check_strategy(part)


@pytest.mark.parametrize(
    ("part", "kueue", "refusal"),
    [
        pytest.param(Versions(), "0.20.3", "Kueue 0.20.3 is excluded", id="a conversion that is broken"),
        pytest.param(Versions(), "0.20.6", "", id="a conversion that works again"),
        pytest.param(Versions(), "0.20", "", id="a minor of which some have a broken one"),
        pytest.param(Versions(), "", "", id="a release that is not known"),
        pytest.param(Versions(least="0.18"), "0.16.2", "Kueue 0.16.2 is older than 0.18", id="older than the oldest"),
        pytest.param(Versions(least="0.18"), "0.18.2", "", id="the oldest"),
        pytest.param(Versions(least="0.18.2"), "0.18", "", id="perhaps older than the oldest"),
        pytest.param(Versions(least="0.18.2"), "0.17", "Kueue 0.17 is older than 0.18.2", id="surely older"),
        pytest.param(Versions(least="0.20"), "0.19+", "", id="perhaps newer than its definitions"),
        pytest.param(
            Versions(kinds={"JobSet": "0.19"}),
            "0.18.2",
            "Kueue 0.18.2 is older than 0.19 for kind JobSet",
            id="its kind",
        ),
        pytest.param(Versions(kinds={"RayJob": "0.19"}), "0.18.2", "", id="another kind"),
        pytest.param(Versions(exclude=("0.19.1", "0.17")), "0.19.1", "Kueue 0.19.1 is excluded", id="one release"),
        pytest.param(Versions(exclude=("0.19.1", "0.17")), "0.17.4", "Kueue 0.17.4 is excluded", id="a whole minor"),
        pytest.param(Versions(exclude=()), "0.20.3", "", id="nothing excluded"),
        pytest.param(Versions(least="0.18"), "of tomorrow", "", id="words that are no release"),
    ],
)
def test_workers_are_refused_by_their_release(part: Versions, kueue: str, refusal: str) -> None:
    assert part.refuses(JOB_SET, Worker(name="w1", kueue=kueue), NOBODY) == refusal


@pytest.mark.parametrize(
    "options",
    [{"least": "new"}, {"kinds": {"JobSet": "v0.19"}}, {"exclude": ("0.20.0-",)}, {"exclude": ("",)}],
    ids=["the oldest", "that of a kind", "an open end", "nothing"],
)
def test_what_is_no_release_is_refused(options: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"expected a release of Kueue such as 0.19"):
        Versions(**options)  # type: ignore[arg-type]
