"""Which part of which logs is wanted, as kubectl chooses it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from multikueue.api.kubernetes.printed import PrintedPod

__all__ = ["LogChoice"]


class LogChoice(msgspec.Struct, frozen=True, kw_only=True):
    """The requested part of the logs: names, empty for any; `query`: the parameters of the request for one log."""

    pod: str = ""
    container: str = ""
    all_containers: bool = False
    query: dict[str, str] = {}

    def containers(self, pod: PrintedPod) -> list[str]:
        """The requested containers of a pod: the named one, all, or kubectl's default."""
        from multikueue.api.kubernetes.printed import DEFAULT_CONTAINER_ANNOTATION

        if self.pod not in ("", pod.metadata.name):
            return []
        spec = pod.spec
        names = [each.name for each in (*spec.init_containers, *spec.containers, *spec.ephemeral_containers)]
        if self.container:
            return [self.container] if self.container in names else []
        if self.all_containers:
            return names
        default = pod.metadata.annotations.get(DEFAULT_CONTAINER_ANNOTATION, "")
        return [default] if default in names else [each.name for each in spec.containers[:1]]
