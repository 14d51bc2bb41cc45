"""What may be read of what a cluster goes by when it makes pods."""

from __future__ import annotations

import pytest

from fakekube.model.wire import Refused
from multikueue.api.kinds import LIMIT_RANGES, PRIORITY_CLASSES
from multikueue.cli.workload.pod_policies import Elsewhere, print_elsewhere, read_policies, unread
from multikueue.quota.visibility.differences import COMPARED, MISSING, Difference
from tests.cli.cluster import Cluster, Fake

pytestmark = pytest.mark.anyio


@pytest.fixture
def cluster() -> Cluster:
    """With a LimitRange in each of three namespaces, and a class."""
    made = Cluster("w")
    for namespace in ("a", "b", "c"):
        made.add(LIMIT_RANGES, {"metadata": {"name": f"limits-{namespace}", "namespace": namespace}})
    made.add(PRIORITY_CLASSES, {"metadata": {"name": "high"}, "value": 100})
    return made


@pytest.mark.parametrize(
    ("namespaces", "found"),
    [((""), []), (("",), ["limits-a", "limits-b", "limits-c"]), (("c", "a"), ["limits-c", "limits-a"])],
    ids=["of no namespace", "of all", "of some"],
)
async def test_objects_of_the_namespaces_are_read_and_those_without_one(
    cluster: Cluster, namespaces: tuple[str, ...], found: list[str]
) -> None:
    read = await read_policies(Fake(cluster), namespaces)

    assert [each.metadata.name for each in read.limit_ranges or ()] == found
    assert {(each.metadata.name, each.value) for each in read.priority_classes or ()} >= {("high", 100)}
    assert unread(read) == []


@pytest.mark.parametrize("field", COMPARED)
async def test_a_kind_that_may_not_be_listed_is_not_known(cluster: Cluster, field: str) -> None:
    plural = COMPARED[field].plural
    cluster.fault = lambda _, asked: Refused(403, "Forbidden", "no") if asked == plural else None

    read = await read_policies(Fake(cluster), ("a",))

    assert getattr(read, field) is None
    assert unread(read) == [plural]


async def test_a_kind_that_is_not_served_has_no_objects(cluster: Cluster) -> None:
    cluster.fault = lambda _, asked: Refused(404, "NotFound", "no") if asked == "resourceclaimtemplates" else None

    assert (await read_policies(Fake(cluster), ("a",))).claim_templates == []


def test_what_is_the_same_everywhere_is_not_told(capsys: pytest.CaptureFixture[str]) -> None:
    print_elsewhere([], [])
    assert capsys.readouterr().out == ""
    missing = Difference(
        subject="PriorityClass high", field="", manager="there", worker=MISSING, meaning="no pods", advice="create it"
    )
    print_elsewhere([Elsewhere("w1", missing)], [])
    assert "  On w1, PriorityClass high: " in capsys.readouterr().out
