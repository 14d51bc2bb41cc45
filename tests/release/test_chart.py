"""The chart as files: generated parts are current, its values are good settings. Rendered it is in tests/real/test_chart.py."""

from __future__ import annotations

import json
import tarfile
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema_rs import validator_for

from multikueue.settings import Settings
from multikueue.settings.sources import load
from release.chart import BY_SETTINGS, archive, components, readme, schema
from tests.project.files import ROOT

CHART = ROOT / "deploy/chart"
OVERLAYS = {
    "values.yaml": "standalone",
    "values-beside-kueue.yaml": "beside-kueue",
    "values-external-dispatcher.yaml": "external-dispatcher",
}


def merged(below: dict[str, Any], above: dict[str, Any]) -> dict[str, Any]:
    """As Helm lays one file of values over another: mappings within each other, anything else whole."""
    both = {name for name in below.keys() & above.keys() if isinstance(below[name], dict)}
    return below | above | {name: merged(below[name], above[name]) for name in both}


def values(name: str) -> dict[str, Any]:
    defaults, chosen = (yaml.safe_load((CHART / file).read_text()) for file in ("values.yaml", name))
    return merged(defaults, chosen)


def test_what_follows_from_the_settings_is_written_down() -> None:
    """`make docs` writes it again."""
    assert json.loads((CHART / "values.schema.json").read_text()) == schema(CHART)
    assert (CHART / "README.md").read_text() == readme(CHART)


@pytest.mark.parametrize("name", OVERLAYS)
def test_values_are_good_and_mean_what_the_overlay_means(name: str) -> None:
    chosen = values(name)
    validator_for(schema(CHART)).validate(chosen)

    assert Settings.model_validate(chosen["settings"]) == load(
        ROOT / "deploy/overlays" / OVERLAYS[name] / "multikueue.yaml"
    )


@pytest.mark.parametrize(
    "wrong",
    [{"replica": 3}, {"image": {"digest": "sha256:abc"}}, {"components": ["webhook"]}, {"settings": {"webhok": {}}}],
    ids=["a value that is not known", "half a digest", "a component that a setting switches on", "a misspelt setting"],
)
def test_wrong_values_are_refused(wrong: dict[str, Any]) -> None:
    assert not validator_for(schema(CHART)).is_valid(wrong)


def test_each_component_can_be_chosen_by_name_or_by_its_setting() -> None:
    everything = {path.name for path in (ROOT / "deploy/components").iterdir()}

    assert {*components(CHART), *BY_SETTINGS} == everything
    assert set(Settings.model_fields) >= BY_SETTINGS


def test_the_archive_has_the_manifests_as_files_and_is_the_same_each_time() -> None:
    packed = archive(CHART, epoch=1_700_000_000)
    with tarfile.open(fileobj=BytesIO(packed)) as files:
        members = files.getmembers()

    assert packed == archive(CHART, epoch=1_700_000_000)
    assert members[0].name == "multikueue/Chart.yaml"
    assert all(member.isreg() for member in members)
    names = {member.name.removeprefix("multikueue/") for member in members}
    assert {"values.schema.json", "manifests/base/deployment.yaml", "manifests/components/ocm/rights.yaml"} <= names
    assert not {name for name in names if Path(name).name == "kustomization.yaml"}
