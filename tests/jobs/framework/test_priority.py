from __future__ import annotations

from functools import partial

import pytest

from multikueue.api.kubernetes.builtins import PriorityClass
from multikueue.api.kueue.workload import PriorityClassRef
from multikueue.api.meta import ObjectMeta
from multikueue.jobs.framework.priority import Priority, is_workload_class, resolve, workload_class_ref
from tests.builders import workload_priority_class


def pod_class(name: str, value: int, *, default: bool = False) -> PriorityClass:
    return PriorityClass(metadata=ObjectMeta(name=name), value=value, global_default=default)


def pod_ref(name: str) -> PriorityClassRef:
    return PriorityClassRef(group="scheduling.k8s.io", kind="PriorityClass", name=name)


CLASSES = {"urgent": workload_priority_class("urgent", 100).build()}
POD_CLASSES = {c.metadata.name: c for c in (pod_class("high", 50), pod_class("b", 7, default=True))}


@pytest.mark.parametrize(
    ("workload_class", "pod_class_name", "expected"),
    [
        pytest.param("urgent", "high", Priority(100, workload_class_ref("urgent")), id="Kueue's class goes first"),
        pytest.param("", "high", Priority(50, pod_ref("high")), id="then the pods' class"),
        pytest.param("", "", Priority(7, pod_ref("b")), id="then the default of the cluster"),
        pytest.param(
            "none",
            "high",
            'WorkloadPriorityClass "none" not found: create it, or name another',
            id="Kueue's is missing",
        ),
        pytest.param(
            "", "none", 'PriorityClass "none" not found: create it, or name another', id="the pods' is missing"
        ),
    ],
)
def test_order_of_precedence(workload_class: str, pod_class_name: str, expected: Priority | str) -> None:
    found = resolve(workload_class=workload_class, pod_class=pod_class_name, classes=CLASSES, pod_classes=POD_CLASSES)
    assert found == expected


def test_of_several_defaults_the_smallest_counts() -> None:
    several = POD_CLASSES | {"a": pod_class("a", 9, default=True), "c": pod_class("c", -3, default=True)}
    assert resolve(workload_class="", pod_class="", classes={}, pod_classes=several) == Priority(-3, pod_ref("c"))


def test_without_any_class_it_is_zero() -> None:
    assert resolve(workload_class="", pod_class="", classes={}, pod_classes={}) == Priority(0, None)


@pytest.mark.parametrize(("ref", "yes"), [(workload_class_ref("x"), True), (pod_ref("x"), False), (None, False)])
def test_which_references_are_kueues(ref: PriorityClassRef | None, yes: bool) -> None:
    assert is_workload_class(ref) is yes


SYSTEM = {name: pod_class(name, 2_000_000_000) for name in ("system-cluster-critical", "system-node-critical")}


@pytest.mark.parametrize("name", SYSTEM)
def test_classes_of_the_system_do_not_outrank_anybody(name: str) -> None:
    ask = partial(resolve, pod_class=name, classes=CLASSES)
    assert ask(workload_class="", pod_classes=SYSTEM) == Priority()
    assert ask(workload_class="", pod_classes=POD_CLASSES | SYSTEM) == Priority(7, pod_ref("b"))
    assert ask(workload_class="urgent", pod_classes=SYSTEM) == Priority(100, workload_class_ref("urgent"))
    counted = ask(workload_class="", pod_classes=SYSTEM, should_count_system_classes=True)
    assert counted == Priority(2_000_000_000, pod_ref(name))


def test_others_with_such_a_word_in_their_name_count() -> None:
    known = {name: pod_class(name, 5) for name in ("systematic", "my-system-class")}
    found = {resolve(workload_class="", pod_class=name, classes={}, pod_classes=known) for name in known}
    assert found == {Priority(5, pod_ref(name)) for name in known}
