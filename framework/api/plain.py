"""Addresses with control characters are refused before a route sees them, as bodies with such text are.

A name with a NUL is an error of a database server, one with an escape sequence writes into a terminal that shows a log.
"""

from __future__ import annotations

from http import HTTPStatus
from urllib.parse import unquote_plus

from starlette.types import Receive, Scope, Send

from framework.api import problems
from framework.api.middleware import _Guard
from framework.api.requests import is_plain_text


class Plain(_Guard):
    """Paths and queries are plain text."""

    async def _guard(self, scope: Scope, receive: Receive, send: Send) -> None:
        query = unquote_plus(scope["query_string"].decode("latin-1"), errors="replace")
        if is_plain_text(query) and is_plain_text(scope["path"]):
            await self._app(scope, receive, send)
            return
        said = "the address has control characters; allowed: plain text"
        await problems.problem(HTTPStatus.UNPROCESSABLE_ENTITY, said)(scope, receive, send)
