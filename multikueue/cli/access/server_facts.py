"""What the answers of an API server show besides: its time, by their header Date, and the end of its certificate."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from functools import partial
from ssl import SSLContext, cert_time_to_seconds
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from types import TracebackType

    from multikueue.kube.transport.session import RequestContext, Response, Session

__all__ = ["ServerFacts"]

HANDSHAKE_WITHIN = timedelta(seconds=5)


class ServerFacts:
    """`ahead`: by how much the server's clock is ahead of this machine's, to the second, by its newest answer; `ends`:
    when its certificate does. None as long as it is not known."""

    def __init__(self) -> None:
        self.ahead: timedelta | None = None
        self.ends: datetime | None = None
        self._way: tuple[Any, Mapping[str, Any]] | None = None

    def transport(self, **options: Any) -> Session:
        """Opens sessions from whose answers the facts are."""
        from multikueue.kube.transport.session import open_session

        return _ListeningSession(open_session(**options), self)

    def hear(self, url: Any, options: Mapping[str, Any], headers: Mapping[str, str]) -> None:
        """An answer came on that way. A header that is missing, or is no date, changes nothing."""
        from multikueue.runtime.clock import SystemClock

        self._way = url, options
        try:
            told = parsedate_to_datetime(headers["Date"])
        except (KeyError, ValueError):
            return
        told = told if told.tzinfo is not None else told.replace(tzinfo=UTC)
        self.ahead = told - SystemClock().now().replace(microsecond=0)

    async def look_at_certificate(self) -> None:
        """One handshake, as that of the calls. Nothing is known of a server behind a proxy, or one that is silent by now."""
        import anyio
        from anyio.streams.tls import TLSAttribute

        if self._way is None:
            return
        url, options = self._way
        if url.scheme != "https" or options.get("proxy") or not isinstance(options.get("ssl"), SSLContext):
            return
        name = options.get("server_hostname") or url.host
        try:
            with anyio.fail_after(HANDSHAKE_WITHIN.total_seconds()):
                stream = await anyio.connect_tcp(
                    url.host,
                    url.port,
                    tls=True,
                    ssl_context=options["ssl"],
                    tls_hostname=name,
                    tls_standard_compatible=False,
                )
            async with stream:
                peer = stream.extra_attributes[TLSAttribute.peer_certificate]()
        except (OSError, TimeoutError, anyio.BrokenResourceError):
            return
        self.ends = datetime.fromtimestamp(cert_time_to_seconds(str(peer["notAfter"])), UTC)


class _ListeningSession:
    """A session that passes on the headers of each answer."""

    def __init__(self, session: Session, facts: ServerFacts) -> None:
        self._session, self._facts = session, facts

    @property
    def closed(self) -> bool:
        return self._session.closed

    def request(self, method: str, url: Any, **options: Any) -> RequestContext:
        hear = partial(self._facts.hear, url, options)
        return _ListeningRequest(self._session.request(method, url, **options), hear)

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
