"""A layer in front of an API server, in which a test observes requests and injects faults.

    async def refuse_secrets(request: Request) -> None:
        if "/secrets" in request.path:
            raise Refused(403, "Forbidden", "no")

    api = Interceptor(cluster.api, before=refuse_secrets)

Links (`network.link`) inject faults at random into all their traffic; here a test selects the request and the fault.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from fakekube.model.wire import Refused, Request, Response, Watch
from fakekube.network.transport import Handler

__all__ = ["After", "Before", "Interceptor"]

Before = Callable[[Request], Awaitable[Response | Watch | None]]
"""Returns an answer in the place of the server's, or None. A Refused that it raises is an answer too; any other error
reaches the client, as a broken connection would. The request waits for it, and sees the changes it makes meanwhile."""

After = Callable[[Request, Response | Watch], Awaitable[Response | Watch | None]]
"""Returns an answer in the place of the server's, which it receives, or None. Errors count as in `Before`."""


async def _nothing(*_: object) -> None:
    pass


class Interceptor:
    """Answers as `api` does, with `before` awaited ahead of each request and `after` ahead of its answer.

    If `before` returns or raises, the request is not carried out; if `after` does, it is, but its answer is hidden.
    """

    def __init__(self, api: Handler, *, before: Before = _nothing, after: After = _nothing) -> None:
        self.api, self.before, self.after = api, before, after

    async def handle(self, request: Request) -> Response | Watch:
        try:
            instead = await self.before(request)
            if instead is not None:
                return instead
            answer = await self.api.handle(request)
            return await self.after(request, answer) or answer
        except Refused as refusal:
            return refusal.response()
