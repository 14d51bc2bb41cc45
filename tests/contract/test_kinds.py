"""Built-in kinds, as far as anybody here relies on them: one file, a few cases for each kind."""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from tests.contract.builders import condition, config_map, job, lease, namespace, pod, secret, unique
from tests.contract.server import Object, Server
from tests.contract.space import STRATEGIC, Collection, Space

pytestmark = pytest.mark.anyio


# --- namespaces ------------------------------------------------------------------------------------------------------


@pytest.fixture
def namespaces(server: Server) -> Collection:
    return Collection(server, "/api/v1/namespaces")


async def test_a_namespace_knows_its_name_and_phase(namespaces: Collection) -> None:
    name = unique("contract")
    made = await namespaces.made(namespace(name))
    assert made["metadata"]["labels"] == {"kubernetes.io/metadata.name": name}
    assert made["spec"] == {"finalizers": ["kubernetes"]}
    assert made["status"] == {"phase": "Active"}


@pytest.mark.parametrize("name", ["default", "kube-system", "kube-public"])
async def test_some_namespaces_are_there_and_stay(namespaces: Collection, name: str) -> None:
    assert (await namespaces.got(name))["status"] == {"phase": "Active"}
    refusal = (await namespaces.delete(name)).refused(403, "Forbidden")
    assert refusal["message"] == f'namespaces "{name}" is forbidden: this namespace may not be deleted'


async def test_a_namespace_goes_with_all_that_is_in_it(server: Server, namespaces: Collection) -> None:
    name = unique("contract")
    await namespaces.made(namespace(name))
    space = Space(server, name)
    held = config_map("held")
    held["metadata"]["finalizers"] = ["example.com/hold"]
    await space.maps.made(held)
    await space.maps.made(config_map("free"))
    answer = (await namespaces.delete(name)).good(200)
    assert answer["kind"] == "Namespace"
    assert answer["status"]["phase"] == "Terminating"
    assert "deletionTimestamp" in answer["metadata"]

    refusal = (await space.maps.create(config_map("late"))).refused(403, "Forbidden")
    assert refusal["message"] == (
        f'configmaps "late" is forbidden: unable to create new content in namespace {name} because it is being terminated'
    )
    assert refusal["details"]["causes"] == [
        {
            "reason": "NamespaceTerminating",
            "message": f"namespace {name} is being terminated",
            "field": "metadata.namespace",
        }
    ]

    await space.maps.gone("free")
    assert (await namespaces.got(name))["status"]["phase"] == "Terminating"
    (await space.maps.patch("held", {"metadata": {"finalizers": None}})).good()
    await namespaces.gone(name)


# --- secrets and config maps -----------------------------------------------------------------------------------------


@pytest.fixture
def secrets(space: Space) -> Collection:
    return space.core("secrets")


async def test_text_of_a_secret_becomes_data(secrets: Collection) -> None:
    made = await secrets.made(secret("a", stringData={"x": "y"}, data={"z": "eg=="}))
    assert "stringData" not in made
    assert made["data"] == {"x": b64encode(b"y").decode(), "z": "eg=="}
    assert made["type"] == "Opaque"


async def test_text_goes_before_data(secrets: Collection) -> None:
    await secrets.made(secret("a", data={"x": "eg=="}))
    patched = (await secrets.patch("a", {"stringData": {"x": "new"}})).good(200)
    assert b64decode(patched["data"]["x"]) == b"new"


async def test_data_that_is_not_base64_is_refused(secrets: Collection) -> None:
    refusal = (await secrets.create(secret("a", data={"x": "%%"}))).refused(400, "BadRequest")
    assert refusal["message"].startswith('Secret in version "v1" cannot be handled as a Secret: ')


async def test_the_type_of_a_secret_stays(secrets: Collection) -> None:
    await secrets.made(secret("a"))
    refusal = (await secrets.patch("a", {"type": "other"})).refused(422, "Invalid")
    assert refusal["message"] == 'Secret "a" is invalid: type: Invalid value: "other": field is immutable'


async def test_a_secret_for_tls_holds_certificate_and_key(secrets: Collection) -> None:
    refusal = (await secrets.create(secret("a", type="kubernetes.io/tls"))).refused(422, "Invalid")
    assert [cause["field"] for cause in refusal["details"]["causes"]] == ["data[tls.crt]", "data[tls.key]"]
    data = {name: b64encode(b"x").decode() for name in ("tls.crt", "tls.key")}
    await secrets.made(secret("a", type="kubernetes.io/tls", data=data))


@pytest.mark.parametrize("plural", ["secrets", "configmaps"])
async def test_what_is_immutable_does_not_change(space: Space, plural: str) -> None:
    collection = space.core(plural)
    await collection.made({"metadata": {"name": "a"}, "immutable": True, "data": {"x": "eg=="}})
    refusal = (await collection.patch("a", {"data": {"x": "ZWc="}})).refused(422, "Invalid")
    assert refusal["message"].endswith(" is invalid: data: Forbidden: field is immutable when `immutable` is set")
    (await collection.patch("a", {"metadata": {"labels": {"x": "y"}}})).good(200)
    (await collection.patch("a", {"immutable": False})).refused(422, "Invalid")


async def test_data_of_a_config_map_is_text(maps: Collection) -> None:
    refusal = (await maps.create({"metadata": {"name": "a"}, "data": {"x": 1}})).refused(400, "BadRequest")
    assert refusal["message"].startswith('ConfigMap in version "v1" cannot be handled as a ConfigMap: ')


async def test_keys_of_a_config_map_have_a_form(maps: Collection) -> None:
    refusal = (await maps.create({"metadata": {"name": "a"}, "data": {"a b": "1"}})).refused(422, "Invalid")
    assert refusal["details"]["causes"][0]["field"] == "data[a b]"


# --- jobs and pods ---------------------------------------------------------------------------------------------------


async def test_a_job_is_filled_with_defaults(jobs: Collection) -> None:
    made = await jobs.made({**job("a"), "spec": {"template": job("a")["spec"]["template"]}})
    uid = made["metadata"]["uid"]
    labels = {
        "batch.kubernetes.io/controller-uid": uid,
        "batch.kubernetes.io/job-name": "a",
        "controller-uid": uid,
        "job-name": "a",
    }
    assert made["metadata"]["labels"] == labels
    spec = made["spec"]
    template = spec.pop("template")
    assert spec == {
        "parallelism": 1,
        "completions": 1,
        "backoffLimit": 6,
        "selector": {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}},
        "manualSelector": False,
        "completionMode": "NonIndexed",
        "suspend": False,
        "podReplacementPolicy": "TerminatingOrFailed",
    }
    assert template["metadata"]["labels"] == labels
    [container] = template["spec"].pop("containers")
    assert template["spec"] == {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "securityContext": {},
        "schedulerName": "default-scheduler",
    }
    assert container == {
        "name": "main",
        "image": "pause",
        "resources": {"requests": {"cpu": "1"}},
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        "imagePullPolicy": "Always",
    }


async def test_the_labels_of_a_job_stay_with_it(jobs: Collection) -> None:
    body = job("a")
    body["metadata"]["labels"] = {"app": "x"}
    body["spec"]["template"]["metadata"] = {"labels": {"app": "y"}}
    made = await jobs.made(body)
    assert made["metadata"]["labels"]["app"] == "x"
    assert made["spec"]["template"]["metadata"]["labels"]["app"] == "y"


WRONG_JOBS: dict[str, tuple[Object, str, str]] = {
    "no restart policy": (
        {"containers": [{"name": "main", "image": "pause"}]},
        "spec.template.spec.restartPolicy",
        'Required value: valid values: "OnFailure", "Never"',
    ),
    "no containers": ({"restartPolicy": "Never"}, "spec.template.spec.containers", "Required value"),
}


@pytest.mark.parametrize("what", WRONG_JOBS)
async def test_a_job_is_refused_for(jobs: Collection, what: str) -> None:
    spec, field, message = WRONG_JOBS[what]
    body = {"metadata": {"name": "a"}, "spec": {"template": {"spec": spec}}}
    refusal = (await jobs.create(body)).refused(422, "Invalid")
    assert refusal["message"] == f'Job.batch "a" is invalid: {field}: {message}'


FIXED: dict[str, Object] = {
    "spec.completions": {"completions": 5},
    "spec.managedBy": {"managedBy": "example.com/other"},
    "spec.completionMode": {"completionMode": "Indexed"},
}


@pytest.mark.parametrize("field", FIXED)
async def test_some_fields_of_a_job_never_change(jobs: Collection, field: str) -> None:
    await jobs.made(job("a"))
    refusal = (await jobs.patch("a", {"spec": FIXED[field]})).refused(422, "Invalid")
    assert field in [cause["field"] for cause in refusal["details"]["causes"]]
    assert f"{field}: Invalid value: " in refusal["message"]
    assert refusal["message"].endswith("field is immutable")


def placed(**spec: Any) -> Object:
    return {"spec": {"template": {"spec": spec}}}


async def test_a_suspended_job_can_be_placed_and_started(jobs: Collection) -> None:
    await jobs.made(job("a"))
    patch = placed(nodeSelector={"zone": "a"}, tolerations=[{"key": "x", "operator": "Exists"}])
    patch["spec"]["suspend"] = False
    patched = (await jobs.patch("a", patch)).good(200)
    assert patched["spec"]["suspend"] is False
    assert patched["spec"]["template"]["spec"]["nodeSelector"] == {"zone": "a"}


async def test_a_running_job_stays_where_it_is(jobs: Collection) -> None:
    await jobs.made(job("a", suspend=False))
    refusal = (await jobs.patch("a", placed(nodeSelector={"zone": "a"}))).refused(422, "Invalid")
    assert [cause["field"] for cause in refusal["details"]["causes"]] == ["spec.template"]
    assert refusal["message"].endswith("field is immutable")


@pytest.mark.usefixtures("as_of_1_36")
async def test_the_containers_of_a_job_never_change(jobs: Collection) -> None:
    await jobs.made(job("a"))
    patch = placed(containers=[{"name": "main", "image": "other"}])
    answer = await jobs.patch("a", patch, content_type=STRATEGIC)
    assert answer.refused(422, "Invalid")["details"]["causes"][0]["field"] == "spec.template.spec"


STARTED = "2026-01-01T00:00:00Z"
ENDED = "2026-01-01T00:01:00Z"

MORE = placed(containers=[{"name": "main", "resources": {"requests": {"cpu": "7"}}}], nodeSelector={"zone": "b"})
"""What may change while no pod is there: what the pods ask for, and where they go."""


@pytest.mark.usefixtures("as_of_1_36")
@pytest.mark.parametrize("stopped", [False, True], ids=["never started", "stopped"])
async def test_a_suspended_job_may_ask_for_more(jobs: Collection, stopped: bool) -> None:
    await jobs.made(job("a"))
    if stopped:
        status = {"startTime": STARTED, "conditions": [condition("Suspended", "True")]}
        (await jobs.patch("a", {"status": status}, "status")).good(200)
    pods = (await jobs.patch("a", MORE, content_type=STRATEGIC)).good(200)["spec"]["template"]["spec"]
    assert pods["containers"][0]["resources"]["requests"]["cpu"] == "7"
    assert pods["nodeSelector"]["zone"] == "b"


@pytest.mark.usefixtures("as_of_1_36")
@pytest.mark.parametrize(
    "status",
    [{"startTime": STARTED}, {"active": 1}],
    ids=["it started and has not stopped", "a pod is there"],
)
async def test_a_suspended_job_that_may_have_pods_stays_as_it_is(jobs: Collection, status: Object) -> None:
    await jobs.made(job("a"))
    (await jobs.patch("a", {"status": status}, "status")).good(200)
    refusal = (await jobs.patch("a", MORE, content_type=STRATEGIC)).refused(422, "Invalid")
    assert [cause["field"] for cause in refusal["details"]["causes"]] == ["spec.template"]


@pytest.mark.usefixtures("as_of_1_36")
@pytest.mark.parametrize("other", [None, ENDED], ids=["away", "another"])
async def test_the_beginning_of_a_running_job_stays(jobs: Collection, other: str | None) -> None:
    await jobs.made(job("a", suspend=False))
    (await jobs.patch("a", {"status": {"startTime": STARTED}}, "status")).good(200)
    refusal = (await jobs.patch("a", {"status": {"startTime": other}}, "status")).refused(422, "Invalid")
    [cause] = refusal["details"]["causes"]
    assert (cause["reason"], cause["field"]) == ("FieldValueInvalid", "status.startTime")
    assert cause["message"].endswith("field is immutable for unsuspended job once set")


async def test_parallelism_and_suspension_change_freely(jobs: Collection) -> None:
    await jobs.made(job("a"))
    patched = (await jobs.patch("a", {"spec": {"parallelism": 3, "suspend": False}})).good(200)
    assert (patched["spec"]["parallelism"], patched["spec"]["suspend"]) == (3, False)


async def test_a_job_ends_in_the_order_that_the_api_wants(jobs: Collection) -> None:
    await jobs.made(job("a", suspend=False))
    status = {
        "startTime": STARTED,
        "completionTime": ENDED,
        "succeeded": 1,
        "uncountedTerminatedPods": {},
        "conditions": [condition("SuccessCriteriaMet", "True"), condition("Complete", "True")],
    }
    patched = (await jobs.patch("a", {"status": status}, "status")).good(200)
    assert patched["status"]["succeeded"] == 1
    assert [each["type"] for each in patched["status"]["conditions"]] == ["SuccessCriteriaMet", "Complete"]
    refusal = (await jobs.patch("a", {"status": {"conditions": []}}, "status")).refused(422, "Invalid")
    assert "status.conditions" in [cause["field"] for cause in refusal["details"]["causes"]]


async def test_a_job_does_not_end_before_all_is_told(jobs: Collection) -> None:
    await jobs.made(job("a", suspend=False))
    status = {"startTime": STARTED, "active": 1, "ready": 1, "conditions": [condition("Complete", "True")]}
    refusal = (await jobs.patch("a", {"status": status}, "status")).refused(422, "Invalid")
    assert {cause["field"]: cause["message"] for cause in refusal["details"]["causes"]} == {
        "status.completionTime": "Required value: completionTime is required for Complete jobs",
        "status.conditions": "Invalid value: cannot set Complete=True condition without the SuccessCriteriaMet=true condition",
        "status.active": "Invalid value: 1: active>0 is invalid for finished job",
    }


async def test_a_pod_is_filled_with_defaults(space: Space) -> None:
    made = await space.core("pods").made(pod("a"))
    assert made["status"] == {"phase": "Pending", "qosClass": "BestEffort"}
    wanted = {
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "schedulerName": "default-scheduler",
        "priority": 0,
        "preemptionPolicy": "PreemptLowerPriority",
    }
    assert {name: made["spec"][name] for name in wanted} == wanted


# --- leases ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def leases(space: Space) -> Collection:
    return space.of("coordination.k8s.io/v1", "leases")


async def test_a_lease_keeps_its_times_to_the_microsecond(leases: Collection) -> None:
    spec = {
        "holderIdentity": "me",
        "leaseDurationSeconds": 15,
        "acquireTime": "2026-01-01T00:00:00.000000Z",
        "renewTime": "2026-01-01T00:00:00.123456Z",
        "leaseTransitions": 1,
    }
    assert (await leases.made(lease("a", **spec)))["spec"] == spec


@pytest.mark.parametrize("time", ["2026-01-01T00:00:00Z", "yesterday", "2026-01-01T00:00:00.123Z"])
async def test_a_time_of_a_lease_has_six_digits(leases: Collection, time: str) -> None:
    refusal = (await leases.create(lease("a", renewTime=time))).refused(400, "BadRequest")
    assert refusal["message"].startswith(
        f'Lease in version "v1" cannot be handled as a Lease: parsing time "{time}" as "2006-01-02T15:04:05.000000Z07:00"'
    )


async def test_a_lease_lasts_some_time(leases: Collection) -> None:
    refusal = (await leases.create(lease("a", leaseDurationSeconds=0))).refused(422, "Invalid")
    assert refusal["message"] == (
        'Lease.coordination.k8s.io "a" is invalid: spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0'
    )


async def test_of_two_candidates_one_gets_the_lease(leases: Collection) -> None:
    """Who renews or takes over names the version that was read; the other one is late."""
    made = await leases.made(lease("a", holderIdentity="", leaseDurationSeconds=15))
    version = made["metadata"]["resourceVersion"]

    def claim(who: str) -> Object:
        return {"metadata": {"resourceVersion": version}, "spec": {"holderIdentity": who}}

    won = (await leases.patch("a", claim("one"))).good(200)
    assert won["spec"] == {"holderIdentity": "one", "leaseDurationSeconds": 15}
    (await leases.patch("a", claim("two"))).refused(409, "Conflict")
    (await leases.create(lease("a", holderIdentity="two"))).refused(409, "AlreadyExists")


# --- events ----------------------------------------------------------------------------------------------------------


def happening(space: Space, name: str, **more: Any) -> Object:
    """An event as the manager sends it."""
    return {
        "metadata": {"name": name},
        "involvedObject": {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "namespace": space.namespace,
            "name": "j",
            "uid": "u",
        },
        "type": "Normal",
        "reason": "Tested",
        "message": "some words",
        "source": {"component": "multikueue"},
        "reportingComponent": "multikueue",
        "firstTimestamp": STARTED,
        "lastTimestamp": STARTED,
        "count": 1,
        **more,
    }


async def test_an_event_is_kept_as_it_was_sent(space: Space) -> None:
    sent = happening(space, "a")
    made = await space.core("events").made(sent)
    assert {name: made[name] for name in sent if name != "metadata"} == {
        name: value for name, value in sent.items() if name != "metadata"
    }
    assert made["eventTime"] is None
    assert made["reportingInstance"] == ""


async def test_both_groups_show_the_same_events(space: Space) -> None:
    await space.core("events").made(happening(space, "a"))
    other = await space.of("events.k8s.io/v1", "events").got("a")
    assert (other["apiVersion"], other["note"], other["reportingController"]) == (
        "events.k8s.io/v1",
        "some words",
        "multikueue",
    )
    assert other["regarding"]["name"] == "j"
    assert other["deprecatedCount"] == 1


async def test_an_event_of_the_new_group_is_one_of_the_old(space: Space) -> None:
    body = {
        "metadata": {"name": "a"},
        "eventTime": "2026-01-01T00:00:00.000000Z",
        "type": "Normal",
        "reason": "Tested",
        "action": "Testing",
        "note": "some words",
        "regarding": {"kind": "Job", "namespace": space.namespace, "name": "j"},
        "reportingController": "example.com/x",
        "reportingInstance": "one",
    }
    await space.of("events.k8s.io/v1", "events").made(body)
    found = await space.core("events").got("a")
    assert (found["message"], found["involvedObject"]["name"]) == ("some words", "j")
    assert found["reportingComponent"] == "example.com/x"


async def test_an_event_is_told_where_its_object_is(space: Space) -> None:
    about = {"kind": "Job", "namespace": "elsewhere", "name": "j"}
    refusal = (await space.core("events").create(happening(space, "a", involvedObject=about))).refused(422, "Invalid")
    assert refusal["message"] == (
        'Event "a" is invalid: involvedObject.namespace: Invalid value: "elsewhere": does not match event.namespace'
    )


# --- others ----------------------------------------------------------------------------------------------------------


async def test_a_priority_class_keeps_its_value(server: Server) -> None:
    classes = Collection(server, "/apis/scheduling.k8s.io/v1/priorityclasses")
    name = unique("class")
    made = await classes.made({"metadata": {"name": name}, "value": 5})
    assert (made["value"], made["preemptionPolicy"]) == (5, "PreemptLowerPriority")
    (await classes.patch(name, {"value": 6})).refused(422, "Invalid")
    (await classes.delete(name)).good(200)


async def test_limit_ranges_and_quotas_are_kept(space: Space) -> None:
    limits = {"limits": [{"type": "Container", "defaultRequest": {"cpu": "1"}}]}
    made = await space.core("limitranges").made({"metadata": {"name": "a"}, "spec": limits})
    assert made["spec"]["limits"][0]["defaultRequest"] == {"cpu": "1"}


async def test_service_accounts_roles_and_bindings_are_kept(server: Server, space: Space) -> None:
    await space.core("serviceaccounts").made({"metadata": {"name": "a"}})
    rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]
    roles = space.of("rbac.authorization.k8s.io/v1", "roles")
    assert (await roles.made({"metadata": {"name": "a"}, "rules": rules}))["rules"] == rules
    bindings = space.of("rbac.authorization.k8s.io/v1", "rolebindings")
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "a"}
    subject = {"kind": "ServiceAccount", "name": "a", "namespace": space.namespace}
    made = await bindings.made({"metadata": {"name": "a"}, "roleRef": reference, "subjects": [subject]})
    assert made["roleRef"] == reference


async def test_quantities_are_written_the_short_way(space: Space) -> None:
    body = job("a")
    body["spec"]["template"]["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "1000m", "memory": "1024Mi"}}
    made = await space.jobs.made(body)
    [container] = made["spec"]["template"]["spec"]["containers"]
    assert container["resources"]["requests"] == {"cpu": "1", "memory": "1Gi"}


async def test_tokens_of_service_accounts_tell_when_they_end(server: Server, space: Space) -> None:
    accounts = space.core("serviceaccounts")
    await accounts.made({"metadata": {"name": "a"}})
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 600}}
    made = (await server.call("POST", accounts.item("a", "token"), body=body)).good(201)
    assert made["kind"] == "TokenRequest"
    assert re.fullmatch(r"[\w-]+\.[\w-]+\.[\w-]+", made["status"]["token"])
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", made["status"]["expirationTimestamp"])


async def test_nobody_gets_tokens_of_accounts_that_are_not_there(server: Server, space: Space) -> None:
    path = space.core("serviceaccounts").item("nobody", "token")
    refusal = (await server.call("POST", path, body={"spec": {"expirationSeconds": 600}})).refused(404, "NotFound")
    assert refusal["message"] == 'serviceaccounts "nobody" not found'


async def test_a_token_lasts_ten_minutes_or_more(server: Server, space: Space) -> None:
    accounts = space.core("serviceaccounts")
    await accounts.made({"metadata": {"name": "a"}})
    answer = await server.call("POST", accounts.item("a", "token"), body={"spec": {"expirationSeconds": 10}})
    answer.refused(422, "Invalid")


def signing_request(user: str) -> bytes:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, user)])
    signed = x509.CertificateSigningRequestBuilder().subject_name(subject).sign(key, hashes.SHA256())
    return signed.public_bytes(serialization.Encoding.PEM)


async def test_certificates_are_asked_for_and_approved(server: Server) -> None:
    requests = Collection(server, "/apis/certificates.k8s.io/v1/certificatesigningrequests")
    spec = {
        "request": b64encode(signing_request("contract")).decode(),
        "signerName": "kubernetes.io/kube-apiserver-client",
        "expirationSeconds": 3600,
        "usages": ["digital signature", "client auth"],
    }
    made = await requests.made({"metadata": {"generateName": "contract-"}, "spec": spec})
    assert (made["spec"]["username"], made["status"]) == ("admin", {})
    approval = condition("Approved", "True")
    approved = (await requests.put({**made, "status": {"conditions": [approval]}}, "approval")).good(200)
    assert approved["status"]["conditions"][0]["type"] == "Approved"
    (await requests.delete(made["metadata"]["name"])).good(200)
