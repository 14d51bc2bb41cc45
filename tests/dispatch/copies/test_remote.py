from __future__ import annotations

from typing import Any

import msgspec
import pytest

from multikueue.api.kueue.workload import Workload
from multikueue.api.meta import encode
from multikueue.dispatch.copies.remote import drift


def of(container: dict[str, Any], **template: Any) -> Workload:
    """A Workload with one container."""
    pod_set = {
        "name": "main",
        "count": 1,
        "template": {"spec": {"containers": [{"name": "c", **container}]}, **template},
    }
    return Workload(spec=msgspec.Raw(encode({"podSets": [pod_set], "queueName": "main"})))


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        pytest.param(of({}), of({"resources": {}}, metadata={}), id="with empty parts"),
        pytest.param(
            of({"resources": {"requests": {"cpu": "0.5", "memory": "1024Mi"}}}),
            of({"resources": {"requests": {"cpu": "500m", "memory": "1Gi"}}}),
            id="quantities in their shortest form",
        ),
        pytest.param(
            of({"env": [{"name": "A", "value": ""}], "volumeMounts": [{"name": "v", "readOnly": False}]}),
            of({"env": [{"name": "A"}], "volumeMounts": [{"name": "v"}]}),
            id="without zeros",
        ),
    ],
)
def test_a_copy_that_the_workers_kueue_wrote_anew_is_in_step(ours: Workload, theirs: Workload) -> None:
    assert drift(ours, theirs) == frozenset()


def test_a_copy_that_asks_for_something_else_is_not() -> None:
    assert drift(of({"image": "a"}), of({"image": "b"})) == {"podSets"}
