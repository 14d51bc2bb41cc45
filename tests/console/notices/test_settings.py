from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from multikueue.errors import ConfigurationError
from multikueue_console.history.runs import Run
from multikueue_console.notices.settings import read_settings

WHOLE = """
to: https://hooks.example.org/jobs
source: /clusters/hub
token_file: /etc/notices/token
within: 2h
queues:
- queue: team-a/*
  notices: [started, moved]
  waits_longer_than: 90m
- queue: "*/*"
  notices: [failed]
"""


def run_in(namespace: str) -> Run:
    return Run(workload="uid", attempt="", namespace=namespace, name="train", queue="main")


def test_the_first_line_that_a_queue_matches_says_what_is_sent_of_it(tmp_path: Path) -> None:
    file = tmp_path / "notices.yaml"
    file.write_text(WHOLE)
    settings = read_settings(file)
    first, other = settings.of_queue(run_in("team-a")), settings.of_queue(run_in("team-b"))
    assert first is not None
    assert other is not None
    assert (first.notices, first.longest_wait) == (("started", "moved"), timedelta(minutes=90))
    assert (other.notices, other.longest_wait) == (("failed",), None)
    assert settings.time_to_send == timedelta(hours=2)


QUEUES = "queues: [{queue: a/b, notices: [failed]}]"


@pytest.mark.parametrize(
    ("text", "told"),
    {
        "no address": (QUEUES, "missing required field `to`"),
        "not an address": (f"to: hooks\n{QUEUES}", "to: expected an address"),
        "a port that is none": (f"to: https://a:x/\n{QUEUES}", "to: expected an address"),
        "a password in the address": (f"to: https://a:b@c/\n{QUEUES}", "use token_file"),
        "a token in clear text": (f"to: http://hooks.example.org\ntoken_file: t\n{QUEUES}", "https addresses only"),
        "a source with blanks": (f"to: https://a\nsource: my hub\n{QUEUES}", "source: expected"),
        "no queue": ("to: https://a\nqueues: []", "queues: expected one line"),
        "a queue without a namespace": (
            "to: https://a\nqueues: [{queue: main}]",
            "queues[0].queue: expected NAMESPACE",
        ),
        "an unknown notice": ("to: https://a\nqueues: [{queue: a/b, notices: [ended]}]", "Invalid enum value 'ended'"),
        "waits without a time": ("to: https://a\nqueues: [{queue: a/b, notices: [waits]}]", "set waits_longer_than"),
        "a wait that is no duration": ("to: https://a\nqueues: [{queue: a/b, waits_longer_than: long}]", "such as 2h"),
        "a time that is too long": (f"to: https://a\nwithin: 31d\n{QUEUES}", "within: expected"),
        "no room": (f"to: https://a\nmost: 0\n{QUEUES}", "most: expected"),
        "a field that does not exist": (f"to: https://a\ntoken: secret\n{QUEUES}", "unknown field `token`"),
        "no YAML": ("to: [", "notices.yaml: "),
        "nothing": ("", "notices.yaml: Expected `object`"),
    }.values(),
    ids=lambda each: None,
)
def test_a_file_that_cannot_work_is_refused_with_the_field(tmp_path: Path, text: str, told: str) -> None:
    file = tmp_path / "notices.yaml"
    file.write_text(text)
    with pytest.raises(ConfigurationError) as error:
        read_settings(file)
    assert told in str(error.value)
    assert str(error.value).startswith(str(file))


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="No such file"):
        read_settings(tmp_path / "none.yaml")
