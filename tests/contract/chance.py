"""Random calls: plausible ones most of the time, drawn from a seed, the same for every server."""

from __future__ import annotations

import copy
import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.contract.builders import GROUP_VERSION, condition
from tests.contract.server import Answer, Object
from tests.contract.space import APPLY, JSON_PATCH, MERGE, STRATEGIC, Collection, Space

__all__ = ["Chance", "Step"]

KINDS = {
    "widgets": (GROUP_VERSION, "Widget"),
    "configmaps": ("v1", "ConfigMap"),
    "secrets": ("v1", "Secret"),
    "leases": ("coordination.k8s.io/v1", "Lease"),
    "jobs": ("batch/v1", "Job"),
}

WITH_STATUS = ("widgets", "jobs")

PATCHES = {"merge": MERGE, "json": JSON_PATCH, "strategic": STRATEGIC, "apply": APPLY}

# How often what is done.
VERBS = {"create": 15, "update": 15, "merge": 22, "json": 10, "strategic": 8, "apply": 22, "delete": 4, "get": 4}

# A field, how often it is named, and what it may be then. The values behind a bar are no good.
Choice = tuple[float, list[Any], list[Any]]

WIDGET: Mapping[str, Choice] = {
    "size": (0.4, [0, 1, 3, 5, 100], [101, "x", 1.5]),
    "smallest": (0.15, [0, 0, 1], [3, 200]),
    "mode": (0.1, ["Fast"], ["Slow", "Other"]),
    "title": (0.2, ["abc", "de"], ["a", "ABC", "a" * 11, 5]),
    "limit": (0.2, [5, 6], ["x"]),
    "amount": (0.2, [5, "1Gi", "x"], [True]),
    "free": (0.2, [{}, {"a": 1, "b": {"c": [1]}}, {"b": {"d": "x"}}], []),
    "notes": (0.25, [{}, {"k": "v"}, {"k": "v", "l": ""}, {"l": "x"}], [{"k": 1}]),
    "policy": (0.2, [{}, {"owner": "me"}, {"retries": 5}], ["p"]),
    "parts": (
        0.35,
        [
            [],
            [{"name": "x"}],
            [{"name": "x"}, {"name": "y", "count": 2}],
            [{"name": "y", "color": "red"}, {"name": "x"}],
            [{"name": "z", "count": 3}],
            [{"name": "x", "color": "blue"}],
        ],
        [[{"name": "x"}, {"name": "x"}]],
    ),
    "tags": (0.3, [[], ["t"], ["t", "u"], ["u", "t", "v"], ["v"]], [["t", "t"]]),
    "sizes": (0.2, [[], [1, 2], [2], [1, 1]], [["x"]]),
    "fixed": (0.2, [{}, {"a": "1"}, {"b": "2"}, {"a": "1", "b": "3"}], []),
}

WIDGET_STATUS: Mapping[str, Choice] = {
    "phase": (0.5, ["A", "B", ""], [5]),
    "replicas": (0.2, [0, 1], ["x"]),
    "conditions": (
        0.6,
        [
            [],
            [condition("A", "True")],
            [condition("A", "False"), condition("B", "True")],
            [condition("B", "True")],
            [{"type": "A", "status": "True"}],
            [condition("C", "Unknown")],
        ],
        [[condition("A", "Maybe")], [condition("A", "True"), condition("A", "False")]],
    ),
}

LEASE: Mapping[str, Choice] = {
    "holderIdentity": (0.5, ["me", "you"], [5]),
    "leaseDurationSeconds": (0.4, [15, 20], [0, -1]),
    "renewTime": (0.4, ["2026-01-01T00:00:00.123456Z", "2026-01-01T00:00:01.000000Z"], ["2026-01-01T00:00:00Z"]),
    "leaseTransitions": (0.3, [0, 1], [-1]),
}

CONTAINER: Object = {"name": "main", "image": "pause", "resources": {"requests": {"cpu": "1000m"}}}

TEMPLATES: list[Object] = [
    {"spec": {"restartPolicy": "Never", "containers": [CONTAINER]}},
    {"spec": {"restartPolicy": "OnFailure", "containers": [CONTAINER, {"name": "side", "image": "x:1"}]}},
    {"metadata": {"labels": {"app": "x"}}, "spec": {"restartPolicy": "Never", "containers": [CONTAINER]}},
    {
        "spec": {
            "restartPolicy": "Never",
            "nodeSelector": {"zone": "a"},
            "tolerations": [{"key": "k", "operator": "Exists"}],
            "volumes": [{"name": "v", "emptyDir": {}}, {"name": "w", "configMap": {"name": "m"}}],
            "containers": [{**CONTAINER, "env": [{"name": "A", "value": "1"}, {"name": "B"}]}],
        }
    },
]

JOB: Mapping[str, Choice] = {
    "parallelism": (0.3, [0, 1, 2], [-1, "x"]),
    "suspend": (0.6, [True, True, False], []),
    "backoffLimit": (0.1, [0, 3], [-1]),
    "ttlSecondsAfterFinished": (0.1, [5], [-1]),
    "template": (0.1, [{"spec": {"nodeSelector": {"zone": "b"}}}, {"metadata": {"annotations": {"a": "b"}}}], []),
}

NEW_JOB: Mapping[str, Choice] = {
    **JOB,
    "template": (1, TEMPLATES, [{"spec": {"containers": [CONTAINER]}}, {"spec": {"restartPolicy": "Never"}}]),
    "completions": (0.2, [1, 2], [-1]),
    "completionMode": (0.1, ["Indexed", "NonIndexed"], ["Other"]),
    "managedBy": (0.1, ["example.com/x"], ["bad"]),
}

JOB_STATUS: Mapping[str, Choice] = {
    "active": (0.4, [0, 1, 2], [-1]),
    "ready": (0.2, [0, 1], [5]),
    "succeeded": (0.2, [0, 1], [-1]),
    "startTime": (0.5, ["2026-01-01T00:00:00Z"], ["2026-01-01T00:00:05Z"]),
    "completionTime": (0.1, ["2026-01-01T00:01:00Z"], ["2025-01-01T00:00:00Z"]),
    "conditions": (
        0.3,
        [
            [],
            [condition("Suspended", "True")],
            [condition("Suspended", "False")],
            [condition("SuccessCriteriaMet", "True"), condition("Complete", "True")],
            [condition("FailureTarget", "True"), condition("Failed", "True")],
        ],
        [[condition("Complete", "True")]],
    ),
}

CONFIG_MAP: Mapping[str, Choice] = {
    "data": (
        0.9,
        [{}, {"k": "v"}, {"k": "w", "l": ""}, {"m": "1", "k": "v"}, {"m": "2"}],
        [{"bad key": "v"}, {"k": 1}],
    ),
    "binaryData": (0.15, [{"b": "AAEC"}], []),
}

SECRET: Mapping[str, Choice] = {
    "data": (0.8, [{"k": "eA=="}, {"k": "eQ==", "l": ""}, {"m": "eA=="}], [{"bad key": "eA=="}]),
    "type": (0.3, ["Opaque"], ["other"]),
}

METADATA: Mapping[str, Choice] = {
    "labels": (0.3, [{"x": "y"}, {"x": "z", "w": "1"}, {"w": "2"}], [{"bad key!": "v"}, {"x": "-bad"}]),
    "annotations": (0.15, [{"a": "b"}, {"a": "c", "d": ""}], []),
    "finalizers": (0.08, [["example.com/a"], ["example.com/a", "example.com/b"]], [["bad name"]]),
}

PATHS = {
    "widgets": [
        "/spec/size",
        "/spec/parts/0",
        "/spec/parts/-",
        "/spec/tags/0",
        "/spec/notes/k",
        "/spec/nothing",
        "/metadata/labels/x",
        "/metadata/labels",
        "/metadata/finalizers",
        "/spec",
        "/spec/free/a",
    ],
    "configmaps": ["/data/k", "/data/z", "/metadata/labels", "/metadata/labels/x", "/metadata/finalizers"],
    "secrets": ["/data/k", "/type", "/metadata/labels"],
    "leases": ["/spec/holderIdentity", "/spec/leaseDurationSeconds", "/metadata/labels"],
    "jobs": ["/spec/parallelism", "/spec/suspend", "/spec/template/spec/nodeSelector", "/metadata/labels/x"],
}

# A patch of the status that spoils the spec changes nothing, but then nobody owns anything any more.
STATUS_PATHS = ["/status", "/status/phase", "/status/conditions", "/status/conditions/0", "/metadata/labels/x"]

PATCHED = [1, "x", {}, {"name": "x"}, ["example.com/a"], "eA==", {"x": "y"}]


@dataclass(frozen=True, slots=True)
class Step:
    """One call. An update replaces what it reads by that with `body` merged into it."""

    kind: str
    verb: str
    name: str
    subresource: str
    body: Any
    query: dict[str, str] = field(default_factory=dict)
    is_versioned: bool = False
    """Whether an update names the version it has read."""

    async def take(self, space: Space) -> Answer:
        collection = of(space, self.kind)
        if self.verb == "create":
            return await collection.create(self.body, **self.query)
        if self.verb == "get":
            return await collection.get(self.name)
        if self.verb == "delete":
            return await collection.delete(self.name, self.body, **self.query)
        if self.verb == "update":
            return await self._update(collection)
        return await collection.patch(
            self.name, self.body, self.subresource, content_type=PATCHES[self.verb], **self.query
        )

    async def _update(self, collection: Collection) -> Answer:
        found = (await collection.get(self.name)).body
        if found["kind"] == "Status":
            found = identified(self.kind, self.name)
        if not self.is_versioned:
            found["metadata"].pop("resourceVersion", None)
        return await collection.put(merged(found, self.body), self.subresource, name=self.name, **self.query)


def of(space: Space, kind: str) -> Collection:
    group_version = KINDS[kind][0]
    return space.of(group_version, kind) if "/" in group_version else space.core(kind)


def identified(kind: str, name: str) -> Object:
    api_version, spoken = KINDS[kind]
    return {"apiVersion": api_version, "kind": spoken, "metadata": {"name": name}}


def merged(one: Any, other: Any) -> Any:
    if not isinstance(one, dict) or not isinstance(other, dict):
        return other
    return one | {name: merged(one.get(name), value) for name, value in other.items()}


class Chance:
    """Steps from a seed; one value in fifty is no good."""

    BAD = 0.02

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def step(self) -> Step:
        kind = self._one(list(KINDS))
        verb = self._random.choices(list(VERBS), list(VERBS.values()))[0]
        name = self._one(["a", "b"])
        subresource = "status" if kind in WITH_STATUS and verb not in ("create", "delete") and self._often(0.3) else ""
        query = {"dryRun": "All"} if self._often(0.05) else {}
        if verb in ("merge", "apply"):
            query["fieldManager"] = self._one(["one", "two"])
        if verb == "apply":
            query["force"] = self._one(["true", "true", "false"])
        return Step(kind, verb, name, subresource, self._body(kind, verb, name, subresource), query, self._often(0.5))

    def _body(self, kind: str, verb: str, name: str, subresource: str) -> Any:
        if verb == "get":
            return None
        if verb == "delete":
            return {"propagationPolicy": "Background"}
        if verb == "json":
            paths = STATUS_PATHS if subresource else PATHS[kind]
            return [self._operation(paths) for _ in range(self._random.randint(1, 2))]
        content = {"metadata": self._drawn(METADATA), **self._content(kind, verb, subresource)}
        return merged(identified(kind, name), content) if verb in ("create", "apply") else content

    def _content(self, kind: str, verb: str, subresource: str) -> Object:
        if subresource:
            return {"status": self._drawn(WIDGET_STATUS if kind == "widgets" else JOB_STATUS)}
        if kind == "jobs":
            return {"spec": self._drawn(NEW_JOB if verb in ("create", "apply") else JOB)}
        if kind in ("widgets", "leases"):
            return {"spec": self._drawn(WIDGET if kind == "widgets" else LEASE)}
        return self._drawn(CONFIG_MAP if kind == "configmaps" else SECRET)

    def _operation(self, paths: list[str]) -> Object:
        op = self._one(["add", "add", "replace", "replace", "remove", "test"])
        made = {"op": op, "path": self._one(paths)}
        return made if op == "remove" else {**made, "value": self._one(PATCHED)}

    def _drawn(self, choices: Mapping[str, Choice]) -> Object:
        named = [name for name, (often, _, _) in choices.items() if self._often(often)]
        return {name: copy.deepcopy(self._value(*choices[name][1:])) for name in named}

    def _value(self, good: list[Any], bad: list[Any]) -> Any:
        return self._one(bad) if bad and self._often(self.BAD) else self._one(good)

    def _one(self, choices: list[Any]) -> Any:
        return self._random.choice(choices)

    def _often(self, probability: float) -> bool:
        return self._random.random() < probability
