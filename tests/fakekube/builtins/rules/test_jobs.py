"""Jobs, one file: what is generated, what stays, and in which order a status may come about.

The rules were compared with kube-apiserver 1.37, case by case.
"""

from __future__ import annotations

from typing import Any

import pytest

from fakekube.model.wire import Object
from tests.fakekube.builders import JOBS, MERGE, Bench, job, pod_spec

START, END = "2026-01-01T00:00:00Z", "2026-01-01T01:00:00Z"


def conditions(*names: str) -> list[Object]:
    return [{"type": name, "status": "True"} for name in names]


DONE: Object = {
    "startTime": START,
    "completionTime": END,
    "succeeded": 1,
    "conditions": conditions("SuccessCriteriaMet", "Complete"),
}


def status(bench: Bench, **content: Any) -> Object:
    return bench.patch(f"{JOBS}/a/status", {"status": content})


def problems(bench: Bench, path: str, body: Object) -> list[tuple[str, str]]:
    refusal = bench.refused(422, "PATCH", f"{JOBS}/a{path}", body, content_type=MERGE)
    return [(cause["field"], cause["message"]) for cause in refusal["details"]["causes"]]


# --- making one ------------------------------------------------------------------------------------------------------


def test_a_job_gets_its_selector_its_labels_and_its_defaults(bench: Bench) -> None:
    made = bench.make(JOBS, job("a"))
    uid = made["metadata"]["uid"]
    labels = {
        "batch.kubernetes.io/controller-uid": uid,
        "batch.kubernetes.io/job-name": "a",
        "controller-uid": uid,
        "job-name": "a",
    }
    template = made["spec"].pop("template")
    assert made["metadata"]["labels"] == template["metadata"]["labels"] == labels
    assert made["metadata"]["generation"] == 1
    assert made["status"] == {}
    assert made["spec"] == {
        "parallelism": 1,
        "completions": 1,
        "backoffLimit": 6,
        "completionMode": "NonIndexed",
        "suspend": False,
        "podReplacementPolicy": "TerminatingOrFailed",
        "manualSelector": False,
        "selector": {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}},
    }


def test_labels_of_its_pods_are_those_of_the_job_unless_it_has_some(bench: Bench) -> None:
    template = {"metadata": {"labels": {"app": "x"}}, "spec": pod_spec()}
    made = bench.make(JOBS, {"metadata": {"name": "a"}, "spec": {"template": template}})
    assert made["metadata"]["labels"].keys() == {"app", *made["spec"]["template"]["metadata"]["labels"]}
    own = bench.make(JOBS, {"metadata": {"name": "b", "labels": {"my": "own"}}, "spec": {"template": template}})
    assert own["metadata"]["labels"] == {"my": "own"}


def test_who_selects_by_hand_is_left_alone(bench: Bench) -> None:
    template = {"metadata": {"labels": {"app": "x"}}, "spec": pod_spec()}
    spec = {"manualSelector": True, "selector": {"matchLabels": {"app": "x"}}, "template": template}
    made = bench.make(JOBS, {"metadata": {"name": "a"}, "spec": spec})
    assert made["spec"]["selector"] == {"matchLabels": {"app": "x"}}
    assert made["spec"]["template"]["metadata"]["labels"] == {"app": "x"}


@pytest.mark.parametrize(
    ("given", "made"),
    [
        ({"completions": 3}, {"parallelism": 1, "completions": 3}),
        ({"parallelism": 3}, {"parallelism": 3, "completions": None}),
        ({"backoffLimitPerIndex": 1, "completionMode": "Indexed", "completions": 2}, {"backoffLimit": 2**31 - 1}),
        (
            {"podFailurePolicy": {"rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}]}},
            {
                "podReplacementPolicy": "Failed",
                "podFailurePolicy": {
                    "rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}]
                },
            },
        ),
    ],
)
def test_some_defaults_depend_on_others(bench: Bench, given: Object, made: Object) -> None:
    spec = bench.make(JOBS, job("a", **given))["spec"]
    assert {name: spec.get(name) for name in made} == made


@pytest.mark.parametrize(
    ("given", "fields"),
    [
        ({"parallelism": -1, "backoffLimit": -1}, ["spec.parallelism", "spec.backoffLimit"]),
        ({"completionMode": "Odd"}, ["spec.completionMode"]),
        ({"completionMode": "Indexed", "parallelism": 2}, ["spec.completions"]),
        ({"maxFailedIndexes": 1}, ["spec.maxFailedIndexes"]),
        ({"managedBy": "me"}, ["spec.managedBy"]),
        ({"managedBy": "Me/x"}, ["spec.managedBy"]),
        ({"managedBy": "example.com/" + "x" * 60}, ["spec.managedBy"]),
        ({"pods": {"containers": [{"name": "c", "image": "i"}]}}, ["spec.template.spec.restartPolicy"]),
        ({"pods": pod_spec(restartPolicy="Sometimes")}, ["spec.template.spec.restartPolicy"]),
        ({"pods": {"restartPolicy": "Never"}}, ["spec.template.spec.containers"]),
        (
            {"pods": pod_spec(restartPolicy="OnFailure"), "podFailurePolicy": {"rules": []}},
            ["spec.template.spec.restartPolicy"],
        ),
        ({"selector": {"matchLabels": {"a": "b"}}}, ["spec.selector", "spec.template.metadata.labels"]),
    ],
)
def test_jobs_that_are_none(bench: Bench, given: Any, fields: list[str]) -> None:
    refusal = bench.refused(422, "POST", JOBS, job("a", **given))
    assert [cause["field"] for cause in refusal["details"]["causes"]] == fields


def test_labels_that_would_lie_are_refused(bench: Bench) -> None:
    template = {"metadata": {"labels": {"controller-uid": "other"}}, "spec": pod_spec()}
    refusal = bench.refused(422, "POST", JOBS, {"metadata": {"name": "a"}, "spec": {"template": template}})
    assert refusal["details"]["causes"][0]["field"] == "spec.template.metadata.labels[controller-uid]"


# --- changing one ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"completions": 3}, "spec.completions"),
        ({"managedBy": "example.com/x"}, "spec.managedBy"),
        ({"completionMode": "Indexed"}, "spec.completionMode"),
        ({"template": {"spec": {"nodeSelector": {"a": "b"}}}}, "spec.template"),
        ({"template": {"metadata": {"labels": {"a": "b"}}}}, "spec.template"),
    ],
)
def test_what_stays_in_a_job(bench: Bench, change: Object, field: str) -> None:
    bench.make(JOBS, job("a"))
    [(found, message)] = problems(bench, "", {"spec": change})
    assert found == field
    assert message.endswith("field is immutable")


@pytest.mark.parametrize(
    "change", [{"suspend": True}, {"parallelism": 5}, {"backoffLimit": 1}, {"activeDeadlineSeconds": 5}]
)
def test_what_may_change_in_a_job(bench: Bench, change: Object) -> None:
    bench.make(JOBS, job("a"))
    assert bench.patch(f"{JOBS}/a", {"spec": change})["metadata"]["generation"] == 2


PLACES: Object = {
    "metadata": {"labels": {"a": "b"}, "annotations": {"a": "b"}},
    "spec": {
        "nodeSelector": {"a": "b"},
        "tolerations": [{"key": "x", "operator": "Exists"}],
        "schedulingGates": [{"name": "g"}],
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}}},
    },
}


def test_where_pods_go_may_change_while_a_job_never_started(bench: Bench) -> None:
    bench.make(JOBS, job("a", suspend=True))
    changed = bench.patch(f"{JOBS}/a", {"spec": {"template": PLACES}})["spec"]["template"]
    assert changed["spec"]["nodeSelector"] == {"a": "b"}
    assert changed["metadata"]["labels"]["a"] == "b"
    [(field, _)] = problems(bench, "", {"spec": {"template": {"spec": {"hostNetwork": True}}}})
    assert field == "spec.template.spec"


def test_what_pods_ask_for_may_change_while_a_job_never_started(bench: Bench) -> None:
    made = bench.make(JOBS, job("a", suspend=True))
    [container] = made["spec"]["template"]["spec"]["containers"]
    more = {"template": {"spec": {"containers": [{**container, "resources": {"requests": {"cpu": "7"}}}]}}}
    changed = bench.patch(f"{JOBS}/a", {"spec": more})["spec"]["template"]["spec"]
    assert changed["containers"][0]["resources"] == {"requests": {"cpu": "7"}}


SUSPENDED: dict[str, tuple[Object, bool]] = {
    "never started": ({}, True),
    "has started": ({"startTime": START}, False),
    "has a pod": ({"active": 1}, False),
    "stopped": ({"startTime": START, "conditions": conditions("Suspended")}, True),
    "is about to stop": ({"startTime": START, "active": 1, "conditions": conditions("Suspended")}, False),
    "went on since": ({"startTime": START, "conditions": [{"type": "Suspended", "status": "False"}]}, False),
}


@pytest.mark.parametrize(("state", "may"), SUSPENDED.values(), ids=SUSPENDED.keys())
def test_the_pods_of_a_suspended_job_may_change_if_it(bench: Bench, state: Object, may: bool) -> None:
    bench.make(JOBS, job("a", suspend=True))
    status(bench, **state)
    change = {"spec": {"template": {"spec": {"nodeSelector": {"a": "c"}}}}}
    if may:
        assert bench.patch(f"{JOBS}/a", change)["spec"]["template"]["spec"]["nodeSelector"] == {"a": "c"}
    else:
        assert [field for field, _ in problems(bench, "", change)] == ["spec.template"]


def test_indexed_jobs_grow_and_shrink(bench: Bench) -> None:
    bench.make(JOBS, job("a", completionMode="Indexed", completions=3, parallelism=3))
    [(field, message)] = problems(bench, "", {"spec": {"completions": 4}})
    assert (field, message) == (
        "spec.completions",
        "Invalid value: 4: can only be modified in tandem with spec.parallelism",
    )
    assert bench.patch(f"{JOBS}/a", {"spec": {"completions": 4, "parallelism": 4}})["spec"]["completions"] == 4


# --- its status ------------------------------------------------------------------------------------------------------


def test_a_job_runs_and_completes(bench: Bench) -> None:
    bench.make(JOBS, job("a"))
    running = status(bench, startTime=START, active=1, ready=1, terminating=0)
    assert running["status"] == {"startTime": START, "active": 1, "ready": 1, "terminating": 0}
    done = status(bench, **DONE, active=0, ready=0)
    assert "active" not in done["status"], "a count of nothing is not told"
    assert done["status"]["conditions"][0] == {
        "type": "SuccessCriteriaMet",
        "status": "True",
        "lastProbeTime": None,
        "lastTransitionTime": None,
    }


def test_a_job_fails(bench: Bench) -> None:
    bench.make(JOBS, job("a"))
    status(bench, startTime=START, failed=7, conditions=conditions("FailureTarget", "Failed"))


COMPLETE = conditions("SuccessCriteriaMet", "Complete")

STATES: dict[str, tuple[Object, list[tuple[str, str]]]] = {
    "complete without anything": (
        {"conditions": conditions("Complete")},
        [
            ("status.completionTime", "Required value: completionTime is required for Complete jobs"),
            (
                "status.conditions",
                "Invalid value: cannot set Complete=True condition without the SuccessCriteriaMet=true condition",
            ),
            ("status.startTime", "Required value: startTime is required for finished job"),
        ],
    ),
    "failed without a target": (
        {"startTime": START, "conditions": conditions("Failed")},
        [
            (
                "status.conditions",
                "Invalid value: cannot set Failed=True condition without the FailureTarget=true condition",
            )
        ],
    ),
    "finished with pods that run": (
        {**DONE, "active": 1, "terminating": 2},
        [
            ("status.active", "Invalid value: 1: active>0 is invalid for finished job"),
            ("status.terminating", "Invalid value: 2: terminating>0 is invalid for finished job"),
        ],
    ),
    "finished with pods not counted": (
        {**DONE, "uncountedTerminatedPods": {"succeeded": ["x"]}},
        [
            (
                "status.uncountedTerminatedPods",
                'Invalid value: {"succeeded":["x"]}: must be empty for finished job',
            )
        ],
    ),
    "finished before it began": (
        {**DONE, "completionTime": "2025-01-01T00:00:00Z"},
        [
            (
                "status.completionTime",
                'Invalid value: "2025-01-01T00:00:00Z": must be equal to or after `startTime`',
            )
        ],
    ),
    "a completion time of one that is not complete": (
        {"completionTime": END},
        [
            (
                "status.completionTime",
                f'Invalid value: "{END}": cannot set completionTime when there is no Complete=True condition',
            )
        ],
    ),
    "complete and failed": (
        {**DONE, "conditions": [*COMPLETE, *conditions("FailureTarget", "Failed")]},
        [
            ("status.conditions", "Invalid value: cannot set Complete=True and Failed=true conditions"),
            ("status.conditions", "Invalid value: cannot set Complete=True and FailureTarget=true conditions"),
            ("status.conditions", "Invalid value: cannot set SuccessCriteriaMet=True and Failed=true conditions"),
            (
                "status.conditions",
                "Invalid value: cannot set SuccessCriteriaMet=True and FailureTarget=true conditions",
            ),
        ],
    ),
    "more ready than active": (
        {"active": 1, "ready": 2},
        [("status.ready", "Invalid value: 2: cannot set more ready pods than active")],
    ),
    "less than none": (
        {"active": -1},
        [("status.active", "Invalid value: -1: must be greater than or equal to 0")],
    ),
    "pods told twice or without a name": (
        {"uncountedTerminatedPods": {"succeeded": ["x"], "failed": ["x", ""]}},
        [
            ("status.uncountedTerminatedPods.failed[0]", 'Duplicate value: "x"'),
            ("status.uncountedTerminatedPods.failed[1]", 'Invalid value: "": must not be empty'),
        ],
    ),
    "indexes of one that has none": (
        {"completedIndexes": "0", "failedIndexes": "1"},
        [
            (
                "status.completedIndexes",
                'Invalid value: "0": cannot set non-empty completedIndexes when non-indexed completion mode',
            ),
            (
                "status.failedIndexes",
                'Invalid value: "1": cannot set non-null failedIndexes when backoffLimitPerIndex is null',
            ),
        ],
    ),
}


@pytest.mark.parametrize(("content", "found"), STATES.values(), ids=STATES.keys())
def test_a_status_that_cannot_be(bench: Bench, content: Object, found: list[tuple[str, str]]) -> None:
    bench.make(JOBS, job("a"))
    assert problems(bench, "/status", {"status": content}) == found


STEPS: dict[str, tuple[Object, Object, list[str]]] = {
    "completion is for ever": (
        DONE,
        {"conditions": [], "completionTime": None},
        [
            "Invalid value: cannot disable the terminal Complete=True condition",
            "Invalid value: cannot disable the SuccessCriteriaMet=True condition",
        ],
    ),
    "the end is for ever": (
        DONE,
        {"completionTime": "2026-01-01T02:00:00Z"},
        ['Invalid value: "2026-01-01T02:00:00Z": field is immutable'],
    ),
    "counts do not shrink": (
        {"failed": 2, "succeeded": 2},
        {"failed": 1, "succeeded": 1},
        [
            "Invalid value: 1: cannot decrease the failed counter",
            "Invalid value: 1: cannot decrease the succeeded counter",
        ],
    ),
    "the beginning stays": (
        {"startTime": START},
        {"startTime": END},
        ['Invalid value: "2026-01-01T01:00:00Z": field is immutable for unsuspended job once set'],
    ),
    "what ended does not run again": (DONE, {"active": 1}, ["Invalid value: 1: active>0 is invalid for finished job"]),
}


@pytest.mark.parametrize(("before", "after", "messages"), STEPS.values(), ids=STEPS.keys())
def test_a_step_that_cannot_be(bench: Bench, before: Object, after: Object, messages: list[str]) -> None:
    bench.make(JOBS, job("a"))
    status(bench, **before)
    assert [message for _, message in problems(bench, "/status", {"status": after})] == messages


def test_a_suspended_job_starts_over(bench: Bench) -> None:
    bench.make(JOBS, job("a", suspend=True))
    status(bench, startTime=START)
    assert "startTime" not in status(bench, startTime=None)["status"]


def test_a_job_that_is_resumed_gets_a_new_beginning(bench: Bench) -> None:
    bench.make(JOBS, job("a", suspend=True))
    status(bench, startTime=START, conditions=conditions("Suspended"))
    bench.patch(f"{JOBS}/a", {"spec": {"suspend": False}})
    resumed = [{"type": "Suspended", "status": "False"}]
    assert status(bench, startTime=END, conditions=resumed)["status"]["startTime"] == END


def test_a_suspended_job_of_nothing_completes_without_a_beginning(bench: Bench) -> None:
    bench.make(JOBS, job("a", suspend=True, completions=0))
    status(bench, completionTime=END, conditions=COMPLETE)


def test_old_faults_do_not_hinder(bench: Bench) -> None:
    bench.make(JOBS, job("a", parallelism=2))
    status(bench, active=2, ready=2)
    bench.storage.put("jobs.batch", "t/a", {**bench.get(f"{JOBS}/a"), "status": {"active": 1, "ready": 2}})
    status(bench, failed=1)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("0,2-3", ""),
        ("4", 'error parsing completedIndexes: too large index: "4"'),
        ("2,1", "error parsing completedIndexes: non-increasing order, previous: 2, current: 1"),
        ("x", 'error parsing completedIndexes: cannot convert string to integer for index: "x"'),
    ],
)
def test_indexes_are_told_as_intervals(bench: Bench, text: str, why: str) -> None:
    bench.make(JOBS, job("a", completionMode="Indexed", completions=4, parallelism=4))
    if not why:
        status(bench, completedIndexes=text)
        return
    [(_, message)] = problems(bench, "/status", {"status": {"completedIndexes": text}})
    assert message == f'Invalid value: "{text}": {why}'


# --- cron jobs -------------------------------------------------------------------------------------------------------

CRON_JOBS = "/apis/batch/v1/namespaces/t/cronjobs"


def test_a_cron_job_gets_its_defaults(bench: Bench) -> None:
    template = {"spec": {"template": {"spec": pod_spec()}}}
    made = bench.make(
        CRON_JOBS, {"metadata": {"name": "a"}, "spec": {"schedule": "* * * * *", "jobTemplate": template}}
    )
    assert (made["spec"]["concurrencyPolicy"], made["spec"]["failedJobsHistoryLimit"]) == ("Allow", 1)
    assert made["spec"]["jobTemplate"]["metadata"] == {}
    assert made["spec"]["jobTemplate"]["spec"]["template"]["spec"]["dnsPolicy"] == "ClusterFirst"
    assert made["status"] == {}


@pytest.mark.parametrize("schedule", ["", "* *"])
def test_a_schedule_has_five_fields(bench: Bench, schedule: str) -> None:
    template = {"spec": {"template": {"spec": pod_spec()}}}
    body = {"metadata": {"name": "a"}, "spec": {"schedule": schedule, "jobTemplate": template}}
    assert bench.refused(422, "POST", CRON_JOBS, body)["details"]["causes"][0]["field"] == "spec.schedule"
