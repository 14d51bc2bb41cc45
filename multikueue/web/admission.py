"""AdmissionReview v1: request bytes in, response bytes out. Never raises on what a client sends."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec

from multikueue.api.meta import OwnerReference, encode
from multikueue.jobs.adapter import Admitting, Submission
from multikueue.jobs.table import BATCH_ONLY, Adapters

__all__ = ["Known", "NotAReview", "review"]


def _stands_alone(_namespace: str, _controller: OwnerReference) -> bool:
    return False


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What is known of the manager cluster, asked at each review: answers must come from memory.

    `dispatches`: (namespace, LocalQueue) to whether its ClusterQueue dispatches to workers; None if there is no such queue.
    `nested`: (namespace, controller) to whether what that controls belongs to a job in a queue.
    """

    dispatches: Callable[[str, str], bool | None]
    nested: Callable[[str, OwnerReference], bool] = _stands_alone


class NotAReview(Exception):  # says what came in, as a sentence
    """The request is no AdmissionReview that one could answer: HTTP 400."""


class _Resource(msgspec.Struct, frozen=True):
    group: str = ""
    resource: str = ""


class _Request(msgspec.Struct, frozen=True, rename="camel"):
    uid: str
    resource: _Resource = _Resource()
    sub_resource: str | None = None
    namespace: str | None = None
    operation: str = ""
    object: msgspec.Raw = msgspec.Raw(b"null")
    old_object: msgspec.Raw = msgspec.Raw(b"null")


class _Review(msgspec.Struct, frozen=True, rename="camel"):
    api_version: str
    kind: str
    request: _Request


_decode = msgspec.json.Decoder(_Review).decode


def review(body: bytes, known: Known, adapters: Adapters = BATCH_ONLY) -> bytes:
    """The answer to one AdmissionReview about a job: allowed, perhaps with a patch; or denied with the reasons.

    Whatever is not a job of a kind in use being created or updated is allowed as it is. Raises NotAReview if there is
    nothing to answer.
    """
    try:
        asked = _decode(body)
    except (msgspec.DecodeError, RecursionError) as error:
        raise NotAReview(f"not an AdmissionReview: {error}") from None
    if asked.api_version != "admission.k8s.io/v1" or asked.kind != "AdmissionReview":
        raise NotAReview(f"expected admission.k8s.io/v1 AdmissionReview, got {asked.api_version} {asked.kind}")
    answer = {
        "apiVersion": asked.api_version,
        "kind": asked.kind,
        "response": _respond(asked.request, known, adapters),
    }
    return encode(answer)


def _respond(request: _Request, known: Known, adapters: Adapters) -> dict[str, Any]:
    allowed: dict[str, Any] = {"uid": request.uid, "allowed": True}
    adapter = adapters.resource(request.resource.group, request.resource.resource)
    if adapter is None or request.sub_resource or request.operation not in ("CREATE", "UPDATE"):
        return allowed
    try:
        job = adapter.submitted(request.object)
        old = adapter.submitted(request.old_object) if request.operation == "UPDATE" else None
    except (msgspec.DecodeError, RecursionError) as error:
        return _denied(request, f"the {adapter.kind.kind} can't be read: {error}")
    if not job.queue and (old is None or not old.queue):
        return allowed
    if job.is_part and _is_controlled(job, adapters):
        return allowed  # what a job of ours controls is held with it
    problem = adapter.refusal(job, old)
    if problem is not None:
        return _denied(request, problem)
    if old is not None and adapter not in adapters.templates:
        return allowed  # it is settled; from a template, though, new jobs may be made at any time
    namespace = request.namespace or job.namespace
    if job.controller is not None and known.nested(namespace, job.controller):
        return allowed  # it is held and let go of by what it belongs to
    return allowed | _defaults(adapter, job, namespace, known)


def _is_controlled(job: Submission, adapters: Adapters) -> bool:
    owner = job.controller
    return owner is not None and adapters.owner(owner.api_version, owner.kind) is not None


def _defaults(adapter: Admitting, job: Submission, namespace: str, known: Known) -> dict[str, Any]:
    dispatched = known.dispatches(namespace, job.queue)
    patch = adapter.defaults(job, queue_uses_multikueue=bool(dispatched))
    found: dict[str, Any] = {}
    if patch:
        found = {"patchType": "JSONPatch", "patch": b64encode(encode(patch)).decode()}
    if dispatched is None and job.managed_by_default:
        found["warnings"] = [
            f"LocalQueue {job.queue} doesn't exist in namespace {namespace} yet, so the job isn't marked for dispatch "
            "to other clusters, and the mark (managedBy) can't be added later"
        ]
    return found


def _denied(request: _Request, message: str) -> dict[str, Any]:
    status = {"code": 403, "reason": "Forbidden", "message": message}
    return {"uid": request.uid, "allowed": False, "status": status}
