"""`python -m tests.parity DIRECTORY [NAME ...]`: plays the stories of a directory and prints where we differ.

One line per disagreement: story, step, object, field, what is expected, what we got; last, how many stories agree and
differ. Where we differ on purpose (deviations.py) the reason is told, and it counts as agreeing. The exit status is 1 if
any differ, 2 if there is nothing to play.
"""

from __future__ import annotations

import argparse
import secrets
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from tests.parity import report
from tests.parity.play import Outcome, play
from tests.parity.story import PACK, BadStory, Choice, Story, find, pack


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit status."""
    options = _parser().parse_args(arguments)
    if options.fresh or options.written:
        return _fresh(options)
    if options.directory is not None and options.pack:
        print(f"{pack(options.directory, options.pack)} stories in {options.pack}")
        return 0
    if options.directory is None:
        print("a directory, or --fresh, please", file=sys.stderr)
        return 2
    choice = Choice(tuple(options.name), frozenset(options.feature), frozenset(options.without))
    outcomes: list[Outcome] = []
    for name, story in find(options.directory, choice):
        outcome = _outcome(name, story)
        outcomes.append(outcome)
        if not options.summary:
            _say(report.lines(outcome, first=options.first, hints=options.hints))
    if not outcomes:
        print(f"no stories to play in {options.directory}", file=sys.stderr)
        return 2
    if options.names:
        _say(f"{outcome.story} {'agrees' if outcome.agrees else 'differs'}" for outcome in outcomes)
    if options.summary:
        _say(report.by_feature(outcomes))
        _say(report.on_purpose(outcomes))
    _say([report.total(outcomes)])
    return int(not all(outcome.agrees for outcome in outcomes))


def _fresh(options: argparse.Namespace) -> int:
    """Compare fresh stories with a real Kueue."""
    from testbed.programs import Release
    from tests.parity import fresh  # the testbed is not needed for recorded ones

    seed = secrets.randbelow(1_000_000) if options.seed is None else options.seed
    what = f"seed {seed}, Kueue {Release.chosen().kueue}"
    _say([what])
    found = fresh.compare(
        seed, options.fresh, say=lambda line: _say([line]), keep=options.keep, with_written=options.written
    )
    if found.left_out:
        _say([f"{len(found.left_out)} left out"])
    _say([f"{what}: {report.total(found.outcomes)}"])
    return int(not found.outcomes or not all(outcome.agrees for outcome in found.outcomes))


def _outcome(name: str, story: Story | BadStory) -> Outcome:
    if isinstance(story, BadStory):
        return Outcome(name, error=f"no story: {story}")
    return play(story)


def _say(lines: Iterable[str]) -> None:
    for line in lines:
        print(line, flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.parity", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("directory", type=Path, nargs="?", help=f"where the stories are: *.json, *{PACK}")
    parser.add_argument("name", nargs="*", help="only stories of these names; * stands for anything")
    parser.add_argument("--fresh", type=int, default=0, metavar="N", help="compare N drawn stories with a real Kueue")
    parser.add_argument("--written", action="store_true", help="compare those that are written, too")
    parser.add_argument("--seed", type=int, help="what to draw them from; without it a new one")
    parser.add_argument("--keep", type=Path, metavar="DIRECTORY", help="where to write the recordings of drawn stories")
    parser.add_argument(
        "--pack", type=Path, metavar="FILE", help=f"put all stories into one file (*{PACK}), and play none"
    )
    parser.add_argument("--feature", action="append", default=[], metavar="TAG", help="only stories with this feature")
    parser.add_argument("--without", action="append", default=[], metavar="TAG", help="no stories with this feature")
    parser.add_argument("--summary", action="store_true", help="print figures per feature, and no disagreements")
    parser.add_argument("--names", action="store_true", help="print at the end which stories agree")
    parser.add_argument("--first", action="store_true", help="print only the first step of a story that disagrees")
    parser.add_argument("--hints", action="store_true", help="print other texts too; they never count")
    return parser


if __name__ == "__main__":
    sys.exit(main())
