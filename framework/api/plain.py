"""Middleware that refuses paths and queries with control characters; bodies with such text are refused too.

A name with a NUL makes a database server fail; an escape sequence would act on a terminal that shows a log.
"""

from __future__ import annotations

from http import HTTPStatus
from urllib.parse import unquote_plus

from starlette.types import Receive, Scope, Send

from framework.api import problems
from framework.api.middleware import HttpMiddleware
from framework.api.requests import is_plain_text


class PlainAddress(HttpMiddleware):
    """Refuses a path or query that is not plain text."""

    async def _handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        query = unquote_plus(scope["query_string"].decode("latin-1"), errors="replace")
        if is_plain_text(query) and is_plain_text(scope["path"]):
            await self._app(scope, receive, send)
            return
        detail = "the address has control characters; allowed: plain text"
        await problems.problem(HTTPStatus.UNPROCESSABLE_ENTITY, detail)(scope, receive, send)
