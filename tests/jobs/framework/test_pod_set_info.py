"""What flavors and checks demand of the pods of an admitted job (quota-engine 6.4, QE-356)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from multikueue.api.kubernetes.printed import CLUSTER_QUEUE_LABEL, LOCAL_QUEUE_LABEL, WORKLOAD_ANNOTATION
from multikueue.api.kueue.workload import Finish
from multikueue.jobs.framework.pod_set_info import (
    BadPodSetInfo,
    PodSetInfo,
    PodSetInfos,
    failed_start,
    mark_of,
    originals,
    placed,
    placement,
    restored,
)
from multikueue.jobs.kinds.batch_job.adapter import BATCH_JOB
from multikueue.jobs.kinds.batch_job.template import BATCH_POD_SET_INFO
from tests.builders import WorkloadBuilder, flavor, job
from tests.jobs.builders import become, workload_of
from tests.jobs.places import FLAVORS, TOLERATION, admitted, told

Tree = dict[str, Any]

HELD = job("j").queue("main").suspended().build()
SEEN = workload_of(HELD)
QUEUES: Tree = {LOCAL_QUEUE_LABEL: "main", CLUSTER_QUEUE_LABEL: "cq"}
MARKS: Tree = {"kueue.x-k8s.io/workload": SEEN.metadata.name}
EXCLUDES = "invalid admission check PodSetUpdate: conflict for"


def place(*updates: Tree, **flavors: str) -> PodSetInfo:
    return placement(told(admitted(SEEN, **flavors), *updates), FLAVORS).places["main"]


# --- what is demanded ---


def test_pods_go_where_their_flavor_is() -> None:
    assert place() == PodSetInfo(
        count=1,
        labels={"kueue.x-k8s.io/podset": "main", **QUEUES},
        annotations=MARKS,
        node_selector={"pool": "blue"},
        tolerations=(TOLERATION,),
    )


def test_flavors_of_several_resources_count_together_and_each_once() -> None:
    assert place(cpu="blue", memory="any", gpu="blue").tolerations == (TOLERATION,)
    assert place(cpu="blue", memory="any").node_selector == {"pool": "blue"}


def test_of_two_flavors_that_differ_the_one_of_the_first_resource_counts() -> None:
    assert place(cpu="red", memory="blue").node_selector == {"pool": "red"}


def test_a_flavor_that_is_missing_is_named() -> None:
    assert placement(admitted(SEEN, cpu="gone"), FLAVORS) == PodSetInfos(missing="gone")


def test_fewer_pods_than_it_asked_for() -> None:
    (few,) = placement(admitted(workload_of(job("j").parallelism(4).build()), 2), FLAVORS).places.values()
    assert few.count == 2


def test_what_was_not_admitted_has_no_places() -> None:
    assert placement(SEEN, FLAVORS) == PodSetInfos()


def test_checks_add_to_it() -> None:
    rack = {"rack": "7"}
    own = {"key": "red", "operator": "Exists"}
    found = place(
        {"name": "main", "labels": rack, "annotations": rack, "nodeSelector": rack, "tolerations": [own, TOLERATION]},
        {"name": "other", "nodeSelector": {"pool": "red"}},
        {"name": "main", "nodeSelector": rack},
    )
    assert found.labels["rack"] == found.annotations["rack"] == "7"
    assert found.node_selector == {"pool": "blue", "rack": "7"}
    assert found.tolerations == (TOLERATION, own)


@pytest.mark.parametrize(
    ("updates", "expected"),
    [
        pytest.param(
            [{"name": "main", "nodeSelector": {"pool": "red"}}],
            f'in admission check "check0": {EXCLUDES} nodeSelector: conflict for key=pool, value1=blue, value2=red',
            id="a check against the flavor",
        ),
        pytest.param(
            [{"name": "main", "labels": {"rack": "7"}}, {"name": "main", "labels": {"rack": "8"}}],
            f'in admission check "check1": {EXCLUDES} labels: conflict for key=rack, value1=7, value2=8',
            id="a check against another",
        ),
    ],
)
def test_demands_that_exclude_each_other(updates: list[Tree], expected: str) -> None:
    seen = told(admitted(SEEN), *updates)
    assert placement(seen, FLAVORS) == PodSetInfos(problem=expected)
    assert failed(seen) == Finish(reason="FailedToStart", message=expected)


def failed(seen: Any, held: Any = HELD) -> Finish | None:
    return failed_start(held, BATCH_JOB.start_patch(held), BATCH_POD_SET_INFO, seen, FLAVORS)


@pytest.mark.parametrize(
    "seen",
    [
        pytest.param(admitted(SEEN), id="that can be started"),
        pytest.param(admitted(SEEN, cpu="gone"), id="whose flavor may come back"),
        pytest.param(told(SEEN, {"name": "main", "nodeSelector": {"pool": "red"}}), id="that is not admitted"),
        pytest.param(
            become(told(admitted(SEEN), {"name": "main", "nodeSelector": {"pool": "red"}}), WorkloadBuilder.evicted),
            id="that is evicted",
        ),
    ],
)
def test_a_workload_is_not_at_its_end(seen: Any) -> None:
    assert failed(seen) is None


def test_neither_is_one_whose_job_runs() -> None:
    contradicting = told(admitted(SEEN), {"name": "main", "nodeSelector": {"pool": "red"}})
    assert failed(contradicting, job("j").queue("main").build()) is None


# --- templates ---

OWN: Tree = {
    "metadata": {"labels": {"app": "x"}, "creationTimestamp": None},
    "spec": {"containers": [{"name": "c"}], "nodeSelector": {"zone": "a"}, "tolerations": [{"key": "own"}]},
}


def test_what_a_template_says_itself_stays() -> None:
    made = placed(OWN, place())
    assert made["metadata"] == {
        "labels": {"app": "x", "kueue.x-k8s.io/podset": "main", **QUEUES},
        "annotations": MARKS,
        "creationTimestamp": None,
    }
    assert made["spec"] == {
        "containers": [{"name": "c"}],
        "nodeSelector": {"zone": "a", "pool": "blue"},
        "tolerations": [{"key": "own"}, TOLERATION],
    }
    assert placed(made, place()) == made


@pytest.mark.parametrize(
    "own",
    [
        pytest.param({"key": "team", "effect": "NoSchedule"}, id="without an operator"),
        pytest.param({"key": "team", "effect": "NoSchedule", "operator": "Equal"}, id="with the one that is meant"),
    ],
)
def test_what_a_template_tolerates_already_is_not_said_twice(own: Tree) -> None:
    equal = flavor("any").tolerate("team").build()
    (found,) = placement(admitted(SEEN, cpu="any"), {"any": equal}).places.values()
    assert len(placed({"spec": {"tolerations": [own]}}, found)["spec"]["tolerations"]) == 1


@pytest.mark.parametrize(
    ("template", "what"),
    [
        ({"spec": {"nodeSelector": {"pool": "red"}}}, "nodeSelector: conflict for key=pool, value1=red, value2=blue"),
        ({"metadata": {"labels": {"kueue.x-k8s.io/podset": "x"}}}, "labels: conflict for key=kueue.x-k8s.io/podset"),
    ],
)
def test_a_template_that_says_otherwise(template: Tree, what: str) -> None:
    with pytest.raises(BadPodSetInfo, match=f"{EXCLUDES} {what}"):
        placed(template, place())


@pytest.mark.parametrize("own", [pytest.param(OWN, id="with wishes"), pytest.param({"spec": {"x": 1}}, id="without")])
def test_a_restored_template_is_what_it_was(own: Tree) -> None:
    made = placed(own, place({"name": "main", "nodeSelector": {"rack": "7"}, "labels": {"l": "1"}}))
    assert mark_of(made)
    assert restored(made, own) == own | {"metadata": own.get("metadata", {})}
    assert not mark_of(restored(made, own))


def test_the_workload_of_another_start_is_no_wish() -> None:
    before = placed({"spec": {}}, replace(place(), annotations={WORKLOAD_ANNOTATION: "old"}))
    assert mark_of(before) == "old"
    assert mark_of(placed(before, place())) == mark_of(placed({"spec": {}}, place()))


def test_the_queues_of_another_start_are_no_wish() -> None:
    before = placed({"spec": {}}, replace(place(), labels=dict.fromkeys(QUEUES, "old")))
    assert placed(before, place()) == placed({"spec": {}}, place())


@pytest.mark.parametrize(
    ("local", "cluster", "labels"),
    [
        pytest.param("main", "cq", {LOCAL_QUEUE_LABEL: "main", CLUSTER_QUEUE_LABEL: "cq"}, id="both"),
        pytest.param("a.b", "a.b", {LOCAL_QUEUE_LABEL: "a.b"}, id="dots in names, as Kueue"),
        pytest.param("x" * 64, "y" * 64, {}, id="names too long to be labels, for which Kueue's jobs cannot start"),
    ],
)
def test_pods_are_labelled_with_the_queues_that_can_be_labels(local: str, cluster: str, labels: Tree) -> None:
    seen = workload_of(job("j").queue(local).suspended().build())
    status = admitted(seen).status
    assert status.admission is not None
    there = msgspec.structs.replace(status.admission, cluster_queue=cluster)
    known = msgspec.structs.replace(seen, status=msgspec.structs.replace(status, admission=there))
    (found,) = placement(known, FLAVORS).places.values()
    assert {key: text for key, text in found.labels.items() if key in QUEUES} == labels


def test_without_the_original_a_template_loses_its_marks_alone() -> None:
    found = restored(placed(OWN, place()), None)
    assert found["metadata"]["labels"] == {"app": "x"}
    assert not mark_of(found)
    assert found["spec"]["nodeSelector"] == {"zone": "a", "pool": "blue"}


def test_an_original_with_marks_of_another_time_has_none() -> None:
    made = placed(OWN, place())
    assert not mark_of(restored(made, made))


def test_labels_that_were_given_for_good_stay() -> None:
    made = placed({"metadata": {"labels": {"job-name": "j", "b": "c"}}, "spec": {}}, place())
    assert restored(made, {"spec": {}}, kept=("job-name",))["metadata"] == {"labels": {"job-name": "j"}}


def test_the_originals_are_in_the_workload() -> None:
    assert originals(None) == {}
    assert list(originals(SEEN)) == ["main"]
    assert originals(SEEN)["main"]["metadata"] == {}


def test_updates_that_are_null_say_nothing() -> None:
    (check,) = told(SEEN, {"name": "main"}).status.admission_checks
    check = msgspec.structs.replace(check, pod_set_updates=msgspec.Raw(b"null"))
    seen = admitted(SEEN)
    seen = msgspec.structs.replace(seen, status=msgspec.structs.replace(seen.status, admission_checks=(check,)))
    assert placement(seen, FLAVORS).places["main"].node_selector == {"pool": "blue"}
