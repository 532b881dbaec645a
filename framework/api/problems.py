"""Errors as problem+json (RFC 9457), by one table; a test fails on an error class that is not in it."""

from __future__ import annotations

import logging
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, RedirectResponse, Response
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from framework.api.scrubbing import detail_of, scrubbed_values
from framework.errors import (
    IllegalTransition,
    InputError,
    Interrupted,
    KnobRefused,
    MeasuredElsewhere,
    MeasurementInvalid,
    MissingPrerequisite,
    NotFound,
    StoreBusy,
    StoreError,
    TailorError,
    TestbedUnavailable,
    Transient,
    TrialFailed,
)

LOG = logging.getLogger("tailor.api")

STATUSES: tuple[tuple[type[TailorError], HTTPStatus], ...] = (
    (NotFound, HTTPStatus.NOT_FOUND),
    (IllegalTransition, HTTPStatus.CONFLICT),
    (MeasuredElsewhere, HTTPStatus.CONFLICT),
    (InputError, HTTPStatus.UNPROCESSABLE_ENTITY),
    (MissingPrerequisite, HTTPStatus.CONFLICT),
    (StoreBusy, HTTPStatus.SERVICE_UNAVAILABLE),
    (TestbedUnavailable, HTTPStatus.SERVICE_UNAVAILABLE),
    (Transient, HTTPStatus.SERVICE_UNAVAILABLE),
    (StoreError, HTTPStatus.INSUFFICIENT_STORAGE),
    (TrialFailed, HTTPStatus.CONFLICT),
    (KnobRefused, HTTPStatus.CONFLICT),
    (MeasurementInvalid, HTTPStatus.CONFLICT),
    (Interrupted, HTTPStatus.CONFLICT),
)


WORDS = {"dict_type": "allowed: a JSON object of keys and values"}  # in place of pydantic's
MEMBERS = ("constrained-int", "literal['auto']")  # pydantic's names of a union's members, which are no keys of a body
MOST_FOUND = 200  # characters of a value that an answer repeats


class Refused(Exception):
    """A request that is refused for a reason of HTTP: a status and a sentence."""

    def __init__(self, status: HTTPStatus, detail: str, **headers: str) -> None:
        self.status, self.detail, self.headers = status, detail, headers
        super().__init__(detail)


def status_of(error: TailorError) -> HTTPStatus:
    """Return the status of an error.  Raises KeyError for a class that is not in the table."""
    for kind, status in STATUSES:
        if isinstance(error, kind):
            return status
    raise KeyError(type(error).__name__)


def problem(status: int, detail: str, **more: Any) -> JSONResponse:
    """Return a response of application/problem+json; paths of this machine are removed from all its texts."""
    headers = more.pop("headers", None)
    content = {"type": "about:blank", "title": HTTPStatus(status).phrase, "status": status}
    content |= {name: scrubbed_values(value) for name, value in {"detail": detail, **more}.items()}
    return JSONResponse(content, status, headers, media_type="application/problem+json")


def field_of(error: TailorError) -> dict[str, Any]:
    """Return, of an error about a field, its name, the value where it is short and plain, and what is allowed."""
    if not isinstance(error, InputError) or not error.field:
        return {}
    about: dict[str, Any] = {"field": error.field}
    found = error.found  # numbers in a body are finite; others were refused before
    if isinstance(found, str | int | float) and len(str(found)) <= MOST_FOUND:
        about["found"] = found
    if error.allowed:
        about["allowed"] = error.allowed
    return about


def install(app: FastAPI) -> None:
    """Answer every error as a problem; a bug is logged, and the answer says nothing about it."""

    @app.exception_handler(TailorError)
    def tailor_error(request: Request, error: TailorError) -> JSONResponse:
        return problem(status_of(error), detail_of(error), **field_of(error))

    @app.exception_handler(Refused)
    def refused(request: Request, error: Refused) -> Response:
        if error.status is HTTPStatus.UNAUTHORIZED and "text/html" in request.headers.get("accept", ""):
            return RedirectResponse("/login", HTTPStatus.SEE_OTHER)
        return problem(error.status, error.detail, headers=error.headers or None)

    @app.exception_handler(RequestValidationError)
    def invalid(request: Request, error: RequestValidationError) -> JSONResponse:
        complaints = [
            {
                "where": ".".join(str(part) for part in fault["loc"] if part not in MEMBERS),
                "what": WORDS.get(fault["type"], fault["msg"]),
            }
            for fault in error.errors()[:20]
        ]
        detail = "; ".join(f"{complaint['where']}: {complaint['what']}" for complaint in complaints[:3])
        return problem(HTTPStatus.UNPROCESSABLE_ENTITY, detail, errors=complaints)

    @app.exception_handler(HTTPException)
    def other(request: Request, error: HTTPException) -> JSONResponse:
        return problem(error.status_code, str(error.detail), headers=error.headers)

    @app.exception_handler(ClientDisconnect)
    def left(request: Request, error: ClientDisconnect) -> JSONResponse:
        return problem(
            HTTPStatus.BAD_REQUEST, "the request was not sent to its end"
        )  # no client reads this answer, but it is no bug

    @app.exception_handler(Exception)
    def bug(request: Request, error: Exception) -> JSONResponse:
        LOG.error("a request failed", exc_info=error, extra={"path": request.url.path, "method": request.method})
        return problem(HTTPStatus.INTERNAL_SERVER_ERROR, "this is a bug of Tailor; its log says more")
