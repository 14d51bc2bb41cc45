"""Health checks, authorization and impersonation in front of an API. The filter is a handler like the API.

authorization = AuthorizationFilter(api, Authorizer(storage, enforced=True))
answer = await authorization.handle(request)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from fakekube.front_end.attributes import Attributes, attributes
from fakekube.front_end.rbac import Authorizer, refusal
from fakekube.front_end.users import ANONYMOUS, AUTHENTICATED
from fakekube.model.wire import Refused, Request, Response, User, Watch

__all__ = ["AuthorizationFilter", "Handler"]

_HEALTH = frozenset({"/healthz", "/livez", "/readyz"})
_OK = Response(body=b"ok", content_type="text/plain; charset=utf-8")

_PUBLIC = _HEALTH | {"/version", "/version/"}
"""Paths that need no authentication."""


class Handler(Protocol):
    """An API server, or a layer in front of one."""

    async def handle(self, request: Request) -> Response | Watch: ...


class AuthorizationFilter:
    """Passes authorized requests to the API, and refuses the others."""

    def __init__(self, api: Handler, authorizer: Authorizer) -> None:
        self._api, self._authorizer = api, authorizer

    async def handle(self, request: Request) -> Response | Watch:
        try:
            self._check(request)
        except Refused as refused:
            return refused.response()
        return _OK if request.path in _HEALTH else await self._api.handle(request)

    def acting(self, user: User, name: str, groups: Sequence[str]) -> User:
        """The impersonated user. Raises Refused (403) if `user` may not impersonate it."""
        self._demand(user, Attributes("impersonate", "", version="v1", resource="users", name=name))
        for group in groups:
            self._demand(user, Attributes("impersonate", "", version="v1", resource="groups", name=group))
        return User(name, (*groups, AUTHENTICATED))

    def _check(self, request: Request) -> None:
        if request.path in _PUBLIC:
            return
        asked = attributes(request)
        if request.user.name == ANONYMOUS.name and not self._authorizer.enforced:
            raise refusal(request.user, asked)
        self._demand(request.user, asked)

    def _demand(self, user: User, asked: Attributes) -> None:
        if not self._authorizer.decide(user, asked).allowed:
            raise refusal(user, asked)
