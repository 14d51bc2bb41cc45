"""`multikueue workloads logs`: logs of a job's pods, from the cluster where it runs."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from multikueue.cli.access.connection import Context, ContextChoice, Kubeconfig, run_async, settings_option
from multikueue.cli.access.worker_access import WorkerAccess, WorkerOptions
from multikueue.cli.commands.workloads.pods import no_pods
from multikueue.cli.terminal.bundles import bundled
from multikueue.cli.terminal.durations import parse_duration
from multikueue.cli.terminal.exit import CommandFailed
from multikueue.cli.terminal.output import note
from multikueue.cli.workload.log_choice import LogChoice
from multikueue.cli.workload.lookup import InNamespace, Named

if TYPE_CHECKING:
    from anyio.abc import TaskGroup

    from multikueue.api.kubernetes.printed import ContainerStatus, PrintedPod
    from multikueue.api.kueue.workload import Workload
    from multikueue.cli.workload.view import WorkloadView

__all__ = ["logs"]


class _Wish(LogChoice, frozen=True, kw_only=True):
    """And how it is printed; `most`: the most containers that are followed at once."""

    prefix: bool = False
    most: int = 50


@dataclass(frozen=True)
class LogOptions:
    """The options that say which part of the logs is meant."""

    tail: Annotated[int, typer.Option("--tail", help="Only so many last lines of each container; -1: all.")] = -1
    container: Annotated[
        str, typer.Option("--container", "-c", help="Only this container. (default: as kubectl)", show_default=False)
    ] = ""
    all_containers: Annotated[bool, typer.Option("--all-containers", help="All containers of each pod.")] = False
    pod: Annotated[str, typer.Option("--pod", help="Only this pod. (default: all)", show_default=False)] = ""
    previous: Annotated[bool, typer.Option("--previous", "-p", help="Of the run of the container before this one.")] = (
        False
    )
    since: Annotated[
        timedelta | None,
        typer.Option(
            parser=parse_duration, metavar="DURATION", help="Only what is newer, such as 5m.", show_default=False
        ),
    ] = None
    timestamps: Annotated[bool, typer.Option("--timestamps", help="With the time of each line.")] = False
    prefix: Annotated[
        bool, typer.Option("--prefix", help="With pod and container before each line, also if there is only one.")
    ] = False
    max_log_requests: Annotated[int, typer.Option(min=1, help="The most containers to follow at once.")] = 50

    def wish(self, *, is_following: bool) -> _Wish:
        query = {
            "follow": "true" if is_following else "",
            "tailLines": str(self.tail) if self.tail >= 0 else "",
            "previous": "true" if self.previous else "",
            "sinceSeconds": str(max(1, int(self.since.total_seconds()))) if self.since is not None else "",
            "timestamps": "true" if self.timestamps else "",
        }
        return _Wish(
            pod=self.pod,
            container=self.container,
            all_containers=self.all_containers,
            prefix=self.prefix,
            most=self.max_log_requests,
            query={key: value for key, value in query.items() if value},
        )


@bundled
def logs(
    name: Named,
    namespace: InNamespace = None,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Follow until the job is over; wait for its cluster and pods.")
    ] = False,
    *,
    lines: LogOptions,
    workers: WorkerOptions,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    _config: Annotated[Path | None, settings_option("--config")] = None,
) -> None:
    """Print the logs of a job's pods, wherever it runs.

    Where there are several containers, pod and container stand before each line. Without a cluster, or without pods, it
    says why and ends with 1; with -f it waits.

    \b
    Examples:
      multikueue logs -n team-a my-job
      multikueue workloads logs jobset/train -f --tail 10 --all-containers
    """
    if lines.container and lines.all_containers:
        raise typer.BadParameter("give either --container or --all-containers")
    reach, wish = workers.access(ContextChoice(kubeconfig, context)), lines.wish(is_following=follow)
    run_async(lambda: _follow(name, namespace, reach, wish) if follow else _print_all(name, namespace, reach, wish))


async def _print_all(named: str, namespace: str | None, reach: WorkerAccess, wish: _Wish) -> None:
    """Prints the present logs, one container after the other."""
    from multikueue.cli.workload.session import open_workload

    async with open_workload(named, namespace, reach) as session, session.winner() as view:
        found = [pod for _, pod in await view.pods()]
        wanted = [(pod, container) for pod in found for container in wish.containers(pod)]
        if not wanted:
            raise CommandFailed(_nothing(wish, found, view))
        tongue = _Tongue(view, wish, has_prefix=wish.prefix or len(wanted) > 1)
        heard = [await tongue.speak(pod, container) for pod, container in wanted]
    if not any(heard):
        raise CommandFailed(f"none of the logs on {view.cluster} could be read")


def _nothing(wish: _Wish, found: list[PrintedPod], view: WorkloadView) -> str:
    """Why there is nothing to print."""
    chosen = [pod for pod in found if wish.pod in ("", pod.metadata.name)]
    if not found:
        return no_pods(view.workload, view.unseen)
    if not chosen:
        return f"there is no pod {wish.pod!r}; there are: {', '.join(pod.metadata.name for pod in found)}"
    names = dict.fromkeys(each.name for pod in chosen for each in (*pod.spec.init_containers, *pod.spec.containers))
    return f"no pod has a container {wish.container!r}; there are: {', '.join(names)}"


async def _follow(named: str, namespace: str | None, reach: WorkerAccess, wish: _Wish) -> None:
    """Follows the logs from cluster to cluster until the workload is finished."""
    from multikueue.api.kueue.workload import FINISHED
    from multikueue.cli.workload.session import ended, open_workload

    async with open_workload(named, namespace, reach) as session:
        if session.workload.has(FINISHED):
            await _print_all(named, namespace, reach, wish)
            return
        workload = await session.stay(_Listen(wish))
    note(ended(workload))


class _Listen:
    """Follows each container from its start."""

    def __init__(self, wish: _Wish) -> None:
        self._wish = wish
        self._heard: set[tuple[str, str, int]] = set()
        self._open = 0

    async def play(self, view: WorkloadView, /) -> None:
        import anyio

        workload = view.workload
        prefixed = self._wish.prefix or self._wish.all_containers or _pods_of(workload) > 1
        tongue = _Tongue(view, self._wish, has_prefix=prefixed)
        note(f"workload {workload.key} is on {view.cluster}")
        async with anyio.create_task_group() as tasks:

            async def take(pod: PrintedPod, is_gone: bool) -> None:
                if not is_gone:
                    self._hear(tasks, tongue, pod)

            await view.follow_pods(take)

    async def drain(self) -> None:
        import anyio

        while self._open:  # noqa: ASYNC110  # nothing else happens any more
            await anyio.sleep(0.05)

    def _hear(self, tasks: TaskGroup, tongue: _Tongue, pod: PrintedPod) -> None:
        wanted = self._wish.containers(pod)
        for each in _statuses(pod):
            key = (pod.metadata.uid, each.name, each.restart_count)
            if each.name not in wanted or not _has_begun(each) or key in self._heard:
                continue
            if self._open >= self._wish.most:
                raise CommandFailed(
                    f"more than {self._wish.most} containers run: choose with --pod, or raise --max-log-requests"
                )
            self._heard.add(key)
            self._open += 1
            tasks.start_soon(self._one, tongue, pod, each.name)

    async def _one(self, tongue: _Tongue, pod: PrintedPod, container: str) -> None:
        try:
            await tongue.speak(pod, container)
        finally:
            self._open -= 1


class _Tongue:
    """Prints the logs of containers on one cluster."""

    def __init__(self, view: WorkloadView, wish: _Wish, *, has_prefix: bool) -> None:
        self._view, self._wish, self._prefixed = view, wish, has_prefix

    async def speak(self, pod: PrintedPod, container: str) -> bool:
        """Print the log of a container to its end. False, with a note, if that fails. Raises Forbidden."""
        from multikueue.errors import ApiError, ClusterUnreachable, Forbidden

        try:
            async with self._view.log(pod, self._wish.query | {"container": container}) as log:
                while line := await log.line():
                    self._print(pod.metadata.name, container, line)
        except Forbidden:
            raise
        except ApiError as error:
            note(f"pod {pod.metadata.name}, container {container}: {error.message}")
            return False
        except ClusterUnreachable as error:
            note(f"pod {pod.metadata.name}, container {container}: the log broke off: {error.why}")
            return False
        return True

    def _print(self, pod: str, container: str, line: bytes) -> None:
        """Prints the line unescaped: a program's output is its user's own business."""
        if self._prefixed:
            line = f"[{pod}/{container}] ".encode() + line.removesuffix(b"\n") + b"\n"
        sys.stdout.buffer.write(line)
        sys.stdout.buffer.flush()


def _pods_of(workload: Workload) -> int:
    from multikueue.api.kueue.workload import workload_spec

    return sum(each.count for each in workload_spec(workload).pod_sets)


def _statuses(pod: PrintedPod) -> Iterable[ContainerStatus]:
    status = pod.status
    return (*status.init_container_statuses, *status.container_statuses, *status.ephemeral_container_statuses)


def _has_begun(container: ContainerStatus) -> bool:
    return container.state.running is not None or container.state.terminated is not None
