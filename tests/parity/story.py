"""A recorded story: objects, what happened to them, and what Kueue had decided after each step."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import msgspec

Object = dict[str, Any]

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
    """`config` is what Kueue's Configuration contains beyond the defaults."""

    name: str
    features: frozenset[str]
    config: Object
    steps: tuple[Step, ...]


def read(path: Path) -> Story:
    """Raises BadStory."""
    try:
        return parsed(msgspec.json.decode(path.read_bytes()))
    except (OSError, msgspec.DecodeError, KeyError, TypeError, AttributeError) as error:
        raise BadStory(f"{type(error).__name__}: {error}") from error


def parsed(body: Object) -> Story:
    """Raises BadStory, KeyError for a field that is missing, TypeError or AttributeError for one of another type."""
    steps = tuple(map(_step, body["steps"]))
    return Story(body["name"], frozenset(body.get("features", ())), dict(body.get("config", {})), steps)


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
    """The chosen stories by name, in order; a file that is no story comes as its error, whatever its features."""
    for path in sorted(directory.glob("*.json")):
        if not choice.takes_name(path.stem):
            continue
        try:
            story = read(path)
        except BadStory as error:
            yield path.stem, error
            continue
        if choice.takes(story.features):
            yield path.stem, story
