"""The pods of a batch Job: its copy on a worker."""

from __future__ import annotations

import pytest

from multikueue.jobs.kinds.batch_job.adapter import BATCH_JOB
from multikueue.jobs.kinds.batch_job.template import fewest_pods, pods_count
from tests.builders import job
from tests.jobs.builders import ours, with_spec
from tests.jobs.kinds.batch_job.test_adapter import GENERATED, UID, remote_of, template


def test_the_whole_copy() -> None:
    built = with_spec(
        ours()
        .labels({"team": "a"})
        .annotations({"note": "n", "kubectl.kubernetes.io/last-applied-configuration": "{}"})
        .finalizers("x/y")
        .owned_by(api_version="batch/v1", kind="CronJob", name="c", uid="u")
        .template(template(labels=GENERATED | {"app": "x"}))
        .build(),
        ttlSecondsAfterFinished=5,
        backoffLimit=3,
        manualSelector=False,
        selector={"matchLabels": {"batch.kubernetes.io/controller-uid": UID}},
        podFailurePolicy={"rules": [{"action": "Ignore"}]},
    )
    assert remote_of(built) == {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": "j",
            "namespace": "default",
            "labels": {
                "kueue.x-k8s.io/queue-name": "main",
                "team": "a",
                "kueue.x-k8s.io/multikueue-origin": "o",
                "kueue.x-k8s.io/prebuilt-workload-name": "wl",
            },
            "annotations": {"note": "n", "multikueue.dev/attempt": "7"},
        },
        "spec": {
            "parallelism": 1,
            "completions": 1,
            "suspend": True,
            "backoffLimit": 3,
            "podFailurePolicy": {"rules": [{"action": "Ignore"}]},
            "template": {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}},
        },
    }


def test_a_copy_of_a_started_job_is_suspended_all_the_same() -> None:
    assert remote_of(ours().suspended(False).build())["spec"]["suspend"] is True


def test_the_queue_of_the_workload_goes_before_the_label() -> None:
    assert remote_of(ours().build(), queue="other")["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "other"


def test_labels_of_the_user_that_look_generated_stay() -> None:
    built = ours().template(template(labels={"job-name": "something-else", "controller-uid": "mine"})).build()
    assert remote_of(built)["spec"]["template"]["metadata"]["labels"] == {
        "job-name": "something-else",
        "controller-uid": "mine",
    }


def test_a_selector_of_the_users_own_stays() -> None:
    selector = {"matchLabels": {"mine": "yes", "job-name": "j"}}
    labels = {"mine": "yes", "job-name": "j"}
    built = with_spec(ours().template(template(labels=labels)).build(), manualSelector=True, selector=selector)
    spec = remote_of(built)["spec"]
    assert (spec["manualSelector"], spec["selector"]) == (True, selector)
    assert spec["template"]["metadata"]["labels"] == labels


def test_a_template_without_generated_labels_travels_as_the_very_bytes() -> None:
    odd = b'{ "spec" : {"containers":[{"name":"c","image":"i","env":[{"name":"X","value":"\\u00e9"}]}]}}'
    body = BATCH_JOB.remote_body(ours().template(odd).build(), workload_name="w", origin="o", attempt="1")
    assert bytes(body["spec"]["template"]) == odd


@pytest.mark.parametrize(
    ("parallelism", "completions", "pods"), [(5, 3, 3), (3, 5, 3), (4, None, 4), (0, 2, 0), (2, 0, 0)]
)
def test_as_many_pods_as_run_at_a_time(parallelism: int, completions: int | None, pods: int) -> None:
    assert pods_count(with_spec(job("j").build(), parallelism=parallelism, completions=completions)) == pods


@pytest.mark.parametrize(("said", "fewest"), [("2", 2), ("4", 4), ("5", None), ("0", None), ("x", None)])
def test_fewer_will_do_if_that_makes_sense(said: str, fewest: int | None) -> None:
    annotations = {"kueue.x-k8s.io/job-min-parallelism": said}
    assert fewest_pods(job("j").parallelism(4).completions(4).annotations(annotations).build()) == fewest
