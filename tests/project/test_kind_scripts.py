"""The scripts of the kind clusters, with programs that write down their calls in the place of real ones."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from testbed.programs import Release, releases
from tests.project.files import CLUSTERS, KIND_CONFIGS

KUBECONFIG = "kubeconfigs/kind"
PINNED = re.compile(r"kindest/node:(v\d+\.\d+)\.\d+@sha256:[0-9a-f]{64}")

FAKES = {
    "kind": """
case "$1 $2" in
  "get clusters") cat "$STATE" ;;
  "create cluster") basename "$4" .yaml >> "$STATE"; touch "$KUBECONFIG" ;;
esac
""",
    "kubectl": "",
    "docker": "echo fc00:f853:ccd:e793::1; echo 172.18.0.1; yes 10.0.0.1 | head -20000",
    "multikueue": "",
}


@dataclass(frozen=True)
class Clone:
    """A folder with the scripts, in which they are called as by the Makefile."""

    folder: Path

    @property
    def state(self) -> Path:
        return self.folder / "clusters"

    def run(self, script: str, **variables: str) -> str:
        environment = {
            **{name: value for name, value in os.environ.items() if name not in ("KIND_IMAGE", "INSIDE")},
            "PATH": f"{self.folder / '.venv' / 'bin'}:{os.environ['PATH']}",
            "STATE": str(self.state),
            "CALLS": str(self.folder / "calls"),
            **variables,
        }
        command = [f"kind-configs/{script}", KUBECONFIG]
        done = subprocess.run(command, cwd=self.folder, env=environment, capture_output=True, text=True, check=True)
        return done.stdout

    def calls(self, *words: str) -> list[str]:
        """What was called that begins so, since `forget`."""
        asked = (self.folder / "calls").read_text().splitlines()
        return [call for call in asked if call.startswith(" ".join(words))]

    def forget(self) -> None:
        (self.folder / "calls").unlink()


@pytest.fixture(name="clone")
def _clone(tmp_path: Path) -> Clone:
    shutil.copytree(KIND_CONFIGS, tmp_path / "kind-configs")
    programs = tmp_path / ".venv" / "bin"
    programs.mkdir(parents=True)
    for name, body in FAKES.items():
        (programs / name).write_text(f'#!/usr/bin/env bash\nset -e\necho "{name} $*" >> "$CALLS"\n{body}')
        (programs / name).chmod(0o755)
    clone = Clone(tmp_path)
    clone.state.touch()
    return clone


def test_a_first_run_makes_each_cluster_with_the_pinned_image_and_registers_the_workers(clone: Clone) -> None:
    clone.run("up.sh")

    made = clone.calls("kind", "create")
    assert [re.findall(r"([\w-]+)\.yaml", call) for call in made] == [[name] for name in CLUSTERS]
    (pinned,) = {match[1] for call in made if (match := PINNED.search(call))}
    assert all(PINNED.search(call) for call in made)
    # kind has an image of the newest Kubernetes later than we have built it.
    assert any(Release(kueue).kubernetes.startswith(f"{pinned}.") for kueue in releases())
    assert [call.split()[3] for call in clone.calls("multikueue", "clusters", "register")] == CLUSTERS[1:]


def test_a_second_run_makes_no_cluster_and_takes_no_right_away(clone: Clone) -> None:
    clone.run("up.sh")
    first = clone.calls("multikueue")
    clone.forget()

    clone.run("up.sh")

    assert clone.calls("kind", "create") == []
    assert len(clone.calls("kind", "export")) == len(CLUSTERS)
    assert clone.calls("multikueue") == first
    assert all("--view-pods" in call for call in first)


def test_a_second_run_finds_its_clusters_among_many(clone: Clone) -> None:
    """So many that kind is still writing when the first of them is found."""
    clone.state.write_text("\n".join([*CLUSTERS, *(f"other-{number}" for number in range(20_000))]) + "\n")

    clone.run("up.sh")

    assert clone.calls("kind", "create") == []


def test_what_is_printed_works_in_any_folder_and_names_the_ways_out(clone: Clone) -> None:
    said = clone.run("up.sh")

    assert f"export KUBECONFIG={clone.folder / KUBECONFIG}\n" in said
    assert "MULTIKUEUE_WEBHOOK__URL=https://172.18.0.1:9443\n" in said
    assert "multikueue webhook remove --context kind-manager" in said


def test_a_manager_inside_gets_addresses_that_lead_somewhere_there(clone: Clone) -> None:
    clone.run("up.sh")
    assert not any("--server" in call for call in clone.calls("multikueue"))
    clone.forget()

    clone.run("up.sh", INSIDE="1")

    servers = [call.partition("--server ")[2] for call in clone.calls("multikueue")]
    assert servers == [f"https://{name}-control-plane:6443" for name in CLUSTERS[1:]]


def test_another_image_can_be_named(clone: Clone) -> None:
    clone.run("up.sh", KIND_IMAGE="mirror/node:v1")

    assert all("--image mirror/node:v1 " in call for call in clone.calls("kind", "create"))


def test_all_that_was_made_goes(clone: Clone) -> None:
    clone.run("up.sh")

    clone.run("down.sh")

    assert [call.split()[-1] for call in clone.calls("kind", "delete")] == CLUSTERS
    assert not (clone.folder / KUBECONFIG).exists()
