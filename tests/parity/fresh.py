"""Fresh stories: drawn, recorded on a real Kueue on the spot, and played to our manager.

Where we differ, Kueue is asked again. A story that it does not decide alike each time depends on its timing and says
nothing about us: it is left out, and told.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import anyio

from multikueue.api.kueue.compatibility import Release
from testbed import programs
from testbed.bed import Plan, Testbed
from testbed.kueue import QUICK_CLIENT
from testbed.plane import ControlPlane
from tests.parity import report
from tests.parity.draw import LETTERS, draw
from tests.parity.play import Outcome, play
from tests.parity.record import prefix, record
from tests.parity.story import Object, of_kueue, parsed
from tests.parity.written import FIRST, STORIES, can_be_told_of, written

AGAIN = len(LETTERS) - 1
"""How often Kueue is asked again about a story on which we differ. What is as good as the toss of a coin to Kueue comes
out alike each time once in 32 stories."""

Say = Callable[[str], None]


@dataclass(slots=True)
class Findings:
    """What came of fresh stories: those that were compared, and the names of those left out."""

    outcomes: list[Outcome] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)


def compare(
    seed: int,
    count: int,
    *,
    say: Say,
    keep: Path | None = None,
    configuration: Object | None = None,
    with_written: bool = False,
) -> Findings:
    """Draw so many stories under a seed, with a Kueue for each Configuration, or only those that are drawn for one; with
    those that are written, or without.

    Disagreements are said when the stories of a Kueue have been compared.
    """
    drawn = (draw(seed, number) for number in itertools.count())
    fitting = (story for story in drawn if configuration is None or story["config"] == configuration)
    ready = (
        written(number)
        for number in range(FIRST, FIRST + (len(STORIES) if with_written else 0))
        if can_be_told_of(number, release())
    )
    findings = Findings()
    groups: dict[str, list[Object]] = {}
    for story in itertools.chain(ready, itertools.islice(fitting, count)):
        groups.setdefault(json.dumps(story["config"]), []).append(story)
    for stories in groups.values():
        say(f"{len(stories)} stories under {json.dumps(stories[0]['config'])}")
        with a_kueue(stories[0]["config"]) as plane:
            _compare_group(plane, seed, stories, findings=findings, say=say, keep=keep)
    return findings


@contextmanager
def a_kueue(config: Object) -> Iterator[ControlPlane]:
    """A control plane of its own with a Kueue under this Configuration."""
    configuration = {**config, "clientConnection": QUICK_CLIENT}
    bed = Testbed(Plan(manager=False, workers=1, worker_configuration=configuration))
    anyio.run(bed.open)
    try:
        yield bed.workers[0]
    finally:
        anyio.run(bed.close)


def _compare_group(
    plane: ControlPlane, seed: int, stories: Sequence[Object], *, findings: Findings, say: Say, keep: Path | None
) -> None:
    recorded = recordings(plane, stories, say=say)
    findings.left_out += sorted({story["name"] for story in stories} - {story["name"] for story in recorded})
    if keep is not None:
        _keep(keep, recorded)
    outcomes = {story["name"]: play(parsed(story)) for story in recorded}
    doubtful = [story for story in recorded if not outcomes[story["name"]].agrees]
    for story in _undecided(plane, seed, doubtful, say=say):
        if keep is not None:
            (keep / f"{story['name']}.json").unlink()
        findings.left_out.append(story["name"])
        outcomes.pop(story["name"])
    for outcome in outcomes.values():
        findings.outcomes.append(outcome)
        for line in report.lines(outcome):
            say(line)


def recordings(plane: ControlPlane, stories: Sequence[Object], *, say: Say) -> list[Object]:
    """The stories as they went on that plane."""

    async def made() -> list[Object]:
        async with plane.client() as client:
            return await record(client, stories, told=say)

    return [{**story, "kueue": release()} for story in anyio.run(made)]


def release() -> Release:
    """The release whose decisions are recorded, as stories tell it."""
    return of_kueue(programs.Release.chosen().version)


def _undecided(plane: ControlPlane, seed: int, stories: Sequence[Object], *, say: Say) -> list[Object]:
    """Those of the stories that Kueue does not decide alike each time it is asked again: so often at once."""
    asked = [_told_again(seed, _number(story), time) for story in stories for time in range(1, AGAIN + 1)]
    answers: dict[int, list[Object]] = {}
    for again in recordings(plane, asked, say=say) if asked else ():
        answers.setdefault(_number(again), []).append(again)
    found = [story for story in stories if not _is_decided(story, answers.get(_number(story), ()))]
    for story in found:
        say(f"{story['name']}, left out: Kueue decides it otherwise when asked again")
    return found


def _told_again(seed: int, number: int, time: int) -> Object:
    return written(number, time=time) if number >= FIRST else draw(seed, number, time=time)


def _is_decided(story: Object, answers: Sequence[Object]) -> bool:
    return len(answers) == AGAIN and all(_named_as(story, again)["steps"] == story["steps"] for again in answers)


def _number(story: Object) -> int:
    return int(prefix(story["name"])[1:])


def _named_as(first: Object, again: Object) -> Object:
    """The second recording of a story with the names of the first."""
    old, new = prefix(again["name"]), prefix(first["name"])
    renamed: Object = json.loads(json.dumps(again).replace(f'"{old}-', f'"{new}-'))
    return renamed


def _keep(directory: Path, stories: Iterable[Object]) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    for story in stories:
        (directory / f"{story['name']}.json").write_text(json.dumps(story))
