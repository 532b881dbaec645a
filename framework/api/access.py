"""Who may do what: bearer tokens with a scope.  Without any, the service listens on loopback only, to everybody."""

from __future__ import annotations

import hashlib
import hmac
import math
import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Literal

from fastapi import Request
from fastapi.concurrency import run_in_threadpool

from framework.api.problems import Refused
from framework.api.rate_limit import Pace
from framework.model.token import Token
from framework.ports.service import TokenStore

Scope = Literal["read", "run", "admin"]
SCOPES: tuple[Scope, ...] = ("read", "run", "admin")  # each includes those before it
PREFIX = "tailor_"
COOKIE = "tailor"
KEPT_S = 1.0  # a token that was taken back is good no longer than this


@dataclass(frozen=True, slots=True)
class Caller:
    """``name``: of the token, empty where the service has none.  ``address``: where it asks from."""

    name: str
    scope: Scope
    address: str = ""

    @property
    def who(self) -> str:
        """By which limits tell callers apart."""
        return f"token {self.name}" if self.name else f"address {self.address}"


def new_token() -> tuple[str, str]:
    """(the token, to be shown once; its digest, to be kept).  256 random bits need no salt and no slow hash."""
    token = PREFIX + secrets.token_urlsafe(32)
    return token, digest(token)


def digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


class Access:
    """Reads the token of a request: of its Authorization header, or of a browser's cookie.

    Callers are paced apart: by their token where it is known, else by their address.
    """

    def __init__(self, tokens: TokenStore, pace: Pace, now: Callable[[], float] = time.monotonic) -> None:
        self._tokens, self._pace, self._now = tokens, pace, now
        self._known: Sequence[Token] = ()
        self._read_at = -math.inf

    async def caller(self, request: Request) -> Caller:
        """Raises Refused: 401 without a token that is known, 429."""
        kind, _, token = request.headers.get("authorization", "").partition(" ")
        given = token.strip() if kind.lower() == "bearer" else request.cookies.get(COOKIE, "")
        found = await self.known(request, given)
        if found is not None:
            return found
        raise Refused(HTTPStatus.UNAUTHORIZED, "a bearer token is needed", **{"WWW-Authenticate": "Bearer"})

    async def known(self, request: Request, token: str) -> Caller | None:
        """Whose token it is; None where there is no such token.  Everybody is admin where there are no tokens at all.

        Raises Refused: 429.
        """
        now = self._now()
        found = _whose(token, self._known) if now - self._read_at < KEPT_S else None
        if found is None:  # which may also be a token that was made a moment ago
            self._known, self._read_at = await run_in_threadpool(self._tokens.tokens), now
            found = _whose(token, self._known)
        address = request.client.host if request.client else ""
        found = replace(found, address=address) if found else None
        self._pace.keep(found.who if found else f"address {address}")
        return found

    async def caller_in(self, scope: Scope, request: Request) -> Caller:
        """Return the caller, who must have this scope.  Raises Refused: 401, 403, 429."""
        caller = await self.caller(request)
        if SCOPES.index(caller.scope) < SCOPES.index(scope):
            raise Refused(HTTPStatus.FORBIDDEN, f"the token {caller.name} has the scope {caller.scope}, not {scope}")
        return caller


def _whose(token: str, known: Sequence[Token]) -> Caller | None:
    if not known:
        return Caller("", "admin")
    given = digest(token)
    return next((Caller(one.name, one.scope) for one in known if hmac.compare_digest(one.digest, given)), None)
