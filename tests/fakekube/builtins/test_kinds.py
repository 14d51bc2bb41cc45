"""What is special about the kinds that every server has."""

from __future__ import annotations

from base64 import b64decode
from typing import Any

import pytest

from fakekube.builtins.kinds import RULES, resources
from fakekube.model.wire import Object
from tests.fakekube.builders import MERGE, Bench

SECRETS = "/api/v1/namespaces/t/secrets"
NAMESPACES = "/api/v1/namespaces"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/t/leases"
PRIORITIES = "/apis/scheduling.k8s.io/v1/priorityclasses"
OLD_EVENTS, NEW_EVENTS = "/api/v1/namespaces/t/events", "/apis/events.k8s.io/v1/namespaces/t/events"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
HOOKS = "/apis/admissionregistration.k8s.io/v1/{}webhookconfigurations"


def named(name: str, **content: Any) -> Object:
    return {"metadata": {"name": name}, **content}


def test_rules_are_those_of_kinds_there_are() -> None:
    assert {f"{each.plural}.{each.group}" for each in resources()} >= RULES.keys()


@pytest.mark.parametrize("resource", resources(), ids=lambda each: f"{each.plural}.{each.group}")
def test_all_but_questions_can_be_listed(bench: Bench, resource: Any) -> None:
    root = f"/apis/{resource.group}/v1" if resource.group else "/api/v1"
    code, _ = bench.answer("GET", f"{root}/{resource.plural}")
    assert code == (405 if resource.verbs == ("create",) else 200)


# --- secrets and config maps -----------------------------------------------------------------------------------------


def test_texts_in_a_secret_become_data(bench: Bench) -> None:
    made = bench.make(SECRETS, named("a", stringData={"x": "plain"}, data={"y": "eg=="}))
    assert (made["type"], "stringData" in made) == ("Opaque", False)
    assert {key: b64decode(value) for key, value in made["data"].items()} == {"x": b"plain", "y": b"z"}
    changed = bench.patch(f"{SECRETS}/a", {"stringData": {"y": "new"}})
    assert b64decode(changed["data"]["y"]) == b"new"


@pytest.mark.parametrize(
    ("content", "code", "part"),
    [
        ({"data": {"x": "%%"}}, 400, "illegal base64 data at input byte 0"),
        ({"data": {"a/b": "eg=="}}, 422, "a valid config key must consist of"),
        ({"type": "kubernetes.io/tls"}, 422, "data[tls.crt]: Required value"),
        ({"data": {"x": 1}}, 400, 'Secret in version "v1" cannot be handled as a Secret'),
    ],
)
def test_secrets_that_are_none(bench: Bench, content: Object, code: int, part: str) -> None:
    assert part in bench.refused(code, "POST", SECRETS, named("a", **content))["message"]


def test_what_is_immutable_stays(bench: Bench) -> None:
    bench.make(SECRETS, named("a", immutable=True, data={"x": "eg=="}))
    for change in ({"data": {"x": "eQ=="}}, {"immutable": False}, {"type": "other"}):
        bench.refused(422, "PATCH", f"{SECRETS}/a", change, content_type=MERGE)
    bench.patch(f"{SECRETS}/a", {"metadata": {"labels": {"x": "y"}}})


# --- namespaces ------------------------------------------------------------------------------------------------------


def test_a_namespace_says_its_name_and_phase_itself(bench: Bench) -> None:
    given = named("n", spec={"finalizers": ["example.com/x"]}, status={"phase": "Terminating"})
    given["metadata"]["labels"] = {"kubernetes.io/metadata.name": "other"}
    made = bench.make(NAMESPACES, given)
    assert made["metadata"]["labels"] == {"kubernetes.io/metadata.name": "n"}
    assert (made["spec"]["finalizers"], made["status"]) == (["example.com/x", "kubernetes"], {"phase": "Active"})
    same = bench.patch(f"{NAMESPACES}/n", {"metadata": {"labels": None}, "spec": {"finalizers": []}})
    assert (same["metadata"]["labels"], same["spec"]) == (made["metadata"]["labels"], made["spec"])
    changed = bench.patch(f"{NAMESPACES}/n/status", {"status": {"phase": "Terminating", "conditions": [{"type": "X"}]}})
    assert changed["status"] == {"phase": "Active", "conditions": [{"type": "X", "lastTransitionTime": None}]}


def test_a_namespace_is_given_free_through_finalize(bench: Bench) -> None:
    bench.make(NAMESPACES, named("n", spec={"finalizers": ["example.com/x"]}))
    bench.done("DELETE", f"{NAMESPACES}/n")
    bench.clock.turn(5)
    assert bench.get(f"{NAMESPACES}/n")["spec"] == {"finalizers": ["example.com/x"]}
    bench.refused(405, "PATCH", f"{NAMESPACES}/n/finalize", {}, content_type=MERGE)
    bench.done("PUT", f"{NAMESPACES}/n/finalize", named("n", spec={"finalizers": []}))
    assert not bench.is_there(f"{NAMESPACES}/n")


def test_a_namespace_has_a_short_name(bench: Bench) -> None:
    assert "must not contain dots" in bench.refused(422, "POST", NAMESPACES, named("a.b"))["message"]


# --- events ----------------------------------------------------------------------------------------------------------


def test_an_event_is_seen_in_both_groups(bench: Bench) -> None:
    about = {"kind": "Job", "namespace": "t", "name": "j"}
    bench.make(OLD_EVENTS, named("a", involvedObject=about, message="words", reason="R", type="Normal", count=2))
    shown = bench.get(f"{NEW_EVENTS}/a")
    assert (shown["apiVersion"], shown["note"], shown["regarding"]) == ("events.k8s.io/v1", "words", about)
    assert (shown["deprecatedCount"], "message" in shown) == (2, False)
    assert bench.names(NEW_EVENTS, fieldSelector="regarding.name=j") == ["a"]
    [listed] = bench.get(NEW_EVENTS)["items"]
    assert listed == shown


def test_an_event_can_be_made_in_the_new_group(bench: Bench) -> None:
    watch = bench.watch(OLD_EVENTS)
    content = {
        "eventTime": "2026-01-01T00:00:00.000000Z",
        "type": "Normal",
        "reason": "R",
        "action": "A",
        "note": "words",
        "regarding": {"kind": "Job", "namespace": "t", "name": "j"},
        "reportingController": "example.com/x",
        "reportingInstance": "i",
    }
    made = bench.make(NEW_EVENTS, named("a", **content))
    old = bench.get(f"{OLD_EVENTS}/a")
    assert (old["message"], old["involvedObject"]["name"], old["reportingComponent"]) == ("words", "j", "example.com/x")
    assert b'"message":"words"' in watch.lines[0]
    same = bench.patch(f"{NEW_EVENTS}/a", {"note": "words"})
    assert same["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]
    changed = bench.patch(
        f"{NEW_EVENTS}/a", {"series": {"count": 2, "lastObservedTime": "2026-01-01T00:00:00.000000Z"}}
    )
    assert changed["note"] == "words"
    assert bench.get(f"{OLD_EVENTS}/a")["series"]["count"] == 2


@pytest.mark.parametrize(
    ("path", "content", "fields"),
    [
        (OLD_EVENTS, {"involvedObject": {"namespace": "other"}}, ["involvedObject.namespace"]),
        (NEW_EVENTS, {}, ["involvedObject.namespace", "eventTime", "type"]),
    ],
)
def test_events_that_are_none(bench: Bench, path: str, content: Object, fields: list[str]) -> None:
    refusal = bench.refused(422, "POST", path, named("a", **content))
    assert [cause["field"] for cause in refusal["details"]["causes"]] == fields


def test_events_about_what_has_no_namespace_are_in_the_default_one(bench: Bench) -> None:
    path = "/api/v1/namespaces/default/events"
    bench.make(path, named("a", involvedObject={"kind": "ClusterQueue", "name": "q"}))


# --- leases ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("time", ["2026-01-01T00:00:00Z", "2026-01-01T00:00:00.123Z", "yesterday"])
def test_times_of_leases_have_six_digits(bench: Bench, time: str) -> None:
    refusal = bench.refused(400, "POST", LEASES, named("a", spec={"renewTime": time}))
    assert refusal["message"].startswith('Lease in version "v1" cannot be handled as a Lease: parsing time "')
    bench.make(LEASES, named("a", spec={"renewTime": "2026-01-01T00:00:00.000123Z"}))
    bench.refused(422, "PATCH", f"{LEASES}/a", {"spec": {"renewTime": time}}, content_type=MERGE)


def test_leases_last_some_time(bench: Bench) -> None:
    refusal = bench.refused(422, "POST", LEASES, named("a", spec={"leaseDurationSeconds": 0, "leaseTransitions": -1}))
    assert len(refusal["details"]["causes"]) == 2


# --- others ----------------------------------------------------------------------------------------------------------


def test_a_priority_is_for_ever(bench: Bench) -> None:
    made = bench.make(PRIORITIES, named("a", value=5))
    assert (made["preemptionPolicy"], made["metadata"]["generation"]) == ("PreemptLowerPriority", 1)
    assert bench.patch(f"{PRIORITIES}/a", {"description": "x"})["metadata"]["generation"] == 1
    for change in ({"value": 6}, {"preemptionPolicy": "Never"}):
        bench.refused(422, "PATCH", f"{PRIORITIES}/a", change, content_type=MERGE)
    bench.refused(422, "POST", PRIORITIES, named("system-mine", value=5))
    bench.refused(422, "POST", PRIORITIES, named("b", value=1_000_000_001))


def test_the_handler_of_a_runtime_class_stays(bench: Bench) -> None:
    path = "/apis/node.k8s.io/v1/runtimeclasses"
    bench.make(path, named("a", handler="gvisor"))
    bench.refused(422, "PATCH", f"{path}/a", {"handler": "other"}, content_type=MERGE)
    bench.refused(422, "POST", path, named("b", handler="no handler"))


def test_a_device_request_is_for_one_device_and_stays(bench: Bench) -> None:
    path = "/apis/resource.k8s.io/v1/namespaces/t/resourceclaimtemplates"
    requests = [
        {"name": "one", "exactly": {"deviceClassName": "gpu"}},
        {"name": "all", "exactly": {"deviceClassName": "gpu", "allocationMode": "All"}},
        {"name": "any", "firstAvailable": [{"name": "big", "deviceClassName": "gpu"}]},
    ]
    made = bench.make(path, named("a", spec={"spec": {"devices": {"requests": requests}}}))
    one, every, either = made["spec"]["spec"]["devices"]["requests"]
    assert one["exactly"] == {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}
    assert every["exactly"] == {"deviceClassName": "gpu", "allocationMode": "All"}
    assert either["firstAvailable"][0]["count"] == 1
    bench.refused(422, "PATCH", f"{path}/a", {"spec": {"spec": {"devices": None}}}, content_type=MERGE)
    assert bench.make(path, named("b", spec={"spec": {}}))["spec"] == {"spec": {}}


def test_roles_have_names_of_their_own_kind(bench: Bench) -> None:
    path = f"{RBAC}/namespaces/t/roles"
    assert bench.make(path, named("a:b"))["rules"] is None
    bench.refused(422, "POST", path, named("a/b"))


def test_a_binding_is_to_one_role(bench: Bench) -> None:
    path = f"{RBAC}/namespaces/t/rolebindings"
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"}
    made = bench.make(path, named("a", roleRef=role, subjects=[{"kind": "User", "name": "u"}]))
    assert made["subjects"][0]["apiGroup"] == "rbac.authorization.k8s.io"
    refusal = bench.refused(422, "PATCH", f"{path}/a", {"roleRef": {"name": "other"}}, content_type=MERGE)
    assert refusal["message"].endswith("cannot change roleRef")


HOOK: Object = {
    "name": "a.b.c",
    "clientConfig": {"service": {"name": "x", "namespace": "y"}},
    "sideEffects": "None",
    "admissionReviewVersions": ["v1"],
    "rules": [{"apiGroups": ["x.example.com"], "apiVersions": ["v1"], "operations": ["*"], "resources": ["none"]}],
}


@pytest.mark.parametrize("kind", ["mutating", "validating"])
def test_webhooks_are_filled_with_defaults(bench: Bench, kind: str) -> None:
    made = bench.make(HOOKS.format(kind), named("a", webhooks=[HOOK]))
    [hook] = made["webhooks"]
    assert hook["clientConfig"]["service"]["port"] == 443
    assert (hook["failurePolicy"], hook["matchPolicy"], hook["timeoutSeconds"]) == ("Fail", "Equivalent", 10)
    assert (hook["namespaceSelector"], hook["rules"][0]["scope"]) == ({}, "*")
    assert hook.get("reinvocationPolicy") == ("Never" if kind == "mutating" else None)
    assert bench.patch(f"{HOOKS.format(kind)}/a", {"webhooks": []})["metadata"]["generation"] == 2


def test_webhooks_that_are_none(bench: Bench) -> None:
    refusal = bench.refused(422, "POST", HOOKS.format("validating"), named("a", webhooks=[{"name": "a"}]))
    assert [cause["field"] for cause in refusal["details"]["causes"]] == [
        "webhooks[0].name",
        "webhooks[0].sideEffects",
        "webhooks[0].clientConfig",
        "webhooks[0].admissionReviewVersions",
    ]


def test_a_request_for_a_certificate_names_who_asks(bench: Bench) -> None:
    path = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
    spec = {"request": "eg==", "signerName": "example.com/x", "usages": ["client auth"], "username": "somebody"}
    made = bench.make(path, named("a", spec=spec))
    assert (made["spec"]["username"], made["spec"]["groups"]) == ("admin", ["system:masters", "system:authenticated"])
    approved = bench.patch(f"{path}/a/approval", {"status": {"conditions": [{"type": "Approved", "status": "True"}]}})
    assert approved["status"]["conditions"][0]["type"] == "Approved"
    assert bench.patch(f"{path}/a", {"spec": {"username": "other"}})["spec"]["username"] == "admin"


def test_limits_fill_each_other(bench: Bench) -> None:
    limit = {"type": "Container", "max": {"cpu": "2000m"}, "default": {"memory": "1024Mi"}, "min": {"cpu": "100m"}}
    made = bench.make("/api/v1/namespaces/t/limitranges", named("a", spec={"limits": [limit]}))
    [found] = made["spec"]["limits"]
    assert found["default"] == {"cpu": "2", "memory": "1Gi"}
    assert found["defaultRequest"] == {"cpu": "2", "memory": "1Gi"}


def test_a_node_keeps_the_status_it_comes_with(bench: Bench) -> None:
    status = {"capacity": {"cpu": "4000m"}, "conditions": [{"type": "Ready", "status": "True"}]}
    made = bench.make("/api/v1/nodes", named("n", status=status))
    assert (made["status"]["capacity"], made["status"]["allocatable"]) == ({"cpu": "4"}, {"cpu": "4"})
    assert made["status"]["conditions"][0]["lastHeartbeatTime"] is None


def test_services_endpoints_quotas_and_api_services(bench: Bench) -> None:
    made = bench.make("/api/v1/namespaces/t/services", named("s", spec={"ports": [{"port": 80}]}))
    assert made["spec"]["ports"] == [{"protocol": "TCP", "targetPort": 80, "port": 80}]
    subset = {"addresses": [{"ip": "10.0.0.1"}], "ports": [{"port": 80}]}
    made = bench.make("/api/v1/namespaces/t/endpoints", named("s", subsets=[subset]))
    assert made["subsets"][0]["ports"] == [{"protocol": "TCP", "port": 80}]
    made = bench.make("/api/v1/namespaces/t/resourcequotas", named("q", spec={"hard": {"pods": "1"}}))
    assert made["status"] == {}
    spec = {"group": "x.example.com", "version": "v1", "service": {"name": "x", "namespace": "y"}}
    made = bench.make("/apis/apiregistration.k8s.io/v1/apiservices", named("v1.x.example.com", spec=spec))
    assert (made["spec"]["service"]["port"], made["status"]) == (443, {})
