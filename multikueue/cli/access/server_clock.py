"""The clock of an API server, by the header Date of the answers that it gives anyhow."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from datetime import UTC, timedelta
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from types import TracebackType

    from multikueue.kube.transport.session import RequestContext, Response, Session

__all__ = ["ServerClock"]


class ServerClock:
    """`ahead`: by how much the server's clock is ahead of this machine's, to the second, as its newest answer told; None as
    long as none did."""

    def __init__(self) -> None:
        self.ahead: timedelta | None = None

    def transport(self, **options: Any) -> Session:
        """Opens sessions whose answers set the clock."""
        from multikueue.kube.transport.session import open_session

        return _ListeningSession(open_session(**options), self.hear)

    def hear(self, headers: Mapping[str, str]) -> None:
        """A header that is missing, or is no date, tells nothing."""
        try:
            told = parsedate_to_datetime(headers["Date"])
        except (KeyError, ValueError):
            return
        from multikueue.runtime.clock import SystemClock

        told = told if told.tzinfo is not None else told.replace(tzinfo=UTC)
        self.ahead = told - SystemClock().now().replace(microsecond=0)


class _ListeningSession:
    """A session that has the headers of each answer heard."""

    def __init__(self, session: Session, hear: Callable[[Mapping[str, str]], None]) -> None:
        self._session, self._hear = session, hear

    @property
    def closed(self) -> bool:
        return self._session.closed

    def request(self, method: str, url: Any, **options: Any) -> RequestContext:
        return _ListeningRequest(self._session.request(method, url, **options), self._hear)

    async def close(self) -> None:
        await self._session.close()


class _ListeningRequest:
    def __init__(self, request: RequestContext, hear: Callable[[Mapping[str, str]], None]) -> None:
        self._request, self._hear = request, hear

    def __await__(self) -> Generator[Any, Any, Response]:
        return self._request.__await__()

    async def __aenter__(self) -> Response:
        response = await self._request.__aenter__()
        self._hear(response.headers)
        return response

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        return await self._request.__aexit__(kind, error, trace)
