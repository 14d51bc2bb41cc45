"""Who sends patches at random to the real API server and to the sandbox, and what they send."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from tests.fakekube.gadgets import GADGET, GROUP, VERSIONS

__all__ = [
    "APPLY",
    "JSON_PATCH",
    "MERGE",
    "PUT",
    "STRATEGIC",
    "Author",
    "Deployer",
    "Object",
    "Place",
    "Request",
    "gadget",
]

Object = dict[str, Any]

APPLY = "application/apply-patch+yaml"
MERGE = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
PUT = "application/json"


@dataclass(frozen=True)
class Request:
    manager: str
    type: str
    body: Any
    subresource: str = ""
    force: bool = False
    version: str = "v1"

    @property
    def query(self) -> dict[str, str]:
        return {"fieldManager": self.manager} | ({"force": "true"} if self.force else {})


@dataclass(frozen=True)
class Place:
    """An object, where it is, and what is known of its kind."""

    path: str
    api_version: str
    schema: Mapping[str, Any]
    custom: bool = False
    has_status: bool = True

    @property
    def resets(self) -> tuple[str, ...] | None:
        return None if self.has_status else ()


def gadget(namespace: str, name: str, version: str = "v1") -> Place:
    api_version = f"{GROUP}/{version}"
    return Place(f"/apis/{api_version}/namespaces/{namespace}/gadgets/{name}", api_version, GADGET, custom=True)


class Author:
    """Writes requests at random: few names and few values, so that managers meet."""

    def __init__(self, seed: int, namespace: str, name: str, owners: Sequence[Object]) -> None:
        """`owners` are objects that are there: a garbage collector may be, too."""
        self.random = Random(seed)
        self.identity = {"name": name, "namespace": namespace}
        self.owners = [
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "name": owner["metadata"]["name"],
                "uid": owner["metadata"]["uid"],
            }
            for owner in owners
        ]

    def some(self, fields: Mapping[str, Any], most: int) -> Object:
        names = self.random.sample(sorted(fields), self.random.randint(0, most))
        return {name: fields[name]() for name in names}

    def word(self) -> str:
        return self.random.choice("abc")

    def words(self) -> list[str]:
        return self.random.sample("abcd<", self.random.randint(0, 3))

    def flat(self) -> Object:
        return {self.word(): self.word() for _ in range(self.random.randint(0, 2))}

    def port(self, number: int) -> Object:
        fields = {
            "protocol": lambda: self.random.choice(["TCP", "UDP"]),
            "name": self.word,
            "tags": self.words,
        }
        return {"number": number, **self.some(fields, 3)}

    def ports(self) -> list[Object]:
        return [self.port(number) for number in self.random.sample([80, 443, 8080], self.random.randint(0, 3))]

    def spec(self, most: int = 5) -> Object:
        one_of = self.random.choice
        fields = {
            "color": self.word,
            "size": lambda: one_of([1, 2]),
            "weight": lambda: one_of([1.5, 2]),
            "limit": lambda: one_of([1, "50%"]),
            "note": lambda: one_of([None, "n"]),
            "options": self.flat,
            "whole": lambda: one_of([{}, {"a": "1"}, {"a": "2", "b": {"c": "1"}}]),
            "parts": lambda: self.some(
                {"left": self.word, "right": self.word, "inner": lambda: one_of([{}, {"x": "1"}])}, 3
            ),
            "words": self.words,
            "numbers": lambda: self.random.sample([1, 2, 3, 10], self.random.randint(0, 3)),
            "steps": self.words,
            "things": lambda: [{"x": self.word()}],
            "ports": self.ports,
            "free": lambda: self.some({"a": lambda: {"b": self.word()}, "l": lambda: [self.flat()], "s": self.word}, 3),
        }
        return self.some(fields, most)

    def status(self) -> Object:
        condition = {"status": self.word, "reason": self.word}
        fields = {
            "phase": self.word,
            "count": lambda: self.random.choice([1, 2]),
            "conditions": lambda: [
                {"type": type_, **self.some(condition, 2)} for type_ in self.random.sample(["A", "B", "C"], 2)
            ],
        }
        return self.some(fields, 3)

    def metadata(self) -> Object:
        # Nothing is empty here: an apply would store it so, to be gone, by a write, at the next request.
        fields = {
            "labels": lambda: {self.word(): self.word(), self.word(): self.word()},
            "annotations": lambda: {self.word(): self.word()},
            "finalizers": lambda: self.random.sample(["x.io/a", "x.io/b"], self.random.randint(1, 2)),
            "ownerReferences": lambda: [
                owner | {"blockOwnerDeletion": self.random.random() < 0.5}
                for owner in self.random.sample(self.owners, self.random.randint(1, 2))
            ],
        }
        return {**self.identity, **self.some(fields, 1)}

    def whole(self, version: str) -> Object:
        return {
            "apiVersion": f"{GROUP}/{version}",
            "kind": "Gadget",
            "metadata": self.metadata(),
            "spec": self.spec(),
            "status": self.status(),
        }

    def request(self, live: Object) -> Request:
        version = self.random.choices(VERSIONS, [9, 1])[0]
        common: dict[str, Any] = {
            "manager": self.random.choice(["alice", "bob", "carol"]),
            "subresource": self.random.choice(["", "", "status"]),
            "version": version,
        }
        match self.random.randint(0, 9):
            case 0 | 1 | 2 | 3 | 4:
                force = self.random.random() < 0.6
                return Request(type=APPLY, body=self.whole(version), force=force, **common)
            case 5 | 6:
                return Request(type=MERGE, body=self.nulled(live), **common)
            case 7:
                return Request(type=JSON_PATCH, body=self.operations(live), **common)
            case 8:
                body = self.whole(version)
                body["metadata"]["resourceVersion"] = live["metadata"]["resourceVersion"]
                return Request(type=PUT, body=body, **common)
        return Request(type=MERGE, body={"metadata": {"managedFields": self.entries(live)}}, **common)

    def nulled(self, live: Object) -> Object:
        patch: Object = {"spec": self.spec(3), "status": self.status(), "metadata": self.some({"labels": self.flat}, 1)}
        for part in ("spec", "status"):
            for name in self.random.sample(sorted(live.get(part, {})), min(1, len(live.get(part, {})))):
                patch[part][name] = None
        return patch

    def operations(self, live: Object) -> list[Object]:
        part = self.random.choice(["spec", "status"])
        if not live.get(part):
            return [{"op": "add", "path": f"/{part}", "value": {}}]
        name = self.random.choice(sorted(live[part]))
        path = f"/{part}/{name}"
        spec, status = self.spec(2), self.status()
        adds = [
            {"op": self.random.choice(["add", "replace"]), "path": f"/{part}/{key}", "value": value}
            for key, value in (spec if part == "spec" else status).items()
        ]
        return self.random.choice(
            [
                adds,
                [{"op": "remove", "path": path}],
                [{"op": "remove", "path": f"/{part}/nothing"}],
                # The real server compares texts as they are encoded, and encodes what is special in HTML.
                [{"op": "test", "path": path, "value": live[part][name]}, *adds]
                if "<" not in str(live[part][name])
                else [],
                [{"op": "test", "path": path, "value": "other"}, *adds],
                [{"op": "test", "path": f"/{part}/nothing", "value": None}, *adds],
                [{"op": "copy", "from": "/metadata/name", "path": "/spec/color"}],
                [{"op": "move", "from": path, "path": "/spec/note"}] if name == "phase" else [],
                [{"op": "unknown", "path": path}],
            ]
        )

    def entries(self, live: Object) -> list[Object]:
        known = live["metadata"].get("managedFields") or []
        given = {"manager": "dora", "operation": "Update", "apiVersion": f"{GROUP}/v1", "fieldsType": "FieldsV1"}
        fields: Object = {"f:spec": {"f:color": {}, "f:words": {'v: "a"': {}}, "x:y": {}, "f:size": {".": {}}}}
        return self.random.choice(
            [[], [{}], known[1:], [*known, {**given, "fieldsV1": fields}], [{**given, "operation": "Other"}]]
        )


class Deployer:
    """Writes requests about a Deployment at random, with what kubectl sends: it has all that can be in such a patch."""

    def __init__(self, seed: int, namespace: str, name: str) -> None:
        self.random = Random(seed)
        self.identity = {"name": name, "namespace": namespace}

    def first(self) -> Object:
        template = {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [self.container("main")]}}
        spec = {"selector": {"matchLabels": {"app": "a"}}, "template": template}
        return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": self.identity, "spec": spec}

    def sample(self, names: str, least: int = 0) -> list[str]:
        return self.random.sample(names.split(), self.random.randint(least, len(names.split())))

    def container(self, name: str) -> Object:
        defaults = {
            "resources": {},
            "terminationMessagePath": "/dev/termination-log",
            "terminationMessagePolicy": "File",
            "imagePullPolicy": "IfNotPresent",
        }
        return {"name": name, "image": f"image:{self.random.randint(1, 2)}", **defaults}

    def env(self, name: str) -> Object:
        return {"name": name, "value": self.random.choice("xyz")}

    def port(self, name: str) -> Object:
        return {"containerPort": ord(name), "protocol": "TCP", "name": name}

    def volume(self, name: str) -> Object:
        return {
            "name": name,
            **self.random.choice([{"emptyDir": {}}, {"configMap": {"name": "c", "defaultMode": 420}}]),
        }

    def applied(self) -> Object:
        containers = [
            self.container(name) | {"env": [self.env(n) for n in self.sample("A B C")], "ports": [self.port("p")]}
            for name in self.sample("b c")
        ]
        pod = {
            "containers": containers,
            "volumes": [self.volume(name) for name in self.sample("v w")],
            "tolerations": [{"key": key, "operator": "Exists"} for key in self.sample("t u")],
        }
        metadata = {**self.identity, "labels": dict.fromkeys(self.sample("l m", 1), "1")}
        spec = {"replicas": self.random.randint(0, 2), "template": {"spec": pod}}
        return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec}

    def patch(self, live: Object) -> Object:
        pod = live["spec"]["template"]["spec"]
        template = {"spec": self.keyed("containers", pod, self.container, "a b c", self.inside)}
        template["spec"] |= self.keyed("volumes", pod, self.volume, "v w x", None)
        if self.random.random() < 0.3:
            template["spec"]["tolerations"] = [{"key": key, "operator": "Exists"} for key in self.sample("t u")]
        spec: Object = {"template": template}
        if self.random.random() < 0.3:
            rolling = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
            strategy: Object = self.random.choice([{"type": "Recreate"}, rolling])
            spec["strategy"] = {"$retainKeys": sorted(strategy), **strategy}
        if self.random.random() < 0.3:
            spec["replicas"] = self.random.choice([1, 2])
        return {"spec": spec, "metadata": self.finalizers(live)}

    def finalizers(self, live: Object) -> Object:
        known = live["metadata"].get("finalizers", [])
        if self.random.random() < 0.5:
            return {"labels": {self.random.choice("lm"): self.random.choice([None, "1", "2"])}}
        added = [f"x.io/{name}" for name in self.sample("f g h")]
        gone = [name for name in known if name not in added and self.random.random() < 0.5]
        order = list(dict.fromkeys([*(name for name in known if name not in gone), *added]))
        self.random.shuffle(order)
        patch: Object = {"finalizers": sorted(added, key=order.index)}
        patch |= {"$deleteFromPrimitiveList/finalizers": gone} if gone else {}
        return patch | ({"$setElementOrder/finalizers": order} if order and self.random.random() < 0.7 else {})

    def keyed(self, field: str, live: Object, new: Any, names: str, inside: Any) -> Object:
        """A patch of a list with keys, as kubectl makes it: changed, new and deleted items, and the order of all."""
        known = {item["name"]: item for item in live.get(field, [])}
        changed = [name for name in self.sample(names) if name in known or self.random.random() < 0.5]
        gone = [name for name in known if name not in ("main", *changed) and self.random.random() < 0.2]
        items = {name: new(name) for name in changed}
        if inside is not None:
            items |= {name: inside(known[name]) for name in changed if name in known}
        else:
            retained = {name: {"$retainKeys": sorted(item)} for name, item in items.items() if name in known}
            items = {name: retained.get(name, {}) | item for name, item in items.items()}
        order = [*dict.fromkeys([*(name for name in known if name not in gone), *changed])]
        self.random.shuffle(order)
        listed = [items[name] for name in order if name in items]
        listed += [{"$patch": "delete", "name": name} for name in gone]
        if self.random.random() < 0.05 and field == "volumes":
            listed.append({"$patch": "replace"})
            return {field: listed}
        ordered = (
            {f"$setElementOrder/{field}": [{"name": name} for name in order]} if self.random.random() < 0.7 else {}
        )
        return {field: listed} | ordered if listed or ordered else {}

    def inside(self, live: Object) -> Object:
        patch: Object = {"name": live["name"], "image": f"image:{self.random.randint(1, 3)}"}
        return patch | self.keyed("env", live, self.env, "A B C", self.env_of)

    def env_of(self, live: Object) -> Object:
        return self.env(live["name"])

    def request(self, live: Object) -> Request:
        manager = self.random.choice(["alice", "bob", "carol"])
        if self.random.random() < 0.3:
            return Request(manager, APPLY, self.applied(), force=self.random.random() < 0.7)
        return Request(manager, STRATEGIC, self.patch(live))
