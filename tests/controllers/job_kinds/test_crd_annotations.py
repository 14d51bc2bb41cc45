"""Definitions that declare their kinds: what is read of them, who is told what, and what that means for those in use."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import anyio
import pytest
from structlog.testing import capture_logs

from multikueue.api.kubernetes.definition import Definition, DefinitionSpec, Names, Version
from multikueue.api.meta import ObjectMeta
from multikueue.controllers.job_kinds.crd_annotations import AnnotatedKinds, annotated_kinds
from multikueue.controllers.reconcile.events import Recorder
from multikueue.jobs.integrations.frameworks import Adapters
from multikueue.jobs.kinds.declared.declaration import KIND_ANNOTATION
from multikueue.quota.engine import Engine
from multikueue.store.queues import NoQueues
from multikueue.store.store import Store
from multikueue.store.views import Views
from multikueue.testing import NOW
from tests.controllers.job_kinds.test_availability import owned, store
from tests.jobs.gadgets import WITH_GADGETS, gadget
from tests.kube.server import client_of, lists, refuses, streams

pytestmark = pytest.mark.anyio

PODS = "pods: [{at: spec.workers}]"


def definition(text: str | None = PODS, *, kind: str = "Gadget", **spec: Any) -> Definition:
    names = Names(plural=f"{kind.lower()}s", kind=kind)
    annotations = {} if text is None else {KIND_ANNOTATION: text}
    return Definition(
        metadata=ObjectMeta(name=f"{names.plural}.example.com", uid=f"{kind}{text}{spec}", annotations=annotations),
        spec=DefinitionSpec(
            **{
                "group": "example.com",
                "names": names,
                "scope": "Namespaced",
                "versions": (Version(name="v1", served=True, storage=True),),
                **spec,
            }
        ),
    )


def reading(*definitions: Definition, taken: tuple[str, ...] = ()) -> AnnotatedKinds:
    kinds = AnnotatedKinds(taken, is_enabled=True)
    kinds._definitions.replace(definitions)
    return kinds


def test_the_names_of_a_kind_are_those_of_its_definition() -> None:
    (kind,) = reading(definition(), definition(None, kind="Other")).take().kinds
    assert (kind.group, kind.version, kind.plural, kind.kind) == ("example.com", "v1", "gadgets", "Gadget")


def test_the_kinds_that_make_sense_are_told_without_a_manager() -> None:
    definitions = [definition(), definition("pods: 7", kind="Other"), definition(None, kind="Plain")]
    (kind,) = annotated_kinds(definitions)
    assert kind.name == "Gadget.example.com"
    assert annotated_kinds(definitions, taken=[kind.name]) == ()


def test_the_version_is_the_one_that_is_stored_as_long_as_it_is_served() -> None:
    def version(*versions: Version) -> list[str]:
        return [kind.version for kind in reading(definition(versions=versions)).take().kinds]

    old, new = Version(name="v1", served=True), Version(name="v2", served=True, storage=True)
    gone = Version(name="v2", served=False, storage=True)
    assert [version(old, new), version(old, gone), version(gone)] == [["v2"], ["v1"], []]


@pytest.mark.parametrize(
    ("wrong", "expected"),
    [
        pytest.param(definition("pods: [{at: spec, cuont: n}]"), "pods[0].cuont: expected 'count'", id="no field"),
        pytest.param(definition(""), "pods: expected a value", id="nothing is said"),
        pytest.param(definition("suspend: spec.suspend\nkind: x"), "; kind: expected", id="two things at once"),
        pytest.param(definition("a: ["), "expected YAML", id="no YAML"),
        pytest.param(definition("name: x"), "name: expected none", id="a name of its own"),
        pytest.param(definition("pods: [{at: spec..x}]"), "expected a path such as", id="no path"),
        pytest.param(definition(scope="Cluster"), "expected a definition of scope Namespaced", id="no namespace"),
        pytest.param(definition(versions=()), "with a version that is served", id="no version"),
        pytest.param(definition(kind="Known"), "the settings, or another one, declare it already", id="declared twice"),
    ],
)
def test_what_makes_no_sense_is_told_once_and_hurts_no_other_kind(wrong: Definition, expected: str) -> None:
    with capture_logs() as logs:
        kinds = reading(wrong, definition(kind="Other"), taken=("Known.example.com",))
        kinds._definitions.upsert(definition(kind="Third"))
    (line,) = logs
    assert (line["event"], line["definition"]) == ("jobs.kind_misdeclared", wrong.metadata.name)
    assert expected in line["why"]
    assert [kind.kind for kind in kinds.take().kinds] == ["Other", "Third"]
    assert kinds.take().unclear == {f"{wrong.spec.names.kind}.example.com"}


async def test_what_is_wrong_is_told_on_the_definition_too() -> None:
    kinds, recorder = reading(definition("pods: 3")), Recorder(lambda: NOW)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(kinds.report_problems, recorder)
        await anyio.wait_all_tasks_blocked()
        kinds._definitions.upsert(definition("pods: 4", kind="Later"))
        await anyio.wait_all_tasks_blocked()
        tasks.cancel_scope.cancel()
    told = [
        (body["metadata"]["namespace"], body["involvedObject"]["name"], body["reason"]) for body in recorder.waiting()
    ]
    assert told == [(("default", f"{name}s.example.com", "KindMisdeclared")) for name in ("gadget", "later")]


async def test_only_other_kinds_than_those_in_use_are_a_change() -> None:
    kinds = reading(definition())
    kinds.take()
    ended = anyio.Event()

    async def wait() -> None:
        await kinds.changed()
        ended.set()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(wait)
        labelled = ObjectMeta(**{**_fields(definition().metadata), "labels": {"a": "b"}, "resource_version": "9"})
        kinds._definitions.upsert(Definition(metadata=labelled, spec=definition().spec))
        kinds._definitions.upsert(definition("pods: 4", kind="Wrong"))
        await anyio.wait_all_tasks_blocked()
        assert (ended.is_set(), kinds.is_stale) == (False, False)
        kinds._definitions.upsert(definition(kind="Other"))
        await anyio.wait_all_tasks_blocked()
        assert ended.is_set()


def _fields(meta: ObjectMeta) -> Mapping[str, Any]:
    return {name: getattr(meta, name) for name in ObjectMeta.__struct_fields__}


async def test_what_may_not_be_seen_declares_nothing_and_keeps_nobody_waiting() -> None:
    kinds = AnnotatedKinds(is_enabled=True)
    async with client_of(refuses(403, "Forbidden", "you may not")) as (client, _), anyio.create_task_group() as tasks:
        tasks.start_soon(kinds.run, client)
        with anyio.fail_after(5):
            await kinds.known()
        tasks.cancel_scope.cancel()
    assert kinds.take().kinds == ()


async def test_what_is_there_is_known_before_anything_is_taken() -> None:
    body = {
        "metadata": {"name": "gadgets.example.com", "uid": "u", "annotations": {KIND_ANNOTATION: PODS}},
        "spec": {
            "group": "example.com",
            "names": {"plural": "gadgets", "kind": "Gadget", "singular": "gadget"},
            "scope": "Namespaced",
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {}}}],
        },
    }
    kinds = AnnotatedKinds(is_enabled=True)
    async with client_of(lists(body), streams(then="silence")) as (client, _), anyio.create_task_group() as tasks:
        tasks.start_soon(kinds.run, client)
        with anyio.fail_after(5):
            await kinds.known()
        assert [kind.kind for kind in kinds.take().kinds] == ["Gadget"]
        tasks.cancel_scope.cancel()


async def test_who_does_not_look_waits_for_nothing() -> None:
    kinds = AnnotatedKinds()
    async with client_of() as (client, script):
        await kinds.run(client)
        await kinds.known()
    assert not script.requests
    assert kinds.take().kinds == ()


@pytest.mark.parametrize(
    "known",
    [
        pytest.param(store(WITH_GADGETS), id="of a kind that the manager cluster does not show"),
        pytest.param(
            Store(Engine(), NoQueues(), lambda: NOW, adapters=Adapters((), unclear={"Gadget.example.com"})),
            id="of a kind that is declared badly",
        ),
    ],
)
def test_of_a_workload_whose_kind_nobody_shows_nothing_is_taken_for_gone(known: Store) -> None:
    mine = owned("wl", gadget("g"))
    known.workloads.upsert(mine)
    assert not Views(known).seen(mine.key, "w1").is_reachable
    assert Views(known)._problem(mine, None) == ""
