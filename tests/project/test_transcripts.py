"""A page whose commands are run tells what is not as it says, and what only seems so."""

from __future__ import annotations

import pytest

from tests.transcripts import alike, lost, replayed

pytestmark = pytest.mark.anyio

PAGE = """\
# A page

```console
$ list
NAME   AGE
a      3s
$ fail; echo $?
1
```

<!-- meanwhile: breaks a -->
Text.

```yaml
$ no: command
```
"""


async def played(answers: dict[str, str]) -> tuple[str, list[str], list[str]]:
    """The page, the commands that answered otherwise, and the events."""
    events = list[str]()

    async def run(words: str) -> str:
        return answers[words]

    async def play(words: str) -> None:
        events.append(words)

    page, differences = await replayed(PAGE, run, play)
    return page, [command.words for command, _ in differences], events


async def test_a_page_that_is_true_stays_as_it_is() -> None:
    answers = {"list": "NAME   AGE\na      17m\n", "fail; echo $?": "1\n"}

    assert await played(answers) == (PAGE, [], ["breaks a"])


async def test_an_answer_that_is_another_is_told_and_written() -> None:
    page, differences, _ = await played({"list": "NAME   AGE\nb      3s\n", "fail; echo $?": "1\n"})

    assert (page, differences) == (PAGE.replace("a      3s", "b      3s"), ["list"])


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("a   2s\n", "a   1h3m\n", True),
        ("until 2026-11-24T02:33:48Z\n", "until 2027-01-01T00:00:00Z\n", True),
        ("job-train-1c2d3   Pending\n", "job-train-fffff     Pending\n", True),
        ("job-huge-1d808\n", "job-huge-6629d\n", True),
        ("b\na\n", "a\nb\n", True),
        ("job-train-1c2d3\n", "job-other-1c2d3\n", False),
        ("a   Pending\n", "a   Admitted\n", False),
        ("a\n", "a\na\n", False),
        ("cpu 9 of 4\n", "cpu 8 of 4\n", False),
    ],
    ids=["ages", "times", "hashes", "a hash like an age", "order", "names", "states", "lines", "amounts"],
)
def test_only_what_is_volatile_may_differ(one: str, other: str, expected: bool) -> None:
    assert alike(one, other) is expected


def test_a_line_is_lost_if_it_alone_is_missing() -> None:
    page = "AGE   CLUSTER\n7s    w1\n9s    w2\n"
    assert lost("AGE  CLUSTER\n3s  w1\n", page) == ["AGE  w2"]
    assert lost(page, page) == lost("AGE  CLUSTER\n3s  w1\n3s  w3\n", page) == []
