"""What every builder of an object has: metadata, and that it never changes."""

from __future__ import annotations

from datetime import timedelta

import pytest

from multikueue.api.meta import Object, ObjectKey, ObjectMeta, OwnerReference
from tests.builders import (
    NOW,
    Builder,
    admission_check,
    cluster_queue,
    cohort,
    flavor,
    job,
    local_queue,
    multikueue_cluster,
    multikueue_config,
    namespace,
    secret,
    workload,
    workload_priority_class,
)

BUILDERS: list[tuple[Builder[Object], ObjectKey]] = [
    (workload("a"), ObjectKey("default", "a")),
    (workload("a", namespace="team"), ObjectKey("team", "a")),
    (job("a"), ObjectKey("default", "a")),
    (cluster_queue("a"), ObjectKey("", "a")),
    (local_queue("a", "cq"), ObjectKey("default", "a")),
    (cohort("a"), ObjectKey("", "a")),
    (flavor("a"), ObjectKey("", "a")),
    (workload_priority_class("a", 100), ObjectKey("", "a")),
    (admission_check("a"), ObjectKey("", "a")),
    (multikueue_config("a", "w1"), ObjectKey("", "a")),
    (multikueue_cluster("a"), ObjectKey("", "a")),
    (secret("a"), ObjectKey("kueue-system", "a")),
    (namespace("a"), ObjectKey("", "a")),
]


@pytest.mark.parametrize(("builder", "key"), BUILDERS, ids=lambda value: type(value).__name__)
def test_an_object_has_its_key_and_looks_just_created(builder: Builder[Object], key: ObjectKey) -> None:
    built = builder.build()
    assert built.key == key
    assert built.version == 1
    assert built.metadata.creation_timestamp == NOW


def test_no_two_objects_share_a_uid() -> None:
    uids = [builder.build().metadata.uid for builder, _ in BUILDERS]
    assert len(set(uids)) == len(uids)


@pytest.mark.parametrize(("builder", "_key"), BUILDERS, ids=lambda value: type(value).__name__)
def test_a_builder_never_changes(builder: Builder[Object], _key: ObjectKey) -> None:
    before = builder.build()
    builder.uid("other").version(7).labels(a="b").annotations(c="d").deleted().finalizers("f")
    assert builder.build() == before


def test_metadata_is_what_was_said() -> None:
    built = (
        namespace("a")
        .uid("u")
        .version(42)
        .generation(3)
        .created(NOW - timedelta(hours=1))
        .deleted(NOW)
        .labels({"example.com/x": "1"}, team="t")
        .labels(team="other")
        .annotations({"example.com/y": "2"})
        .finalizers("f", "g")
        .owned_by(api_version="v1", kind="Pod", name="p", uid="pu", controller=False)
        .build()
    )
    assert built.metadata == ObjectMeta(
        name="a",
        uid="u",
        resource_version="42",
        generation=3,
        creation_timestamp=NOW - timedelta(hours=1),
        deletion_timestamp=NOW,
        labels={"example.com/x": "1", "team": "other"},
        annotations={"example.com/y": "2"},
        finalizers=("f", "g"),
        owner_references=(OwnerReference(api_version="v1", kind="Pod", name="p", uid="pu"),),
    )
