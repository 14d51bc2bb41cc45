"""A worker's pods and events as users may see them: known fields only, long texts cut. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

from multikueue.api.kubernetes.printed import (
    DEFAULT_CONTAINER_ANNOTATION,
    POD_SET_LABEL,
    ContainerState,
    ContainerStateDetails,
    ContainerStatus,
    PodCondition,
    PrintedContainer,
    PrintedEvent,
    PrintedPod,
    PrintedPodSpec,
    PrintedPodStatus,
    Reference,
    Series,
)
from multikueue.api.meta import ObjectMeta
from multikueue.api.values.foreign import excerpt, moment

__all__ = ["MOST_CONTAINERS", "MOST_ITEMS", "shown_event", "shown_pod"]

MOST_ITEMS = 500
"""Maximum pods, or events, in one answer."""

MOST_CONTAINERS = 32
"""Maximum containers of each sort (init, main, ephemeral) in a pod of an answer."""

_LONGEST_NAME = 253
_LONGEST_REASON = 256


def shown_pod(pod: PrintedPod) -> PrintedPod:
    """The pod with only the fields that are shown."""
    spec, status = pod.spec, pod.status
    return PrintedPod(
        metadata=_meta(pod.metadata),
        spec=PrintedPodSpec(
            node_name=_name(spec.node_name),
            init_containers=_containers(spec.init_containers),
            containers=_containers(spec.containers),
            ephemeral_containers=_containers(spec.ephemeral_containers),
        ),
        status=PrintedPodStatus(
            phase=_name(status.phase),
            reason=_reason(status.reason),
            conditions=tuple(_condition(each) for each in status.conditions if each.type == "PodScheduled")[:1],
            pod_ip=_name(status.pod_ip),
            init_container_statuses=_statuses(status.init_container_statuses),
            container_statuses=_statuses(status.container_statuses),
            ephemeral_container_statuses=_statuses(status.ephemeral_container_statuses),
        ),
    )


def shown_event(event: PrintedEvent) -> PrintedEvent:
    """The event with only the fields that are shown."""
    about, series = event.involved_object, event.series
    return PrintedEvent(
        metadata=_meta(event.metadata),
        involved_object=Reference(
            api_version=_name(about.api_version), kind=_name(about.kind), name=_name(about.name), uid=_name(about.uid)
        ),
        type=_name(event.type),
        reason=_reason(event.reason),
        message=excerpt(event.message),
        count=event.count,
        first_timestamp=moment(event.first_timestamp),
        last_timestamp=moment(event.last_timestamp),
        event_time=moment(event.event_time),
        series=Series(last_observed_time=moment(series.last_observed_time), count=series.count) if series else None,
    )


def _meta(meta: ObjectMeta) -> ObjectMeta:
    return ObjectMeta(
        name=_name(meta.name),
        namespace=_name(meta.namespace),
        uid=_name(meta.uid),
        creation_timestamp=moment(meta.creation_timestamp),
        deletion_timestamp=moment(meta.deletion_timestamp),
        labels=_only(meta.labels, POD_SET_LABEL),
        annotations=_only(meta.annotations, DEFAULT_CONTAINER_ANNOTATION),
    )


def _only(texts: dict[str, str], name: str) -> dict[str, str]:
    return {name: _name(texts[name])} if name in texts else {}


def _containers(containers: Iterable[PrintedContainer]) -> tuple[PrintedContainer, ...]:
    return tuple(PrintedContainer(name=_name(each.name)) for each in islice(containers, MOST_CONTAINERS))


def _statuses(statuses: Iterable[ContainerStatus]) -> tuple[ContainerStatus, ...]:
    return tuple(_status(each) for each in islice(statuses, MOST_CONTAINERS))


def _condition(told: PodCondition) -> PodCondition:
    """Whether a node takes the pod, and why not."""
    return PodCondition(
        type=told.type, status=_name(told.status), reason=_reason(told.reason), message=excerpt(told.message)
    )


def _status(status: ContainerStatus) -> ContainerStatus:
    state = status.state
    told = excerpt(state.waiting.message) if state.waiting else ""
    return ContainerStatus(
        name=_name(status.name),
        image=_name(status.image),
        ready=status.ready,
        restart_count=status.restart_count,
        state=ContainerState(
            waiting=_state(state.waiting, told), running=_state(state.running), terminated=_state(state.terminated)
        ),
    )


def _state(state: ContainerStateDetails | None, message: str = "") -> ContainerStateDetails | None:
    """`message`: that of a kubelet. That of a container which has ended is what the container wrote, and is not shown."""
    if state is None:
        return None
    return ContainerStateDetails(
        reason=_reason(state.reason), message=message, exit_code=state.exit_code, signal=state.signal
    )


def _name(text: str) -> str:
    return excerpt(text, _LONGEST_NAME)


def _reason(text: str) -> str:
    return excerpt(text, _LONGEST_REASON)
