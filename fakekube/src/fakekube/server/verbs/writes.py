"""Writes: create and update, from the request to the storage."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from fakekube.model import metadata
from fakekube.model.bodies import body_object
from fakekube.model.refusals import FieldLike, already_exists, conflict, invalid, invalid_value, modified
from fakekube.model.storage import Version
from fakekube.model.wire import Object, Refused, Request, Response
from fakekube.server.patching import managed
from fakekube.server.printers.tables import wanted
from fakekube.server.requests.conversion import kept, shown
from fakekube.server.requests.options import write_options
from fakekube.server.requests.routes import Route
from fakekube.server.server import Server
from fakekube.server.verbs.calls import Call
from fakekube.server.verbs.places import check_definition, check_namespace, placed
from fakekube.server.verbs.reads import present

__all__ = ["Make", "change", "create", "make", "update"]

Make = Callable[[Object], Object]
"""From the live object to the new one; the live object itself for no change."""


async def create(server: Server, route: Route, request: Request) -> Response:
    call = _call(server, route, request, "CreateOptions")
    return await make(call, placed(route, call.decoded(body_object(request, route.resource))))


async def update(server: Server, route: Route, request: Request) -> Response:
    call = _call(server, route, request, "UpdateOptions")
    item = call.decoded(body_object(request, route.resource))
    call.check_name(item, must_be_there=True)
    item = placed(route, item)
    current = server.storage.get(route.resource.storage, route.key)
    if current is None and call.rules.creates_on_update and not route.subresource:
        return await make(call, item)
    return await change(call, lambda live: _of_same_uid(route, item, live))


def _call(server: Server, route: Route, request: Request, kind: str) -> Call:
    # The Accept header is checked first: a request that accepts no form must not write anything.
    options = write_options(request, kind)
    return Call(server=server, route=route, request=request, options=options, form=wanted(request.accept))


def _of_same_uid(route: Route, item: Object, live: Object) -> Object:
    wanted_, found = item["metadata"].get("uid"), live["metadata"]["uid"]
    if not wanted_ or wanted_ == found:
        return item
    key = "/".join(part for part in ("/registry", route.resource.group, route.resource.plural, route.key) if part)
    raise conflict(
        route.resource,
        route.name,
        f"StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: Precondition "
        f"failed: UID in precondition: {wanted_}, UID in object meta: {found}",
    )


async def make(call: Call, item: Object, *, tracked: bool = False) -> Response:
    """Create a decoded object; `tracked` if its managedFields are up to date. Raises Refused."""
    server, resource = call.server, call.resource
    check_namespace(server, call.route, str(item["metadata"].get("name", "")))
    check_definition(server, resource, str(item["metadata"].get("name", "")))
    item = await call.mutated(item if tracked else call.tracked(None, item), None)
    item = call.rules.created(_born(call, item))
    name = item["metadata"].get("name", "")
    if problems := _problems_of_new(call, item):
        raise invalid(resource.group, resource.kind, name, problems)
    await call.validated(item, None)
    check_namespace(server, call.route, name)  # again, as webhooks take time
    route = Route(resource, call.route.namespace, name)
    if (found := server.storage.get(resource.storage, route.key)) is not None:
        raise already_exists(resource, name, is_dying="deletionTimestamp" in found.object["metadata"])
    if "resourceVersion" in item["metadata"]:
        raise Refused(500, "", "resourceVersion should not be set on objects to be created")
    call.check_size(item, None)
    if call.options.dry_run:
        return call.respond(item, 201)
    return call.respond(server.storage.put(resource.storage, route.key, kept(server.registry, resource, item)), 201)


def _born(call: Call, item: Object) -> Object:
    """The object with the metadata that the server sets, and without the fields that it ignores."""
    given = {name: value for name, value in item["metadata"].items() if name not in _OF_THE_DEAD}
    if not given.get("name") and given.get("generateName"):
        given["name"] = _generated(call, given["generateName"])
    given |= {"uid": call.server.uid(), "creationTimestamp": call.server.stamp()}
    if call.rules.counts_generation:
        given["generation"] = 1
    born = call.rules.signed({**item, "metadata": given}, call.request.user)
    if "status" in call.resource.subresources and not call.rules.keeps_status:
        born.pop("status", None)
    return born


_OF_THE_DEAD = frozenset({"deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"})
_LONGEST_PREFIX = 58


def _generated(call: Call, prefix: str) -> str:
    """An unused name with this prefix."""
    while True:
        name = prefix[:_LONGEST_PREFIX] + call.server.ending()
        key = Route(call.resource, call.route.namespace, name).key
        if call.server.storage.get(call.resource.storage, key) is None:
            return name


def _problems_of_new(call: Call, item: Object) -> Sequence[FieldLike]:
    resource = call.resource
    found: list[Any] = metadata.problems(
        item["metadata"],
        rule=call.rules.name,
        namespaced=resource.namespaced,
        plain_finalizers=call.rules.plain_finalizers,
    )
    if resource.custom:
        call.warnings += metadata.warnings(item["metadata"])
        return [*found, *call.server.schema(resource).problems(item, None)]
    return [*found, *call.rules.problems(item)]


async def change(call: Call, made: Make, *, tracked: bool = False) -> Response:
    """Change the object at the route; `tracked` if `made` maintains managedFields. Raises Refused."""
    while True:
        current = present(call.server, call.route)
        live = shown(call.resource, current.object)
        new = made(live)
        if new is live:
            return call.respond(current, 200)
        _check_version(call, new, live)
        new = _isolated(call, new if tracked else call.tracked(live, new), live)
        mutated = await call.mutated(new, live)
        new = _grown(call, new if mutated is new else _isolated(call, mutated, live), live)
        if problems := _problems_of_change(call, new, live):
            raise invalid(call.resource.group, call.resource.kind, call.route.name, problems)
        await call.validated(new, live)
        # Webhooks take time. If the object has changed meanwhile, start over with its new version.
        if call.server.storage.get(call.resource.storage, call.route.key) is current:
            return _committed(call, new, live, current)


def _check_version(call: Call, new: Object, live: Object) -> None:
    given = new["metadata"].get("resourceVersion")
    if given == live["metadata"]["resourceVersion"]:
        return
    if given and not given.isdigit():
        raise Refused(500, "", f'strconv.ParseUint: parsing "{given}": invalid syntax')
    if given and given != "0":
        raise modified(call.resource, call.route.name)
    if not call.rules.updates_blindly:
        problem = invalid_value("metadata.resourceVersion", 0, "must be specified for an update")
        raise invalid(call.resource.group, call.resource.plural, call.route.name, [problem])


def _isolated(call: Call, new: Object, live: Object) -> Object:
    """The part of a change that the request may make: only the status, or all but the status."""
    if call.route.is_status:
        return _with_status(_status_metadata(call, new, live), new)
    if "status" not in call.resource.subresources or new.get("status") is live.get("status"):
        return new
    return _with_status(new, live)


def _status_metadata(call: Call, new: Object, live: Object) -> Object:
    """The live object with the metadata that a write to the status may change."""
    given = new["metadata"]
    if call.rules.status_metadata:
        return {**live, "metadata": given}
    before = live["metadata"]
    managers = given.get("managedFields")
    if managers is before.get("managedFields"):
        return live
    return {**live, "metadata": {**before, "managedFields": managers}}


def _with_status(item: Object, source: Object) -> Object:
    if "status" in source:
        return {**item, "status": source["status"]}
    return {name: value for name, value in item.items() if name != "status"}


def _grown(call: Call, new: Object, live: Object) -> Object:
    """The object with the metadata that only the server changes."""
    new = call.rules.updated(new, live)
    given, before = new["metadata"], live["metadata"]
    if given is before:
        grown = before
    else:
        grown = {**given, **{name: before[name] for name in _LASTING if name in before}}
        grown.setdefault("uid", before["uid"])
        if "generation" not in before:
            grown.pop("generation", None)
    if call.rules.counts_generation and not call.route.is_status and call.rules.differs(new, live):
        grown = {**grown, "generation": before.get("generation", 0) + 1}
    return new if grown is given else {**new, "metadata": grown}


_LASTING = (
    "name",
    "namespace",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
)


def _problems_of_change(call: Call, new: Object, live: Object) -> Sequence[FieldLike]:
    resource, rules = call.resource, call.rules
    # kube-apiserver validates metadata twice, and reports its problems twice.
    found: list[Any] = (
        metadata.update_problems(new["metadata"], live["metadata"], plain_finalizers=call.rules.plain_finalizers) * 2
    )
    if resource.custom:
        call.warnings += metadata.warnings(new["metadata"], live["metadata"])
        return found + call.server.schema(resource).problems(new, live)
    if call.route.is_status:
        return found + rules.status_problems(new, live)
    return found + rules.problems(new) + rules.update_problems(new, live)


def _committed(call: Call, new: Object, live: Object, current: Version) -> Response:
    """Store the object unless nothing changed; remove an object under deletion that nothing holds any more."""
    storage, name = call.server.storage, call.resource.storage
    if managed.settled(live, new) is live:
        return call.respond(current, 200)
    call.check_size(new, current)
    if call.options.dry_run:
        return call.respond(new, 200)
    if "deletionTimestamp" in live["metadata"] and call.rules.is_done(new):
        storage.remove(name, current.key, kept(call.server.registry, call.resource, new))
        return call.respond(new, 200)
    return call.respond(storage.put(name, current.key, kept(call.server.registry, call.resource, new)), 200)
