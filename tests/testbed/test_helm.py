"""Helm is built once, as the release that its module names."""

from __future__ import annotations

from pathlib import Path

import pytest

from testbed.helm import helm


def test_it_is_built_at_the_first_call_and_knows_its_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    go, calls = tmp_path / "go", tmp_path / "calls"
    go.write_text(f'#!/bin/sh\necho "$@" >> {calls}\ntouch "$GOBIN/helm"\n')
    go.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    first, second = helm(print), helm(print)

    assert first == second
    assert first.is_file()
    (call,) = calls.read_text().splitlines()
    assert call.startswith("install -trimpath -gcflags=all=-dwarf=false -ldflags=")
    assert call.endswith("helm.sh/helm/v3/cmd/helm")
    assert "version.version=v3." in call
