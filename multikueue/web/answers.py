"""The documents of the visibility API that say why workloads do not run. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from multikueue.answers.answer import JobAnswer
from multikueue.api.kueue.workload import Workload
from multikueue.quota.visibility.explain import Explanation
from multikueue.web.visibility import EXPLANATIONS, EXPLANATIONS_VERSION, Explain
from multikueue.workload.nomination.choice import ExplainedChoice
from multikueue.workload.nomination.prospects import Prospect

__all__ = ["ELSEWHERE", "answers", "explanation", "own_names"]

ELSEWHERE = "a workload of another namespace"


def explanation(
    request: Explain,
    found: Explanation | None,
    workers: Sequence[Prospect],
    answer: JobAnswer,
    choice: ExplainedChoice | None = None,
) -> dict[str, Any]:
    """The WorkloadExplanation: why it does not run, the missing quota (absent if it waits for none), the prospects on each
    worker, and what its strategy thinks of each, while it has none. `found` has the names that may be shown (`own_names`)."""
    document: dict[str, Any] = {
        "kind": "WorkloadExplanation",
        "apiVersion": f"{EXPLANATIONS}/{EXPLANATIONS_VERSION}",
        "metadata": {"name": request.name, "namespace": request.namespace},
        "answer": answer.document(),
    }
    if found is not None:
        document["quota"] = msgspec.to_builtins(found)
    if workers:
        document["workers"] = msgspec.to_builtins(workers)
    if choice is not None:
        document["choice"] = msgspec.to_builtins(choice)
    return document


def answers(found: Iterable[tuple[Workload, JobAnswer]], *, is_partial: bool) -> dict[str, Any]:
    """The WorkloadAnswerList: each with the version of the workload that it is about."""
    return {
        "kind": "WorkloadAnswerList",
        "apiVersion": f"{EXPLANATIONS}/{EXPLANATIONS_VERSION}",
        "metadata": {},
        "items": [
            {
                "metadata": {
                    "name": workload.metadata.name,
                    "namespace": workload.metadata.namespace,
                    "resourceVersion": workload.metadata.resource_version,
                },
                "answer": answer.document(),
            }
            for workload, answer in found
        ],
        **({"partial": True} if is_partial else {}),
    }


def own_names(found: Explanation, namespace: str) -> Explanation:
    """Without the names of workloads in other namespaces: a LocalQueue's pending workloads do not show them either."""

    def shown(name: str) -> str:
        return name if not name or name.startswith(f"{namespace}/") else ELSEWHERE

    endings = tuple(replace(each, workload=shown(each.workload)) for each in found.endings)
    enough = tuple(dict.fromkeys(map(shown, found.enough)))
    return replace(found, behind=shown(found.behind), endings=endings, enough=enough)
