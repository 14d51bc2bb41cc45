from __future__ import annotations

from base64 import b64decode, b64encode
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakekube.front_end.protobuf import _MESSAGES, _messages, decoded
from fakekube.model.wire import Refused

RECORDED = (
    "azhzAAoPCghiYXRjaC92MRIDSm9iEnoKEgoCajISABoAIgAqADIAOABCABJaMlgKEAoAEgAaACIAKgAyADgAQgASRBIhCgJqMhIHYnVzeWJveCoAQgBq"
    "AHIAgAEAiAEAkAEAogEAGgVOZXZlcjIAQgBKAFIAWABgAGgAggEAigEAmgEAwgEAGgggACgAMAA6ABoAIgA="
)
"""What `kubectl create job j2 --image=busybox` sends, version 1.35."""


def varint(number: int) -> bytes:
    made = bytearray()
    while number >= 0x80:
        made.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*made, number])


def field(number: int, value: int | bytes | str) -> bytes:
    """One field as protobuf writes it."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value % 2**64)
    content = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(content)) + content


def body(api_version: str, kind: str, *fields: bytes) -> bytes:
    kinds = field(1, field(1, api_version) + field(2, kind))
    return b"k8s\x00" + kinds + field(2, b"".join(fields)) + field(3, "") + field(4, "")


def entry(key: str, value: str | bytes) -> bytes:
    return field(1, key) + field(2, value)


def test_an_object_is_what_its_json_would_say() -> None:
    metadata = field(1, "cm") + field(2, "") + field(3, "team") + field(8, b"") + field(11, entry("a", "b"))
    sent = body("v1", "ConfigMap", field(1, metadata), field(2, entry("x", "1")), field(2, entry("y", "")))
    assert decoded(sent) == {
        "kind": "ConfigMap",
        "apiVersion": "v1",
        "metadata": {"name": "cm", "namespace": "team", "labels": {"a": "b"}},
        "data": {"x": "1", "y": ""},
    }


def test_bytes_are_base64() -> None:
    sent = body("v1", "Secret", field(2, entry("x", b"\x00\xff")), field(3, "Opaque"))
    assert decoded(sent)["data"] == {"x": b64encode(b"\x00\xff").decode()}
    assert decoded(sent)["type"] == "Opaque"


def test_pointers_to_zero_stay_and_zeros_go() -> None:
    container = field(1, "main") + field(2, "") + field(16, 0) + field(18, 1)
    spec = field(1, 0) + field(10, 0) + field(3, 2**64 - 5) + field(6, field(2, field(2, container)))
    made = decoded(body("batch/v1", "Job", field(2, spec), field(3, field(4, 0))))["spec"]
    assert made["parallelism"] == 0
    assert made["suspend"] is False
    assert made["activeDeadlineSeconds"] == -5
    assert made["template"]["spec"]["containers"] == [{"name": "main", "tty": True}]


def test_times_quantities_and_numbers_or_texts() -> None:
    spec = field(3, field(1, 1_800_000_000)) + field(4, field(1, 1_800_000_000) + field(2, 5_000))
    lease = decoded(body("coordination.k8s.io/v1", "Lease", field(2, spec)))
    assert lease["spec"] == {
        "acquireTime": "2027-01-15T08:00:00.000000Z",
        "renewTime": "2027-01-15T08:00:00.000005Z",
    }
    metadata = field(8, field(1, 1_800_000_000))
    assert decoded(body("v1", "Namespace", field(1, metadata)))["metadata"] == {
        "creationTimestamp": "2027-01-15T08:00:00Z"
    }
    limits = field(8, field(1, entry("cpu", field(1, "2"))))
    probes = [field(2, b"%b" % field(2, port)) for port in (field(1, 1) + field(3, "web"), field(2, 80))]
    container = field(1, "main") + limits + field(10, field(1, probes[0])) + field(11, field(1, probes[1]))
    pod = decoded(body("v1", "Pod", field(2, field(2, container))))["spec"]["containers"][0]
    assert pod["resources"] == {"limits": {"cpu": "2"}}
    assert pod["livenessProbe"] == {"httpGet": {"port": "web"}}
    assert pod["readinessProbe"] == {"httpGet": {"port": 80}}


def test_fields_of_another_message_are_fields_of_this_one() -> None:
    volume = field(1, "v") + field(2, field(19, field(1, field(1, "cm"))))
    made = decoded(body("v1", "Pod", field(2, field(1, volume))))
    assert made["spec"]["volumes"] == [{"name": "v", "configMap": {"name": "cm"}}]


def test_a_review_comes_through() -> None:
    asked = field(1, field(1, "team") + field(2, "get") + field(5, "pods"))
    sent = body("authorization.k8s.io/v1", "SelfSubjectAccessReview", field(2, asked), field(3, field(1, 0)))
    assert decoded(sent)["spec"] == {"resourceAttributes": {"namespace": "team", "verb": "get", "resource": "pods"}}


def test_managed_fields_carry_json() -> None:
    managed = field(17, field(1, "me") + field(7, field(1, b'{"f:data":{}}')))
    made = decoded(body("v1", "ConfigMap", field(1, managed)))
    assert made["metadata"]["managedFields"] == [{"manager": "me", "fieldsV1": {"f:data": {}}}]


@pytest.mark.parametrize(
    ("sent", "code", "message"),
    [
        (b"{}", 400, "expected the magic number first"),
        (b"k8s\x00\x0a\x7f", 400, "it ends too early"),
        (b"k8s\x00\x0d\x00\x00\x00\x00", 400, "unexpected wire type 5"),
        (body("v1", "Node"), 415, "can't read kind Node in protobuf"),
        (body("v1", "Pod", field(99, "x")), 415, "can't read field 99 of Pod in protobuf"),
        (body("v1", "Pod", field(1, 7)), 400, "a number where there should be a text or a message"),
    ],
)
def test_what_cannot_be_read_is_refused(sent: bytes, code: int, message: str) -> None:
    with pytest.raises(Refused) as caught:
        decoded(sent)
    assert caught.value.code == code
    assert message in caught.value.message


def refusal(sent: bytes) -> Refused | None:
    try:
        decoded(sent)
    except Refused as refused:
        return refused
    return None


@given(st.binary(max_size=60), st.sampled_from(["Pod", "Job", "ConfigMap", "Lease", "ResourceQuota"]))
def test_any_bytes_are_read_or_refused(content: bytes, kind: str) -> None:
    for sent in (b"k8s\x00" + content, body("v1", kind, content)):
        refused = refusal(sent)
        assert refused is None or refused.code in (400, 415)


def test_the_table_is_complete() -> None:
    known = {"s", "b", "i", "B", "bytes", "Time", "MicroTime", "Quantity", "IntOrString", "Raw", *_messages()}
    types: set[Any] = {field.type for fields in _messages().values() for field in fields.values()}
    assert types <= known
    assert len(_messages()) == sum(1 for line in _MESSAGES.strip().splitlines() if not line.startswith(" "))


def test_a_recorded_job() -> None:
    assert decoded(b64decode(RECORDED)) == {
        "kind": "Job",
        "apiVersion": "batch/v1",
        "metadata": {"name": "j2"},
        "spec": {
            "template": {"spec": {"containers": [{"name": "j2", "image": "busybox"}], "restartPolicy": "Never"}},
        },
    }
