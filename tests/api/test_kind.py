"""Where each kind lives in the REST API."""

from __future__ import annotations

import pytest

from multikueue.api import kinds
from multikueue.api.meta import ObjectKey

KEY = ObjectKey("team", "a")


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (kinds.JOBS.path(), "/apis/batch/v1/jobs"),
        (kinds.JOBS.path(KEY), "/apis/batch/v1/namespaces/team/jobs/a"),
        (
            kinds.WORKLOADS.path(KEY, subresource="status"),
            "/apis/kueue.x-k8s.io/v1beta2/namespaces/team/workloads/a/status",
        ),
        (kinds.CLUSTER_QUEUES.path(ObjectKey("", "a")), "/apis/kueue.x-k8s.io/v1beta2/clusterqueues/a"),
        (kinds.SECRETS.collection("team"), "/api/v1/namespaces/team/secrets"),
        (kinds.NAMESPACES.collection(""), "/api/v1/namespaces"),
    ],
    ids=["all", "one", "a subresource", "cluster scoped", "of core", "cluster scoped of core"],
)
def test_paths(path: str, expected: str) -> None:
    assert path == expected


def test_api_versions() -> None:
    assert (kinds.JOBS.api_version, kinds.SECRETS.api_version) == ("batch/v1", "v1")
