"""Access control: bearer tokens with a scope.  Without tokens the service listens on loopback only."""

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
from framework.api.rate_limit import RateLimit
from framework.model.token import Token
from framework.ports.service import TokenStore

Scope = Literal["read", "run", "admin"]
SCOPES: tuple[Scope, ...] = ("read", "run", "admin")  # each includes those before it
PREFIX = "tailor_"
COOKIE = "tailor"
TOKENS_TTL_S = 1.0  # a token that was removed is accepted no longer than this


@dataclass(frozen=True, slots=True)
class Caller:
    """``name``: the token's, empty where the service has no tokens.  ``address``: the IP address of the client."""

    name: str
    scope: Scope
    address: str = ""

    @property
    def who(self) -> str:
        """Key by which limits tell callers apart."""
        return f"token {self.name}" if self.name else f"address {self.address}"


def new_token() -> tuple[str, str]:
    """Return (the token, to be shown once; its digest, to be stored).  256 random bits need no salt."""
    token = PREFIX + secrets.token_urlsafe(32)
    return token, digest(token)


def digest(token: str) -> str:
    """Return the SHA-256 of a token, in hexadecimal."""
    return hashlib.sha256(token.encode()).hexdigest()


class Access:
    """Finds the caller of a request by its token, which stands in the Authorization header or in a browser's cookie.

    Each caller has a rate limit of its own: by the token where it is valid, else by the address.
    """

    def __init__(self, tokens: TokenStore, rate_limit: RateLimit, now: Callable[[], float] = time.monotonic) -> None:
        self._tokens, self._rate_limit, self._now = tokens, rate_limit, now
        self._known: Sequence[Token] = ()
        self._read_at = -math.inf

    async def caller(self, request: Request) -> Caller:
        """Return the caller.  Raises Refused: 401 without a valid token, 429."""
        kind, _, token = request.headers.get("authorization", "").partition(" ")
        given = token.strip() if kind.lower() == "bearer" else request.cookies.get(COOKIE, "")
        caller = await self.caller_with_token(request, given)
        if caller is not None:
            return caller
        raise Refused(HTTPStatus.UNAUTHORIZED, "a bearer token is needed", **{"WWW-Authenticate": "Bearer"})

    async def caller_with_token(self, request: Request, token: str) -> Caller | None:
        """Return the caller that has this token; None where there is no such token.

        Where there are no tokens at all, everybody is admin.  Raises Refused: 429.
        """
        now = self._now()
        caller = _caller_of(token, self._known) if now - self._read_at < TOKENS_TTL_S else None
        if caller is None:  # it may also be a token that was made a moment ago
            self._known, self._read_at = await run_in_threadpool(self._tokens.tokens), now
            caller = _caller_of(token, self._known)
        address = request.client.host if request.client else ""
        caller = replace(caller, address=address) if caller else None
        self._rate_limit.count(caller.who if caller else f"address {address}")
        return caller

    async def caller_with_scope(self, request: Request, scope: Scope) -> Caller:
        """Return the caller, who must have this scope.  Raises Refused: 401, 403, 429."""
        caller = await self.caller(request)
        if SCOPES.index(caller.scope) < SCOPES.index(scope):
            raise Refused(HTTPStatus.FORBIDDEN, f"the token {caller.name} has the scope {caller.scope}, not {scope}")
        return caller


def _caller_of(secret: str, tokens: Sequence[Token]) -> Caller | None:
    if not tokens:
        return Caller("", "admin")
    given = digest(secret)
    return next((Caller(token.name, token.scope) for token in tokens if hmac.compare_digest(token.digest, given)), None)
