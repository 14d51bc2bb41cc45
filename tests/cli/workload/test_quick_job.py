"""A Job made of what is typed in place of a file."""

from __future__ import annotations

import pytest
import typer

from multikueue.cli.workload.quick_job import QuickJob


def test_an_image_alone_runs_its_own_command_under_a_name_made_of_it() -> None:
    assert QuickJob(image="registry.example:5000/team/Trainer_2:1@sha256:abc").tree([]) == {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"generateName": "trainer-2-"},
        "spec": {
            "template": {
                "spec": {
                    "restartPolicy": "Never",
                    "containers": [{"name": "main", "image": "registry.example:5000/team/Trainer_2:1@sha256:abc"}],
                }
            }
        },
    }


@pytest.mark.parametrize(
    ("given", "resources"),
    [
        (QuickJob(image="x", cpu="4", memory="8Gi"), {"requests": {"cpu": "4", "memory": "8Gi"}}),
        (QuickJob(image="x", gpu="1"), {"limits": {"nvidia.com/gpu": "1"}}),
        (QuickJob(image="x", gpu="amd.com/gpu=2"), {"limits": {"amd.com/gpu": "2"}}),
    ],
    ids=["CPU and memory are requests", "a number is of the usual GPUs", "others are named"],
)
def test_amounts_are_those_of_the_container(given: QuickJob, resources: dict[str, dict[str, str]]) -> None:
    (container,) = given.tree([])["spec"]["template"]["spec"]["containers"]
    assert container["resources"] == resources


def test_the_command_is_what_was_typed() -> None:
    tree = QuickJob(image="x", name="train").tree(["python", "train.py", "--epochs", "3"])

    assert tree["metadata"] == {"name": "train"}
    (container,) = tree["spec"]["template"]["spec"]["containers"]
    assert container["command"] == ["python", "train.py", "--epochs", "3"]


def test_an_image_makes_it_a_job_and_the_rest_needs_one() -> None:
    assert not QuickJob().is_given()
    assert QuickJob(image="x").is_given()
    with pytest.raises(typer.BadParameter, match="give --image"):
        QuickJob(cpu="1").is_given()
