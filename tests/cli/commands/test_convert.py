"""`multikueue convert`: files in, v1beta2 out, and errors that say where."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.conftest import Run

QUEUE = """\
# A comment.
apiVersion: kueue.x-k8s.io/v1beta1
kind: ClusterQueue
metadata:
  name: batch
  labels: {number: "1e3", day: 2024-01-01, yes: "y"}
spec:
  cohort: teams
  admissionChecks: [everywhere]
"""
CLUSTER = {
    "apiVersion": "kueue.x-k8s.io/v1beta1",
    "kind": "MultiKueueCluster",
    "metadata": {"name": "worker-1"},
    "spec": {"kubeConfig": {"location": "worker-1"}},
}
WRONG = "apiVersion: kueue.x-k8s.io/v1beta1\nkind: Cohort\nmetadata: {name: c}\nspec: 3\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "queues.yaml").write_text(f"{QUEUE}---\n---\napiVersion: v1\nkind: Namespace\nmetadata: {{name: a}}\n")
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "clusters.json").write_text(json.dumps(CLUSTER))
    (tmp_path / "notes.txt").write_text("not read")
    return tmp_path


def kinds(text: str) -> list[str]:
    return [each["kind"] for each in yaml.safe_load_all(text)]


def test_documents_are_printed_in_v1beta2_in_their_order(folder: Path, cli: Run) -> None:
    found = cli("convert", "-f", str(folder / "queues.yaml"))

    assert (found.code, found.err) == (0, "")
    queue, namespace = yaml.safe_load_all(found.out)
    assert queue["spec"] == {
        "cohortName": "teams",
        "admissionChecksStrategy": {"admissionChecks": [{"name": "everywhere"}]},
    }
    assert namespace["kind"] == "Namespace"


def test_what_another_reader_takes_for_a_number_a_date_or_a_boolean_is_quoted(folder: Path, cli: Run) -> None:
    out = cli("convert", "-f", str(folder / "queues.yaml")).out

    assert "number: '1e3'" in out
    assert "day: '2024-01-01'" in out
    assert ": 'y'" in out


def test_a_directory_is_read_with_what_is_below_on_request(folder: Path, cli: Run) -> None:
    assert kinds(cli("convert", "-f", str(folder)).out) == ["ClusterQueue", "Namespace"]
    found = cli("convert", "-f", str(folder), "-R").out
    assert sorted(kinds(found)) == ["ClusterQueue", "MultiKueueCluster", "Namespace"]


def test_standard_input_and_json(cli: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(json.dumps(CLUSTER)))

    found: dict[str, Any] = json.loads(cli("convert", "-f", "-", "-o", "json").out)

    assert found["spec"] == {"clusterSource": {"kubeConfig": {"location": "worker-1"}}}


def test_a_list_of_any_kind_is_taken_apart(tmp_path: Path, cli: Run) -> None:
    cohort = {"metadata": {"name": "a"}}
    listed = {"apiVersion": "kueue.x-k8s.io/v1beta1", "kind": "CohortList", "items": [cohort]}
    (tmp_path / "list.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [CLUSTER, listed]}))

    found = json.loads(cli("convert", "-f", str(tmp_path / "list.json"), "-o", "json").out)

    assert [each["kind"] for each in found["items"]] == ["MultiKueueCluster", "Cohort"]
    assert {each["apiVersion"] for each in found["items"]} == {"kueue.x-k8s.io/v1beta2"}


def test_a_configuration_within_a_config_map(tmp_path: Path, cli: Run) -> None:
    inner = "apiVersion: config.kueue.x-k8s.io/v1beta1\nkind: Configuration\nwaitForPodsReady: {enable: true}\n"
    data = {"controller_manager_config.yaml": inner, "other": "x"}
    (tmp_path / "map.json").write_text(json.dumps({"apiVersion": "v1", "kind": "ConfigMap", "data": data}))

    found = json.loads(cli("convert", "-f", str(tmp_path / "map.json"), "-o", "json").out)

    assert found["data"]["other"] == "x"
    assert yaml.safe_load(found["data"]["controller_manager_config.yaml"]) == {
        "apiVersion": "config.kueue.x-k8s.io/v1beta2",
        "kind": "Configuration",
        "waitForPodsReady": {"timeout": "5m", "blockAdmission": True},
    }


def test_an_error_names_document_kind_name_and_field_and_nothing_is_printed(tmp_path: Path, cli: Run) -> None:
    path = tmp_path / "q.yaml"
    path.write_text(f"{QUEUE}---\n{WRONG}---\n{WRONG.replace('Cohort', 'Cohrt')}")

    found = cli("convert", "-f", str(path))

    assert (found.code, found.out) == (1, "")
    first, second = found.err.splitlines()
    assert first == f"error: {path}, document 2: Cohort c: spec: expected a mapping, got 3"
    assert second.startswith(f"error: {path}, document 3: Cohrt c: kind: expected AdmissionCheck or ")


BROKEN = {
    "no YAML": ("a: [", 1, "no YAML"),
    "no object": ("- 1\n", 1, "expected objects with apiVersion and kind"),
    "nothing": ("---\n", 1, "There is no object in these files."),
}


@pytest.mark.parametrize(("text", "code", "hint"), BROKEN.values(), ids=BROKEN)
def test_a_file_without_objects_fails(tmp_path: Path, cli: Run, text: str, code: int, hint: str) -> None:
    (tmp_path / "q.yaml").write_text(text)

    found = cli("convert", "-f", str(tmp_path / "q.yaml"))

    assert (found.code, found.out) == (code, "")
    assert hint in found.err


def test_wrong_usage_is_code_2(cli: Run, tmp_path: Path) -> None:
    assert cli("convert").code == 2
    assert cli("convert", "-f", "-", "-o", "table").code == 2
    assert cli("convert", "-f", str(tmp_path)).code == 1
