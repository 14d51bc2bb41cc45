"""Deletion: at once, or by a mark on an object with finalizers, which their controllers remove."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, NamedTuple

from fakekube.builtins.rules.rules import Rules
from fakekube.model.metadata import FOREGROUND, ORPHAN, timestamp
from fakekube.model.refusals import conflict
from fakekube.model.resources import Resource
from fakekube.model.storage import Version
from fakekube.model.wire import Object, Request, Response
from fakekube.server.admission.admission import Write, warning_header
from fakekube.server.printers.tables import wanted
from fakekube.server.requests import answers
from fakekube.server.requests.conversion import shown
from fakekube.server.requests.options import DeleteOptions, delete_options, list_options
from fakekube.server.requests.routes import Route
from fakekube.server.requests.selection import selection
from fakekube.server.server import Server
from fakekube.server.verbs.reads import present

__all__ = ["Outcome", "delete", "delete_many", "deleted"]


class Outcome(NamedTuple):
    """The result of a deletion: the last or current version of the object, and whether it is gone."""

    version: Version
    is_gone: bool


async def delete(server: Server, route: Route, request: Request) -> Response:
    form, options = wanted(request.accept), delete_options(request)
    rules = server.rules(route.resource)
    version = present(server, route)
    warnings: list[str] = []
    await _validated(server, route, version, request, options, warnings)
    if warning := rules.deletion_warning(options.policy):
        warnings.append(warning)
    outcome = deleted(server, route.resource, present(server, route), options)
    headers = {"Warning": warning_header(warnings)} if warnings else None
    if outcome.is_gone and not rules.returns_deleted:
        uid = outcome.version.object["metadata"]["uid"]
        return answers.status(answers.deleted(route.resource, route.name, uid), headers)
    return answers.item(route.resource, outcome.version, form, now=server.now(), headers=headers)


async def delete_many(server: Server, route: Route, request: Request) -> Response:
    """Delete the objects that the selectors match. The answer lists them as they were."""
    form, options = wanted(request.accept), delete_options(request)
    chosen = selection(route, list_options(request.query, watch=False), server.rules(route.resource))
    rv = server.storage.rv
    found = [
        version
        for version in server.storage.select(route.resource.storage, chosen.namespace)
        if chosen.holds(version.object)
    ]
    for version in found:
        one = Route(route.resource, route.namespace, version.object["metadata"]["name"])
        await _validated(server, one, version, request, options, [])
        current = server.storage.get(route.resource.storage, version.key)
        if current is not None and current.object["metadata"]["uid"] == version.object["metadata"]["uid"]:
            deleted(server, route.resource, current, options)
    metadata: dict[str, Any] = {"resourceVersion": str(rv)}
    return answers.listed(route.resource, found, form, metadata=metadata, now=server.now())


async def _validated(
    server: Server, route: Route, version: Version, request: Request, options: DeleteOptions, warnings: list[str]
) -> None:
    if server.admission is None or not server.admission.is_asked:
        return
    write = Write(
        operation="DELETE",
        resource=route.resource,
        new=None,
        old=shown(route.resource, version.object),
        user=request.user,
        dry_run=options.dry_run,
        warnings=warnings,
    )
    await server.admission.mutate(write)
    await server.admission.validate(write)


def deleted(server: Server, resource: Resource, current: Version, options: DeleteOptions) -> Outcome:
    """Delete an object without webhooks. Raises Refused: 403, 409."""
    rules, item = server.rules(resource), current.object
    if refusal := rules.refused_deletion(resource, item):
        raise refusal
    _check_preconditions(resource, item, options)
    metadata = item["metadata"]
    grace = (
        _remaining(metadata, options) if "deletionTimestamp" in metadata else rules.grace_period(item, options.grace)
    )
    if grace == _PENDING:
        return Outcome(current, is_gone=False)
    dying = _dying(rules, item, options, grace, server.now())
    if dying is None:
        return _remove(server, resource, current, item, options)
    if dying == item:
        return Outcome(current, is_gone=False)
    if options.dry_run:
        return Outcome(Version(current.rv, current.key, dying), is_gone=False)
    version = server.storage.put(resource.storage, current.key, dying)
    if not dying["metadata"].get("finalizers") and grace == 0:
        # A watch shows a deletion without grace period as two events.
        server.storage.remove(resource.storage, current.key)
        return Outcome(version, is_gone=True)
    return Outcome(version, is_gone=False)


def _remove(server: Server, resource: Resource, current: Version, item: Object, options: DeleteOptions) -> Outcome:
    if options.dry_run:
        return Outcome(current, is_gone=True)
    server.storage.remove(resource.storage, current.key)
    return Outcome(Version(current.rv, current.key, item), is_gone=True)


_PENDING = -1


def _remaining(metadata: Object, options: DeleteOptions) -> int | None:
    """The new grace period of an object under deletion, which can only become shorter. `_PENDING` if it stays."""
    running = metadata.get("deletionGracePeriodSeconds")
    if not running:
        return None
    if options.grace is None or options.grace >= running:
        return _PENDING
    return max(0, options.grace)


def _dying(rules: Rules, item: Object, options: DeleteOptions, grace: int | None, now: datetime) -> Object | None:
    """The object with a deletion mark; None if nothing holds it."""
    metadata = item["metadata"]
    finalizers = _finalizers(rules, metadata.get("finalizers") or [], options.policy)
    if grace is None and not finalizers and not rules.lingers(item):
        return None
    kept = {name: value for name, value in metadata.items() if name != "finalizers"}
    if finalizers:
        kept["finalizers"] = finalizers
    if "deletionTimestamp" not in metadata:
        kept |= _times(rules, grace, now)
        if "generation" in metadata and rules.counts_generation and rules.dies_in_generations:
            kept["generation"] = metadata["generation"] + 1
    elif grace is not None:
        kept |= _shortened(metadata, grace, now)
    return rules.dying({**item, "metadata": kept})


def _times(rules: Rules, grace: int | None, now: datetime) -> Object:
    times: Object = {"deletionTimestamp": timestamp(now + timedelta(seconds=grace or 0))}
    return times | ({"deletionGracePeriodSeconds": grace or 0} if rules.tells_grace else {})


def _shortened(metadata: Object, grace: int, now: datetime) -> Object:
    began = datetime.fromisoformat(metadata["deletionTimestamp"]) - timedelta(
        seconds=metadata["deletionGracePeriodSeconds"]
    )
    end = max(began + timedelta(seconds=grace), now)
    return {"deletionTimestamp": timestamp(end), "deletionGracePeriodSeconds": grace}


def _finalizers(rules: Rules, finalizers: list[str], policy: str) -> list[str]:
    """The finalizers for a propagation policy, which the garbage collector carries out."""
    if not rules.is_owner:
        return finalizers
    mine = [each for each in (ORPHAN, FOREGROUND) if each in finalizers]
    if policy:
        mine = {"Orphan": [ORPHAN], "Foreground": [FOREGROUND]}.get(policy, [])
    elif not mine and rules.orphans:
        mine = [ORPHAN]
    others = [each for each in finalizers if each not in (ORPHAN, FOREGROUND)]
    return finalizers if set(mine + others) == set(finalizers) else others + mine


def _check_preconditions(resource: Resource, item: Object, options: DeleteOptions) -> None:
    metadata = item["metadata"]
    if options.uid is not None and options.uid != metadata["uid"]:
        raise _unmet(resource, metadata, "UID", options.uid, metadata["uid"], _RECREATED)
    version = metadata["resourceVersion"]
    if options.resource_version is not None and options.resource_version != version:
        raise _unmet(resource, metadata, "ResourceVersion", options.resource_version, version, _MODIFIED)


_RECREATED = "The object might have been deleted and then recreated"
_MODIFIED = "The object might have been modified"


def _unmet(resource: Resource, metadata: Object, what: str, wanted_: str, found: str, why: str) -> Exception:
    message = f"the {what} in the precondition ({wanted_}) does not match the {what} in record ({found}). {why}"
    return conflict(resource, metadata["name"], message, noun=resource.kind)
