"""Watches: the current state and its changes as lines, until the timeout, or until the reader lags too far behind."""

from __future__ import annotations

import sys
from collections.abc import Callable

import msgspec

from fakekube.model.refusals import expired
from fakekube.model.resources import Resource
from fakekube.model.storage import ADDED, DELETED, MODIFIED, Change, Compacted, Version
from fakekube.model.wire import Object, Refused, Request, Watch, status_body
from fakekube.server.printers.tables import PLAIN, Form, Lines, wanted
from fakekube.server.requests import answers
from fakekube.server.requests.conversion import shown
from fakekube.server.requests.options import ListOptions, list_options, resource_version
from fakekube.server.requests.routes import Route
from fakekube.server.requests.selection import Selection, selection
from fakekube.server.server import Server, Timer

__all__ = ["Watches"]

_encode = msgspec.json.Encoder().encode

_SHORTEST = 1800.0
"""The minimum duration of a watch in seconds without a timeout in the request; up to twice that at random."""

_LAST_BOOKMARK = 2.0
"""Seconds before the end of a watch at which its last bookmark is sent."""

_INITIAL_END = "k8s.io/initial-events-end"


class Watches:
    """The open watches of one server."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._open: dict[_Feed, None] = {}

    def __len__(self) -> int:
        return len(self._open)

    def open(self, route: Route, request: Request) -> Watch:
        """A watch with its first lines. Raises Refused."""
        form = wanted(request.accept)
        options = list_options(request.query, watch=True)
        chosen = selection(route, options, self._server.rules(route.resource))
        feed = _Feed(self._server, route.resource, chosen, form, options, self._forget)
        self._open[feed] = None
        feed.start(options)
        return feed.watch

    def end(self) -> None:
        """End all watches, as at a shutdown of the server."""
        for feed in tuple(self._open):
            feed.end()

    def end_of(self, resource: Resource) -> None:
        """End the watches of a resource that is no longer served."""
        for feed in tuple(self._open):
            if feed.resource.storage == resource.storage:
                feed.end()

    def _forget(self, feed: _Feed) -> None:
        self._open.pop(feed, None)


class _Feed:
    """One watch, from changes in the storage to lines for the reader."""

    def __init__(
        self,
        server: Server,
        resource: Resource,
        chosen: Selection,
        form: Form,
        options: ListOptions,
        on_end: Callable[[_Feed], None],
    ) -> None:
        self.watch = Watch()
        self.resource = resource
        self._server, self._chosen, self._on_end = server, chosen, on_end
        self._lines = (
            None if form is PLAIN and resource.kept_with is None else Lines(resource, form, include=options.include)
        )
        self._head = answers.head(resource.api_version, resource.kind)
        self._prefix = f"{chosen.namespace}/" if chosen.namespace else ""
        self._from = 0
        self._limit = sys.maxsize  # the initial lines are unlimited
        self._deadline: Timer | None = None
        self._next_bookmark: Timer | None = None
        self._last_bookmark: Timer | None = None
        self._unsubscribe: Callable[[], None] | None = None

    def start(self, options: ListOptions) -> None:
        try:
            self._begin(options)
        except Compacted as error:
            self._fail(expired(str(error)))
            return
        except Refused:
            self.end()
            raise
        self._limit = self._server.watch_buffer + len(self.watch.lines)
        self._unsubscribe = self._server.storage.subscribe(self._take, self.resource.storage)
        self.watch.on_close = self.end
        seconds = options.timeout or _SHORTEST * (1 + self._server.rng.random())
        self._deadline = self._server.scheduler.call_later(seconds, self.end)
        if options.bookmarks:
            self._next_bookmark = self._server.scheduler.call_later(self._server.bookmarks, self._bookmark)
            if seconds > _LAST_BOOKMARK:
                self._last_bookmark = self._server.scheduler.call_later(seconds - _LAST_BOOKMARK, self._tell_last)

    def _begin(self, options: ListOptions) -> None:
        """Feed the current objects, or the changes since the requested version. Raises Compacted, Refused."""
        storage, rv = self._server.storage, resource_version(options.version)
        current = not rv if options.initial_events is None else options.initial_events
        if current:
            for version in storage.select(self.resource.storage, self._chosen.namespace):
                if self._chosen.holds(version.object):
                    self._feed(ADDED, version)
            if options.initial_events and options.bookmarks:
                self._bookmark_now({_INITIAL_END: "true"})
            self._from = max(rv, storage.rv)
            return
        self._from = rv or storage.rv
        for change in storage.since(self.resource.storage, self._from):
            self._take(change)

    def end(self) -> None:
        """End the watch."""
        self._stop()
        self.watch.end()

    def _stop(self) -> None:
        self._on_end(self)
        self.watch.on_close = None
        if self._unsubscribe is not None:
            self._unsubscribe()
            self._unsubscribe = None
        for timer in (self._deadline, self._next_bookmark, self._last_bookmark):
            if timer is not None:
                timer.cancel()

    def _take(self, change: Change) -> None:
        version = change.version
        if version.rv <= self._from or not version.key.startswith(self._prefix):
            return
        if self._chosen.is_whole:
            self._feed(change.type, version)
        else:
            self._take_chosen(change)
        if len(self.watch.lines) > self._limit:
            self.end()

    def _take_chosen(self, change: Change) -> None:
        """Feed a change to a watch with selectors: an object that enters or leaves the selection is added or
        deleted."""
        version, old = change.version, change.old
        before = old is not None and self._chosen.holds(old.object)
        after = change.type != DELETED and self._chosen.holds(version.object)
        if after:
            self._feed(MODIFIED if before else ADDED, version)
        elif before:
            # The event has the object's last selected state, under the version in which it left the selection.
            assert old is not None
            self._feed(DELETED, version if change.type == DELETED else _under(old, version.rv))

    def _feed(self, type_: str, version: Version) -> None:
        if self._lines is None:
            self.watch.feed(b'{"type":"%b","object":%b%b}\n' % (type_.encode(), self._head, version.rest))
            return
        self._feed_object(type_, self._lines.object(type_, shown(self.resource, version.object), self._server.now()))

    def _feed_object(self, type_: str, item: Object) -> None:
        self.watch.feed(_encode({"type": type_, "object": item}) + b"\n")

    def _bookmark(self) -> None:
        """Send a bookmark, unless the reader has seen a newer version."""
        if self._server.storage.rv >= self._from:
            self._bookmark_now({})
        self._next_bookmark = self._server.scheduler.call_later(self._server.bookmarks, self._bookmark)

    def _tell_last(self) -> None:
        self._bookmark_now({})

    def _bookmark_now(self, annotations: dict[str, str]) -> None:
        # All changes so far have been sent, so the latest version may be named, even if another resource's object has
        # it.
        metadata: Object = {"resourceVersion": str(self._server.storage.rv)}
        item = {
            "kind": self.resource.kind,
            "apiVersion": self.resource.api_version,
            "metadata": metadata | ({"annotations": annotations} if annotations else {}),
        }
        if self._lines is not None:
            item = self._lines.object("BOOKMARK", item, self._server.now())
        self._feed_object("BOOKMARK", item)

    def _fail(self, error: Refused) -> None:
        self._feed_object("ERROR", status_body(error))
        self.end()


def _under(old: Version, rv: int) -> Version:
    """An old state under another resource version."""
    metadata = {**old.object["metadata"], "resourceVersion": str(rv)}
    return Version(rv, old.key, {**old.object, "metadata": metadata})
