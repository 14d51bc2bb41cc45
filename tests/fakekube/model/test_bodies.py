"""What comes in a body."""

from __future__ import annotations

from typing import Any

import pytest

from fakekube.model.bodies import BODY_LIMIT, body_object, media_type, parsed, parsed_yaml, repeated_fields
from fakekube.model.wire import Refused, Request
from tests.fakekube.front_ends import CONFIG_MAPS, TOYS


def sent(body: bytes, content_type: str = "application/json") -> Request:
    return Request(method="POST", path="/", body=body, content_type=content_type)


@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        (b'{"a": 1}', "application/json"),
        (b'{"a": 1}', "application/json; charset=utf-8"),
        (b'{"a": 1}', ""),
        (b"a: 1", "application/yaml"),
        (b'{"a": 1}', "application/yaml"),
    ],
)
def test_json_and_yaml(body: bytes, content_type: str) -> None:
    assert parsed(body, content_type) == {"a": 1}


@pytest.mark.parametrize(
    ("body", "content_type", "code"),
    [
        (b"{", "application/json", 400),
        (b"", "application/json", 400),
        (b"a: [", "application/yaml", 400),
        (b"{}", "text/plain", 415),
        (b" " * (BODY_LIMIT + 1), "application/json", 413),
    ],
)
def test_what_cannot_be_read(body: bytes, content_type: str, code: int) -> None:
    with pytest.raises(Refused) as refused:
        parsed(body, content_type)
    assert refused.value.code == code


def test_times_in_yaml_stay_text() -> None:
    assert parsed_yaml(b"when: 2026-01-01T00:00:00Z\nday: 2026-01-01\nyes: true") == {
        "when": "2026-01-01T00:00:00Z",
        "day": "2026-01-01",
        True: True,
    }


def test_media_types_have_parameters() -> None:
    assert media_type("Application/JSON; charset=utf-8") == "application/json"


def test_built_in_kinds_need_not_say_what_they_are() -> None:
    assert body_object(sent(b'{"data": {}}'), CONFIG_MAPS) == {"kind": "ConfigMap", "apiVersion": "v1", "data": {}}


@pytest.mark.parametrize(
    ("body", "resource", "code", "message"),
    [
        (b"[]", CONFIG_MAPS, 400, "the object provided is unrecognized (must be of type ConfigMap): "),
        (b"", CONFIG_MAPS, 400, "the object provided is unrecognized (must be of type ConfigMap): "),
        (
            b'{"kind": "ConfigMap", "apiVersion": "v7"}',
            CONFIG_MAPS,
            400,
            'ConfigMap in version "v7" cannot be handled as a ConfigMap: no kind "ConfigMap" is registered for ',
        ),
        (b"{}", TOYS, 400, "the object provided is unrecognized (must be of type Toy): Object 'Kind' is missing"),
        (
            b'{"kind": "Toy", "apiVersion": "example.com/v9"}',
            TOYS,
            400,
            "the API version in the data (example.com/v9) does not match the expected API version (example.com/v1beta1)",
        ),
        (
            b'{"kind": "Foo", "apiVersion": "example.com/v1beta1", "metadata": {"name": "a"}}',
            TOYS,
            422,
            'Foo.example.com "a" is invalid: kind: Invalid value: "Foo": must be Toy',
        ),
    ],
)
def test_objects_of_another_kind(body: bytes, resource: Any, code: int, message: str) -> None:
    with pytest.raises(Refused) as refused:
        body_object(sent(body), resource)
    assert refused.value.code == code
    assert refused.value.message.startswith(message)


@pytest.mark.parametrize(
    ("body", "paths"),
    [
        (b'{"a": 1}', []),
        (b'{"a": 1, "a": 2, "a": 3}', ["a"]),
        (b'{"x": {"a": 1, "a": 2}, "l": [{}, {"b": 1, "b": 2}]}', ["x.a", "l[1].b"]),
        (b'[{"a": 1, "a": 2}]', []),
        (b"no json", []),
    ],
)
def test_what_is_there_twice(body: bytes, paths: list[str]) -> None:
    assert repeated_fields(body) == paths
