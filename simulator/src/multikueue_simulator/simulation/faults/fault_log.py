"""The faults by time and place, from which the invariants derive what a manager could know and do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

__all__ = ["EVERYBODY", "Fault", "FaultLog"]

EVERYBODY = "*"


@dataclass(slots=True)
class Fault:
    """A fault between a replica (or EVERYBODY) and a host, in seconds of the world; `end` is None while it lasts.

    A `deaf` fault may cut the manager off completely; any other one only delays calls, or makes some fail. One whose end
    is `told` by an object of the manager cluster lasts, for a manager, until it has seen that. With a `partial` one the host
    answers but for one thing: it is not away.
    """

    source: str
    host: str
    begin: float
    end: float | None = None
    deaf: bool = True
    told: bool = False
    partial: bool = False

    def touches(self, begin: float, end: float) -> bool:
        return self.begin <= end and (self.end is None or self.end >= begin)


@dataclass(slots=True)
class FaultLog:
    """All faults so far, in the order of their beginnings, and the times in which all managers were frozen."""

    all: list[Fault] = field(default_factory=list)
    sleeps: list[tuple[float, float]] = field(default_factory=list)
    naps: dict[str, list[tuple[float, float]]] = field(default_factory=dict)
    """The times in which a replica was frozen."""

    def begin(
        self, source: str, host: str, now: float, *, deaf: bool = True, told: bool = False, partial: bool = False
    ) -> Fault:
        made = Fault(source, host, now, deaf=deaf, told=told, partial=partial)
        self.all.append(made)
        return made

    def between(self, host: str, begin: float, end: float, *, partial: bool = True) -> bool:
        """Whether any process had a fault with a host in that time, counting `partial` ones or not."""
        return any(fault.touches(begin, end) for fault in self._of(host) if partial or not fault.partial)

    def away_since(self, host: str, now: float, *, gap: float, news: str = "") -> float | None:
        """The time since when some manager may have been without the host, up to now. Ignored are short returns of up
        to `gap`, and the part of a return in which all managers were frozen, as a manager that finds the host away
        before and after cannot notice it.

        During a fault of `news`, a host from which managers learn of changes, managers may be out of date.
        """
        since: float | None = None
        until = -gap
        for fault in self._of(host):
            if fault.partial:
                continue
            if fault.begin - self._asleep(until, fault.begin) > until + gap:
                since = fault.begin
            until = max(until, self._end(fault, now, gap, news))
        return since if since is not None and now - self._asleep(until, now) <= until + gap else None

    def away_from(self, replica: str, host: str, now: float, *, gap: float, news: str) -> float | None:
        """The time since when that replica has been without the host, up to now: by its own links, and by what cuts
        everybody off. Ignored are short returns of up to `gap`, and what passed while it was frozen. What other
        replicas cannot reach is nothing to it, and a link that works again needs no `news`."""
        since: float | None = None
        until, naps = -gap, self.naps.get(replica, ())
        for fault in self._of(host):
            if fault.partial or fault.source not in (EVERYBODY, replica):
                continue
            if fault.begin - _within(naps, until, fault.begin) > until + gap:
                since = fault.begin
            end = now if fault.end is None else fault.end
            until = max(until, self._end(fault, now, gap, news) if fault.told else end)
        return since if since is not None and now - _within(naps, until, now) <= until + gap else None

    def _asleep(self, begin: float, end: float) -> float:
        """The seconds of that time in which all managers were frozen."""
        return _within(self.sleeps, begin, end)

    def _end(self, fault: Fault, now: float, gap: float, news: str) -> float:
        """The end of a fault, as late as a manager may have heard of it."""
        end = now if fault.end is None else fault.end
        for other in self._of(news):
            if other.touches(fault.begin, end + gap):
                end = max(end, now if other.end is None else other.end)
        return end

    def deaf_since(self, host: str, now: float, *, told: bool = True) -> float | None:
        """The time since when no process has reached a host at all; None if one can. Counting `told` faults or not, which an
        object of the manager cluster may have ended."""
        lasting = (t for t in self._of(host) if t.deaf and t.end is None and t.source == EVERYBODY and t.begin <= now)
        return min((t.begin for t in lasting if told or not t.told), default=None)

    def _of(self, host: str) -> Iterator[Fault]:
        return (fault for fault in self.all if fault.host == host)


def _within(times: Sequence[tuple[float, float]], begin: float, end: float) -> float:
    """The seconds of these times between begin and end."""
    return sum(max(0.0, min(end, woken) - max(begin, slept)) for slept, woken in times)
