"""Of which release of Kueue the definitions of a cluster are, and what a copy loses on the way to an older one.

No object says which Kueue runs somewhere, but any account may read the schema of what is served. That matters more, too: an
API server drops fields that it does not know without a word, and refuses lists that it finds too long.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

import msgspec

from multikueue.api.kinds import WORKLOADS
from multikueue.errors import ApiError, Forbidden, InvalidObject, NotFound
from multikueue.kube.cluster_client import ClusterClient
from multikueue.kube.decode import UNREADABLE

__all__ = ["Definitions", "definitions", "kueue_release", "lost", "served_versions"]

Schema = Mapping[str, Any]
T = TypeVar("T")

_DOCUMENT = f"/openapi/v3/apis/{WORKLOADS.api_version}"
_RELEASE = re.compile(r":v([0-9]+\.[0-9]+\.[0-9]+)(?=@|$)")
_OWN_KIND = {"group": WORKLOADS.group, "version": WORKLOADS.version, "kind": WORKLOADS.kind}

POD_SETS = {18: "0.19", 10: "0.18"}
"""The release that first let a Workload have so many pod sets (its CHANGELOG); 8 are those of older ones."""

_DEPLOYMENT = "/apis/apps/v1/namespaces/kueue-system/deployments/kueue-controller-manager"

GATES = "preemptionGates"
"""What a Workload has since 0.17 (KEP 8303)."""


class Definitions(msgspec.Struct, frozen=True):
    """The spec of a Workload as a cluster's definition has it: its fields, such as `podSets.minCount`, without those of a
    pod, and how many pod sets one may have; 0 is unknown. `versions` are those that are served."""

    versions: tuple[str, ...]
    fields: frozenset[str]
    pod_sets: int

    @property
    def release(self) -> str:
        """The oldest release of Kueue that has them: one that brings nothing new to Workloads looks the same."""
        return POD_SETS.get(self.pod_sets) or ("0.17" if GATES in self.fields else "0.16")

    @property
    def can_read_long_names(self) -> bool:
        """Whether Kueue there finds the Workload of a job by annotation, as from 0.18 on. An older one knows the label only,
        which holds 63 characters: it would make a second Workload for a job with the annotation."""
        return self.pod_sets >= min(POD_SETS)


async def definitions(client: ClusterClient) -> Definitions | None:
    """The definitions of a cluster; None if it does not show them, or has no Kueue. Raises InvalidObject for answers that are
    no definitions."""
    try:
        versions = await served_versions(client)
        return await _read(client, _DOCUMENT, lambda document: _defined(versions, document))
    except (Forbidden, NotFound):
        return None


async def served_versions(client: ClusterClient) -> tuple[str, ...]:
    """The versions of Kueue's API that a cluster serves. Raises as `ClusterClient.request` does; NotFound without Kueue's
    definitions, InvalidObject for an answer that is no APIGroup."""
    return await _read(
        client, f"/apis/{WORKLOADS.group}", lambda group: tuple(each["version"] for each in group.get("versions", ()))
    )


async def kueue_release(client: ClusterClient, *, is_exact: bool = False) -> str:
    """The release of Kueue there, empty if unknown: `0.20.3` by the image of its Deployment, where that may be read in its
    usual place. Else, unless it has to be exact, the minor that its definitions are of: `0.18`, or `0.19+` if newer ones have
    the same."""
    try:
        found = _image_release(await client.request("GET", _DEPLOYMENT))
        if found or is_exact:
            return found
    except ApiError:
        if is_exact:
            return ""
    known = await definitions(client)
    if known is None:
        return ""
    return f"{known.release}+" if known.release == POD_SETS[max(POD_SETS)] else known.release


class _Container(msgspec.Struct, frozen=True):
    image: str = ""


class _PodSpec(msgspec.Struct, frozen=True):
    containers: tuple[_Container, ...] = ()


class _Template(msgspec.Struct, frozen=True):
    spec: _PodSpec = _PodSpec()


class _DeploymentSpec(msgspec.Struct, frozen=True):
    template: _Template = _Template()


class _Deployment(msgspec.Struct, frozen=True):
    spec: _DeploymentSpec = _DeploymentSpec()


def _image_release(deployment: bytes) -> str:
    """By the first image with a release as its tag, such as `v0.20.3`."""
    try:
        containers = msgspec.json.decode(deployment, type=_Deployment).spec.template.spec.containers
    except msgspec.DecodeError:
        return ""
    tags = (_RELEASE.search(each.image) for each in containers)
    return next((tag[1] for tag in tags if tag), "")


async def _read(client: ClusterClient, path: str, read: Callable[[dict[str, Any]], T]) -> T:
    """What `read` makes of an answer, which may be anything: a worker may be hostile."""
    answer = await client.request("GET", path)
    try:
        return read(msgspec.json.decode(answer))
    except (*UNREADABLE, AttributeError, KeyError, TypeError) as error:
        raise InvalidObject(path, "the answer", "an object of Kubernetes", answer[:50]) from error


def lost(here: Definitions, there: Definitions) -> tuple[str, ...]:
    """The fields that a copy loses on that cluster: the outermost unknown ones."""
    unknown = here.fields - there.fields
    return tuple(sorted(field for field in unknown if field.rpartition(".")[0] not in unknown))


def _defined(versions: tuple[str, ...], document: Schema) -> Definitions | None:
    spec = _spec(document)
    if spec is None:
        return None
    most = spec.get("properties", {}).get("podSets", {}).get("maxItems")
    return Definitions(versions, frozenset(_fields(spec)), most if isinstance(most, int) else 0)


def _spec(document: Schema) -> Schema | None:
    for schema in document.get("components", {}).get("schemas", {}).values():
        if _OWN_KIND in schema.get("x-kubernetes-group-version-kind", ()):
            spec: Schema | None = schema.get("properties", {}).get("spec")
            return spec
    return None


def _fields(schema: Schema, path: str = "") -> Iterator[str]:
    for name, field in schema.get("properties", {}).items():
        yield f"{path}{name}"
        if name != "template":
            yield from _fields(field.get("items", field), f"{path}{name}.")
