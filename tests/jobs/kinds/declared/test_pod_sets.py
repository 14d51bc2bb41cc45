from __future__ import annotations

from typing import Any

import pytest

from multikueue.jobs.kinds.declared.pod_sets import AddedOverhead, DeclaredContainer, Pods
from multikueue.jobs.kinds.declared.state_rules import StateRule
from tests.jobs.all_kinds import template

JOB = {
    "spec": {
        "mode": "on",
        "groups": [
            {"name": "Big", "replicas": 3, "hosts": 2, "template": template("big")},
            {"name": "bare", "hosts": 5},
        ],
    }
}
EACH = "spec.groups[*]"


def _bare(part: dict[str, Any]) -> dict[str, Any]:
    return template(f"made of {part['name']}")


@pytest.mark.parametrize(
    ("pods", "expected"),
    [
        pytest.param(Pods(at=EACH, name_at="name"), [("big", 3, "big")], id="one per part with a template"),
        pytest.param(
            Pods(at=EACH, name_at="name", each=("hosts",), otherwise=_bare),
            [("big", 6, "big"), ("bare", 5, "made of bare")],
            id="a template made where there is none",
        ),
        pytest.param(Pods(at=EACH, otherwise=lambda _: None), [("main", 3, "big")], id="or none"),
        pytest.param(
            Pods(at=EACH, when=StateRule(at="spec.mode", values=("on",))), [("main", 3, "big")], id="when it is so"
        ),
        pytest.param(Pods(at=EACH, when=StateRule(at="spec.mode", values=("off",))), [], id="not when it is not"),
        pytest.param(Pods(at="spec.none[*]"), [], id="nothing there"),
        pytest.param(
            Pods(at=EACH, template="", otherwise=_bare),
            [("main", 3, "made of Big"), ("main", 1, "made of bare")],
            id="no templates, whatever is called so",
        ),
    ],
)
def test_the_pod_sets_of_a_job(pods: Pods, expected: list[tuple[str, int, str]]) -> None:
    found = [
        (each["name"], each["count"], each["template"]["spec"]["containers"][0]["image"]) for each in pods.pod_sets(JOB)
    ]
    assert found == expected


@pytest.mark.parametrize(
    ("written", "asked"),
    [("512m", "512Mi"), ("4g", "4Gi"), ("2tb", "2Ti"), ("1Gi", "1Gi"), ("100", "100"), (5, "5"), ("1.5g", "1.5g")],
)
def test_memory_in_small_letters_is_javas(written: Any, asked: str) -> None:
    container = DeclaredContainer(requests=(("memory", "heap"),), limits=(("cpu", "cores"), ("gpu", "none")))
    (made,) = container({"heap": written, "cores": "500m"})["spec"]["containers"]
    assert made["resources"] == {"requests": {"memory": asked}, "limits": {"cpu": "500m"}}


OVERHEAD = AddedOverhead(resource="memory", at="overhead", share="0.1", least="384Mi")

OVERHEADS: dict[str, tuple[dict[str, Any], str | None]] = {
    "the least, where the share is less": ({"heap": "512m"}, "896Mi"),
    "a share of it": ({"heap": "10g"}, "11Gi"),
    "what the job says": ({"heap": "512m", "overhead": "1g"}, "1536Mi"),
    "nothing, where it says so": ({"heap": "512m", "overhead": "0"}, "512Mi"),
    "never less than nothing": ({"heap": "1g", "overhead": "-5g"}, "1Gi"),
    "nothing to what is not requested": ({}, None),
    "nothing to what is no quantity": ({"heap": "much"}, "much"),
    "nothing, where it is no quantity itself": ({"heap": "1g", "overhead": "much"}, "1Gi"),
}


@pytest.mark.parametrize(("said", "asked"), OVERHEADS.values(), ids=OVERHEADS)
def test_what_the_controller_adds_is_requested_too(said: dict[str, Any], asked: str | None) -> None:
    container = DeclaredContainer(requests=(("memory", "heap"),), overhead=OVERHEAD)
    (made,) = container(said)["spec"]["containers"]

    assert made["resources"].get("requests", {}).get("memory") == asked
    assert set(container.paths()) == {"heap", "overhead"}
