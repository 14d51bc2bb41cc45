"""Which objects of a cluster belong to a workload; `tests/cli/workload/test_related_objects.py` has it over HTTP."""

from __future__ import annotations

import pytest

from multikueue.api.kubernetes.printed import WORKLOAD_ANNOTATION, Reference
from multikueue.api.meta import ObjectMeta, OwnerReference
from multikueue.errors import NotFound
from multikueue.kube.relatives import Relatives, kind_called
from tests.controllers.serving.worker import Side, train

pytestmark = pytest.mark.anyio


def owned(uid: str, *, name: str = "train", kind: str = "Job") -> ObjectMeta:
    owner = OwnerReference(api_version="batch/v1", kind=kind, name=name, uid=uid, controller=True)
    return ObjectMeta(name="p", namespace="team", uid="p", owner_references=(owner,))


@pytest.mark.parametrize(
    ("meta", "belongs"),
    [
        pytest.param(ObjectMeta(annotations={WORKLOAD_ANNOTATION: "job-train"}), True, id="it is marked"),
        pytest.param(ObjectMeta(annotations={WORKLOAD_ANNOTATION: "job-other"}), False, id="as another's"),
        pytest.param(owned("there"), True, id="its owner is our job"),
        pytest.param(owned("before"), False, id="its owner was an earlier job of that name"),
        pytest.param(owned("there", name="../../../secrets/x"), False, id="a name that leads elsewhere"),
        pytest.param(owned("there", kind="Nonsense"), False, id="a kind that nobody knows"),
    ],
)
async def test_who_belongs_to_it(meta: ObjectMeta, belongs: bool) -> None:
    assert await Relatives(Side().worker, train()).has(meta) is belongs


@pytest.mark.parametrize("api_version", ["v1?x=/y", "v1/../../api", "apps/v1#", "a/b?limit=1"])
async def test_an_api_version_leads_to_groups_and_versions_only(api_version: str) -> None:
    side, paths = Side(), list[str]()

    async def request(_method: str, path: str, **_more: object) -> bytes:
        paths.append(path)
        return b"{}"

    side.worker.request = request  # type: ignore[method-assign, assignment]
    owner = OwnerReference(api_version=api_version, kind="Job", name="train", uid="there", controller=True)
    assert not await Relatives(side.worker, train()).has(ObjectMeta(name="p", uid="p", owner_references=(owner,)))
    (path,) = paths
    assert not set("?#") & set(path)
    assert path.count("/") <= 3


async def test_an_owner_is_read_once() -> None:
    side = Side()
    relatives = Relatives(side.worker, train())
    assert [await relatives.has(owned("there")) for _ in range(3)] == [True] * 3
    assert side.worker.calls.count("get jobs") == 1


async def test_a_wrong_name_beside_an_owners_uid_says_nothing_about_that_owner() -> None:
    relatives = Relatives(Side().worker, train())
    assert [await relatives.has(owned("there", name=name)) for name in ("other", "train")] == [False, True]


async def test_beyond_the_bound_nobody_belongs_to_it_and_that_is_told() -> None:
    relatives = Relatives(Side().worker, train(), most=1)
    assert (await relatives.has(owned("other", name="other")), relatives.gave_up) == (False, False)
    assert (await relatives.has(owned("there")), relatives.gave_up) == (False, True)


async def test_events_are_about_it_by_name_or_by_what_was_found() -> None:
    relatives = Relatives(Side().worker, train())
    pod = Reference(kind="Pod", name="p", uid="p")
    assert not relatives.is_about_relative(pod)
    await relatives.has(owned("there"))
    assert relatives.is_about_relative(pod)
    assert relatives.is_about_relative(Reference(kind="Workload", name="job-train"))
    assert relatives.is_about_relative(Reference(kind="Job", name="train"))
    assert not relatives.is_about_relative(Reference(kind="Job", name="other"))


SERVED = b"""{"resources": [
    {"name": "configmaps", "kind": "ConfigMap", "shortNames": ["cm"]},
    {"name": "pods/log", "kind": "Pod"},
    {"name": "pods", "kind": "Pod", "shortNames": ["po"]}
]}"""


@pytest.mark.parametrize(
    ("word", "found"),
    [
        pytest.param("ConfigMap", ("ConfigMap", "configmaps"), id="the kind"),
        pytest.param("configmaps", ("ConfigMap", "configmaps"), id="its plural"),
        pytest.param("cm", ("ConfigMap", "configmaps"), id="its short name"),
        pytest.param("po", ("Pod", "pods"), id="a kind with something below it"),
        pytest.param("nonsense", None, id="a word that means nothing"),
    ],
)
async def test_a_word_stands_for_a_kind_as_in_kubectl(word: str, found: tuple[str, str] | None) -> None:
    side = Side()

    async def request(_method: str, _path: str, **_more: object) -> bytes:
        return SERVED

    side.worker.request = request  # type: ignore[method-assign, assignment]
    assert await kind_called(side.worker, "v1", word) == found


async def test_a_group_that_is_not_served_has_no_kinds() -> None:
    side = Side()

    async def request(_method: str, path: str, **_more: object) -> bytes:
        raise NotFound(404, "NotFound", path)

    side.worker.request = request  # type: ignore[method-assign, assignment]
    assert await kind_called(side.worker, "apps/v1", "deploy") is None
