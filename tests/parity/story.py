"""A recorded story: objects, what happened to them, and what Kueue had decided after each step."""

from __future__ import annotations

import lzma
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatch
from functools import partial
from pathlib import Path
from typing import Any, get_args

import msgspec

from multikueue.api.kueue.compatibility import Release

Object = dict[str, Any]

FIRST: Release = "0.16"
"""The release of stories that name none."""

RELEASES = get_args(Release)

PACK = ".jsonl.xz"
"""How the name of a file with many stories ends."""

ACTIONS = (
    "apply",
    "create",
    "finish",
    "complete_evictions",
    "delete",
    "patch",
    "deactivate",
    "activate",
    "check_active",
    "set_check",
    "reclaim",
    "wait",
)


def of_kueue(version: tuple[int, ...]) -> Release:
    """The newest release that is not newer than that version: its rules are the ones in force."""
    return max((each for each in RELEASES if _numbers(each) <= version), key=_numbers)


def _numbers(release: str) -> tuple[int, ...]:
    return tuple(map(int, release.split(".")))


class BadStory(Exception):
    """A file that is no story."""


@dataclass(frozen=True, slots=True)
class Step:
    """One action on its elements, and what is expected after it.

    `completed` are the workloads whose evictions Kueue's side completed in this step, None where there was nothing to
    complete; `messages` are new texts of QuotaReserved=False by workload.
    """

    action: str
    elements: tuple[Any, ...]
    expect: Object
    completed: tuple[str, ...] | None = None
    messages: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Story:
    """`config` is what Kueue's Configuration contains beyond the defaults, `release` the Kueue that decided."""

    name: str
    features: frozenset[str]
    config: Object
    steps: tuple[Step, ...]
    release: Release = FIRST


def told(text: bytes) -> Story:
    """Raises BadStory."""
    try:
        return parsed(msgspec.json.decode(text))
    except (msgspec.DecodeError, KeyError, TypeError, AttributeError) as error:
        raise BadStory(f"{type(error).__name__}: {error}") from error


def parsed(body: Object) -> Story:
    """Raises BadStory, KeyError for a field that is missing, TypeError or AttributeError for one of another type."""
    steps = tuple(map(_step, body["steps"]))
    release = body.get("kueue", FIRST)
    if release not in RELEASES:
        raise BadStory(f"expected a story of Kueue {', '.join(RELEASES)}, got {release}")
    return Story(body["name"], frozenset(body.get("features", ())), dict(body.get("config", {})), steps, release)


def _step(body: Object) -> Step:
    actions = [action for action in ACTIONS if action in body]
    if len(actions) != 1:
        raise BadStory(f"expected one action in a step, got {', '.join(actions) or ', '.join(body) or 'none'}")
    (action,) = actions
    content = body[action]
    elements = tuple(content) if isinstance(content, list) else (content,)
    completed = tuple(body["completed"]) if "completed" in body else None
    return Step(action, elements, body["expect"], completed, body.get("messages", {}))


@dataclass(frozen=True, slots=True)
class Choice:
    """Which stories to play: by patterns of names, and by features of which a story must have one, or none."""

    names: tuple[str, ...] = ()
    features: frozenset[str] = frozenset()
    without: frozenset[str] = frozenset()

    def takes_name(self, name: str) -> bool:
        return not self.names or any(fnmatch(name, pattern) for pattern in self.names)

    def takes(self, features: Iterable[str]) -> bool:
        return (not self.features or not self.features.isdisjoint(features)) and self.without.isdisjoint(features)


def find(directory: Path, choice: Choice) -> Iterator[tuple[str, Story | BadStory]]:
    """The chosen stories by name, in order: of files with one each, then of packs; what is no story comes as its error,
    whatever its features."""
    for name, text in _texts(directory):
        if not choice.takes_name(name):
            continue
        try:
            story = told(text())
        except BadStory as error:
            yield name, error
            continue
        if choice.takes(story.features):
            yield name, story


def _texts(directory: Path) -> Iterator[tuple[str, Callable[[], bytes]]]:
    for path in sorted(directory.glob("*.json")):
        yield path.stem, path.read_bytes
    for path in sorted(directory.glob(f"*{PACK}")):
        for line in lzma.decompress(path.read_bytes()).splitlines():
            name, _, text = line.partition(b" ")
            yield name.decode(), partial(bytes, text)


def pack(directory: Path, path: Path) -> int:
    """Put the stories of a directory into one file, each on a line behind its name. Returns how many there are."""
    stories = [(name, text()) for name, text in _texts(directory)]
    lines = [name.encode() + b" " + msgspec.json.encode(msgspec.json.decode(text)) for name, text in stories]
    path.write_bytes(lzma.compress(b"\n".join(lines), preset=9 | lzma.PRESET_EXTREME))
    return len(stories)
