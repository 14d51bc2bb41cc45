"""The watches of one cluster, which recover together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from multikueue.controllers.reconcile.events import log_state
from multikueue.kube.cluster_client import WatchingClient
from multikueue.kube.reflector import Reflector
from multikueue.roles import Watch

__all__ = ["ReflectorGroup"]


class ReflectorGroup:
    """The watches of one cluster. The first watch that recovers hurries the others and calls `hurry`: the cluster
    answers again, and their back-offs need not run out."""

    def __init__(self, client: WatchingClient, hurry: Callable[[], None]) -> None:
        self._client, self._hurry = client, hurry
        self._troubled: dict[str, Reflector[Any]] = {}

    def reflector(self, watch: Watch) -> Reflector[Any]:
        name = watch.kind.plural
        tell = log_state(name)

        def on_state(is_healthy: bool, why: str) -> None:
            tell(is_healthy, why)
            if not is_healthy:
                self._troubled[name] = made
            elif self._troubled.pop(name, None) is not None:
                for other in self._troubled.values():
                    other.hurry()
                self._hurry()

        made: Reflector[Any] = Reflector(
            self._client, watch.kind, watch.cache, namespace=watch.namespace, on_state=on_state
        )
        return made
