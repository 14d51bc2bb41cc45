"""Reads: single objects, and lists with pages, selectors and versions."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from typing import Any

import msgspec

from fakekube.model.refusals import bad_request, expired, not_found, too_large_version
from fakekube.model.storage import Compacted, Version
from fakekube.model.wire import Refused, Request, Response
from fakekube.server.printers.tables import wanted
from fakekube.server.requests import answers
from fakekube.server.requests.options import ListOptions, list_options, resource_version
from fakekube.server.requests.routes import Route
from fakekube.server.requests.selection import Selection, selection
from fakekube.server.server import Server

__all__ = ["get", "list_", "present"]

_ENCODING = "meta.k8s.io/v1"
_LATEST = -1
"""In the token that replaces an expired one: continue with the latest state."""


def present(server: Server, route: Route) -> Version:
    """The object at a route. Raises Refused (404)."""
    version = server.storage.get(route.resource.storage, route.key)
    if version is None:
        raise not_found(route.resource, route.name)
    return version


def get(server: Server, route: Route, request: Request) -> Response:
    form = wanted(request.accept)
    if request.query:
        _reached(server, resource_version(request.query.get("resourceVersion", "")))
    version = present(server, route)
    return answers.item(route.resource, version, form, now=server.now(), include=request.query.get("includeObject", ""))


def list_(server: Server, route: Route, request: Request) -> Response:
    form = wanted(request.accept)
    options = list_options(request.query, watch=False)
    chosen = selection(route, options, server.rules(route.resource))
    versions, metadata = _page(server, route, options, chosen)
    if route.resource.custom and not form.kind:
        metadata = {"continue": "", **metadata}
    return answers.listed(route.resource, versions, form, metadata=metadata, now=server.now(), include=options.include)


def _page(
    server: Server, route: Route, options: ListOptions, chosen: Selection
) -> tuple[Sequence[Version], dict[str, Any]]:
    """The objects of one page, and the metadata of the list."""
    storage = route.resource.storage
    if options.token:
        if options.version not in ("", "0"):
            raise bad_request("specifying resource version is not allowed when using continue")
        rv, after = _opened(options.token)
        rv = server.storage.rv if rv == _LATEST else rv
        after = _after(chosen.namespace, after)
        found = _at(server, storage, rv, chosen.namespace, after=after, token=options.token)
    else:
        rv = _version(server, options)
        found = _at(server, storage, rv, chosen.namespace)
    if not chosen.is_whole:
        found = [version for version in found if chosen.holds(version.object)]
    metadata: dict[str, Any] = {"resourceVersion": str(rv)}
    # Version 0 asks for a read from the cache, which ignores the limit.
    if not options.limit or len(found) <= options.limit or options.version == "0":
        return found, metadata
    page = found[: options.limit]
    metadata["continue"] = _token(rv, page[-1].key.removeprefix(f"{chosen.namespace}/"))
    if chosen.is_whole:
        metadata["remainingItemCount"] = len(found) - len(page)
    return page, metadata


def _version(server: Server, options: ListOptions) -> int:
    """The resource version of a list. Raises Refused: 400, 504."""
    if not options.version:
        return server.storage.rv
    if not options.version.isdigit():
        detail = f'strconv.ParseUint: parsing "{options.version}": invalid syntax'
        message = f'resourceVersion: Invalid value: "{options.version}": {detail}'
        raise bad_request(f"invalid resource version: {message}")
    asked = int(options.version)
    _reached(server, asked)
    exactly = options.match == "Exact" or (not options.match and options.limit and asked)
    return asked if exactly else server.storage.rv


def _reached(server: Server, rv: int) -> None:
    if rv > server.storage.rv:
        raise too_large_version(rv, server.storage.rv)


def _at(
    server: Server, storage: str, rv: int, namespace: str, *, after: str = "", token: str = ""
) -> Sequence[Version]:
    """The objects as of a version. Raises Refused: 410, 504."""
    if rv == server.storage.rv:
        return server.storage.select(storage, namespace, after=after)
    _reached(server, rv)
    try:
        return server.storage.select_at(storage, rv, namespace, after=after)
    except Compacted:
        raise _too_old(token) from None


def _too_old(token: str) -> Refused:
    if not token:
        return expired("The resourceVersion for the provided list is too old.")
    message = (
        "The provided continue parameter is too old to display a consistent list result. You can start a new list without "
        "the continue parameter, or use the continue token in this response to retrieve the remainder of the results. "
        "Continuing with the provided token results in an inconsistent list - objects that were created, modified, or "
        "deleted between the time the first chunk was returned and now may show up in the list."
    )
    _, start = _opened(token)
    return expired(message, token=_token(_LATEST, start))


def _token(rv: int, start: str) -> str:
    """The token of the page that starts after `start`, a key below the path's namespace."""
    content = {"v": _ENCODING, "rv": rv, "start": f"{start}\0"}
    return base64.urlsafe_b64encode(msgspec.json.encode(content)).rstrip(b"=").decode()


def _opened(token: str) -> tuple[int, str]:
    """Resource version and key in a token. Raises Refused (400)."""
    try:
        content = base64.b64decode(token + "=" * (-len(token) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        raise _invalid_token("illegal base64 data at input byte 0") from None
    try:
        decoded = msgspec.json.decode(content, type=_Token)
    except msgspec.MsgspecError as error:
        raise _invalid_token(str(error)) from None
    if decoded.v != _ENCODING:
        raise _invalid_token(f"server does not recognize this encoded version {decoded.v}")
    return decoded.rv, decoded.start.rstrip("\0")


class _Token(msgspec.Struct):
    v: str = ""
    rv: int = 0
    start: str = ""


def _invalid_token(why: str) -> Refused:
    return bad_request(f"invalid continue token: continue key is not valid: {why}")


def _after(namespace: str, start: str) -> str:
    return f"{namespace}/{start}" if namespace else start
