"""`multikueue submit`: submits the jobs of a file to a queue, or says beforehand which clusters could take them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from multikueue.cli.access.completion import queues
from multikueue.cli.access.connection import Context, ContextChoice, Kubeconfig, run_async, settings_option
from multikueue.cli.access.worker_access import SecretsNamespace, WorkerAccess
from multikueue.cli.terminal.bundles import bundled
from multikueue.cli.terminal.exit import CommandFailed, ExitCode
from multikueue.cli.terminal.formats import Form, Format, Output, is_document
from multikueue.cli.terminal.manifests import Manifest, read_manifests
from multikueue.cli.terminal.output import heading, note, note_unseen, print_document, print_table, say
from multikueue.cli.terminal.progress import spinner
from multikueue.cli.workload.expected_starts import HistoryPlace, as_counted, expected_starts, sentence
from multikueue.cli.workload.lookup import InNamespace
from multikueue.cli.workload.quick_job import QuickJob

if TYPE_CHECKING:
    from multikueue.api.kueue.queues import ClusterQueue, LocalQueue
    from multikueue.api.meta import ObjectKey
    from multikueue.cli.workload.seen import Inspection
    from multikueue.kube.client import Client
    from multikueue.workload.nomination.choice import ExplainedChoice

__all__ = ["submit"]

Tree = dict[str, Any]

_FILE = "YAML or JSON file with jobs, or a directory; - for standard input."


@dataclass(frozen=True)
class Files:
    """The arguments that say where the jobs are."""

    files: Annotated[list[str] | None, typer.Argument(metavar="[FILE]...", help=_FILE, show_default=False)] = None
    filename: Annotated[
        list[str] | None, typer.Option("--filename", "-f", help=f"{_FILE[:-1]}, as with kubectl.", show_default=False)
    ] = None

    def command(self) -> list[str]:
        """What is no file, where the job is made of options. Raises BadParameter with files beside them."""
        if self.filename:
            raise typer.BadParameter("--image makes a Job of its own: leave out -f")
        return self.files or []

    def read(self) -> list[Manifest]:
        """Their objects. Raises BadParameter without any file, and CommandFailed for one that cannot be read."""
        names = [*(self.files or ()), *(self.filename or ())]
        if not names:
            raise typer.BadParameter("expected a file with jobs, or - for standard input")
        return [manifest for name in names for manifest in read_manifests(name)]


@dataclass(frozen=True)
class SubmitOptions:
    """The options that lead to the manager cluster and to its workers. `-f` is no file with settings here."""

    kubeconfig: Kubeconfig = None
    context: Context = None
    config: Annotated[Path | None, settings_option("--config")] = None
    secrets_namespace: SecretsNamespace = "kueue-system"
    history: HistoryPlace = None


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
            "--dry-run", help="Create nothing: the server checks the jobs, and the answer says where they would wait."
        ),
    ] = False,
    clusters: SubmitOptions,
    wait: Annotated[
        bool, typer.Option("--wait", help="Stay until the jobs are over, and end with the exit code of the job.")
    ] = False,
    quick: QuickJob,
    output: Output = Format.TABLE,
) -> None:
    """Submit jobs to a queue.

    With --image there is no file: a Job of one container is made, and what follows `--` is its command.

    An object that cannot be submitted keeps no other from it. What is no job, such as a ConfigMap, is for kubectl.

    With --dry-run nothing is made: the server checks the jobs, and the command says what `multikueue why` would answer once
    they are there: what stands in their way and what helps, what each worker is to them, and where their pods would be others
    than the ones that are counted, as far as you may see it. With --history also when they would start.

    \b
    Examples:
      multikueue submit -n team-a job.yaml -q batch
      multikueue submit -f job.yaml --dry-run
      multikueue submit -f job.yaml --dry-run -o json
      multikueue submit -q batch --name train --image trainer:1 --cpu 4 --gpu 1 --wait -- python train.py
    """
    if wait and dry_run:
        raise typer.BadParameter("--wait is for jobs that are made: leave out --dry-run")
    if is_document(output) and not dry_run:
        raise typer.BadParameter("-o is for what a dry run foresees: give --dry-run")
    jobs = [Manifest("the options", quick.tree(files.command()))] if quick.is_given() else files.read()
    if not jobs:
        raise CommandFailed("there is no object in these files")
    call = _Call(clusters, namespace, queue, dry_run, wait, output)
    run_async(lambda: _submit(call, jobs))


class _Call(msgspec.Struct, frozen=True):
    clusters: SubmitOptions
    namespace: str | None
    queue: str
    dry_run: bool
    wait: bool
    output: Form

    @property
    def reach(self) -> WorkerAccess:
        return WorkerAccess(manager=self.target, namespace=self.clusters.secrets_namespace)

    @property
    def target(self) -> ContextChoice:
        return ContextChoice(self.clusters.kubeconfig, self.clusters.context)


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
    from multikueue.cli.workload.submission import job_name
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
                failures.append(CommandFailed(f"{job_name(job.tree)}: {error.message}"))
    if is_document(call.output):
        print_document({"items": [each.item for each in told]}, call.output)
    elif told and not call.dry_run:
        last = told[-1].item
        note(f"Where it is: multikueue why -n {last['namespace']} {last['job']}")
    code = await _wait(call, told) if call.wait else ExitCode.OK
    if failures:
        raise ExceptionGroup("not submitted", failures)
    if code:
        raise SystemExit(code)


async def _wait(call: _Call, told: list[_Told]) -> int:
    """The first exit code of a job that failed, else 0."""
    from multikueue.cli.workload.end import wait_for

    codes: list[int] = []
    for each in told:
        end, code = await wait_for(each.item["job"], each.item["namespace"], call.reach)
        each.line(f"{each.item['job']}: {end}")
        codes.append(code)
    return next(filter(None, codes), ExitCode.OK)


async def _submit_one(call: _Call, client: Client, manifest: Manifest, where: str) -> _Told:
    from multikueue.api.meta import ObjectKey
    from multikueue.cli.workload.submission import job_name, submission

    job = submission(manifest.tree, call.queue, call.namespace, where)
    async with spinner(f"{'checking' if call.dry_run else 'submitting'} {job_name(job.tree)}"):
        made = await job.send(client, dry_run=call.dry_run)
    told = _Told({"job": job_name(made), "namespace": job.namespace, "queue": job.queue}, not is_document(call.output))
    told.line(
        f"{job_name(made)} {'would be submitted' if call.dry_run else 'submitted'} to queue {job.namespace}/{job.queue}"
    )
    if call.dry_run:
        await _foresee(call, client, made, ObjectKey(job.namespace, job.queue), told)
    else:
        for text in await _missing(call, client, made, ObjectKey(job.namespace, job.queue)):
            note(f"warning: {text}")
    return told


async def _missing(call: _Call, client: Client, job: Tree, queue: ObjectKey) -> list[str]:
    """What the job needs on its workers and is not there, in words, as far as the user may see it."""
    from multikueue.cli.workload.needs import missing, needs_of
    from multikueue.errors import ApiError

    wanted = needs_of(job)
    if not wanted:
        return []
    try:
        connected = await _connected(client, queue)
    except ApiError:
        return []
    return await missing(client, call.reach, connected, queue.namespace, wanted)


async def _connected(client: Client, queue: ObjectKey) -> list[str]:
    """The workers behind the LocalQueue that the manager has a connection to."""
    from multikueue.api.kinds import LOCAL_QUEUES, MULTIKUEUE_CLUSTERS
    from multikueue.api.kueue.admission_checks import ACTIVE
    from multikueue.api.meta import find_condition
    from multikueue.registration.preflight import routes

    local, way = await client.get(LOCAL_QUEUES, queue), await routes(client)
    shared = way.cluster_queue(local.spec.cluster_queue)
    known = {each.metadata.name: each for each in (await client.list(MULTIKUEUE_CLUSTERS)).items}
    found = [known[name] for name in (shared and way.clusters_of(shared)) or () if name in known]
    active = [(each.metadata.name, find_condition(each.status.conditions, ACTIVE)) for each in found]
    return [name for name, told in active if told is not None and told.status == "True"]


# --- dry run ---------------------------------------------------------------------------------------------------------


async def _foresee(call: _Call, client: Client, job: Tree, queue: ObjectKey, told: _Told) -> None:
    """Prints what `why` would answer once the job is there, who waits in its queue before, and what workers lack for it."""
    from multikueue.cli.access.manager_settings import load_settings
    from multikueue.cli.workload.foreseen import look_ahead

    async with spinner(f"looking at queue {queue.name}"):
        async for line in _lines(client, queue):
            told.line(f"  {line}")
    async with spinner("looking for its quota and its workers"):
        settings = load_settings(call.clusters.config)
        found = await look_ahead(client, call.reach, job, settings)
    if found is None:
        note(f"What it would wait for is not known of {job['kind']} here")
    else:
        foreseen = found.answer()
        workload, history = found.seen.workload, call.clusters.history
        if history and workload is not None:
            counted = as_counted(workload, settings)
            found.start = sentence(await expected_starts(client, history, [counted]), workload.key)
        told.keep(**found.document(foreseen))
        for line in foreseen.lines():
            told.line(f"  {line}")
        if found.start:
            told.line(f"  Start: {found.start}")
        _print_beside(found, told, call.output)
        note_unseen(foreseen)
    lacking = await _missing(call, client, job, queue)
    told.keep(missing=lacking)
    for text in lacking:
        told.line(f"  {text}.")


def _print_beside(found: Inspection, told: _Told, output: Form) -> None:
    from multikueue.cli.workload.pod_policies import print_elsewhere
    from multikueue.cli.workload.prospects import print_workers

    if not told.is_printed:
        return
    if found.seen.workers:
        print_workers(found.seen.workers, output)
    if found.choice is not None:
        _print_choice(found.choice, output)
    print_elsewhere(found.elsewhere, found.uncompared)


def _print_choice(choice: ExplainedChoice, output: Form) -> None:
    from multikueue.cli.workload.choices import CHOICES, choice_row

    if choice.problem:
        note(f"Strategy {choice.strategy} cannot be asked before there is a job: {choice.problem}")
        return
    heading(f"Strategy {choice.strategy}")
    print_table(CHOICES, [choice_row(each) for each in choice.workers], output)


async def _lines(client: Client, key: ObjectKey) -> AsyncIterator[str]:
    """Who waits before it, as far as the user may see the queues."""
    from multikueue.api.kinds import CLUSTER_QUEUES, LOCAL_QUEUES
    from multikueue.api.meta import ObjectKey
    from multikueue.errors import ApiError

    local = await client.get(LOCAL_QUEUES, key)
    yield _line(local)
    with suppress(ApiError):  # the answer says what is lacking, and what was not seen
        yield _line(await client.get(CLUSTER_QUEUES, ObjectKey("", local.spec.cluster_queue)))


def _line(queue: LocalQueue | ClusterQueue) -> str:
    pending, policy = queue.status.pending_workloads, queue.spec.stop_policy
    waits = f"{pending} wait there" if pending else "nothing waits there"
    held = "" if policy == "None" else f", and it is held ({policy}): nothing begins until it is resumed"
    return f"{type(queue).__name__} {queue.metadata.name}: {waits}{held}"
