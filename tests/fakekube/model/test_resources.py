"""The registry: what is served comes and goes."""

from __future__ import annotations

from fakekube.model.resources import Registry, Resource


def resource(version: str = "v1", *, group: str = "things.test", plural: str = "widgets") -> Resource:
    return Resource(
        group=group, version=version, plural=plural, singular="widget", kind="Widget", namespaced=True, custom=True
    )


def test_a_resource_is_found_by_group_version_and_plural() -> None:
    registry = Registry((resource(),))
    assert registry.find("things.test", "v1", "widgets") == resource()
    assert registry.find("things.test", "v2", "widgets") is None


def test_all_versions_go_together_and_nothing_else() -> None:
    other = resource(group="else.test")
    registry = Registry((resource("v1"), resource("v2"), other))
    registry.remove("things.test", "widgets")
    assert list(registry) == [other]


def test_each_change_is_a_generation() -> None:
    registry = Registry(())
    before = registry.generation
    registry.add(resource())
    registry.add(resource())
    assert list(registry) == [resource()]
    assert registry.generation == before + 2


def test_a_kind_is_found_in_the_version_that_came_first() -> None:
    registry = Registry((resource("v2"), resource("v1")))
    found = registry.of_kind("things.test", "Widget")
    assert found is not None
    assert (found.version, found.api_version, found.list_kind, found.storage) == (
        "v2",
        "things.test/v2",
        "WidgetList",
        "widgets.things.test",
    )
