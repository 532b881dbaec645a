"""Who may do what: bearer tokens with a scope.  Without any, the service listens on loopback only, to everybody."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Literal

from fastapi import Request

from framework.api.problems import Refused
from framework.ports import TokenStore

Scope = Literal["read", "run", "admin"]
SCOPES: tuple[Scope, ...] = ("read", "run", "admin")  # each includes those before it
PREFIX = "tailor_"
COOKIE = "tailor"


@dataclass(frozen=True, slots=True)
class Caller:
    """``name``: of the token, empty where the service has none."""

    name: str
    scope: Scope


def new_token() -> tuple[str, str]:
    """(the token, to be shown once; its digest, to be kept).  256 random bits need no salt and no slow hash."""
    token = PREFIX + secrets.token_urlsafe(32)
    return token, digest(token)


def digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


class Access:
    """Reads the token of a request: of its Authorization header, or of a browser's cookie."""

    def __init__(self, tokens: TokenStore) -> None:
        self._tokens = tokens

    def caller(self, request: Request) -> Caller:
        """Raises Refused: 401 without a token that is known."""
        if not self._tokens.tokens():
            return Caller("", "admin")
        kind, _, token = request.headers.get("authorization", "").partition(" ")
        found = self.known(token.strip() if kind.lower() == "bearer" else request.cookies.get(COOKIE, ""))
        if found is not None:
            return found
        raise Refused(HTTPStatus.UNAUTHORIZED, "a bearer token is needed", **{"WWW-Authenticate": "Bearer"})

    def known(self, token: str) -> Caller | None:
        """Whose token it is; None where there is no such token."""
        given = digest(token)
        for one in self._tokens.tokens():
            if hmac.compare_digest(one.digest, given):
                return Caller(one.name, one.scope)
        return None

    def needs(self, scope: Scope) -> Callable[[Request], Caller]:
        """A dependency: the caller, who must have this scope.  Raises Refused: 401, 403."""

        def check(request: Request) -> Caller:
            caller = self.caller(request)
            if SCOPES.index(caller.scope) < SCOPES.index(scope):
                raise Refused(
                    HTTPStatus.FORBIDDEN, f"the token {caller.name} has the scope {caller.scope}, not {scope}"
                )
            return caller

        return check
