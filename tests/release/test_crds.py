"""CRDs for sites without a network are those of kind-configs/crds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from release import crds as made
from release.crds import crds, served_alone
from testbed.programs import Release


def definition(name: str, *versions: str) -> dict[str, Any]:
    known = [{"name": version, "served": True, "storage": version == versions[-1]} for version in versions]
    return {"kind": "CustomResourceDefinition", "metadata": {"name": name}, "spec": {"versions": known}}


def test_one_version_alone_is_served() -> None:
    alone = served_alone(definition("jobs", "v1beta1", "v1beta2"), "v1beta2")

    assert [(each["name"], each["served"]) for each in alone["spec"]["versions"]] == [
        ("v1beta1", False),
        ("v1beta2", True),
    ]


def test_the_file_has_all_definitions_with_that_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bases = tmp_path / "config/components/crd/bases"
    bases.mkdir(parents=True)
    for name, versions in (("workloads", ("v1beta1", "v1beta2")), ("olds", ("v1beta1",))):
        (bases / f"kueue.x-k8s.io_{name}.yaml").write_text(yaml.safe_dump(definition(name, *versions)))
    monkeypatch.setattr(made, "fetched", lambda module, release: tmp_path)

    text = crds(Release("0.19.2"), "kueue-0.19.2-crds.yaml")

    assert "Kueue 0.19.2" in text.splitlines()[0]
    assert "kueue-0.19.2-crds.yaml" in text.splitlines()[1]
    assert [document["metadata"]["name"] for document in yaml.safe_load_all(text)] == ["workloads"]
