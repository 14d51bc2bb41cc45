"""Pods: defaults, and what may change."""

from __future__ import annotations

from typing import Any

import pytest

from fakekube.builtins.rules.pods import (
    defaulted_spec,
    defaulted_template,
    template_problems,
    timed_conditions,
)
from fakekube.model.wire import Object
from tests.fakekube.builders import MERGE, PODS, Bench, pod_spec


def pod(name: str = "a", **spec: Any) -> Object:
    return {"metadata": {"name": name}, "spec": pod_spec(**spec)}


def container(**content: Any) -> Object:
    """A container after defaults."""
    made: Object = defaulted_spec({"containers": [{"name": "c", "image": "i", **content}]})["containers"][0]
    return made


def test_defaults_of_a_pod() -> None:
    assert defaulted_spec({"containers": [{"name": "c", "image": "i"}]}) == {
        "containers": [
            {
                "name": "c",
                "image": "i",
                "resources": {},
                "terminationMessagePath": "/dev/termination-log",
                "terminationMessagePolicy": "File",
                "imagePullPolicy": "Always",
            }
        ],
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "securityContext": {},
        "schedulerName": "default-scheduler",
    }


def test_what_has_its_defaults_is_not_copied() -> None:
    template = defaulted_template({"spec": pod_spec(volumes=[{"name": "v", "emptyDir": {}}])})
    assert defaulted_template(template) is template


@pytest.mark.parametrize(
    ("image", "policy"),
    [
        ("busybox", "Always"),
        ("busybox:latest", "Always"),
        ("host:5000/busybox", "Always"),
        ("busybox:1.36", "IfNotPresent"),
        ("host:5000/busybox:1", "IfNotPresent"),
        ("busybox@sha256:abc", "IfNotPresent"),
    ],
)
def test_what_has_a_fixed_name_is_pulled_once(image: str, policy: str) -> None:
    assert container(image=image)["imagePullPolicy"] == policy


@pytest.mark.parametrize(
    ("given", "made"),
    [
        ({"ports": [{"containerPort": 80}]}, {"ports": [{"containerPort": 80, "protocol": "TCP"}]}),
        ({"env": [{"name": "A", "value": ""}]}, {"env": [{"name": "A"}]}),
        (
            {"env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "x"}}}]},
            {"env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "x", "apiVersion": "v1"}}}]},
        ),
        (
            {"livenessProbe": {"httpGet": {"port": 80}, "periodSeconds": 3}},
            {
                "livenessProbe": {
                    "httpGet": {"port": 80, "path": "/", "scheme": "HTTP"},
                    "periodSeconds": 3,
                    "timeoutSeconds": 1,
                    "successThreshold": 1,
                    "failureThreshold": 3,
                }
            },
        ),
        (
            {"lifecycle": {"preStop": {"httpGet": {"port": 80}}}},
            {"lifecycle": {"preStop": {"httpGet": {"port": 80, "path": "/", "scheme": "HTTP"}}}},
        ),
        ({"resources": {"requests": {"cpu": "1000m"}}}, {"resources": {"requests": {"cpu": "1"}}}),
    ],
)
def test_defaults_of_a_container(given: Object, made: Object) -> None:
    assert {name: container(**given)[name] for name in made} == made


@pytest.mark.parametrize(
    ("given", "made"),
    [
        ({}, {"emptyDir": {}}),
        ({"configMap": {"name": "x"}}, {"configMap": {"name": "x", "defaultMode": 420}}),
        ({"secret": {"defaultMode": 256}}, {"secret": {"defaultMode": 256}}),
        ({"hostPath": {"path": "/"}}, {"hostPath": {"path": "/", "type": ""}}),
        (
            {"projected": {"sources": [{"serviceAccountToken": {"path": "p"}}]}},
            {
                "projected": {
                    "sources": [{"serviceAccountToken": {"path": "p", "expirationSeconds": 3600}}],
                    "defaultMode": 420,
                }
            },
        ),
        (
            {"downwardAPI": {"items": [{"path": "x", "fieldRef": {"fieldPath": "y"}}]}},
            {
                "downwardAPI": {
                    "items": [{"path": "x", "fieldRef": {"fieldPath": "y", "apiVersion": "v1"}}],
                    "defaultMode": 420,
                }
            },
        ),
        (
            {"ephemeral": {"volumeClaimTemplate": {"spec": {"accessModes": ["x"]}}}},
            {
                "ephemeral": {
                    "volumeClaimTemplate": {"metadata": {}, "spec": {"accessModes": ["x"], "volumeMode": "Filesystem"}}
                }
            },
        ),
    ],
)
def test_defaults_of_a_volume(given: Object, made: Object) -> None:
    [volume] = defaulted_spec({"volumes": [{"name": "v", **given}]})["volumes"]
    assert volume == {"name": "v", **made}


@pytest.mark.parametrize("field", ["serviceAccount", "serviceAccountName"])
def test_an_account_has_two_names(field: str) -> None:
    spec = defaulted_spec({field: "x"})
    assert (spec["serviceAccount"], spec["serviceAccountName"]) == ("x", "x")


@pytest.mark.parametrize(
    ("spec", "fields"),
    [
        ({}, ["containers"]),
        ({"containers": [{"name": "c", "image": "i"}]}, []),
        ({"containers": [{}]}, ["containers[0].name", "containers[0].image"]),
        (
            {"containers": [{"name": "c", "image": "i"}], "initContainers": [{"name": "C", "image": "i"}]},
            ["initContainers[0].name"],
        ),
    ],
)
def test_what_pods_must_have(spec: Object, fields: list[str]) -> None:
    assert [problem.field for problem in template_problems(spec, "x")] == [f"x.{field}" for field in fields]


def test_a_new_pod_waits(bench: Bench) -> None:
    made = bench.make(PODS, pod())
    assert made["status"] == {"phase": "Pending", "qosClass": "BestEffort"}
    assert (made["spec"]["priority"], made["spec"]["enableServiceLinks"]) == (0, True)
    assert [each["key"] for each in made["spec"]["tolerations"]] == [
        "node.kubernetes.io/not-ready",
        "node.kubernetes.io/unreachable",
    ]


@pytest.mark.parametrize(
    ("resources", "requests", "quality"),
    [
        ({"requests": {"cpu": "1"}}, {"cpu": "1"}, "Burstable"),
        ({"limits": {"cpu": "1", "memory": "1Gi"}}, {"cpu": "1", "memory": "1Gi"}, "Guaranteed"),
        ({"limits": {"cpu": "1"}, "requests": {"cpu": "500m"}}, {"cpu": "500m"}, "Burstable"),
    ],
)
def test_who_limits_also_requests(bench: Bench, resources: Object, requests: Object, quality: str) -> None:
    made = bench.make(PODS, pod(containers=[{"name": "c", "image": "i", "resources": resources}]))
    assert made["spec"]["containers"][0]["resources"]["requests"] == requests
    assert made["status"]["qosClass"] == quality


def test_a_gated_pod_says_so_and_can_be_steered(bench: Bench) -> None:
    made = bench.make(PODS, pod(schedulingGates=[{"name": "example.com/gate"}]))
    [condition] = made["status"]["conditions"]
    assert (condition["reason"], condition["lastTransitionTime"]) == ("SchedulingGated", "2026-11-21T12:00:00Z")
    steered = bench.patch(f"{PODS}/a", {"spec": {"nodeSelector": {"x": "y"}, "schedulingGates": []}})
    assert (steered["spec"]["nodeSelector"], "schedulingGates" in steered["spec"]) == ({"x": "y"}, False)
    bench.refused(422, "PATCH", f"{PODS}/a", {"spec": {"nodeSelector": {"x": "z"}}}, content_type=MERGE)


@pytest.mark.parametrize(
    "change", [{"nodeName": "n"}, {"restartPolicy": "Always"}, {"containers": [{"name": "other"}]}]
)
def test_what_stays_in_a_pod(bench: Bench, change: Object) -> None:
    bench.make(PODS, pod())
    content_type = "application/strategic-merge-patch+json" if "containers" in change else MERGE
    if "containers" in change:
        change = {"containers": [{"name": "main", "command": ["x"]}]}
    refusal = bench.refused(422, "PATCH", f"{PODS}/a", {"spec": change}, content_type=content_type)
    assert "pod updates may not change fields other than" in refusal["message"]


def test_the_image_of_a_pod_may_change(bench: Bench) -> None:
    bench.make(PODS, pod())
    body = {"spec": {"containers": [{"name": "main", "image": "other"}]}}
    changed = bench.patch(f"{PODS}/a", body, content_type="application/strategic-merge-patch+json")
    assert (changed["spec"]["containers"][0]["image"], changed["metadata"]["generation"]) == ("other", 2)


def test_conditions_have_their_times() -> None:
    status = {"conditions": [{"type": "A", "reason": ""}, {"type": "B", "time": "t"}]}
    assert timed_conditions(status, "time") == {"conditions": [{"time": None, "type": "A"}, {"time": "t", "type": "B"}]}
    done = timed_conditions(status, "time")
    assert timed_conditions(done, "time") is done
    assert timed_conditions({}, "time") == {}
