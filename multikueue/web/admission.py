"""AdmissionReview v1: request bytes in, response bytes out. A malformed request raises NotAReview, and nothing else."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable
from typing import Any

import msgspec

from multikueue.api.meta import OwnerReference, encode
from multikueue.api.values.foreign import why_unreadable
from multikueue.jobs.framework.adapter import Admitting, Submission
from multikueue.jobs.framework.webhook import DEFAULT_QUEUE, Patch
from multikueue.jobs.integrations.frameworks import BATCH_ONLY, Adapters

__all__ = ["AdmissionLookups", "NotAReview", "review"]


def _has_no_default(_namespace: str) -> bool:
    return False


def _is_managed(_namespace: str) -> bool:
    return True


def _is_not_so(_namespace: str, _controller: OwnerReference) -> bool:
    return False


class AdmissionLookups(msgspec.Struct, frozen=True, kw_only=True):
    """Knowledge about the manager cluster. Each review calls the functions, which must answer from memory.

    `does_dispatch`: (namespace, LocalQueue) to whether its ClusterQueue dispatches to workers; None if there is no such
    queue. `is_nested`: (namespace, controller) to whether the objects of that controller belong to a job in a queue.
    `is_stale`: (namespace, controller) to whether the job of that name is another one, by its UID: such an owner counts for
    nothing (kueue#14658).
    `has_default`: whether a namespace has a LocalQueue for jobs that name none. `is_managed`: whether jobs of a namespace
    are taken in; others are let through.
    """

    does_dispatch: Callable[[str, str], bool | None]
    is_nested: Callable[[str, OwnerReference], bool] = _is_not_so
    is_stale: Callable[[str, OwnerReference], bool] = _is_not_so
    has_default: Callable[[str], bool] = _has_no_default
    is_managed: Callable[[str], bool] = _is_managed


class NotAReview(Exception):  # its message is a sentence about the request
    """The request is no AdmissionReview that can be answered: HTTP 400."""


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

_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_SHOWN = 200
"""Characters of a client's text that are sent back, and logged."""


def review(body: bytes, known: AdmissionLookups, adapters: Adapters = BATCH_ONLY) -> bytes:
    """The answer to one AdmissionReview about a job: allowed, with a patch if one is needed; or denied with the reasons.

    All but the creation or update of a job of a kind in use is allowed unchanged. Raises NotAReview if the body is no
    AdmissionReview.
    """
    try:
        asked, too_deep = _read(body)
    except _UNREADABLE as error:
        raise NotAReview(f"not an AdmissionReview: {str(error)[:_SHOWN]}") from None
    if asked.api_version != "admission.k8s.io/v1" or asked.kind != "AdmissionReview":
        got = f"{asked.api_version} {asked.kind}"[:_SHOWN]
        raise NotAReview(f"expected admission.k8s.io/v1 AdmissionReview, got {got}")
    answer = {
        "apiVersion": asked.api_version,
        "kind": asked.kind,
        "response": _respond(asked.request, known, adapters, too_deep),
    }
    return encode(answer)


def _read(body: bytes) -> tuple[_Review, RecursionError | None]:
    """The review; without its objects, which API servers send last, if they are nested too deeply to be decoded."""
    try:
        return _decode(body), None
    except RecursionError as error:
        head, _, _ = body.partition(b'"object":')
        return _decode(head.rstrip(b", \t\r\n") + b"}}"), error


def _respond(
    request: _Request, known: AdmissionLookups, adapters: Adapters, too_deep: RecursionError | None
) -> dict[str, Any]:
    allowed: dict[str, Any] = {"uid": request.uid, "allowed": True}
    adapter = adapters.resource(request.resource.group, request.resource.resource)
    if adapter is None or request.sub_resource or request.operation not in ("CREATE", "UPDATE"):
        return allowed
    try:
        if too_deep is not None:
            raise too_deep
        return allowed | _about(adapter, request, known, adapters)
    except _UNREADABLE as error:
        return _denied(request, f"the {adapter.kind.kind} can't be read: {why_unreadable(error)}")


def _about(adapter: Admitting, request: _Request, known: AdmissionLookups, adapters: Adapters) -> dict[str, Any]:
    """The fields to add to an answer that allows the job; a denial overrides `allowed`."""
    job = adapter.submitted(request.object)
    old = adapter.submitted(request.old_object) if request.operation == "UPDATE" else None
    namespace = request.namespace or job.namespace
    if not known.is_managed(namespace):
        return {}
    controller = job.controller
    if controller is not None and known.is_stale(namespace, controller):
        controller = None
    is_controlled = controller is not None and adapters.owner(controller.api_version, controller.kind) is not None
    first: list[Patch] = []
    is_due = _should_default_queue(adapter, job, old, adapters, is_controlled=is_controlled)
    if is_due and known.has_default(namespace):
        first, job = [job.queue_patch(DEFAULT_QUEUE)], job.in_queue(DEFAULT_QUEUE)
    if not (job.queue or (old is not None and old.queue)) or (job.is_part and is_controlled):
        return {}  # in no queue, or a part of a job of ours, which is held with that job
    problem = adapter.refusal(job, old)
    if problem is not None:
        return _denied(request, problem)
    if old is not None and adapter not in adapters.templates:
        return {}  # an existing job keeps its fields; an existing template, though, may make new jobs at any time
    if controller is not None and known.is_nested(namespace, controller):
        return {}  # the job that it belongs to is suspended and started, and this one with it
    return _defaults(adapter, job, namespace, known, first)


def _should_default_queue(
    adapter: Admitting, job: Submission, old: Submission | None, adapters: Adapters, *, is_controlled: bool
) -> bool:
    """Whether the object gets the default queue, where there is one: a new object, or a template that lost its queue.
    An object that a job of ours controls gets a queue with that job, if at all."""
    is_due = old is None or (bool(old.queue) and adapter in adapters.templates)
    return is_due and not job.queue and not is_controlled


def _defaults(
    adapter: Admitting, job: Submission, namespace: str, known: AdmissionLookups, first: list[Patch]
) -> dict[str, Any]:
    dispatched = known.does_dispatch(namespace, job.queue)
    patch = first + adapter.defaults(job, is_multikueue_queue=bool(dispatched))
    found: dict[str, Any] = {}
    if patch:
        found = {"patchType": "JSONPatch", "patch": b64encode(encode(patch)).decode()}
    if dispatched is None and job.is_managed_by_default:
        found["warnings"] = [
            f"LocalQueue {job.queue} doesn't exist in namespace {namespace} yet, so the job isn't marked for dispatch "
            "to other clusters, and the mark (managedBy) can't be added later"
        ]
    return found


def _denied(request: _Request, message: str) -> dict[str, Any]:
    status = {"code": 403, "reason": "Forbidden", "message": message}
    return {"uid": request.uid, "allowed": False, "status": status}
