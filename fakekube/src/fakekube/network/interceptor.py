"""A place in front of an API server where a test hears what is asked, and has something go wrong.

    async def refuse_secrets(request: Request) -> None:
        if "/secrets" in request.path:
            raise Refused(403, "Forbidden", "no")

    api = Interceptor(cluster.api, before=refuse_secrets)

Links (`network.link`) break by chance, and for all that goes over them; here a test says which request fails, and how.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from fakekube.network.transport import Handler
from fakekube.wire import Refused, Request, Response, Watch

__all__ = ["After", "Before", "Interceptor"]

Before = Callable[[Request], Awaitable[Response | Watch | None]]
"""What it answers, if anything, is the answer; a Refused that it raises, too. Whatever else it raises reaches whoever
called, as a broken connection would. The request hangs for as long as it waits, and what it does happens meanwhile."""

After = Callable[[Request, Response | Watch], Awaitable[Response | Watch | None]]
"""The same, with the answer that there would be."""


async def _nothing(*_: object) -> None:
    pass


class Interceptor:
    """Answers as `api` does, with `before` awaited ahead of each request and `after` ahead of its answer.

    What `before` answers or raises leaves a request undone; what `after` answers or raises hides the answer of one that
    is done.
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
