"""Whether two clients lead to one cluster: what is written through one is read through the other."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from multikueue.api.kinds import WORKLOADS
from multikueue.api.kueue.workload import ORIGIN_LABEL
from multikueue.api.meta import ObjectKey
from multikueue.errors import ClusterUnreachable, Forbidden, Invalid, MultiKueueError, NotLeading, ServerError
from multikueue.kube.nonce import NONCE_ANNOTATION, PROOF_LABEL, Unproven, common_place, is_same_cluster, proof_key
from multikueue.testing import NOW
from tests.cluster import Cluster

pytestmark = pytest.mark.anyio

KEY = proof_key("kube-system", "multikueue", "w2")


def cluster(name: str) -> Cluster:
    return Cluster(name, lambda: NOW)


def failing(verb: str, error: MultiKueueError) -> Callable[[str, str], MultiKueueError | None]:
    return lambda asked, plural: error if (asked, plural) == (verb, WORKLOADS.plural) else None


async def test_what_is_written_through_one_name_is_read_through_another_of_the_same_cluster() -> None:
    one = cluster("one")
    assert await is_same_cluster(one, one, KEY)
    assert one.all(WORKLOADS) == []


async def test_another_cluster_does_not_show_it() -> None:
    one, other = cluster("one"), cluster("other")
    assert not await is_same_cluster(one, other, KEY)
    assert one.all(WORKLOADS) == other.all(WORKLOADS) == []
    assert other.calls == ["get workloads"], "nothing is written through the name that was first"


async def test_what_is_written_is_of_no_queue_and_no_copy_of_ours() -> None:
    one, other = cluster("one"), cluster("other")
    one.fault = failing("delete", ServerError(500, "InternalError", "no"))
    await is_same_cluster(one, other, KEY)
    (left,) = one.all(WORKLOADS)
    assert "queueName" not in left["spec"]
    assert ORIGIN_LABEL not in left["metadata"]["labels"]


async def test_what_was_left_is_used_again_with_another_nonce() -> None:
    one, other = cluster("one"), cluster("other")
    nonces = []
    for _ in range(3):
        one.fault = failing("delete", ServerError(500, "InternalError", "no"))
        assert not await is_same_cluster(one, other, KEY)
        (left,) = one.all(WORKLOADS)
        nonces.append(left["metadata"]["annotations"][NONCE_ANNOTATION])
        other.put(WORKLOADS, left)  # who saw the last one does not know the next
    assert len(set(nonces)) == 3
    one.fault = lambda *_: None
    assert await is_same_cluster(one, one, KEY)
    assert one.all(WORKLOADS) == []


async def test_a_strangers_object_of_that_name_is_left_alone() -> None:
    one = cluster("one")
    stranger = {"metadata": {"name": KEY.name, "namespace": KEY.namespace}, "spec": {}}
    one.put(WORKLOADS, stranger)
    with pytest.raises(Unproven, match=PROOF_LABEL):
        await is_same_cluster(one, one, KEY)
    assert one.written == []


@pytest.mark.parametrize(
    ("verb", "error"),
    [
        ("create", Forbidden(403, "Forbidden", "no")),
        ("create", Invalid(422, "Invalid", "a policy")),
        ("create", ClusterUnreachable("w2", "no answer")),
        ("create", NotLeading("another one leads")),
        ("get", ServerError(500, "InternalError", "no")),
    ],
    ids=str,
)
async def test_nothing_is_told_where_the_writer_fails(verb: str, error: MultiKueueError) -> None:
    one, other = cluster("one"), cluster("other")
    one.fault = failing(verb, error)
    with pytest.raises(Unproven) as found:
        await is_same_cluster(one, other, KEY)
    assert not found.value.is_by_reader
    assert one.all(WORKLOADS) == []


async def test_nothing_is_told_if_it_is_removed_before_it_is_looked_for() -> None:
    one, other = cluster("one"), cluster("other")

    def removed(_verb: str, _plural: str) -> None:
        one.drop(WORKLOADS, KEY)

    other.fault = removed
    with pytest.raises(Unproven, match="does not stay"):
        await is_same_cluster(one, other, KEY)


@pytest.mark.parametrize(
    "error", [ServerError(500, "InternalError", "no"), ClusterUnreachable("w1", "no answer")], ids=str
)
async def test_a_reader_without_an_answer_tells_nothing(error: MultiKueueError) -> None:
    one, other = cluster("one"), cluster("other")
    other.fault = failing("get", error)
    with pytest.raises(Unproven) as found:
        await is_same_cluster(one, other, KEY)
    assert found.value.is_by_reader
    assert one.all(WORKLOADS) == []


async def test_a_reader_that_refuses_does_not_show_it() -> None:
    """Otherwise who was there first could keep another one out by refusing."""
    one, other = cluster("one"), cluster("other")
    other.fault = failing("get", Forbidden(403, "Forbidden", "no"))
    assert not await is_same_cluster(one, other, KEY)


NAMES = st.just(("",)) | st.lists(st.sampled_from("abcd"), max_size=3, unique=True).map(tuple)


@given(NAMES, NAMES)
def test_the_place_is_one_that_both_offer(one: tuple[str, ...], other: tuple[str, ...]) -> None:
    place = common_place(one, other)
    assert all(place in names for names in (one, other) if names != ("",)) or (
        place == "" and not set(one) & set(other) - {""}
    )
    assert (place == "kube-system") == (one == other == ("",))


def test_each_manager_and_name_has_an_object_of_its_own() -> None:
    keys = {proof_key("ns", origin, name) for origin in ("a", "b", "B") for name in ("w1", "w2", "x" * 242)}
    assert len(keys) == 9
    assert all(len(key.name) <= 63 for key in keys)
    assert proof_key("ns", "a", "w1") == ObjectKey("ns", proof_key("other", "a", "w1").name)
