"""Kueue's validating webhooks, as far as they refuse more than its definitions: a function from review to review.

These rules hold wherever a Kueue runs: on workers, and on a manager cluster with a Kueue (contract 1.5, quota-engine
1.2, 1.3, 1.5; observed on a real 0.16.2). A standalone manager cluster has none of them. In a sandbox cluster:

    cluster.admission.local[HOST] = webhooks.review    and create    webhooks.configuration()
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from fakekube.model.refusals import Problem, invalid_value, required, unsupported_value
from fakekube.model.wire import Object
from multikueue.api.kueue.workload import ELASTIC_ANNOTATION
from multikueue.api.values.quantity import amount, parse

__all__ = ["HOST", "configuration", "review"]

HOST = "kueue-webhook"
"""The name of Kueue's webhook server among the in-process webhooks."""

_NAMES = {
    "Workload": ("vworkload.kb.io", ["workloads", "workloads/status"]),
    "ClusterQueue": ("vclusterqueue.kb.io", ["clusterqueues"]),
    "Cohort": ("vcohort.kb.io", ["cohorts"]),
}


def configuration(host: str = HOST) -> Object:
    """The ValidatingWebhookConfiguration for all writes of these kinds."""
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "kueue-validating-webhook-configuration"},
        "webhooks": [_webhook(name, resources, host) for name, resources in _NAMES.values()],
    }


def _webhook(name: str, resources: list[str], host: str) -> Object:
    rule = {"apiGroups": ["kueue.x-k8s.io"], "apiVersions": ["v1beta2"], "resources": resources}
    return {
        "name": name,
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "clientConfig": {"url": f"https://{host}/{name}"},
        "rules": [{**rule, "operations": ["CREATE", "UPDATE"]}],
    }


def review(asked: Object) -> Object:
    """The answer to an AdmissionReview."""
    request = asked["request"]
    problems = list(_problems(request["object"], request.get("oldObject") or None))
    response: Object = {"uid": request["uid"], "allowed": not problems}
    if problems:
        texts = [f"{each.field}: {each.message}" for each in problems]
        message = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
        response["status"] = {"code": 403, "reason": "Forbidden", "message": message}
    return {"apiVersion": asked["apiVersion"], "kind": asked["kind"], "response": response}


def _problems(new: Object, old: Object | None) -> Iterator[Problem]:
    judge = _JUDGES.get(new["kind"])
    if judge is not None and not new["metadata"].get("deletionTimestamp"):
        yield from judge(new, old)


def _of_workload(new: Object, old: Object | None) -> Iterator[Problem]:
    yield from _of_pod_sets(new)
    yield from _of_status(new, old)
    if old is not None:
        yield from _of_change(new, old)


def _of_pod_sets(new: Object) -> Iterator[Problem]:
    pod_sets = new["spec"].get("podSets", ())
    partial = sum("minCount" in each for each in pod_sets)
    if partial > 1:
        yield invalid_value("spec.podSets", partial, "at most one pod set can have a minCount")
    for index, pod_set in enumerate(pod_sets):
        pod = pod_set["template"].get("spec", {})
        for containers in ("initContainers", "containers"):
            for number, container in enumerate(pod.get(containers) or ()):
                if "pods" in ((container.get("resources") or {}).get("requests") or {}):
                    where = f"spec.podSets[{index}].template.spec.{containers}[{number}].resources.requests[pods]"
                    yield invalid_value(where, "pods", "the key is Kueue's own")


def _of_status(new: Object, old: Object | None) -> Iterator[Problem]:
    counts = {each["name"]: each["count"] for each in new["spec"].get("podSets", ())}
    status = new.get("status") or {}
    for index, made in enumerate((status.get("admission") or {}).get("podSetAssignments") or ()):
        yield from _of_assignment(made, counts, f"status.admission.podSetAssignments[{index}]")
    stays = ((old or {}).get("status") or {}).get("reclaimablePods") or () if _is_elastic(new) else ()
    for freed in status.get("reclaimablePods") or ():
        where, name = f"status.reclaimablePods[{freed['name']}]", freed["name"]
        if name in counts and freed in stays:
            continue  # what is left of before an elastic job was scaled down
        if name not in counts:
            yield unsupported_value(f"{where}.name", name, counts)
        elif freed["count"] > counts[name]:
            yield invalid_value(f"{where}.count", freed["count"], f"should be less or equal to {counts[name]}")
    for index, check in enumerate(status.get("admissionChecks") or ()):
        for number, update in enumerate(check.get("podSetUpdates") or ()):
            if update["name"] not in counts:
                where = f"status.admissionChecks[{index}].podSetUpdates[{number}].name"
                yield unsupported_value(where, update["name"], counts)


def _of_assignment(made: Object, counts: Mapping[str, int], where: str) -> Iterator[Problem]:
    if made["name"] not in counts:
        yield Problem("FieldValueNotFound", f"{where}.name", f'Not found: "{made["name"]}"')
    count = made.get("count") or 0
    for resource, total in (made.get("resourceUsage") or {}).items():
        if count and amount(resource, parse(total)) % count:
            yield invalid_value(f"{where}.resourceUsage[{resource}]", total, f"is not a multiple of {count}")


def _of_change(new: Object, old: Object) -> Iterator[Problem]:
    before, after = old.get("status") or {}, new.get("status") or {}
    if _is_reserved(before):
        yield from _of_fixed_pod_sets(new, old)
    if _is_reserved(before) and _is_reserved(after):
        yield from _of_reclaimed(new, before)
    admissions = [_without_places(each.get("admission")) for each in (after, before)]
    if all(admissions) and admissions[0] != admissions[1]:
        yield invalid_value("status.admission", after["admission"], "field is immutable")
    yield from _of_updates(after, before)
    chosen, nominated = after.get("clusterName"), before.get("nominatedClusterNames") or []
    if chosen and not before.get("clusterName") and chosen not in nominated:
        yield invalid_value("status.clusterName", chosen, "it must be one of the nominatedClusterNames")


def _is_reserved(status: Object) -> bool:
    return any(each["type"] == "QuotaReserved" and each["status"] == "True" for each in status.get("conditions") or ())


def _is_elastic(workload: Object) -> bool:
    return (workload["metadata"].get("annotations") or {}).get(ELASTIC_ANNOTATION) == "true"


def _of_fixed_pod_sets(new: Object, old: Object) -> Iterator[Problem]:
    ours, theirs = (each["spec"].get("podSets", []) for each in (new, old))
    if len(ours) != len(theirs):
        yield invalid_value("spec.podSets", ours, "field is immutable")
        return
    for index, (after, before) in enumerate(zip(ours, theirs, strict=True)):
        is_scaled_down = _is_elastic(new) and after["count"] < before["count"]
        if after != (before | {"count": after["count"]} if is_scaled_down else before):
            yield invalid_value(f"spec.podSets.{index}", after, "field is immutable")


def _of_reclaimed(new: Object, before: Object) -> Iterator[Problem]:
    after = new["status"]
    counts = {each["name"]: each["count"] for each in after.get("reclaimablePods") or ()}
    sizes = {each["name"]: each["count"] for each in new["spec"].get("podSets", ())} if _is_elastic(new) else {}
    admitted = (after.get("admission") or {}).get("podSetAssignments") or ()
    scaled_down = {each["name"] for each in admitted if each.get("count", 0) > sizes.get(each["name"], 2**31)}
    for freed in before.get("reclaimablePods") or ():
        where, least = f"status.reclaimablePods[{freed['name']}]", freed["count"]
        if freed["name"] in scaled_down:
            continue
        if freed["name"] not in counts:
            yield required(where, "cannot be removed")
        elif counts[freed["name"]] < least:
            yield invalid_value(f"{where}.count", counts[freed["name"]], f"cannot be less than {least}")


_PLACES = frozenset({"topologyAssignment", "delayedTopologyRequest"})


def _without_places(admission: Object | None) -> Object | None:
    """An admission without its topology fields, which may change."""
    if not admission:
        return None
    made = admission.get("podSetAssignments") or ()
    kept = [{name: value for name, value in each.items() if name not in _PLACES} for each in made]
    return {**admission, "podSetAssignments": kept}


def _of_updates(after: Object, before: Object) -> Iterator[Problem]:
    ready = {each["name"]: each for each in before.get("admissionChecks") or () if each["state"] == "Ready"}
    for index, check in enumerate(after.get("admissionChecks") or ()):
        was = ready.get(check["name"])
        if was is None or check["state"] != "Ready" or check.get("podSetUpdates") == was.get("podSetUpdates"):
            continue
        where = f"status.admissionChecks[{index}].podSetUpdates"
        yield invalid_value(where, check.get("podSetUpdates"), "field is immutable")


def _of_queue(new: Object, _old: Object | None) -> Iterator[Problem]:
    spec = new.get("spec") or {}
    yield from _of_groups(spec, bounded=bool(spec.get("cohortName")), above="cohort", caps_lending=True)


def _of_cohort(new: Object, _old: Object | None) -> Iterator[Problem]:
    spec = new.get("spec") or {}
    yield from _of_groups(spec, bounded=bool(spec.get("parentName")), above="parent", caps_lending=False)


def _of_groups(spec: Object, *, bounded: bool, above: str, caps_lending: bool) -> Iterator[Problem]:
    seen_flavors: set[str] = set()
    seen_resources: set[str] = set()
    for index, group in enumerate(spec.get("resourceGroups") or ()):
        where = f"spec.resourceGroups[{index}]"
        for number, resource in enumerate(group["coveredResources"]):
            if resource in seen_resources:
                yield _duplicate(f"{where}.coveredResources[{number}]", resource)
            seen_resources.add(resource)
        for number, flavor in enumerate(group["flavors"]):
            if flavor["name"] in seen_flavors:
                yield _duplicate(f"{where}.flavors[{number}].name", flavor["name"])
            seen_flavors.add(flavor["name"])
            yield from _of_order(flavor, group["coveredResources"], f"{where}.flavors[{number}]")
            for place, quota in enumerate(flavor["resources"]):
                at = f"{where}.flavors[{number}].resources[{place}]"
                yield from _of_quota(quota, at, None if bounded else above, caps_lending=caps_lending)


def _duplicate(field: str, value: str) -> Problem:
    return Problem("FieldValueDuplicate", field, f'Duplicate value: "{value}"')


def _of_order(flavor: Object, covered: list[str], where: str) -> Iterator[Problem]:
    for place, (quota, resource) in enumerate(zip(flavor["resources"], covered, strict=False)):
        if quota["name"] != resource:
            field = f"{where}.resources[{place}].name"
            yield invalid_value(field, quota["name"], "must match the name in coveredResources")


def _of_quota(quota: Object, where: str, missing: str | None, *, caps_lending: bool) -> Iterator[Problem]:
    """Problems of a quota. `missing` names the empty field, such as the cohort, without which a queue cannot borrow or
    lend."""
    given = {name: quota[name] for name in ("nominalQuota", "borrowingLimit", "lendingLimit") if name in quota}
    for name, value in given.items():
        if parse(value) < 0:
            yield invalid_value(f"{where}.{name}", str(value), "must be greater than or equal to 0")
    for name in ("borrowingLimit", "lendingLimit"):
        if missing and name in given:
            yield invalid_value(f"{where}.{name}", str(given[name]), f"must be nil when {missing} is empty")
    if caps_lending and "lendingLimit" in given and parse(given["lendingLimit"]) > parse(given["nominalQuota"]):
        said = "must be less than or equal to the nominalQuota"
        yield invalid_value(f"{where}.lendingLimit", str(given["lendingLimit"]), said)


_JUDGES: Mapping[str, Callable[[Any, Any], Iterator[Problem]]] = {
    "Workload": _of_workload,
    "ClusterQueue": _of_queue,
    "Cohort": _of_cohort,
}
