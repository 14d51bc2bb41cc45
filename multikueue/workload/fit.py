"""The workers that could ever admit a workload, by the condition that their own Kueue sets on the copy.

A worker's Kueue compares a copy with everything that its queue could ever have, borrowed quota, taints and affinity
too, and writes the result into the copy's condition. It is the best authority. But a search for flavors resumes where
the last one ended, and its message then leaves out the flavors before. So a message counts only if it covers each
flavor of the worker's queue.

Since 0.17 a Kueue parks a copy without a message if another one of its scheduling equivalence class is inadmissible (gate
SchedulingEquivalenceHashing). The message of the other one then counts for both.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping

from multikueue.api.kueue.workload import EVICTED, FITS_NO_WORKER, QUOTA_RESERVED, Workload, workload_spec
from multikueue.api.values.foreign import answer_or, excerpt
from multikueue.dispatch.remote import Reach
from multikueue.workload.case import Case

__all__ = [
    "Flavors",
    "can_fit_nowhere",
    "is_suspected",
    "lack",
    "may_fit_now",
    "named_in",
    "note",
    "unconfirmed",
    "verdict",
]

Flavors = Mapping[str, Collection[str]]
"""The flavors of a worker's queue, by resource."""

_LONGEST_VERDICT, _LONGEST_LACK = 8192, 200
_SHOWN_LACKS, _SHOWN_FLAVORS, _NAMED = 20, 3, 100

_NEXT_POD_SET = re.compile(r"; (?=couldn't assign flavors)")
_TOO_MUCH = re.compile(
    r"insufficient quota for (\S+) in flavor ([^\s,]+), previously considered podsets requests \(([^()]*)\) "
    r"\+ current podset request \(([^()]*)\) > maximum capacity \(([^()]*)\)"
)
_UNSUITABLE = re.compile(
    r"untolerated taint \{[^{}]*\} in flavor ([^\s,;]+)|flavor ([^\s,;]+) doesn't match node affinity"
)
_UNKNOWN = re.compile(r"resource (\S+) unavailable in ClusterQueue")


def is_suspected(copy: Workload | None) -> bool:
    """Whether the condition that a worker's Kueue set on a copy says that some of its flavors could never hold it."""
    text = verdict(copy)
    return bool(text) and any(pattern.search(text) for pattern in (_TOO_MUCH, _UNSUITABLE, _UNKNOWN))


def lack(copy: Workload | None, flavors: Flavors | None, alike: str = "") -> str:
    """The reason why a worker can never admit a copy, in few words; empty if it can, or while that is unknown.

    `alike` is the verdict on a copy of the same equivalence class, used if this one has none. A workload with partial
    admission may always fit: the message is about all of its pods.
    """
    text = verdict(copy) or alike
    if copy is None or not text or answer_or(lambda: _is_divisible(copy), otherwise=True):
        return ""
    found = (_lack_of(part, flavors) for part in _NEXT_POD_SET.split(text))
    return excerpt(next(filter(None, found), "").replace(";", ","), _LONGEST_LACK)


def _is_divisible(copy: Workload) -> bool:
    return any(pod_set.min_count is not None for pod_set in workload_spec(copy).pod_sets)


def verdict(copy: Workload | None) -> str:
    """The message of the worker's Kueue, if it does not admit the copy; else empty."""
    told = copy.condition(QUOTA_RESERVED) if copy is not None else None
    return told.message[:_LONGEST_VERDICT] if told is not None and told.status == "False" else ""


def _lack_of(text: str, flavors: Flavors | None) -> str:
    """The same reason for one pod set; empty as for `lack`."""
    unknown = _UNKNOWN.search(text)
    if unknown is not None:
        return f"{unknown[1]} is in no resource group"
    if flavors is None:
        return ""
    too_much = {match[2]: match for match in _TOO_MUCH.finditer(text)}
    unsuitable = {match[1] or match[2] for match in _UNSUITABLE.finditer(text)}
    ruled_out = unsuitable | too_much.keys()
    for resource in dict.fromkeys(match[1] for match in too_much.values()):
        if flavors.get(resource) and ruled_out.issuperset(flavors[resource]):
            return _some(list(map(_amount, too_much.values())))
    every = {flavor for some in flavors.values() for flavor in some}
    return _some([f"flavor {name} does not suit" for name in sorted(every)]) if every and every <= unsuitable else ""


def _amount(match: re.Match[str]) -> str:
    resource, flavor, before, needed, most = match.groups()
    sum_ = needed if before == "0" else f"{before} + {needed}"
    return f"{resource} {sum_} of {most} at most in flavor {flavor}"


def _some(texts: list[str]) -> str:
    more = f" and {len(texts) - _SHOWN_FLAVORS} more" if len(texts) > _SHOWN_FLAVORS else ""
    return ", ".join(texts[:_SHOWN_FLAVORS]) + more


# One workload on all its workers.


def can_fit_nowhere(case: Case) -> bool:
    """Whether no usable worker could ever admit the workload: at least one was asked, or none has jobs of its kind, or
    none in its namespace. A worker that is suspect is waited for."""
    if not case.lacks and not (case.fleet.missing and len(case.fleet.missing) == len(case.fleet.workers)):
        return False
    in_doubt = any(remote.is_configured and remote.link.reach is Reach.SUSPECT for remote in case.remotes)
    return not in_doubt and not case.shown.usable


def unconfirmed(case: Case) -> Iterator[str]:
    """The workers whose Kueue says that it does not fit, and whose queues are not known enough to rely on that."""
    for remote in case.remotes:
        if (
            remote.is_reachable
            and not remote.never
            and remote.workload is not None
            and is_suspected(remote.workload)
            and case.is_current(remote.workload)
        ):
            yield remote.cluster


# The recorded message.


def note(found: Mapping[str, str], missing: Mapping[str, str] | None = None) -> str:
    """The reasons of workers, grouped by text: `cpu 6 of 4 at most in flavor default: w1, w2; …`. Before it, the workers
    that never got a copy and get one as soon as they can take it: `no Job.example.com is there (w3)`."""
    parts = [_note_of(found)] if found else []
    for text in dict.fromkeys((missing or {}).values()):
        names = [name for name, why in (missing or {}).items() if why == text]
        parts.insert(0, f"{text} ({_some(names)})")
    return "; ".join(parts)


def _note_of(found: Mapping[str, str]) -> str:
    alike: dict[str, list[str]] = {}
    for cluster, text in found.items():
        alike.setdefault(text, []).append(cluster)
    if len(found) > _NAMED or len(alike) > _SHOWN_LACKS:
        shown = [f"{text}: {names[0]}" for text, names in list(alike.items())[:_SHOWN_LACKS]]
        return f"{'; '.join(shown)}; and {len(found) - len(shown)} workers more"
    return "; ".join(f"{text}: {', '.join(names)}" for text, names in alike.items())


def named_in(text: str) -> dict[str, str]:
    """The reason of each worker, parsed from the text of `note`."""
    parts = (part.rpartition(": ") for part in text.split("; "))
    return {name: why for why, _, names in parts if why for name in names.split(", ")}


def may_fit_now(local: Workload, usable: Iterable[str], *, has_news: bool) -> bool:
    """Whether to retry at once a workload that fitted no worker: a worker's queues changed, another worker is usable,
    or its spec changed. A delay from an admission check still counts."""
    told = local.condition(FITS_NO_WORKER)
    if told is None or not local.has(EVICTED) or local.has(QUOTA_RESERVED):
        return False
    if any(check.requeue_after_seconds for check in local.status.admission_checks):
        return False
    if has_news or told.observed_generation != local.metadata.generation:
        return True
    named = named_in(told.message)
    return not told.message.endswith(" workers more") and any(name not in named for name in usable)
