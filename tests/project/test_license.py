"""The licence is Apache 2.0, in the file and in the package's metadata."""

from __future__ import annotations

from tests.project.files import pyproject, read


def test_the_licence_is_apache_2() -> None:
    lines = [line.strip() for line in read("LICENSE").splitlines() if line.strip()]

    assert lines[:2] == ["Apache License", "Version 2.0, January 2004"]
    assert "END OF TERMS AND CONDITIONS" in lines
    assert pyproject()["project"]["license"] == "Apache-2.0"
    assert pyproject()["project"]["license-files"] == ["LICENSE"]
