"""`multikueue console`: what it refuses to serve, and that it serves a history with actions."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from urllib.request import urlopen

import pytest
from typer.testing import CliRunner

from multikueue.cli import app
from tests.cli.conftest import World

ISSUER = ("--oidc-issuer", "https://id.example.org", "--oidc-client", "console")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--listen", "8080"), "expected an address and a port"),
        (("--listen", "127.0.0.1:http"), "expected an address and a port"),
        (("--listen", "0.0.0.0:8080"), "listen on 127.0.0.1"),
        (("--tls-key", "KEY"), "give both"),
        (("--button", "burst"), "expected NAME=TITLE"),
        (("--login", "--oidc-issuer", "https://id.example.org"), "takes --oidc-client and --public-url"),
        ((*ISSUER, "--public-url", "https://console.example.org"), "takes --login"),
        ((*ISSUER, "--login", "--public-url", "http://console.example.org"), "expected an https address"),
    ],
    ids=[
        "no address",
        "no number",
        "one person's rights to everybody",
        "a key without its certificate",
        "a button without a title",
        "an issuer without a client",
        "an issuer of a console without people",
        "an issuer that answers over plain http",
    ],
)
def test_options_that_make_no_sense_are_refused(tmp_path: Path, options: tuple[str, ...], says: str) -> None:
    key = tmp_path / "tls.key"
    key.write_text("")
    given = [str(key) if each == "KEY" else each for each in options]
    told = CliRunner(env={"COLUMNS": "200", "NO_COLOR": "1"}).invoke(app, ["console", *given])

    assert told.exit_code == 2
    assert says in " ".join(told.output.replace("│", " ").split())


def test_it_serves_a_history_and_actions(world: World, tmp_path: Path) -> None:
    options = ("--no-browser", "--actions", "--history", f"sqlite:///{tmp_path / 'history.db'}", "-n", "team")
    command = [sys.executable, "-m", "multikueue", "console", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ) as process:
        try:
            assert process.stdout is not None, "it is a pipe"
            with urlopen(process.stdout.readline().partition("/login")[0] + "/healthz", timeout=10) as answer:
                assert answer.read() == b"ok"
        finally:
            process.terminate()
    assert (tmp_path / "history.db").exists()
