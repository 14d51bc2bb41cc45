"""Settings for commands, which load them only where something is set."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from multikueue.cli.access.manager_settings import load_settings
from multikueue.controllers.quota.worker_queues import rules_of
from multikueue.manager import engine
from multikueue.quota.capacity.following import Rules
from multikueue.quota.engine import EngineRules
from multikueue.settings import Settings


@pytest.fixture(autouse=True)
def nothing_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("MULTIKUEUE_")]:
        monkeypatch.delenv(name)


def test_where_nothing_is_set_none_are_loaded() -> None:
    assert load_settings(None) is None


def test_a_file_counts(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text("capacity_follow: {dry_run: true}")
    loaded = load_settings(config)
    assert loaded is not None
    assert loaded.capacity_follow.dry_run


def test_a_variable_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MULTIKUEUE_CAPACITY_FOLLOW__DRY_RUN", "true")
    loaded = load_settings(None)
    assert loaded is not None
    assert loaded.capacity_follow.dry_run


# What commands take where nothing is set.


def test_quotas_follow_by_default_as_the_settings_say_by_default() -> None:
    assert rules_of(Settings().capacity_follow) == Rules()


def test_the_engine_is_by_default_as_the_settings_say_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[EngineRules] = []
    monkeypatch.setattr(engine, "Engine", given.append)

    engine.engine_of(Settings().quota)

    assert given == [EngineRules()]


def test_no_kinds_are_declared_by_default() -> None:
    assert Settings().integrations.declared == ()
