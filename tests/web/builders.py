"""Admission reviews as an API server sends them."""

from __future__ import annotations

from base64 import b64decode
from datetime import UTC, datetime
from typing import Any

import msgspec

from multikueue.api.meta import encode

Tree = dict[str, Any]

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
QUEUED: Tree = {
    "metadata": {"name": "j", "labels": {"kueue.x-k8s.io/queue-name": "main"}},
    "spec": {"template": {"spec": {"containers": [{"name": "c"}]}}, "suspend": False},
}


def review_of(job: Any = QUEUED, *, operation: str = "CREATE", old: Any = None, **changes: Any) -> bytes:
    request = {
        "uid": "u-1",
        "kind": {"group": "batch", "version": "v1", "kind": "Job"},
        "resource": {"group": "batch", "version": "v1", "resource": "jobs"},
        "name": "j",
        "namespace": "team",
        "operation": operation,
        "userInfo": {"username": "alice"},
        "object": job,
        "oldObject": old,
        "dryRun": False,
    }
    return encode({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request | changes})


def response_in(answer: bytes) -> Tree:
    """The response; its patch decoded."""
    found = msgspec.json.decode(answer)
    assert (found["apiVersion"], found["kind"]) == ("admission.k8s.io/v1", "AdmissionReview")
    response: Tree = found["response"]
    if "patch" in response:
        response["patch"] = msgspec.json.decode(b64decode(response["patch"]))
    return response
