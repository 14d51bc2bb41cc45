"""The transport of the manager's own client over a line of a simulated network, instead of sockets."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from fakekube.model.wire import Request
from fakekube.network.transport import Line, is_write
from multikueue.errors import NotLeading
from multikueue.kube.transport.loop_share import LoopShare
from multikueue.kube.transport.session import Session, Transport

__all__ = ["over"]


def over(line: Line) -> Transport:
    """A transport over the line. As in `open_session`, it asks for leave before each write."""

    def opened(*, user_agent: str, may_write: Callable[[], bool], share: LoopShare) -> Session:  # noqa: ARG001
        def ask(request: Request) -> None:
            if is_write(request) and not may_write():
                raise NotLeading(f"{request.method} {request.path}: not sent, for we may not act now")

        return cast(Session, line.session(user_agent=user_agent, before_sending=ask))

    return opened
