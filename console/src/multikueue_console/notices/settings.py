"""The file that says which notices are sent of which queue, and where."""

from __future__ import annotations

from datetime import timedelta
from fnmatch import fnmatchcase
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import urlsplit

import msgspec
import yaml

from multikueue.durations import parse_duration
from multikueue.errors import ConfigurationError
from multikueue_console.history.runs import Run
from multikueue_console.notices.notice import NoticeKind

__all__ = ["NoticeSettings", "QueueNotices", "read_settings"]

LONGEST = timedelta(days=30)


class QueueNotices(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`queue`: NAMESPACE/LOCALQUEUE, `*` stands for any text. `waits_longer_than`: a duration, empty for no such notice."""

    queue: str
    notices: tuple[NoticeKind, ...] = ()
    waits_longer_than: str = ""

    @property
    def longest_wait(self) -> timedelta | None:
        return parse_duration(self.waits_longer_than) if self.waits_longer_than else None


class NoticeSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`to`: the URL. `source`: of all events, by which receivers tell one manager from another. `within`: what could not be
    sent for so long is given up; `most`: how many notices may wait to be sent."""

    to: str
    queues: tuple[QueueNotices, ...]
    source: str = "/multikueue"
    token_file: str = ""
    ca_file: str = ""
    within: str = "1d"
    most: int = 10_000

    def of_queue(self, run: Run) -> QueueNotices | None:
        """What is sent of this run's queue: the first line that its name matches."""
        name = f"{run.namespace}/{run.queue}"
        return next((each for each in self.queues if fnmatchcase(name, each.queue)), None)

    @property
    def time_to_send(self) -> timedelta:
        span = parse_duration(self.within)
        assert span is not None, "it was checked"
        return span


def read_settings(path: Path) -> NoticeSettings:
    """Raises ConfigurationError, which names the file and the field."""
    try:
        settings = msgspec.convert(yaml.safe_load(path.read_bytes()), NoticeSettings)
    except OSError as error:
        raise ConfigurationError(f"{path}: {error.strerror}") from None
    except (yaml.YAMLError, UnicodeDecodeError, msgspec.ValidationError) as error:
        raise ConfigurationError(f"{path}: {error}") from None
    for problem in (_problem_of_address(settings), _problem_of_queues(settings), _problem_of_bounds(settings)):
        if problem:
            raise ConfigurationError(f"{path}: {problem}")
    return settings


def _problem_of_address(settings: NoticeSettings) -> str:
    try:
        to = urlsplit(settings.to)
        is_url = to.scheme in ("http", "https") and bool(to.hostname) and to.port != 0
    except ValueError:
        is_url = False
    if not is_url:
        return f"to: expected an address such as https://hooks.example.org/jobs, got {settings.to!r:.100}"
    if to.username is not None:
        return "to: credentials are no part of the address: use token_file"
    if settings.token_file and to.scheme == "http" and not _is_loopback(to.hostname or ""):
        return "token_file: a token is sent to https addresses only"
    if not settings.source or any(letter.isspace() for letter in settings.source):
        return f"source: expected a URI or a path, got {settings.source!r:.100}"
    return ""


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _problem_of_queues(settings: NoticeSettings) -> str:
    if not settings.queues:
        return "queues: expected one line at least, such as {queue: 'team-a/*', notices: [started, failed]}"
    for number, each in enumerate(settings.queues):
        place = f"queues[{number}]"
        if each.queue.count("/") != 1:
            return f"{place}.queue: expected NAMESPACE/LOCALQUEUE, got {each.queue!r:.100}"
        if NoticeKind.WAITS in each.notices:
            return f"{place}.notices: waits is no part of the list: set waits_longer_than"
        if each.waits_longer_than and not parse_duration(each.waits_longer_than):
            return f"{place}.waits_longer_than: expected a duration such as 2h, got {each.waits_longer_than!r:.100}"
    return ""


def _problem_of_bounds(settings: NoticeSettings) -> str:
    span = parse_duration(settings.within)
    if not span or span > LONGEST:
        return f"within: expected a duration of at most 30d, got {settings.within!r:.100}"
    if not 1 <= settings.most <= 1_000_000:
        return f"most: expected a number from 1 to 1000000, got {settings.most}"
    return ""
