"""Lookup of a workload by its own name or its job's, with the kind in front where needed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from multikueue.cli.access.completion import workloads
from multikueue.cli.access.connection import fetch_pairs
from multikueue.cli.terminal.exit import CommandFailed
from multikueue.cli.terminal.inherited import inherited
from multikueue.cli.terminal.nearest import there_are

if TYPE_CHECKING:
    from multikueue.api.kind import Kind
    from multikueue.api.kueue.workload import Workload
    from multikueue.api.meta import OwnerReference
    from multikueue.kube.cluster_client import ClusterClient

__all__ = ["InNamespace", "Named", "Pair", "fetch_workloads", "named", "names", "pick", "refuse_unknown"]

InNamespace = Annotated[
    str | None,
    typer.Option(
        "--namespace",
        "-n",
        callback=inherited("namespace"),
        help="Namespace of the workloads. (default: that of the context)",
        show_default=False,
    ),
]
Named = Annotated[
    str,
    typer.Argument(
        metavar="[KIND/]NAME",
        help="Name of the job or of its workload; with the kind in front (job/x, jobset/x, workload/x) if several have it.",
        show_default=False,
        autocompletion=workloads,
    ),
]

Pair = tuple[dict[str, Any], "Workload"]
"""A workload as the server sent it, and as a value."""

_WORKLOAD = ("wl", "workload", "workloads", "workload.kueue.x-k8s.io", "workloads.kueue.x-k8s.io")


async def fetch_workloads(client: ClusterClient, namespace: str) -> list[Pair]:
    """The workloads of the namespace; of all namespaces if it is empty."""
    from multikueue.api.kinds import WORKLOADS

    return await fetch_pairs(client, WORKLOADS, namespace=namespace)


async def refuse_unknown(client: ClusterClient, kind: Kind[Any], name: str, namespace: str = "") -> None:
    """Raises CommandFailed with the nearest names if no object of the kind has the name, in the namespace or, if it is
    empty, anywhere. Users who may not list them pass."""
    from multikueue.errors import Forbidden

    try:
        known = [each.metadata.name for each in (await client.list(kind, namespace=namespace)).items]
    except Forbidden:
        return
    if name not in known:
        where = f" in namespace {namespace}" if namespace else ""
        raise CommandFailed(f"there is no {kind.kind} {name!r}{where}; {there_are(name, known)}")


def named(items: list[Pair], word: str) -> list[Pair]:
    """All workloads with that NAME or KIND/NAME."""
    kind, _, name = word.rpartition("/")
    own = [pair for pair in items if pair[1].metadata.name == name and kind.lower() in ("", *_WORKLOAD)]
    return own or _running(_staying([pair for pair in items if list(_owners(pair[1], kind, name))]))


def pick(items: list[Pair], word: str, namespace: str) -> Pair:
    """The workload with that NAME or KIND/NAME.

    The name may be the workload's own, or its job's; of the latter, one that is being deleted counts only if there is no
    other, and of the slices of an elastic job the one that runs. Raises CommandFailed that names the choices if there are
    several, and what there is if there is none.
    """
    name = word.rpartition("/")[2]
    found = named(items, word)
    if len(found) == 1:
        return found[0]
    if found:
        raise CommandFailed(
            f"several workloads in namespace {namespace} belong to {word!r}: choose one of {_choices(found, name)}"
        )
    raise CommandFailed(
        f"there is no workload {word!r} in namespace {namespace}, and no workload of a job with that name;"
        f" {there_are(name, names(items), none='none at all (another namespace: -n)')}"
    )


def _owners(workload: Workload, kind: str, name: str) -> Iterable[OwnerReference]:
    owners = workload.metadata.owner_references
    return (owner for owner in owners if owner.name == name and (not kind or _is_of(kind.lower(), owner)))


def _is_of(kind: str, owner: OwnerReference) -> bool:
    """Whether the word names the owner's kind, as in kubectl: singular or plural, alone or with its group."""
    word, _, group = kind.partition(".")
    own = owner.kind.lower()
    return word in (own, f"{own}s") and group in ("", owner.api_version.rpartition("/")[0])


def _staying(found: list[Pair]) -> list[Pair]:
    return [pair for pair in found if pair[1].metadata.deletion_timestamp is None] or found


def _running(found: list[Pair]) -> list[Pair]:
    """The workloads without replaced slices, and without slices that are yet to replace one of the others."""
    from multikueue.api.kueue.slices import replaced_key
    from multikueue.api.kueue.workload import FINISHED, SLICE_REPLACED

    ends = ((pair, pair[1].condition(FINISHED)) for pair in found)
    left = [pair for pair, end in ends if end is None or end.reason != SLICE_REPLACED] or found
    keys = {workload.key for _, workload in left}
    return [pair for pair in left if replaced_key(pair[1]) not in keys] or left


def _choices(found: list[Pair], name: str) -> str:
    """The choices as KIND/NAME of the jobs if the kinds differ, else the workloads' names."""
    kinds = {owner.kind.lower() for _, workload in found for owner in _owners(workload, "", name)}
    if len(kinds) == len(found):
        return ", ".join(f"{kind}/{name}" for kind in sorted(kinds))
    return ", ".join(workload.metadata.name for _, workload in found)


def names(items: list[Pair]) -> Iterator[str]:
    """Names of all workloads as a user would type them: KIND/NAME of the jobs, else their own."""
    for _, workload in items:
        owners = workload.metadata.owner_references
        yield from (f"{owner.kind.lower()}/{owner.name}" for owner in owners)
        if not owners:
            yield workload.metadata.name
