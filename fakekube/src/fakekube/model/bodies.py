"""Bodies of requests: bytes to data, and data to an object of the right kind."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import yaml

from fakekube.model.refusals import bad_request, invalid, invalid_value, too_large
from fakekube.model.resources import Resource
from fakekube.model.wire import Json, Object, Refused, Request

__all__ = [
    "APPLY_PATCH",
    "BODY_LIMIT",
    "JSON_PATCH",
    "MERGE_PATCH",
    "STRATEGIC_PATCH",
    "body_object",
    "check_size",
    "media_type",
    "parsed",
    "parsed_yaml",
    "repeated_fields",
    "typed",
    "unknown_format",
]

APPLY_PATCH = "application/apply-patch+yaml"
JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"

BODY_LIMIT = 3 * 2**20
"""The maximum size of a request body in bytes, as in kube-apiserver."""

_JSON = frozenset({"", "application/json"})
_YAML = frozenset({"application/yaml", "application/x-yaml", "text/yaml"})

_decode = msgspec.json.Decoder().decode


def media_type(content_type: str) -> str:
    return content_type.partition(";")[0].strip().lower()


def check_size(body: bytes) -> None:
    """Raise Refused (413) for a body above the limit."""
    if len(body) > BODY_LIMIT:
        raise too_large(BODY_LIMIT)


def parsed(body: bytes, content_type: str) -> Json:
    """The decoded body. Raises Refused: 413, 415 or 400."""
    check_size(body)
    media = content_type if content_type == "application/json" else media_type(content_type)
    if media in _JSON:
        try:
            return _decode(body)
        except msgspec.DecodeError as error:
            why = "unexpected end of JSON input" if "truncated" in str(error) else str(error)
        raise bad_request(f"couldn't get version/kind; json parse error: {why}") from None
    if media not in _YAML:
        raise unknown_format("application/json, application/yaml, application/vnd.kubernetes.protobuf")
    return parsed_yaml(body)


def parsed_yaml(body: bytes) -> Json:
    """A decoded JSON or YAML body. YAML timestamps stay strings, as JSON has no timestamps."""
    try:
        return _decode(body)
    except msgspec.DecodeError:
        pass
    try:
        return yaml.load(body, Loader=_Loader)  # noqa: S506  # a safe loader with fewer types
    except yaml.YAMLError as error:
        raise bad_request(f"error decoding YAML: {error}") from None


class _Loader(yaml.SafeLoader):
    """A safe loader without timestamps."""


# PyYAML shares the resolvers of a class with its parent until the class has its own.
_Loader.yaml_implicit_resolvers = {
    sign: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for sign, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def unknown_format(accepted: str) -> Refused:
    message = f"the body of the request was in an unknown format - accepted media types include: {accepted}"
    return Refused(415, "UnsupportedMediaType", message)


def repeated_fields(body: bytes) -> list[str]:
    """The paths of duplicate fields in a JSON body."""

    def looked_at(pairs: list[tuple[str, Any]]) -> _Seen:
        seen = _Seen(pairs)
        names = [name for name, _ in pairs]
        seen.paths = [name for name in dict.fromkeys(names) if names.count(name) > 1]
        for name, value in pairs:
            seen.paths += [f"{name}{path}" for path in _paths_in(value)]
        return seen

    try:
        read = json.loads(body, object_pairs_hook=looked_at)
    except ValueError:
        return []
    return read.paths if isinstance(read, _Seen) else []


class _Seen(dict[str, Any]):
    paths: list[str]


def _paths_in(value: Json) -> list[str]:
    if isinstance(value, _Seen):
        return [f".{path}" for path in value.paths]
    if isinstance(value, list):
        return [f"[{index}]{path}" for index, each in enumerate(value) for path in _paths_in(each)]
    return []


def body_object(request: Request, resource: Resource) -> Object:
    """The object of a create or update, of the resource's kind and version. Raises Refused."""
    try:
        item = parsed(request.body, request.content_type)
    except Refused as error:
        if error.code != 400:
            raise
        shown = request.body[:20].decode(errors="replace") or "<empty>"
        raise bad_request(f"{_unrecognized(resource)}: {error.message} ({shown})") from None
    if not isinstance(item, dict):
        raise bad_request(f"{_unrecognized(resource)}: couldn't get version/kind; json parse error: it is no object")
    return typed(item, resource)


def _unrecognized(resource: Resource) -> str:
    return f"the object provided is unrecognized (must be of type {resource.kind})"


def typed(item: Object, resource: Resource) -> Object:
    """The object with its kind and version, which requests for built-in kinds may leave out. Raises Refused."""
    kind, version = item.get("kind"), item.get("apiVersion")
    if kind == resource.kind and version == resource.api_version:
        return item
    if resource.custom:
        raise _wrong_custom_type(item, resource)
    if kind in (None, "") and version in (None, ""):
        return {"kind": resource.kind, "apiVersion": resource.api_version, **_without_type(item)}
    version = version or resource.api_version
    raise bad_request(
        f'{kind or ""} in version "{str(version).rpartition("/")[2]}" cannot be handled as a {resource.kind}: no kind '
        f'"{kind or ""}" is registered for version "{version}" in scheme "pkg/runtime/scheme.go:111"'
    )


def _without_type(item: Object) -> dict[str, Any]:
    return {name: value for name, value in item.items() if name not in ("kind", "apiVersion")}


def _wrong_custom_type(item: Object, resource: Resource) -> Refused:
    kind, version = item.get("kind"), item.get("apiVersion")
    if not kind:
        return bad_request(f"{_unrecognized(resource)}: Object 'Kind' is missing")
    if version != resource.api_version:
        given, expected = version or "", resource.api_version
        return bad_request(
            f"the API version in the data ({given}) does not match the expected API version ({expected})"
        )
    metadata = item.get("metadata")
    name = metadata.get("name", "") if isinstance(metadata, dict) else ""
    return invalid(resource.group, kind, name, [invalid_value("kind", kind, f"must be {resource.kind}")])
