"""`multikueue console`: what it refuses to serve. That it serves is shown by the demo's page (`--web`)."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from multikueue.cli import app


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--listen", "8080"), "expected an address and a port"),
        (("--listen", "127.0.0.1:http"), "expected an address and a port"),
        (("--listen", "0.0.0.0:8080"), "listen on 127.0.0.1"),
        (("--tls-key", "KEY"), "give both"),
    ],
    ids=["no address", "no number", "one person's rights to everybody", "a key without its certificate"],
)
def test_options_that_make_no_sense_are_refused(tmp_path: Path, options: tuple[str, ...], says: str) -> None:
    key = tmp_path / "tls.key"
    key.write_text("")
    given = [str(key) if each == "KEY" else each for each in options]
    told = CliRunner(env={"COLUMNS": "200", "NO_COLOR": "1"}).invoke(app, ["console", *given])

    assert told.exit_code == 2
    assert says in " ".join(told.output.replace("│", " ").split())
