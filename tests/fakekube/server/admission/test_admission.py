"""Webhooks and policies of the server: whom it asks, in which order, and what it believes; one file, one admission."""

from __future__ import annotations

import random
from base64 import b64encode
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from fakekube.model.resources import Resource
from fakekube.model.storage import Storage
from fakekube.model.wire import Object, Refused, User
from fakekube.server.admission.admission import Admission, Write, warning_header
from tests.fakekube.front_ends import CONFIG_MAPS, JOBS, NAMESPACES, TOYS, item, registry, resource, stored

pytestmark = pytest.mark.anyio

GROUP = "admissionregistration.k8s.io"
ANNE = User("anne", ("staff",), "u1")
NEWER_TOYS = replace(TOYS, version="v1")
HOOKS = resource("validatingwebhookconfigurations", "ValidatingWebhookConfiguration", GROUP, namespaced=False)

Answer = Callable[[Object], Object]


def rule(resources: str = "configmaps", groups: str = "", versions: str = "v1", **more: Any) -> Object:
    lists = {"apiGroups": groups, "apiVersions": versions, "resources": resources, "operations": "*"}
    return {key: value.split(",") for key, value in (lists | more).items() if key != "scope"} | {
        key: value for key, value in more.items() if key == "scope"
    }


def webhook(name: str = "x.example.com", *rules: Object, **more: Any) -> Object:
    return {
        "name": name,
        "clientConfig": {"url": f"https://{name}/hook"},
        "rules": list(rules) or [rule()],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    } | more


def allowed(**more: Any) -> Answer:
    return lambda review: {"response": {"uid": review["request"]["uid"], "allowed": True, **more}}


def denied(**status: Any) -> Answer:
    given = {"status": status} if status else {}
    return lambda review: {"response": {"uid": review["request"]["uid"], "allowed": False, **given}}


def patched(*operations: Object) -> Answer:
    return allowed(patchType="JSONPatch", patch=b64encode(msgspec.json.encode(operations)).decode())


class World:
    """A cluster with webhooks in the same process; `seen` are the requests that came to them, by webhook."""

    def __init__(self) -> None:
        self.storage = Storage()
        self.registry = registry()
        self.registry.add(NEWER_TOYS)
        self.admission = Admission(self.storage, self.registry, rng=random.Random(1))
        self.seen: list[tuple[str, Object]] = []

    def add(self, answer: Answer, hook: Object | None = None, *, kind: str = "validating", name: str = "c") -> None:
        """A configuration with one webhook that answers so."""
        hook = hook or webhook()
        stored(self.storage, f"{kind}webhookconfigurations", GROUP, item(name, webhooks=[hook]))

        def asked(review: Object) -> Object:
            self.seen.append((hook["name"], review["request"]))
            return answer(review)

        self.admission.local[hook["name"]] = asked

    async def create(self, body: Object | None = None, of: Resource = CONFIG_MAPS, **more: Any) -> Object | None:
        new = body or item("cm", "team", data={"a": "b"})
        usual: dict[str, Any] = {"user": ANNE, "dry_run": False}
        return await self.admission.admit("CREATE", of, new=new, old=None, **usual | more)

    async def refusal(self, body: Object | None = None, **more: Any) -> Refused:
        with pytest.raises(Refused) as caught:
            await self.create(body, **more)
        return caught.value

    @property
    def names(self) -> list[str]:
        return [name for name, _ in self.seen]


async def test_without_webhooks_nothing_changes() -> None:
    world, body = World(), item("cm")
    assert not world.admission.is_asked
    assert await world.create(body) is body


async def test_a_webhook_is_shown_the_request() -> None:
    world = World()
    world.add(allowed())
    assert world.admission.is_asked
    body = item("cm", "team", data={"a": "b"})
    assert await world.create(body) is body
    ((_, request),) = world.seen
    what = {"group": "", "version": "v1"}
    assert request == {
        "uid": request["uid"],
        "kind": what | {"kind": "ConfigMap"},
        "resource": what | {"resource": "configmaps"},
        "requestKind": what | {"kind": "ConfigMap"},
        "requestResource": what | {"resource": "configmaps"},
        "name": "cm",
        "namespace": "team",
        "operation": "CREATE",
        "userInfo": {"username": "anne", "uid": "u1", "groups": ["staff"]},
        "object": {"kind": "ConfigMap", "apiVersion": "v1", **body},
        "oldObject": None,
        "dryRun": False,
        "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"},
    }


async def test_a_deletion_shows_what_goes() -> None:
    world, old = World(), item("cm", "team")
    world.add(allowed())
    gone = await world.admission.admit(
        "DELETE", CONFIG_MAPS, new=None, old=old, user=ANNE, dry_run=True, options={"propagationPolicy": "Orphan"}
    )
    assert gone is None
    request = world.seen[0][1]
    assert (request["object"], request["oldObject"]["metadata"], request["name"]) == (None, old["metadata"], "cm")
    options = {
        "kind": "DeleteOptions",
        "apiVersion": "meta.k8s.io/v1",
        "propagationPolicy": "Orphan",
        "dryRun": ["All"],
    }
    assert request["options"] == options


@pytest.mark.parametrize(
    ("rules", "subresource", "of", "operation", "expected"),
    [
        pytest.param([rule()], "", CONFIG_MAPS, "CREATE", True, id="the resource"),
        pytest.param([rule("secrets")], "", CONFIG_MAPS, "CREATE", False, id="another resource"),
        pytest.param([rule(groups="apps")], "", CONFIG_MAPS, "CREATE", False, id="another group"),
        pytest.param([rule(versions="v2")], "", CONFIG_MAPS, "CREATE", False, id="another version"),
        pytest.param([rule("secrets"), rule()], "", CONFIG_MAPS, "CREATE", True, id="one of several rules"),
        pytest.param([rule(operations="UPDATE,DELETE")], "", CONFIG_MAPS, "CREATE", False, id="another operation"),
        pytest.param([rule(operations="CREATE")], "", CONFIG_MAPS, "CREATE", True, id="the operation"),
        pytest.param([rule("*", "*", "*")], "", JOBS, "CREATE", True, id="everything"),
        pytest.param([rule("*", "*", "*")], "status", JOBS, "UPDATE", False, id="everything but subresources"),
        pytest.param([rule("*/*", "*", "*")], "status", JOBS, "UPDATE", True, id="subresources too"),
        pytest.param([rule("jobs/status", "batch")], "status", JOBS, "UPDATE", True, id="the subresource"),
        pytest.param([rule("jobs/status", "batch")], "", JOBS, "UPDATE", False, id="the subresource only"),
        pytest.param([rule("jobs/*", "batch")], "", JOBS, "UPDATE", True, id="the resource with its subresources"),
        pytest.param([rule("*/scale", "batch")], "status", JOBS, "UPDATE", False, id="another subresource"),
        pytest.param([rule(scope="Namespaced")], "", CONFIG_MAPS, "CREATE", True, id="in a namespace"),
        pytest.param([rule(scope="Cluster")], "", CONFIG_MAPS, "CREATE", False, id="of the cluster"),
        pytest.param([rule("namespaces", scope="Cluster")], "", NAMESPACES, "CREATE", True, id="namespaces are so"),
        pytest.param([rule("*", "*", "*")], "", HOOKS, "CREATE", False, id="never webhooks themselves"),
    ],
)
async def test_rules(rules: list[Object], subresource: str, of: Resource, operation: str, expected: bool) -> None:
    world = World()
    world.add(allowed(), webhook("x", *rules))
    await world.admission.admit(
        operation, of, new=item("a"), old=None, user=ANNE, dry_run=False, subresource=subresource
    )
    assert bool(world.seen) is expected


async def test_another_version_of_a_kind_is_shown_as_the_one_asked_for() -> None:
    world = World()
    world.add(allowed(), webhook("x", rule("toys", "example.com", "v1")))
    world.add(allowed(), webhook("exact", rule("toys", "example.com", "v1"), matchPolicy="Exact"), name="d")
    await world.create(item("bear", "team", apiVersion="example.com/v1beta1", kind="Toy"), of=TOYS)
    ((name, request),) = world.seen
    assert name == "x"
    assert (request["resource"]["version"], request["requestResource"]["version"]) == ("v1", "v1beta1")
    assert request["object"]["apiVersion"] == "example.com/v1"


@pytest.mark.parametrize(
    ("selector", "labels", "of", "expected"),
    [
        pytest.param({"matchLabels": {"a": "b"}}, {"a": "b"}, CONFIG_MAPS, True, id="the namespace has the label"),
        pytest.param({"matchLabels": {"a": "b"}}, {}, CONFIG_MAPS, False, id="the namespace lacks it"),
        pytest.param({}, {}, CONFIG_MAPS, True, id="no selector"),
        pytest.param({"matchLabels": {"a": "b"}}, {}, resource("x", "X", namespaced=False), True, id="of the cluster"),
    ],
)
async def test_namespaces_are_selected(selector: Object, labels: Object, of: Resource, expected: bool) -> None:
    world = World()
    stored(world.storage, "namespaces", "", item("team", metadata={"labels": labels}))
    world.add(allowed(), webhook("x", rule("*", "*", "*"), namespaceSelector=selector))
    await world.create(of=of)
    assert bool(world.seen) is expected


async def test_a_namespace_is_selected_by_its_own_labels() -> None:
    world = World()
    world.add(allowed(), webhook("x", rule("namespaces"), namespaceSelector={"matchLabels": {"a": "b"}}))
    await world.create(item("one", metadata={"labels": {"a": "b"}}), of=NAMESPACES)
    await world.create(item("two"), of=NAMESPACES)
    assert [request["name"] for _, request in world.seen] == ["one"]


async def test_objects_are_selected_by_labels_they_have_or_had() -> None:
    world = World()
    world.add(allowed(), webhook(objectSelector={"matchLabels": {"a": "b"}}))
    plain, labelled = item("cm"), item("cm", metadata={"labels": {"a": "b"}})
    await world.create(plain)
    await world.create(labelled)
    await world.admission.admit("UPDATE", CONFIG_MAPS, new=plain, old=labelled, user=ANNE, dry_run=False)
    assert [request["operation"] for _, request in world.seen] == ["CREATE", "UPDATE"]


@pytest.mark.parametrize(
    ("expressions", "expected"),
    [
        (["object.metadata.name == 'cm'"], True),
        (["object.metadata.name.startsWith('x')"], False),
        (["request.operation == 'CREATE'", "oldObject == null", "request.userInfo.username == 'anne'"], True),
        (["object.metadata.name == 'cm'", "has(object.spec)"], False),
        (["object.missing == 1", "false"], False),
    ],
)
async def test_match_conditions(expressions: list[str], expected: bool) -> None:
    world = World()
    conditions = [{"name": str(index), "expression": text} for index, text in enumerate(expressions)]
    world.add(allowed(), webhook(matchConditions=conditions))
    await world.create()
    assert bool(world.seen) is expected


@pytest.mark.parametrize("expression", ["object.missing == 1", "object.metadata.missing == 1", "1 +", "unknown"])
async def test_a_condition_that_fails_follows_the_failure_policy(expression: str) -> None:
    world = World()
    conditions = [{"name": "c", "expression": expression}]
    world.add(allowed(), webhook(matchConditions=conditions))
    refused = await world.refusal()
    assert (refused.code, refused.reason) == (403, "Forbidden")
    assert refused.message.startswith(f"configmaps \"cm\" is forbidden: expression '{expression}' resulted in error: ")
    world.add(allowed(), webhook(matchConditions=conditions, failurePolicy="Ignore"))
    await world.create()
    assert world.seen == []


async def test_a_missing_field_is_named() -> None:
    world = World()
    world.add(allowed(), webhook(matchConditions=[{"name": "c", "expression": "object.metadata.foo == 'x'"}]))
    assert (await world.refusal()).message.endswith("resulted in error: no such key: foo")


@pytest.mark.parametrize(
    ("status", "code", "reason", "message"),
    [
        ({}, 400, "", 'admission webhook "x.example.com" denied the request without explanation'),
        ({"message": "no way"}, 400, "", 'admission webhook "x.example.com" denied the request: no way'),
        ({"reason": "Because"}, 400, "Because", 'admission webhook "x.example.com" denied the request: Because'),
        (
            {"code": 422, "reason": "Invalid", "message": "no way"},
            422,
            "Invalid",
            'admission webhook "x.example.com" denied the request: no way',
        ),
        ({"code": 200, "message": "no"}, 400, "", 'admission webhook "x.example.com" denied the request: no'),
    ],
)
@pytest.mark.parametrize("kind", ["mutating", "validating"])
async def test_a_no_reads_like_the_real_one(status: Object, code: int, reason: str, message: str, kind: str) -> None:
    world = World()
    world.add(denied(**status), kind=kind)
    refused = await world.refusal()
    assert (refused.code, refused.reason, refused.message) == (code, reason, message)


async def test_details_of_a_no_are_passed_on() -> None:
    world, details = World(), {"name": "z", "causes": [{"reason": "r", "message": "m", "field": "f"}]}
    world.add(denied(code=422, message="no", details=details))
    assert (await world.refusal()).details == details


BAD_BASE64 = "failed to call webhook: illegal base64 data at input byte 0"


@pytest.mark.parametrize(
    ("answer", "kind", "message"),
    [
        (lambda _review: {}, "validating", "received invalid webhook response: webhook response was absent"),
        (
            lambda _review: {"response": {"uid": "other"}},
            "validating",
            'received invalid webhook response: expected response.uid="UID", got "other"',
        ),
        (
            patched({"op": "add", "path": "/a", "value": 1}),
            "validating",
            "received invalid webhook response: validating webhook may not return response.patch",
        ),
        (
            allowed(patch="W10="),
            "mutating",
            "received invalid webhook response: webhook returned response.patch but not response.patchType",
        ),
        (allowed(patch="!!", patchType="JSONPatch"), "mutating", BAD_BASE64),
        (
            allowed(patch=b64encode(b"{}").decode(), patchType="JSONPatch"),
            "mutating",
            "received undecodable patch in webhook response: json: ",
        ),
    ],
)
async def test_a_strange_answer_follows_the_failure_policy(answer: Answer, kind: str, message: str) -> None:
    world = World()
    world.add(answer, kind=kind)
    refused = await world.refusal()
    said = f'failed calling webhook "x.example.com": {message}'.replace("UID", world.seen[0][1]["uid"])
    assert (refused.code, refused.reason) == (500, "InternalError")
    assert refused.message.startswith(f"Internal error occurred: {said}")
    assert refused.details["causes"][0]["message"].startswith(said)
    world.add(answer, webhook(failurePolicy="Ignore"), kind=kind)
    assert await world.create() is not None


async def test_an_unreachable_webhook_follows_the_failure_policy() -> None:
    world = World()
    hook = webhook(clientConfig={"service": {"namespace": "ns", "name": "svc", "path": "/x"}})
    world.add(allowed(), hook)
    message = 'failed to call webhook: Post "https://svc.ns.svc:443/x": service "svc" not found'
    assert (await world.refusal()).message == (
        f'Internal error occurred: failed calling webhook "x.example.com": {message}'
    )
    world.admission.services["ns", "svc", 443] = "https://x.example.com"
    await world.create()
    assert world.names == ["x.example.com"]


async def test_a_patch_is_applied_to_a_copy() -> None:
    world, body = World(), item("cm", data={"a": "b"})
    world.add(patched({"op": "add", "path": "/data/c", "value": "d"}), kind="mutating")
    made = await world.create(body)
    assert made is not None
    assert made["data"] == {"a": "b", "c": "d"}
    assert body["data"] == {"a": "b"}


async def test_an_empty_patch_changes_nothing() -> None:
    world, body = World(), item("cm")
    world.add(patched(), kind="mutating")
    assert await world.create(body) is body


async def test_a_patch_that_does_not_apply_is_an_error_whatever_the_policy() -> None:
    world = World()
    world.add(patched({"op": "remove", "path": "/data/none"}), webhook(failurePolicy="Ignore"), kind="mutating")
    refused = await world.refusal()
    assert (refused.code, refused.reason) == (500, "InternalError")
    assert refused.message.startswith("Internal error occurred: ")


async def test_mutating_ones_come_first_by_name_and_see_each_other() -> None:
    world = World()
    world.add(allowed(), webhook("check"), name="a")
    add = {"op": "add", "path": "/data/second", "value": ""}
    world.add(patched(add), webhook("second"), kind="mutating", name="b")
    world.add(patched(add | {"path": "/data/first"}), webhook("first"), kind="mutating", name="a")
    await world.create(item("cm", data={}))
    assert world.names == ["first", "second", "check"]
    assert [list(request["object"]["data"]) for _, request in world.seen] == [[], ["first"], ["first", "second"]]


async def test_warnings_are_collected() -> None:
    world, warnings = World(), list[str]()
    world.add(allowed(warnings=["careful"]), webhook("one"), kind="mutating")
    world.add(allowed(warnings=['say "so"', "twice"]), webhook("two"))
    await world.create(warnings=warnings)
    assert warnings == ["careful", 'say "so"', "twice"]
    assert warning_header(warnings[:2]) == '299 - "careful", 299 - "say \\"so\\""'


async def test_a_dry_run_does_not_bother_who_has_side_effects() -> None:
    world = World()
    world.add(allowed(), webhook(sideEffects="Some"))
    refused = await world.refusal(dry_run=True)
    assert (refused.code, refused.message) == (400, 'admission webhook "x.example.com" does not support dry run')
    world.add(allowed(), webhook(sideEffects="NoneOnDryRun"))
    await world.create(dry_run=True)
    assert world.seen[0][1]["dryRun"] is True


async def test_webhooks_come_and_go() -> None:
    world = World()
    world.add(denied())
    world.storage.remove(f"validatingwebhookconfigurations.{GROUP}", "c")
    assert not world.admission.is_asked
    await world.create()


async def test_configurations_that_were_there_before_count() -> None:
    world = World()
    world.add(denied())
    assert Admission(world.storage, world.registry, rng=random.Random(1)).is_asked


async def test_the_halves_can_be_asked_one_by_one() -> None:
    world = World()
    world.add(patched({"op": "add", "path": "/data", "value": {}}), webhook("m"), kind="mutating")
    world.add(allowed(), webhook("v"))
    write = Write(operation="CREATE", resource=CONFIG_MAPS, new=item("cm"), old=None, user=ANNE)
    assert (await world.admission.mutate(write) or {})["data"] == {}
    assert world.names == ["m"]
    await world.admission.validate(write)
    assert world.names == ["m", "v"]
