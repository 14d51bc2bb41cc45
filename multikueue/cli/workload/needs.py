"""What the pods of a job name and do not bring along, such as a ConfigMap: their cluster has to have it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import msgspec

from multikueue.errors import ApiError, NotFound

if TYPE_CHECKING:
    from multikueue.cli.access.worker_access import WorkerAccess
    from multikueue.kube.cluster_client import ClusterClient

__all__ = ["Need", "has", "missing", "needs", "needs_of"]

Tree = Mapping[str, Any]

ANSWER_WITHIN = timedelta(seconds=5)
"""The time that a worker has: what it lacks is a warning, and the job waits for none."""

_PATHS = {
    "ConfigMap": "/api/v1/namespaces/{}/configmaps/{}",
    "Secret": "/api/v1/namespaces/{}/secrets/{}",
    "PersistentVolumeClaim": "/api/v1/namespaces/{}/persistentvolumeclaims/{}",
    "ServiceAccount": "/api/v1/namespaces/{}/serviceaccounts/{}",
    "RuntimeClass": "/apis/node.k8s.io/v1/runtimeclasses/{1}",
}


class Need(msgspec.Struct, frozen=True, order=True):
    """An object that has to be where the pods are, in their namespace if it has one."""

    kind: str
    name: str


def needs(templates: Iterable[Tree]) -> tuple[Need, ...]:
    """What pods of these templates do not start without: what is optional is none."""
    found = (need for template in templates for need in _of_pod(template.get("spec") or {}))
    return tuple(sorted(set(found)))


def needs_of(job: dict[str, Any]) -> tuple[Need, ...]:
    """What the pods of a job need; nothing for a kind that settings declare, whose pods are unknown here."""
    from multikueue.api.meta import decoder, encode
    from multikueue.jobs.framework.priority import Priority
    from multikueue.jobs.integrations.frameworks import known_kind

    adapter = known_kind(job["apiVersion"], job["kind"])
    if adapter is None:
        return ()
    body = adapter.workload_body(decoder(adapter.kind.type)(encode(job)), priority=Priority())
    return needs(each["template"] for each in body["spec"]["podSets"])


async def missing(
    manager: ClusterClient, reach: WorkerAccess, workers: Sequence[str], namespace: str, wanted: Collection[Need]
) -> list[str]:
    """What these workers lack, a line for each, as far as the user may see it."""
    from multikueue.cli.workload.prospects import on_each

    async def lacking(worker: ClusterClient) -> list[Need]:
        return [need for need in wanted if not await has(worker, namespace, need)]

    found, _ = await on_each(manager, reach, workers, lacking, within=ANSWER_WITHIN)
    return [
        f"{name} has no {', no '.join(f'{each.kind} {each.name}' for each in found[name])} (namespace {namespace}): pods that "
        "name it do not start there; create it there"
        for name in workers
        if found.get(name)
    ]


async def has(worker: ClusterClient, namespace: str, need: Need) -> bool:
    """Whether it is there, or cannot be seen."""
    try:
        await worker.request("GET", _PATHS[need.kind].format(namespace, quote(need.name, safe="")))
    except NotFound:
        return False
    except ApiError:
        return True
    return True


def _of_pod(spec: Tree) -> Iterator[Need]:
    for volume in spec.get("volumes") or ():
        yield from _of_volume(volume)
    for container in (*(spec.get("initContainers") or ()), *(spec.get("containers") or ())):
        for source in container.get("envFrom") or ():
            yield from _named("ConfigMap", source.get("configMapRef"))
            yield from _named("Secret", source.get("secretRef"))
        for variable in container.get("env") or ():
            source = variable.get("valueFrom") or {}
            yield from _named("ConfigMap", source.get("configMapKeyRef"))
            yield from _named("Secret", source.get("secretKeyRef"))
    for secret in spec.get("imagePullSecrets") or ():
        yield from _named("Secret", secret)
    if (account := spec.get("serviceAccountName")) and account != "default":
        yield Need("ServiceAccount", account)
    if runtime := spec.get("runtimeClassName"):
        yield Need("RuntimeClass", runtime)


def _of_volume(volume: Tree) -> Iterator[Need]:
    yield from _named("ConfigMap", volume.get("configMap"))
    yield from _named("Secret", volume.get("secret"), field="secretName")
    yield from _named("PersistentVolumeClaim", volume.get("persistentVolumeClaim"), field="claimName")
    for source in (volume.get("projected") or {}).get("sources") or ():
        yield from _named("ConfigMap", source.get("configMap"))
        yield from _named("Secret", source.get("secret"))


def _named(kind: str, reference: Tree | None, *, field: str = "name") -> Iterator[Need]:
    if reference and reference.get(field) and not reference.get("optional"):
        yield Need(kind, reference[field])
