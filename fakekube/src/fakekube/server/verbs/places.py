"""Checks of a new object's namespace and of its definition."""

from __future__ import annotations

from fakekube.builtins.kinds import CRDS
from fakekube.model.refusals import bad_request, forbidden
from fakekube.model.resources import Resource
from fakekube.model.wire import Object, Refused
from fakekube.server.requests.routes import Route
from fakekube.server.server import Server

__all__ = ["NAMESPACES", "check_definition", "check_namespace", "placed"]

NAMESPACES = "namespaces."
"""The storage key of namespaces."""


def placed(route: Route, item: Object) -> Object:
    """The object with the namespace of the path, or without one. Raises Refused (400) if it names another namespace."""
    given = item["metadata"].get("namespace")
    if given == (route.namespace or None):
        return item
    if not route.namespace:
        return {**item, "metadata": {name: value for name, value in item["metadata"].items() if name != "namespace"}}
    if given:
        raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
    return {**item, "metadata": {**item["metadata"], "namespace": route.namespace}}


def check_namespace(server: Server, route: Route, name: str) -> None:
    """Raise Refused if the route's namespace is missing (404) or terminating (403)."""
    if not route.namespace:
        return
    version = server.storage.get(NAMESPACES, route.namespace)
    if version is None:
        details = {"name": route.namespace, "kind": "namespaces"}
        raise Refused(404, "NotFound", f'namespaces "{route.namespace}" not found', details=details)
    if "deletionTimestamp" in version.object["metadata"]:
        raise _ending(route.resource, name, route.namespace)


def _ending(resource: Resource, name: str, namespace: str) -> Refused:
    why = f"unable to create new content in namespace {namespace} because it is being terminated"
    cause = ("NamespaceTerminating", f"namespace {namespace} is being terminated", "metadata.namespace")
    return forbidden(resource, name, why, [cause])


def check_definition(server: Server, resource: Resource, name: str) -> None:
    """Raise Refused (403) if the definition of a kind is terminating."""
    if not resource.custom:
        return
    definition = server.storage.get(CRDS, f"{resource.plural}.{resource.group}")
    if definition is not None and "deletionTimestamp" in definition.object["metadata"]:
        raise forbidden(resource, name, "create not allowed while custom resource definition is terminating")
