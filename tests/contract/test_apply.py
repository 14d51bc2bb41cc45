"""Server-side apply: who owns which field."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.contract.builders import GROUP_VERSION, condition, config_map, job, lease, widget
from tests.contract.server import Object
from tests.contract.space import APPLY, JSON_PATCH, Collection, Space

pytestmark = pytest.mark.anyio


def owned(found: Object) -> dict[str, Any]:
    """Manager, operation and subresource to the fields it owns."""
    return {
        "/".join(filter(None, (each["manager"], each["operation"], each.get("subresource")))): each["fieldsV1"]
        for each in found["metadata"].get("managedFields", [])
    }


async def test_an_apply_of_nothing_creates(widgets: Collection) -> None:
    made = (await widgets.apply(widget("a", size=2))).good(201)
    assert (made["spec"]["size"], made["spec"]["mode"]) == (2, "Fast")
    assert (await widgets.apply(widget("a", size=3))).good(200)["spec"]["size"] == 3


async def test_an_apply_owns_what_it_names(widgets: Collection) -> None:
    made = (await widgets.apply(widget("a", size=2, parts=[{"name": "x"}], tags=["t"]))).good(201)
    [entry] = made["metadata"]["managedFields"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", entry.pop("time"))
    assert entry == {
        "manager": "contract",
        "operation": "Apply",
        "apiVersion": GROUP_VERSION,
        "fieldsType": "FieldsV1",
        "fieldsV1": {
            "f:spec": {
                "f:size": {},
                "f:parts": {'k:{"name":"x"}': {".": {}, "f:name": {}}},
                "f:tags": {'v:"t"': {}},
            }
        },
    }


async def test_a_plain_write_owns_what_it_changes(widgets: Collection) -> None:
    made = (await widgets.create(widget("a", notes={"k": "v"}), fieldManager="one")).good(201)
    own: Object = {
        "f:spec": {
            ".": {},
            "f:mode": {},
            "f:notes": {".": {}, "f:k": {}},
            "f:policy": {".": {}, "f:retries": {}},
            "f:size": {},
        }
    }
    assert owned(made) == {"one/Update": own}
    patched = (await widgets.patch("a", {"spec": {"size": 3}}, fieldManager="two")).good(200)
    del own["f:spec"]["f:size"]
    assert owned(patched) == {"one/Update": own, "two/Update": {"f:spec": {"f:size": {}}}}


CONTAINER: Object = {
    ".": {},
    **{f"f:{name}": {} for name in ("image", "imagePullPolicy", "name")},
    **{f"f:{name}": {} for name in ("terminationMessagePath", "terminationMessagePolicy")},
    "f:resources": {".": {}, "f:requests": {".": {}, "f:cpu": {}}},
}
POD: Object = {
    "f:containers": {'k:{"name":"main"}': CONTAINER},
    **{f"f:{name}": {} for name in ("dnsPolicy", "restartPolicy", "schedulerName", "securityContext")},
    "f:terminationGracePeriodSeconds": {},
}


async def test_what_a_kind_always_has_is_not_owned_as_a_whole(space: Space, jobs: Collection) -> None:
    made = (await jobs.create(job("a"), fieldManager="one")).good(201)
    fields: Object = {f"f:{name}": {} for name in ("backoffLimit", "completionMode", "completions", "manualSelector")}
    fields |= {f"f:{name}": {} for name in ("parallelism", "podReplacementPolicy", "suspend")}
    assert owned(made) == {"one/Update": {"f:spec": {**fields, "f:template": {"f:spec": POD}}}}

    leases = space.of("coordination.k8s.io/v1", "leases")
    made = (await leases.create(lease("a", holderIdentity="me"), fieldManager="one")).good(201)
    assert owned(made) == {"one/Update": {"f:spec": {"f:holderIdentity": {}}}}


async def test_what_nobody_owns_is_not_minded_until_it_is_applied(space: Space) -> None:
    leases = space.of("coordination.k8s.io/v1", "leases")
    assert owned(await leases.made(lease("a"))) == {}
    patched = (await leases.patch("a", {"spec": {"holderIdentity": "me"}}, fieldManager="one")).good(200)
    assert owned(patched) == {}
    applied = (await leases.apply(lease("a", leaseDurationSeconds=15), manager="two")).good(200)
    assert set(owned(applied)) == {"before-first-apply/Update", "two/Apply"}


async def test_a_write_of_status_is_owned_apart(widgets: Collection) -> None:
    await widgets.create(widget("a"), fieldManager="one")
    status = {"conditions": [condition("Ready", "True")]}
    patched = (await widgets.patch("a", {"status": status}, "status", fieldManager="one")).good(200)
    fields: Object = {f"f:{name}": {} for name in ("lastTransitionTime", "message", "reason", "status", "type")}
    assert owned(patched)["one/Update/status"] == {
        "f:status": {".": {}, "f:conditions": {".": {}, 'k:{"type":"Ready"}': {".": {}, **fields}}}
    }


async def test_a_field_of_another_manager_is_a_conflict(widgets: Collection) -> None:
    made = (await widgets.apply(widget("a", size=2), manager="one")).good(201)
    refusal = (await widgets.apply(widget("a", size=3), manager="two")).refused(409, "Conflict")
    assert refusal["message"] == 'Apply failed with 1 conflict: conflict with "one": .spec.size'
    assert refusal["details"] == {
        "causes": [{"reason": "FieldManagerConflict", "message": 'conflict with "one"', "field": ".spec.size"}]
    }
    assert await widgets.got("a") == made


async def test_several_conflicts_are_told_together(widgets: Collection) -> None:
    await widgets.apply(widget("a", size=2, title="abc"), manager="one")
    refusal = (await widgets.apply(widget("a", size=3, title="def"), manager="two")).refused(409, "Conflict")
    assert refusal["message"] == 'Apply failed with 2 conflicts: conflicts with "one":\n- .spec.size\n- .spec.title'
    assert [cause["field"] for cause in refusal["details"]["causes"]] == [".spec.size", ".spec.title"]


async def test_a_conflict_with_a_plain_write_names_its_version(maps: Collection) -> None:
    await maps.create(config_map("a", key="1"), fieldManager="one")
    refusal = (await maps.apply(config_map("a", key="2"), manager="two")).refused(409, "Conflict")
    assert refusal["message"].startswith('Apply failed with 1 conflict: conflict with "one" using v1')
    assert refusal["message"].endswith(": .data.key")


async def test_who_applies_the_same_shares_the_field(widgets: Collection) -> None:
    await widgets.apply(widget("a", size=2), manager="one")
    both = (await widgets.apply(widget("a", size=2), manager="two")).good(200)
    assert {name: "f:size" in fields["f:spec"] for name, fields in owned(both).items()} == {
        "one/Apply": True,
        "two/Apply": True,
    }
    (await widgets.apply(widget("a", size=3), manager="one")).refused(409, "Conflict")


async def test_force_takes_the_field_over(widgets: Collection) -> None:
    await widgets.apply(widget("a", size=2, title="abc"), manager="one")
    taken = (await widgets.apply(widget("a", size=3), manager="two", force=True)).good(200)
    assert taken["spec"]["size"] == 3
    assert owned(taken) == {
        "one/Apply": {"f:spec": {"f:title": {}}},
        "two/Apply": {"f:spec": {"f:size": {}}},
    }


async def test_what_a_manager_names_no_more_goes(maps: Collection) -> None:
    await maps.apply(config_map("a", x="1", y="2"), manager="one")
    applied = (await maps.apply(config_map("a", x="1"), manager="one")).good(200)
    assert applied["data"] == {"x": "1"}


async def test_what_another_owns_too_stays(maps: Collection) -> None:
    await maps.apply(config_map("a", x="1", y="2"), manager="one")
    await maps.apply(config_map("a", y="2"), manager="two")
    applied = (await maps.apply(config_map("a", x="1"), manager="one")).good(200)
    assert applied["data"] == {"x": "1", "y": "2"}


async def test_what_was_given_up_gets_its_default_again(widgets: Collection) -> None:
    await widgets.apply(widget("a", size=5), manager="one")
    assert (await widgets.apply(widget("a"), manager="one")).good(200)["spec"]["size"] == 1


async def test_entries_of_a_keyed_list_have_owners_of_their_own(widgets: Collection) -> None:
    await widgets.apply(widget("a", parts=[{"name": "x"}]), manager="one")
    both = (await widgets.apply(widget("a", parts=[{"name": "y", "count": 2}]), manager="two")).good(200)
    assert both["spec"]["parts"] == [{"name": "x", "count": 1}, {"name": "y", "count": 2}]
    rest = (await widgets.apply(widget("a", parts=[]), manager="one")).good(200)
    assert rest["spec"]["parts"] == [{"name": "y", "count": 2}]


async def test_one_entry_may_be_shared_field_by_field(widgets: Collection) -> None:
    await widgets.apply(widget("a", parts=[{"name": "x", "count": 2}]), manager="one")
    both = (await widgets.apply(widget("a", parts=[{"name": "x", "color": "red"}]), manager="two")).good(200)
    assert both["spec"]["parts"] == [{"name": "x", "count": 2, "color": "red"}]
    refusal = (await widgets.apply(widget("a", parts=[{"name": "x", "count": 3}]), manager="two")).refused(
        409, "Conflict"
    )
    assert refusal["details"]["causes"][0]["field"] == '.spec.parts[name="x"].count'


async def test_sets_are_shared_value_by_value(widgets: Collection) -> None:
    await widgets.apply(widget("a", tags=["x", "z"]), manager="one")
    both = (await widgets.apply(widget("a", tags=["y", "z"]), manager="two")).good(200)
    assert sorted(both["spec"]["tags"]) == ["x", "y", "z"]
    rest = (await widgets.apply(widget("a", tags=["z"]), manager="one")).good(200)
    assert sorted(rest["spec"]["tags"]) == ["y", "z"]


@pytest.mark.parametrize(("field", "one", "two"), [("sizes", [1], [2]), ("fixed", {"a": "1"}, {"b": "2"})])
async def test_what_is_atomic_has_one_owner(widgets: Collection, field: str, one: Any, two: Any) -> None:
    await widgets.apply(widget("a", **{field: one}), manager="one")
    refusal = (await widgets.apply(widget("a", **{field: two}), manager="two")).refused(409, "Conflict")
    assert refusal["details"]["causes"][0]["field"] == f".spec.{field}"
    taken = (await widgets.apply(widget("a", **{field: two}), manager="two", force=True)).good(200)
    assert taken["spec"][field] == two


async def test_the_order_applied_is_the_order_kept(widgets: Collection) -> None:
    await widgets.apply(widget("a", parts=[{"name": name} for name in "xy"]), manager="one")
    applied = (await widgets.apply(widget("a", parts=[{"name": name} for name in "zyx"]), manager="one")).good(200)
    assert [each["name"] for each in applied["spec"]["parts"]] == ["z", "y", "x"]


async def test_labels_are_owned_one_by_one(maps: Collection) -> None:
    await maps.apply(config_map("a", {"one": "1"}), manager="one")
    both = (await maps.apply(config_map("a", {"two": "2"}), manager="two")).good(200)
    assert both["metadata"]["labels"] == {"one": "1", "two": "2"}
    assert owned(both)["two/Apply"]["f:metadata"] == {"f:labels": {"f:two": {}}}


async def test_a_plain_write_over_an_applied_field_takes_it(widgets: Collection) -> None:
    await widgets.apply(widget("a", size=2), manager="one")
    patched = (await widgets.patch("a", {"spec": {"size": 3}}, fieldManager="two")).good(200)
    assert owned(patched)["two/Update"] == {"f:spec": {"f:size": {}}}
    (await widgets.apply(widget("a", size=2), manager="one")).refused(409, "Conflict")
    assert (await widgets.apply(widget("a", size=2), manager="one", force=True)).good(200)["spec"]["size"] == 2


@pytest.mark.usefixtures("as_of_1_36")
async def test_a_write_of_status_owns_no_metadata(widgets: Collection) -> None:
    await widgets.made(widget("a"))
    patch = {"metadata": {"labels": {"k": "v"}}, "status": {"phase": "Done"}}
    patched = (await widgets.patch("a", patch, "status", fieldManager="one")).good(200)
    assert "labels" not in patched["metadata"]
    assert set(owned(patched)["one/Update/status"]) == {"f:status"}


async def test_an_apply_of_status_owns_the_status_only(widgets: Collection) -> None:
    await widgets.apply(widget("a", size=2), manager="one")
    body = {**widget("a", size=9), "status": {"phase": "Done", "conditions": [condition("One", "True")]}}
    applied = (await widgets.apply(body, "status", manager="two")).good(200)
    assert (applied["spec"]["size"], applied["status"]["phase"]) == (2, "Done")
    assert set(owned(applied)["two/Apply/status"]) == {"f:status"}


async def test_conditions_of_two_managers_stand_side_by_side(widgets: Collection) -> None:
    """This is how two controllers write checks of one workload without reading it first."""
    await widgets.made(widget("a"))
    for manager, type_ in (("one", "One"), ("two", "Two")):
        body = {**widget("a"), "status": {"conditions": [condition(type_, "True")]}}
        applied = (await widgets.apply(body, "status", manager=manager)).good(200)
    assert [each["type"] for each in applied["status"]["conditions"]] == ["One", "Two"]
    cleared = (await widgets.apply({**widget("a"), "status": {}}, "status", manager="one")).good(200)
    assert [each["type"] for each in cleared["status"]["conditions"]] == ["Two"]


async def test_an_apply_can_be_strict_about_the_version(widgets: Collection) -> None:
    made = (await widgets.apply(widget("a", size=2))).good(201)
    await widgets.patch("a", {"metadata": {"labels": {"x": "y"}}})
    body = widget("a", size=3)
    body["metadata"]["resourceVersion"] = made["metadata"]["resourceVersion"]
    (await widgets.apply(body, force=True)).refused(409, "Conflict")


async def test_status_of_nothing_cannot_be_applied(widgets: Collection) -> None:
    (await widgets.apply({**widget("a"), "status": {"phase": "Done"}}, "status")).refused(404, "NotFound")


async def test_an_apply_needs_a_manager(widgets: Collection) -> None:
    refusal = (await widgets.patch("a", widget("a"), content_type=APPLY)).refused(422, "Invalid")
    assert refusal["message"] == (
        'PatchOptions.meta.k8s.io "" is invalid: fieldManager: Required value: is required for apply patch'
    )


async def test_a_managers_name_is_of_a_sane_length(widgets: Collection) -> None:
    (await widgets.apply(widget("a"), manager="x" * 129)).refused(422, "Invalid")


async def test_an_apply_names_kind_and_version(widgets: Collection) -> None:
    (await widgets.apply({"metadata": {"name": "a"}})).refused(400, "BadRequest")


async def test_an_apply_of_another_name_is_refused(widgets: Collection) -> None:
    answer = await widgets.patch("a", widget("b"), content_type=APPLY, fieldManager="one")
    assert answer.refused(400, "BadRequest")["message"] == (
        "the name of the object (b) does not match the name on the URL (a)"
    )


async def test_an_apply_says_nothing_of_ownership_itself(widgets: Collection) -> None:
    body = widget("a")
    body["metadata"]["managedFields"] = [{"manager": "one"}]
    refusal = (await widgets.apply(body)).refused(400, "BadRequest")
    assert refusal["message"] == "metadata.managedFields must be nil"


UNTYPED: dict[str, tuple[Object, str]] = {
    "an unknown field": ({"unknown": 1}, ".spec.unknown: field not declared in schema"),
    "a value of another type": ({"size": "x"}, ".spec.size: expected numeric (int or float), got string"),
    "a key given twice": (
        {"parts": [{"name": "x"}, {"name": "x"}]},
        '.spec.parts: duplicate entries for key [name="x"]',
    ),
}


@pytest.mark.parametrize("what", UNTYPED)
async def test_what_does_not_fit_the_schema_cannot_be_applied(widgets: Collection, what: str) -> None:
    spec, problem = UNTYPED[what]
    answer = await widgets.apply(widget("a", **spec))
    assert answer.status == 500
    assert answer.body["message"].startswith("failed to create typed patch object (")
    assert answer.body["message"].endswith(f"; {GROUP_VERSION}, Kind=Widget): {problem}")


@pytest.mark.parametrize("metadata", [{"unknown": 1}, {"labels": {"x": 1}}, {"finalizers": "x"}], ids=str)
async def test_metadata_that_do_not_fit_cannot_be_applied(widgets: Collection, metadata: Object) -> None:
    body = widget("a")
    body["metadata"] |= metadata
    answer = await widgets.apply(body)
    assert answer.status == 500
    beginning = f"failed to create typed patch object (/a; {GROUP_VERSION}, Kind=Widget): "
    assert answer.body["message"].startswith(beginning)


async def test_what_a_kind_cannot_read_cannot_be_applied(space: Space) -> None:
    answer = await space.of("coordination.k8s.io/v1", "leases").apply(lease("a", renewTime="yesterday"))
    assert answer.status == 500
    beginning = "failed to convert new object (/a; coordination.k8s.io/v1, Kind=Lease) to proper version: "
    assert answer.body["message"].startswith(beginning)


async def test_an_apply_may_be_yaml(widgets: Collection) -> None:
    text = f"apiVersion: {GROUP_VERSION}\nkind: Widget\nmetadata:\n  name: a\nspec: {{size: 4}}\n"
    made = (await widgets.patch("a", text.encode(), content_type=APPLY, fieldManager="one")).good(201)
    assert made["spec"]["size"] == 4


async def test_ownership_can_be_forgotten(widgets: Collection) -> None:
    await widgets.apply(widget("a", size=2), manager="one")
    cleared = (await widgets.patch("a", {"metadata": {"managedFields": [{}]}})).good(200)
    assert "managedFields" not in cleared["metadata"]
    refusal = (await widgets.apply(widget("a", size=3), manager="two")).refused(409, "Conflict")
    assert f'conflict with "before-first-apply" using {GROUP_VERSION}: .spec.size' in refusal["message"]


async def test_one_manager_can_be_removed_from_the_list(widgets: Collection) -> None:
    await widgets.apply(widget("a", size=2), manager="one")
    await widgets.apply(widget("a", title="abc"), manager="two")
    operations = [{"op": "remove", "path": "/metadata/managedFields/0"}]
    left = (await widgets.patch("a", operations, content_type=JSON_PATCH)).good(200)
    assert len(owned(left)) == 1


async def test_containers_of_a_job_are_owned_by_name(jobs: Collection) -> None:
    made = (await jobs.apply(job("a"), manager="one")).good(201)
    fields = owned(made)["one/Apply"]["f:spec"]["f:template"]["f:spec"]["f:containers"]
    assert set(fields) == {'k:{"name":"main"}'}
    changed = job("a")
    changed["spec"]["template"]["spec"]["containers"][0]["image"] = "other"
    refusal = (await jobs.apply(changed, manager="two")).refused(409, "Conflict")
    assert refusal["details"]["causes"][0]["field"] == '.spec.template.spec.containers[name="main"].image'


async def test_a_lease_can_be_applied(space: Space) -> None:
    leases = space.of("coordination.k8s.io/v1", "leases")
    made = (await leases.apply(lease("a", holderIdentity="me"), manager="one")).good(201)
    assert owned(made) == {"one/Apply": {"f:spec": {"f:holderIdentity": {}}}}


async def test_an_applied_write_that_changes_nothing_is_none(maps: Collection) -> None:
    made = (await maps.apply(config_map("a", key="1"), manager="one")).good(201)
    assert (await maps.apply(config_map("a", key="1"), manager="one")).good(200) == made
