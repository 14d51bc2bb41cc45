"""Answers of the API, composed of encoded bytes where possible."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import lru_cache

import msgspec
import yaml

from fakekube.model.resources import Resource
from fakekube.model.storage import Version
from fakekube.model.wire import JSON, Object, Response
from fakekube.server.printers.tables import PLAIN, Form, many, one
from fakekube.server.requests.conversion import shown

__all__ = ["deleted", "encoded", "head", "item", "listed", "status"]

_encode = msgspec.json.Encoder().encode
_YAML = "application/yaml"


class _Dumper(yaml.SafeDumper):
    def ignore_aliases(self, _data: object) -> bool:
        """No YAML aliases: shared objects are written in each place."""
        return True


@lru_cache(1024)
def head(api_version: str, kind: str) -> bytes:
    """The beginning of an object's JSON; `Version.rest` is the remainder."""
    return _encode({"kind": kind, "apiVersion": api_version})[:-1] + b","


def encoded(resource: Resource, version: Version) -> bytes:
    """The JSON of an object in the resource's version of the API."""
    if resource.kept_with is not None:
        return _encode(shown(resource, version.object))
    return head(resource.api_version, resource.kind) + version.rest


def item(
    resource: Resource,
    answer: Version | Object,
    form: Form,
    *,
    now: datetime,
    code: int = 200,
    include: str = "",
    headers: Mapping[str, str] | None = None,
) -> Response:
    """The answer with one object, stored or not."""
    if form is PLAIN and isinstance(answer, Version):
        return Response(status=code, body=encoded(resource, answer), headers=headers or {})
    body = shown(resource, answer.object if isinstance(answer, Version) else answer)
    return _formed(one(resource, body, form, now=now, include=include), form, code, headers)


def listed(
    resource: Resource,
    versions: Sequence[Version],
    form: Form,
    *,
    metadata: Mapping[str, object],
    now: datetime,
    include: str = "",
) -> Response:
    """The answer with a list of stored objects."""
    if form is PLAIN:
        return Response(body=_list(resource, versions, metadata))
    items = [shown(resource, version.object) for version in versions]
    return _formed(many(resource, items, form, now=now, list_metadata=metadata, include=include), form, 200, None)


def _list(resource: Resource, versions: Sequence[Version], metadata: Mapping[str, object]) -> bytes:
    if resource.kept_with is not None:
        items = b",".join([encoded(resource, version) for version in versions])
    else:
        # Lists of built-in kinds leave apiVersion and kind out of the items.
        beginning = head(resource.api_version, resource.kind) if resource.custom else b"{"
        items = b",".join([beginning + version.rest for version in versions])
    start = head(resource.api_version, resource.list_kind)
    return b'%b"metadata":%b,"items":[%b]}' % (start, _encode(metadata), items)


def deleted(resource: Resource, name: str, uid: str) -> Object:
    """The Status of a successful deletion."""
    group = {"group": resource.group} if resource.group else {}
    details = {"name": name, **group, "kind": resource.plural, "uid": uid}
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}


def status(body: Object, headers: Mapping[str, str] | None = None) -> Response:
    """A successful Status, in JSON whatever form the client accepts."""
    return Response(body=_encode(body), headers=headers or {})


def _formed(body: Object, form: Form, code: int, headers: Mapping[str, str] | None) -> Response:
    if form.media == _YAML:
        text = yaml.dump(body, Dumper=_Dumper, default_flow_style=False).encode()
        return Response(status=code, body=text, content_type=_YAML, headers=headers or {})
    return Response(status=code, body=_encode(body), content_type=JSON, headers=headers or {})
