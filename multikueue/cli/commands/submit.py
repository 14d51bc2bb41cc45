"""`multikueue submit`: submits the jobs of a file to a queue, or says beforehand which clusters could take them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from multikueue.cli.access.completion import queues
from multikueue.cli.access.connection import Context, ContextChoice, Kubeconfig, now, run_async, settings_option
from multikueue.cli.access.worker_access import SecretsNamespace, WorkerAccess
from multikueue.cli.terminal.bundles import bundled
from multikueue.cli.terminal.exit import CommandFailed
from multikueue.cli.terminal.formats import Form, Format, Output, is_document
from multikueue.cli.terminal.manifests import Manifest, read_manifests
from multikueue.cli.terminal.output import Column, note, print_document, print_table, say
from multikueue.cli.terminal.progress import spinner
from multikueue.cli.workload.lookup import InNamespace, refuse_unknown

if TYPE_CHECKING:
    from multikueue.api.kueue.queues import ClusterQueue, LocalQueue
    from multikueue.api.kueue.workload import Workload
    from multikueue.api.meta import Condition, ObjectKey
    from multikueue.kube.client import Client

__all__ = ["submit"]

Tree = dict[str, Any]

CLUSTERS = (Column("CLUSTER"), Column("CONNECTED"), Column("TAKES NEW WORK"), Column("MESSAGE"))


_FILE = "YAML or JSON file with jobs, or a directory; - for standard input."


@dataclass(frozen=True)
class Files:
    """The arguments that say where the jobs are."""

    files: Annotated[list[str] | None, typer.Argument(metavar="[FILE]...", help=_FILE, show_default=False)] = None
    filename: Annotated[
        list[str] | None, typer.Option("--filename", "-f", help=f"{_FILE[:-1]}, as with kubectl.", show_default=False)
    ] = None

    def read(self) -> list[Manifest]:
        """Their objects. Raises BadParameter without any file, and CommandFailed for one that cannot be read."""
        names = [*(self.files or ()), *(self.filename or ())]
        if not names:
            raise typer.BadParameter("expected a file with jobs, or - for standard input")
        return [manifest for name in names for manifest in read_manifests(name)]


@bundled
def submit(
    *,
    files: Files,
    queue: Annotated[
        str,
        typer.Option(
            "--queue", "-q", help="LocalQueue. (default: what the job says)", show_default=False, autocompletion=queues
        ),
    ] = "",
    namespace: InNamespace = None,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run", help="Have the server check the jobs, and say where they would wait; make none of them."
        ),
    ] = False,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    config: Annotated[Path | None, settings_option("--config")] = None,
    output: Output = Format.TABLE,
    secrets_namespace: SecretsNamespace = "kueue-system",
) -> None:
    """Submit jobs to a queue.

    An object that cannot be submitted keeps no other from it. What is no job, such as a ConfigMap, is for kubectl.

    With --dry-run nothing is made: the server checks the jobs, and the queue, what waits before them, the quota they would
    wait for, the clusters of the queue in their order, those whose own quota could never hold the job, and those where its
    pods would be others than the ones that are counted are shown, as far as you may see them.

    \b
    Examples:
      multikueue submit -n team-a job.yaml -q batch
      multikueue submit -f job.yaml --dry-run
      multikueue submit -f job.yaml --dry-run -o json
    """
    if is_document(output) and not dry_run:
        raise typer.BadParameter("-o is for what a dry run foresees: give --dry-run")
    jobs = files.read()
    if not jobs:
        raise CommandFailed("there is no object in these files")
    call = _Call(ContextChoice(kubeconfig, context), namespace, queue, config, secrets_namespace, dry_run, output)
    run_async(lambda: _submit(call, jobs))


class _Call(msgspec.Struct, frozen=True):
    target: ContextChoice
    namespace: str | None
    queue: str
    config: Path | None
    secrets_namespace: str
    dry_run: bool
    output: Form


@dataclass(frozen=True, slots=True)
class _Told:
    """What a dry run says of one job: printed as it comes, unless it is for a document."""

    item: Tree
    is_printed: bool

    def line(self, text: str) -> None:
        if self.is_printed:
            say(text)

    def keep(self, **facts: Any) -> None:
        self.item.update(facts)


async def _submit(call: _Call, jobs: list[Manifest]) -> None:
    """Raises what failed in the end."""
    from multikueue.errors import ApiError, MultiKueueError

    told: list[_Told] = []
    failures: list[MultiKueueError] = []
    async with call.target.connect_in(call.namespace) as (client, where):
        for job in jobs:
            try:
                told.append(await _submit_one(call, client, job, where))
            except CommandFailed as error:
                failures.append(error)
            except ApiError as error:
                failures.append(CommandFailed(f"{_name(job.tree)}: {error.message}"))
    if is_document(call.output):
        print_document({"items": [each.item for each in told]}, call.output)
    elif told and not call.dry_run:
        last = told[-1].item
        note(f"Where it is: multikueue why -n {last['namespace']} {last['job']}")
    if failures:
        raise ExceptionGroup("not submitted", failures)


async def _submit_one(call: _Call, client: Client, manifest: Manifest, where: str) -> _Told:
    from multikueue.api.kinds import LOCAL_QUEUES
    from multikueue.api.kueue.workload import QUEUE_LABEL
    from multikueue.api.meta import ObjectKey

    job = manifest.tree
    if not _may_be_job(job["apiVersion"], job["kind"]):
        raise CommandFailed(
            f"{_name(job)} is no job, and has no queue: create it with `kubectl apply`, and where jobs need it, on the workers"
        )
    meta = job.setdefault("metadata", {})
    labels = meta["labels"] = meta.get("labels") or {}
    if call.queue:
        labels[QUEUE_LABEL] = call.queue
    into, there = labels.get(QUEUE_LABEL, ""), call.namespace or meta.get("namespace") or where
    if meta.get("namespace") not in (None, there):
        raise CommandFailed(f"{_name(job)} is of namespace {meta['namespace']}, and not of {there}")
    if not into:
        raise CommandFailed(f"{_name(job)} names no queue: give --queue, or the label {QUEUE_LABEL}")
    async with spinner(f"{'checking' if call.dry_run else 'submitting'} {_name(job)}"):
        await refuse_unknown(client, LOCAL_QUEUES, into, there)
        made = await _make(client, job, there, dry_run=call.dry_run)
    told = _Told({"job": _name(made), "namespace": there, "queue": into}, not is_document(call.output))
    told.line(f"{_name(made)} {'would be submitted' if call.dry_run else 'submitted'} to queue {there}/{into}")
    if call.dry_run:
        await _foresee(call, client, made, ObjectKey(there, into), told)
    else:
        for text in await _missing(call, client, made, ObjectKey(there, into)):
            note(f"warning: {text}")
    return told


def _may_be_job(api_version: str, kind: str) -> bool:
    """Whether the kind is a known kind of job, or of a group that is neither of Kubernetes nor of Kueue: maybe declared."""
    from multikueue.jobs.integrations.frameworks import FRAMEWORKS, TEMPLATES

    known = {(each.kind.api_version, each.kind.kind) for each in (*FRAMEWORKS.values(), *TEMPLATES.values())}
    group = api_version.rpartition("/")[0]
    return (api_version, kind) in known or not ("." not in group or group.endswith((".k8s.io", "kueue.x-k8s.io")))


async def _make(client: Client, job: Tree, namespace: str, *, dry_run: bool) -> Tree:
    from multikueue.cli.workload.related_objects import collection_of

    path = await collection_of(client, job["apiVersion"], job["kind"], namespace)
    params = {"dryRun": "All"} if dry_run else None
    return _tree(await client.request("POST", path, body=job, params=params))


async def _missing(call: _Call, client: Client, job: Tree, queue: ObjectKey) -> list[str]:
    """What the job needs on its workers and is not there, in words, as far as the user may see it."""
    from multikueue.api.kinds import LOCAL_QUEUES
    from multikueue.cli.workload.needs import missing, needs_of
    from multikueue.errors import ApiError

    wanted = needs_of(job)
    if not wanted:
        return []
    try:
        _, rows, _ = await _behind(client, await client.get(LOCAL_QUEUES, queue))
    except ApiError:
        return []
    reach = WorkerAccess(manager=call.target, namespace=call.secrets_namespace)
    connected = [name for name, state, *_ in rows if state == "True"]
    return await missing(client, reach, connected, queue.namespace, wanted)


# --- dry run ---------------------------------------------------------------------------------------------------------


async def _foresee(call: _Call, client: Client, job: Tree, queue: ObjectKey, told: _Told) -> None:
    """Tells what is known before the job exists: who waits in its queue, its clusters, its quota, and who is too small."""
    from multikueue.api.kinds import LOCAL_QUEUES

    async with spinner(f"looking at queue {queue.name}"):
        local = await client.get(LOCAL_QUEUES, queue)
        shared, rows, problem = await _behind(client, local)
    told.line(f"  {_line(local)}")
    if shared is not None:
        told.line(f"  {_line(shared)}")
    if problem:
        note(problem)  # which is why nothing can be said about its quota either
        return
    told.keep(
        clusters=[dict(zip(("cluster", "connected", "takesNewWork", "message"), row, strict=True)) for row in rows]
    )
    if rows and told.is_printed:
        print_table(CLUSTERS, rows, Format.TABLE)
    lacking = await _missing(call, client, job, queue)
    told.keep(missing=lacking)
    for text in lacking:
        told.line(f"  {text}.")
    async with spinner("looking for its quota"):
        workload = await _foresee_quota(client, job, call.config, told)
    if workload is not None:
        await _foresee_workers(call, client, [row[:2] for row in rows], queue, workload, told)


async def _behind(client: Client, local: LocalQueue) -> tuple[ClusterQueue | None, list[tuple[str, ...]], str]:
    """The ClusterQueue, its clusters as rows, and why they are not known, if so."""
    from multikueue.api.kinds import CLUSTER_QUEUES
    from multikueue.api.meta import ObjectKey
    from multikueue.errors import Forbidden, NotFound

    name, shared = local.spec.cluster_queue, None
    try:
        shared = await client.get(CLUSTER_QUEUES, ObjectKey("", name))
        return shared, [row async for row in _clusters(client, local.metadata.namespace, name)], ""
    except NotFound as error:
        return shared, [], f"It would wait: {error.message}"
    except Forbidden as error:
        return shared, [], f"Not seen: {error.message}"


async def _foresee_quota(client: Client, job: Tree, config: Path | None, told: _Told) -> Workload | None:
    """Tells what the job would wait for, as `why` would once it is there; answers the Workload that it would have, if that
    is known. None for a kind that settings declare."""
    from multikueue.cli.access.manager_settings import load_settings
    from multikueue.cli.workload.explanation import explained, fetch_objects, in_words
    from multikueue.errors import Forbidden

    try:
        settings = load_settings(config)
        system = settings is not None and settings.quota.system_priority_classes == "Count"
        workload = await _foreseen(client, job, should_count_system_classes=system)
    except Forbidden as error:
        note(f"Not seen: {error.message}")
        return None
    if workload is None or isinstance(workload, str):
        note(workload or f"What it would wait for is not known of {job['kind']} here")
        return None
    settings = load_settings(config)
    objects, forbidden = await fetch_objects(client, workload.metadata.namespace, settings)
    if forbidden:
        note(f"Not seen: the quota it would wait for: you may not list {', '.join(forbidden)}")
    objects["workloads"].append(({}, workload))
    found = explained(objects, workload, settings) if not forbidden else None
    if found is not None:
        waits = found.problem or found.behind or found.lacks
        words = in_words(found) if waits else f"It would get quota of ClusterQueue {found.cluster_queue} at once."
        told.keep(quota=words)
        told.line(f"  {words}")
    return workload


async def _foresee_workers(
    call: _Call, client: Client, clusters: list[tuple[str, ...]], queue: ObjectKey, workload: Workload, told: _Told
) -> None:
    """Tells which workers are too small by the quota of their queues, and where the job's pods would be others than those
    that are counted, as far as the user may read what that depends on."""
    from multikueue.cli.access.manager_settings import load_settings
    from multikueue.cli.workload.explanation import demand_by, requested
    from multikueue.cli.workload.pod_policies import elsewhere, not_compared, read_policies
    from multikueue.cli.workload.prospects import foresights

    settings, ours = load_settings(call.config), await read_policies(client, (queue.namespace,))
    connected = [name for name, state in clusters if state == "True"]
    reach = WorkerAccess(manager=call.target, namespace=call.secrets_namespace)
    pod_sets = requested(demand_by(ours, workload, settings), workload)
    found, unseen = await foresights(client, reach, connected, queue, pod_sets)
    excesses = {name: each.excess for name, each in found.items() if each.excess}
    if excesses and len(excesses) == len(clusters):
        told.line("  No worker can ever hold it.")
    for name, why in excesses.items():
        told.line(f"  {name} can never hold it ({why}).")
    theirs = {name: each.policies for name, each in found.items()}
    differences = list(elsewhere(workload, ours, theirs, settings))
    for difference in differences:
        told.line(f"  {difference}")
    told.keep(neverOn=excesses, differences=[each.document() for each in differences])
    for text in not_compared(ours, theirs):
        note(text)
    if unseen:
        note(f"Not seen: queues of {', '.join(unseen)}: {next(iter(unseen.values()))}")


async def _foreseen(client: Client, job: Tree, *, should_count_system_classes: bool = False) -> Workload | str | None:
    """The Workload that the job would have; a text for a priority class that is missing, None for an unknown kind."""
    from multikueue.api.kinds import PRIORITY_CLASSES, WORKLOAD_PRIORITY_CLASSES
    from multikueue.api.kueue.workload import Workload
    from multikueue.api.meta import decoder, encode, render_time
    from multikueue.jobs.framework.priority import resolve
    from multikueue.jobs.framework.workloads import workload_priority_class
    from multikueue.jobs.integrations.frameworks import known_kind

    adapter = known_kind(job["apiVersion"], job["kind"])
    if adapter is None:
        return None
    value = decoder(adapter.kind.type)(encode(job))
    priority = resolve(
        workload_class=workload_priority_class(value),
        pod_class=adapter.pod_priority_class(value),
        classes={each.metadata.name: each for each in (await client.list(WORKLOAD_PRIORITY_CLASSES)).items},
        pod_classes={each.metadata.name: each for each in (await client.list(PRIORITY_CLASSES)).items},
        should_count_system_classes=should_count_system_classes,
    )
    if isinstance(priority, str):
        return f"It would wait: {priority}"
    body = adapter.workload_body(value, priority=priority)
    body["metadata"] |= {"uid": "dry-run", "creationTimestamp": render_time(now())}
    return decoder(Workload)(encode(body))


def _line(queue: LocalQueue | ClusterQueue) -> str:
    pending, policy = queue.status.pending_workloads, queue.spec.stop_policy
    waits = f"{pending} wait there" if pending else "nothing waits there"
    held = "" if policy == "None" else f", and it is held ({policy}): nothing begins until it is resumed"
    return f"{type(queue).__name__} {queue.metadata.name}: {waits}{held}"


async def _clusters(client: Client, namespace: str, queue: str) -> Any:
    """The clusters of the queue's check, in the order of its MultiKueueConfig."""
    from multikueue.api.kinds import MULTIKUEUE_CLUSTERS
    from multikueue.api.kueue.admission_checks import ACTIVE
    from multikueue.api.meta import find_condition
    from multikueue.api.multikueue.clusters import CORDON_ANNOTATION
    from multikueue.registration.preflight import routes
    from multikueue.store.workers.watch_scope import namespaces_of

    way = await routes(client)
    mine = way.cluster_queue(queue)
    names = way.clusters_of(mine) if mine is not None else None
    known = {each.metadata.name: each for each in (await client.list(MULTIKUEUE_CLUSTERS)).items}
    for name in names or ():
        cluster = known.get(name)
        if cluster is None:
            yield name, "", "no", "it has no MultiKueueCluster"
            continue
        active: Condition | None = find_condition(cluster.status.conditions, ACTIVE)
        offered = namespaces_of(cluster)
        why = ""
        if cluster.metadata.annotations.get(CORDON_ANNOTATION) == "true":
            why = "it is cordoned"
        elif "" not in offered and namespace not in offered:
            why = f"it offers {', '.join(offered) or 'no namespace'}"
        elif active is None or active.status != "True":
            why = active.message if active else "no manager has looked at it yet"
        yield name, active.status if active else "Unknown", "no" if why else "yes", why


def _name(job: Tree) -> str:
    meta = job.get("metadata", {})
    return f"{job['kind'].lower()}/{meta.get('name') or meta.get('generateName', '')}"


def _tree(answer: bytes) -> Tree:
    import json

    tree: Tree = json.loads(answer)
    return tree
