"""From a definition to what is served."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from fakekube.model.resources import Column
from fakekube.schemas import crd

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)

Definition = dict[str, Any]
TEXT = {"type": "string"}


def version(name: str = "v1", **more: Any) -> Definition:
    root = {"type": "object", "properties": {"spec": {"type": "object", "properties": {"f": TEXT}}}}
    return {"name": name, "served": True, "storage": True, "schema": {"openAPIV3Schema": root}} | more


def definition(*versions: Definition, name: str = "things.example.com", **spec: Any) -> Definition:
    made = {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "things", "kind": "Thing"},
        "versions": list(versions) or [version()],
    }
    return crd.defaulted({"metadata": {"name": name}, "spec": made | spec})


def of_field(**field: Any) -> Definition:
    root = {"type": "object", "properties": {"f": field}}
    return definition(version(schema={"openAPIV3Schema": root}))


def test_each_version_that_is_served_is_a_resource_the_stored_one_first() -> None:
    old, gone = version("v1beta1", storage=False), version("v1alpha1", storage=False, served=False)
    resources = crd.resources_of(definition(gone, old, version("v1")))
    assert [(each.version, each.kind, each.plural, each.singular) for each in resources] == [
        ("v1", "Thing", "things", "thing"),
        ("v1beta1", "Thing", "things", "thing"),
    ]
    assert all(each.custom and each.namespaced for each in resources)


def test_a_resource_has_what_its_version_says() -> None:
    names = {"plural": "things", "kind": "Thing", "shortNames": ["th"], "categories": ["all"]}
    declared = version(
        subresources={
            "status": {},
            "scale": {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size"},
        },
        additionalPrinterColumns=[{"name": "F", "type": "integer", "jsonPath": ".spec.f", "priority": 1}],
        selectableFields=[{"jsonPath": ".spec.f"}],
    )
    (resource,) = crd.resources_of(definition(declared, names=names, scope="Cluster"))
    assert not resource.namespaced
    assert (resource.short_names, resource.categories) == (("th",), ("all",))
    assert resource.subresources == {"status", "scale"}
    assert resource.scale == ("spec.size", "status.size", "")
    assert resource.columns == (Column("F", ".spec.f", "integer", 1),)
    assert resource.selectable == ("spec.f",)
    assert resource.schema is declared["schema"]["openAPIV3Schema"]


def test_a_kind_without_columns_shows_its_age() -> None:
    (resource,) = crd.resources_of(definition())
    assert resource.columns == (Column("Age", ".metadata.creationTimestamp", "date"),)


def test_what_is_left_out_has_defaults() -> None:
    spec = definition()["spec"]
    assert spec["names"] == {"plural": "things", "kind": "Thing", "singular": "thing", "listKind": "ThingList"}
    assert spec["conversion"] == {"strategy": "None"}
    (made,) = definition({"name": "v1"})["spec"]["versions"]
    assert (made["served"], made["storage"]) == (False, False)


def test_a_definition_that_leaves_nothing_out_stays_the_very_same() -> None:
    made = definition()
    assert crd.defaulted(made) is made


def test_a_definition_of_nothing_is_refused_field_by_field() -> None:
    told = crd.problems(crd.defaulted({"metadata": {"name": "x"}}))
    assert [each.field for each in told if each.message == "Required value"] == [
        "spec.group",
        "spec.scope",
        "spec.names.plural",
        "spec.names.singular",
        "spec.names.kind",
        "spec.names.listKind",
    ]


def conditions(made: Definition) -> list[tuple[str, str, str]]:
    return [(each["type"], each["status"], each["reason"]) for each in made["status"]["conditions"]]


def test_a_definition_is_accepted_and_established() -> None:
    made = crd.accepted(definition(), NOW)
    assert conditions(made) == [
        ("NamesAccepted", "True", "NoConflicts"),
        ("Established", "True", "InitialNamesAccepted"),
    ]
    assert {each["lastTransitionTime"] for each in made["status"]["conditions"]} == {"2026-11-21T12:00:00Z"}
    assert made["status"]["acceptedNames"]["listKind"] == "ThingList"
    assert made["status"]["storedVersions"] == ["v1"]


def test_accepted_again_it_stays_as_it_is() -> None:
    made = crd.accepted(definition(), NOW)
    assert crd.accepted(made, NOW + timedelta(hours=1)) == made


def test_versions_that_were_stored_once_are_not_forgotten() -> None:
    made = crd.accepted(definition(version("v1")), NOW)
    changed = {**made, "spec": definition(version("v1", storage=False), version("v2"))["spec"]}
    assert crd.accepted(changed, NOW)["status"]["storedVersions"] == ["v1", "v2"]


def test_a_name_that_another_definition_has_is_not_accepted() -> None:
    other = definition(name="others.example.com", names={"plural": "others", "kind": "Thing"})
    made = crd.accepted(definition(), NOW, [other])
    assert conditions(made) == [
        ("NamesAccepted", "False", "ListKindConflict"),
        ("Established", "False", "NotAccepted"),
    ]
    assert made["status"]["conditions"][0]["message"] == '"ThingList" is already in use'


def test_names_of_another_group_are_free() -> None:
    other = definition(name="others.example.org", group="example.org", names={"plural": "others", "kind": "Thing"})
    assert conditions(crd.accepted(definition(), NOW, [other]))[1] == ("Established", "True", "InitialNamesAccepted")


SCHEMA = "spec.validation.openAPIV3Schema"


@pytest.mark.parametrize(
    ("made", "field", "message"),
    [
        pytest.param(
            lambda: definition(name="foo.example.com"),
            "metadata.name",
            'Invalid value: "foo.example.com": must be spec.names.plural+"."+spec.group',
            id="a name that does not fit",
        ),
        pytest.param(
            lambda: definition(scope="Weird"),
            "spec.scope",
            'Unsupported value: "Weird": supported values: "Cluster", "Namespaced"',
            id="a scope that does not exist",
        ),
        pytest.param(
            lambda: definition(version(storage=False)),
            "spec.versions",
            "must have exactly one version marked as storage version",
            id="no version that is stored",
        ),
        pytest.param(
            lambda: definition(version(), version("v2")),
            "spec.versions",
            "must have exactly one version marked as storage version",
            id="two versions that are stored",
        ),
        pytest.param(
            lambda: definition(version(), version(storage=False)),
            "spec.versions",
            "must contain unique version names",
            id="a version twice",
        ),
        pytest.param(
            lambda: definition(version("V 1")),
            "spec.versions[0].name",
            "a DNS-1035 label must consist of",
            id="a version of no name",
        ),
        pytest.param(
            lambda: definition(version(schema=None)),
            "spec.versions[0].schema.openAPIV3Schema",
            "Required value",
            id="no schema",
        ),
        pytest.param(
            lambda: definition(version(schema={"openAPIV3Schema": {"type": "string"}})),
            f"{SCHEMA}.type",
            "must be object at the root",
            id="a root that is no object",
        ),
        pytest.param(
            lambda: of_field(description="of any type"),
            f"{SCHEMA}.properties[f].type",
            "Required value: must not be empty for specified object fields",
            id="a field without type",
        ),
        pytest.param(
            lambda: of_field(type="array"),
            f"{SCHEMA}.properties[f].items",
            "Required value: must be specified",
            id="a list without items",
        ),
        pytest.param(
            lambda: of_field(type="object", properties={"a": TEXT}, additionalProperties=TEXT),
            f"{SCHEMA}.properties[f].additionalProperties",
            "Forbidden: additionalProperties and properties are mutual exclusive",
            id="fields and keys",
        ),
        pytest.param(
            lambda: of_field(type="array", items={"type": "object"}, **{"x-kubernetes-list-type": "map"}),
            f"{SCHEMA}.properties[f].x-kubernetes-list-map-keys",
            "Required value: must not be empty if x-kubernetes-list-type is map",
            id="a list map without keys",
        ),
        pytest.param(
            lambda: of_field(
                type="array",
                items={"type": "object"},
                **{"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"]},
            ),
            f"{SCHEMA}.properties[f].x-kubernetes-list-map-keys",
            'Invalid value: ["k"]: entries must all be names of item properties',
            id="a key that is no field",
        ),
        pytest.param(
            lambda: of_field(type="string", **{"x-kubernetes-validations": [{"rule": "self +"}]}),
            f"{SCHEMA}.properties[f].x-kubernetes-validations[0].rule",
            "compilation failed",
            id="a rule that is no CEL",
        ),
        pytest.param(
            lambda: of_field(type="string", default=5),
            f"{SCHEMA}.properties[f].default",
            'Invalid value: "integer":  in body must be of type string: "integer"',
            id="a default of another type",
        ),
        pytest.param(
            lambda: of_field(type="array", items={"type": "object", "additionalProperties": {"default": 1}}),
            f"{SCHEMA}.properties[f].items.additionalProperties.type",
            "Required value",
            id="a place far below",
        ),
    ],
)
def test_a_definition_is_refused(made: Callable[[], Definition], field: str, message: str) -> None:
    (problem,) = [each for each in crd.problems(made()) if each.field == field]
    assert message in problem.message


def test_a_good_definition_has_no_problems() -> None:
    assert crd.problems(definition()) == []
