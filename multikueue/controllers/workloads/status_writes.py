"""How a decided status gets into a Workload of the manager cluster; nothing is written where nothing differs.

`merge` is the cheap way, for a Workload whose status nobody else writes; `apply` the way beside Kueue, whose core clears
by leaving out what it applied before (`api.shared`). Both hold only for the version that was decided on.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from multikueue.api.kinds import WORKLOADS
from multikueue.api.render import difference, status_patch
from multikueue.api.shared import KUEUE_ADMISSION, applied, our_part, shared_part
from multikueue.api.workload import Workload, WorkloadStatus
from multikueue.controllers.reconcile.context import World
from multikueue.errors import Invalid
from multikueue.kube.cluster_client import FIELD_MANAGER
from multikueue.telemetry import get_logger

log = get_logger()


async def merge(world: World, local: Workload, status: WorkloadStatus) -> Workload:
    """The workload with that status, by a merge patch of what differs. Its reconcile is not asked to look at it again.

    Raises as `ClusterClient` does; Conflict: look again.
    """
    patch = difference(local.status, status)
    if not patch:
        return local
    body = status_patch(local, patch)
    with _refusal_told(world, local), world.store.writing(local.key) as take_in:
        answer = await world.manager.merge_patch(WORKLOADS, local.key, body, subresource="status")
        take_in(answer)
    return _told(answer, patch)


async def apply(world: World, local: Workload, status: WorkloadStatus) -> Workload:
    """The workload with that status, applied in the name of Kueue's core. Raises as `merge` does.

    Conditions of our own are written in a call of their own, the first one: what they say is why the rest changes. One that
    goes follows the rest: whoever nominates for us would miss its note about clusters that are nominated still.
    """
    parts = (FIELD_MANAGER, our_part), (KUEUE_ADMISSION, shared_part)
    ours = our_part(status).conditions
    only_goes = set(ours) < set(our_part(local.status).conditions)
    for manager, part in reversed(parts) if only_goes else parts:
        patch = difference(part(local.status), part(status))
        if patch:
            body = applied(local, part(status))
            with _refusal_told(world, local):
                answer = await world.manager.apply(
                    WORKLOADS, local.key, body, manager=manager, force=True, subresource="status"
                )
            world.store.workloads.upsert(answer)
            local = _told(answer, patch)
    return local


@contextmanager
def _refusal_told(world: World, local: Workload) -> Iterator[None]:
    """What others wrote may leave no room for what is decided, or make the whole not valid: only people can mend that."""
    try:
        yield
    except Invalid as error:
        why = f"what is decided about it cannot be written: {error}"
        world.recorder.emit(WORKLOADS, local, type_="Warning", reason="StatusRefused", message=why)
        raise


def _told(answer: Workload, patch: dict[str, object]) -> Workload:
    log.debug("workload.written", workload=str(answer.key), fields=sorted(patch))
    return answer
