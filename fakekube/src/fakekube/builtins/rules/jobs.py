"""Jobs: their defaults and validation, and the permitted changes of their status.

The rules are those of kube-apiserver 1.37, which validates status changes strictly, since external controllers may run
Jobs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import ClassVar

from fakekube.builtins.rules.job_status import negative, status_problems
from fakekube.builtins.rules.pods import defaulted_template, template_problems, timed_conditions
from fakekube.builtins.rules.rules import Rules
from fakekube.model.refusals import (
    Problem,
    immutable,
    invalid_value,
    required,
    unsupported_value,
)
from fakekube.model.resources import Resource
from fakekube.model.selectors import Alias, selector_of
from fakekube.model.values.names import dns_subdomain
from fakekube.model.wire import Json, Object

__all__ = ["CronJobRules", "JobRules"]

_PREFIX = "batch.kubernetes.io/"
_MODES = ("NonIndexed", "Indexed")
_COUNTS = (
    "parallelism",
    "completions",
    "activeDeadlineSeconds",
    "backoffLimit",
    "ttlSecondsAfterFinished",
    "backoffLimitPerIndex",
    "maxFailedIndexes",
)
_FIXED = ("completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy")
_LARGEST = 2**31 - 1
_LONGEST_MANAGER = 63


class JobRules(Rules):
    blank: ClassVar[Object] = {"spec": {"template": {"spec": {"containers": []}}}}
    counts_generation = True
    orphans = True
    fields = ("status.successful",)
    aliases: ClassVar[Mapping[str, Alias]] = {"status.successful": Alias("status.succeeded", "0")}

    def defaulted(self, item: Object) -> Object:
        spec = _defaulted_spec(item.get("spec") or {})
        labels = spec["template"].get("metadata", {}).get("labels")
        if labels and not item["metadata"].get("labels"):
            item = {**item, "metadata": {**item["metadata"], "labels": labels}}
        status = _told(item.get("status") or {})
        if spec is item.get("spec") and status is item.get("status"):
            return item
        return {**item, "spec": spec, "status": status}

    def created(self, item: Object) -> Object:
        item = {**item, "status": {}}
        if item["spec"].get("manualSelector"):
            return item
        name, uid = item["metadata"].get("name", ""), item["metadata"]["uid"]
        given = item["spec"]["template"].get("metadata") or {}
        own = {
            f"{_PREFIX}controller-uid": uid,
            f"{_PREFIX}job-name": name,
            "controller-uid": uid,
            "job-name": name,
        }
        labels = dict(sorted({**own, **(given.get("labels") or {})}.items()))
        template = {**item["spec"]["template"], "metadata": {**given, "labels": labels}}
        selector = item["spec"].get("selector") or {}
        matched = dict(sorted({f"{_PREFIX}controller-uid": uid, **(selector.get("matchLabels") or {})}.items()))
        spec = {**item["spec"], "selector": {**selector, "matchLabels": matched}, "template": template}
        item = {**item, "spec": spec}
        # The labels that were copied from the template are the template's own: they grow with it.
        if item["metadata"].get("labels") is given.get("labels"):
            item["metadata"] = {**item["metadata"], "labels": labels}
        return item

    def problems(self, item: Object) -> list[Problem]:
        return [*_selector_problems(item), *_spec_problems(item["spec"], "spec"), *_labels_problems(item["spec"])]

    def update_problems(self, new: Object, old: Object) -> list[Problem]:
        return list(_change_problems(new["spec"], old["spec"], is_open=_is_open(old)))

    def status_problems(self, new: Object, old: Object) -> list[Problem]:
        return list(status_problems(new, old))

    def deletion_warning(self, policy: str) -> str:
        if policy:
            return ""
        return (
            "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them "
            "or set propagationPolicy=Orphan to suppress this warning"
        )

    def unknown_field(self, _resource: Resource, path: str) -> str:
        return f'field label "{path}" not supported for Job'


def _told(status: Object) -> Object:
    """The status without zero counts, except those that distinguish zero from unknown; times in UTC."""
    untold = {name for name in ("active", "succeeded", "failed") if status.get(name) == 0}
    status = {name: value for name, value in status.items() if name not in untold} if untold else status
    abroad = {name: _in_utc(time) for name in _TIMES if (time := status.get(name)) and not time.endswith("Z")}
    status = {**status, **abroad} if abroad else status
    return timed_conditions(status, "lastProbeTime", "lastTransitionTime")


_TIMES = ("startTime", "completionTime")


def _in_utc(time: str) -> str:
    return datetime.fromisoformat(time).astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _defaulted_spec(spec: Object) -> Object:
    template = defaulted_template(spec["template"]) if "spec" in (spec.get("template") or {}) else None
    if (
        template is not None
        and template is spec["template"]
        and spec.keys() >= _ALWAYS
        and "podFailurePolicy" not in spec
    ):
        return spec
    defaults: Object = {"parallelism": 1}
    if "completions" not in spec and "parallelism" not in spec:
        defaults["completions"] = 1
    defaults |= {
        "backoffLimit": _LARGEST if "backoffLimitPerIndex" in spec else 6,
        "completionMode": "NonIndexed",
        "suspend": False,
        "podReplacementPolicy": "Failed" if "podFailurePolicy" in spec else "TerminatingOrFailed",
        "manualSelector": False,
    }
    made = {
        **defaults,
        **spec,
        "template": template or defaulted_template({"spec": {}, **(spec.get("template") or {})}),
    }
    if policy := spec.get("podFailurePolicy"):
        made["podFailurePolicy"] = {**policy, "rules": [_failure_rule(rule) for rule in policy.get("rules") or ()]}
    return made


_ALWAYS = frozenset(
    {"parallelism", "backoffLimit", "completionMode", "suspend", "podReplacementPolicy", "manualSelector"}
)


def _failure_rule(rule: Object) -> Object:
    if "onPodConditions" not in rule:
        return rule
    return {**rule, "onPodConditions": [{"status": "True", **each} for each in rule["onPodConditions"]]}


def _selector_problems(item: Object) -> Iterator[Problem]:
    """Whether a generated selector is unchanged."""
    spec, name, uid = item["spec"], item["metadata"].get("name", ""), item["metadata"]["uid"]
    if spec.get("manualSelector"):
        return
    wanted = {
        "controller-uid": uid,
        "job-name": name,
        f"{_PREFIX}controller-uid": uid,
        f"{_PREFIX}job-name": name,
    }
    labels = spec["template"].get("metadata", {}).get("labels") or {}
    for label, value in wanted.items():
        path = "spec.template.metadata.labels"
        if label not in labels:
            yield required(f"{path}[{label}]", f"must be '{value}'")
        elif labels[label] != value:
            yield invalid_value(f"{path}[{label}]", labels, f"must be '{value}'")
    if not selector_of(spec.get("selector")).matches(wanted):
        yield invalid_value("spec.selector", spec.get("selector"), "`selector` not auto-generated")


def _labels_problems(spec: Object) -> Iterator[Problem]:
    labels = spec["template"].get("metadata", {}).get("labels") or {}
    if not spec.get("selector"):
        yield required("spec.selector")
    elif not selector_of(spec["selector"]).matches(labels):
        detail = "`selector` does not match template `labels`"
        yield invalid_value("spec.template.metadata.labels", labels, detail)


def _spec_problems(spec: Object, path: str) -> Iterator[Problem]:
    for name in _COUNTS:
        yield from negative(spec.get(name), f"{path}.{name}")
    yield from _manager_problems(spec.get("managedBy"), f"{path}.managedBy")
    yield from _mode_problems(spec, path)
    pods = spec["template"].get("spec") or {}
    yield from template_problems(pods, f"{path}.template.spec")
    policy = pods.get("restartPolicy", "Always")
    if policy == "Always":
        yield required(f"{path}.template.spec.restartPolicy", 'valid values: "OnFailure", "Never"')
    elif policy not in ("OnFailure", "Never"):
        yield unsupported_value(f"{path}.template.spec.restartPolicy", policy, ("OnFailure", "Never"))
    elif "podFailurePolicy" in spec and policy != "Never":
        detail = 'only "Never" is supported when podFailurePolicy is specified'
        yield invalid_value(f"{path}.template.spec.restartPolicy", policy, detail)


def _manager_problems(manager: Json, path: str) -> Iterator[Problem]:
    if manager is None:
        return
    domain, slash, rest = manager.partition("/")
    if not slash or not domain or not rest:
        yield invalid_value(path, manager, 'must be a domain-prefixed path (such as "acme.io/foo")')
    else:
        yield from (invalid_value(path, manager, each) for each in dns_subdomain(domain))
    if len(manager) > _LONGEST_MANAGER:
        yield Problem("FieldValueTooLong", path, f"Too long: may not be more than {_LONGEST_MANAGER} bytes")


def _mode_problems(spec: Object, path: str) -> Iterator[Problem]:
    mode = spec.get("completionMode", _MODES[0])
    if mode not in _MODES:
        yield unsupported_value(f"{path}.completionMode", mode, _MODES)
    if mode == "Indexed":
        if "completions" not in spec:
            yield required(f"{path}.completions", "when completion mode is Indexed")
    elif mode == "NonIndexed":
        for name in ("backoffLimitPerIndex", "maxFailedIndexes", "successPolicy"):
            if name in spec:
                yield invalid_value(f"{path}.{name}", spec[name], "requires indexed completion mode")


def _is_open(job: Object) -> bool:
    """Whether pods that do not exist yet may be changed: those of a suspended Job that never started or has stopped."""
    status = job.get("status") or {}
    stopped = any(each["type"] == "Suspended" and each["status"] == "True" for each in status.get("conditions") or ())
    return bool(job["spec"].get("suspend")) and ("startTime" not in status or stopped) and not status.get("active")


def _change_problems(new: Object, old: Object, *, is_open: bool) -> Iterator[Problem]:
    if new.get("completions") != old.get("completions"):
        if new.get("completionMode") != "Indexed":
            yield immutable("spec.completions", new.get("completions"))
        elif new.get("completions") != new.get("parallelism"):
            detail = "can only be modified in tandem with spec.parallelism"
            yield invalid_value("spec.completions", new.get("completions"), detail)
    if new.get("selector") != old.get("selector"):
        yield immutable("spec.selector", new.get("selector"))
    if is_open:
        if _fixed_pods(new) != _fixed_pods(old):
            yield immutable("spec.template.spec", new["template"]["spec"])
    elif new["template"] != old["template"]:
        yield immutable("spec.template", new["template"])
    for name in _FIXED:
        if new.get(name) != old.get(name):
            yield immutable(f"spec.{name}", new.get(name))


_DIRECTIVES = ("nodeSelector", "tolerations", "schedulingGates", "affinity")
_CONTAINERS = ("containers", "initContainers")


def _fixed_pods(spec: Object) -> Object:
    """The immutable part of the pods of a job: all but the resources of containers and the scheduling directives."""
    pods: Object = spec["template"].get("spec") or {}
    affinity = {name: value for name, value in (pods.get("affinity") or {}).items() if name != "nodeAffinity"}
    containers = {name: [_without_resources(each) for each in pods.get(name) or ()] for name in _CONTAINERS}
    rest = {name: value for name, value in pods.items() if name not in _DIRECTIVES}
    return {**rest, **containers, "affinity": affinity}


def _without_resources(container: Object) -> Object:
    return {name: value for name, value in container.items() if name != "resources"}


class CronJobRules(Rules):
    blank: ClassVar[Object] = {"spec": {"jobTemplate": {"spec": JobRules.blank["spec"]}}}
    counts_generation = True
    # As for Jobs, dependents were orphaned in the first versions; not any more.

    def defaulted(self, item: Object) -> Object:
        given = item.get("spec") or {}
        template = given.get("jobTemplate") or {}
        job = dict(template.get("spec") or {})
        job["template"] = defaulted_template({"metadata": {}, "spec": {}, **(job.get("template") or {})})
        spec = {
            "concurrencyPolicy": "Allow",
            "suspend": False,
            "successfulJobsHistoryLimit": 3,
            "failedJobsHistoryLimit": 1,
            **given,
            "jobTemplate": {"metadata": {}, **template, "spec": job},
        }
        return {**item, "spec": spec, "status": item.get("status") or {}}

    def created(self, item: Object) -> Object:
        return {**item, "status": {}}

    def problems(self, item: Object) -> list[Problem]:
        spec = item["spec"]
        found = list(_schedule_problems(spec.get("schedule", "")))
        pods = spec["jobTemplate"]["spec"]["template"].get("spec") or {}
        return found + list(template_problems(pods, "spec.jobTemplate.spec.template.spec"))


def _schedule_problems(schedule: str) -> Iterable[Problem]:
    if not schedule:
        yield required("spec.schedule")
        return
    fields = schedule.split()
    if not schedule.startswith("@") and len(fields) != 5:
        detail = f"expected exactly 5 fields, found {len(fields)}: [{' '.join(fields)}]"
        yield invalid_value("spec.schedule", schedule, detail)
