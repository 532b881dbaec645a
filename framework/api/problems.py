"""Errors as problem+json (RFC 9457).  One table; a test fails on an error class that it does not cover."""

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
    (MeasurementInvalid, HTTPStatus.CONFLICT),
    (Interrupted, HTTPStatus.CONFLICT),
)


MOST_FOUND = 200  # characters of what was found that are repeated


class Refused(Exception):
    """What HTTP itself refuses: a status and a sentence."""

    def __init__(self, status: HTTPStatus, detail: str, **headers: str) -> None:
        self.status, self.detail, self.headers = status, detail, headers
        super().__init__(detail)


def status_of(error: TailorError) -> HTTPStatus:
    """The status of an error.  Raises KeyError for a class that the table forgot."""
    for kind, status in STATUSES:
        if isinstance(error, kind):
            return status
    raise KeyError(type(error).__name__)


def problem(status: int, detail: str, **more: Any) -> JSONResponse:
    """A response of application/problem+json; nothing in it names a path of this machine, whoever wrote it."""
    headers = more.pop("headers", None)
    content = {"type": "about:blank", "title": HTTPStatus(status).phrase, "status": status}
    content |= {name: scrubbed_values(value) for name, value in {"detail": detail, **more}.items()}
    return JSONResponse(content, status, headers, media_type="application/problem+json")


def field_of(error: TailorError) -> dict[str, Any]:
    """Of an error of a field: its name, what was found where that is short and plain, and what is allowed."""
    if not isinstance(error, InputError) or not error.field:
        return {}
    said: dict[str, Any] = {"field": error.field}
    found = error.found  # a number of a body is finite: others were refused
    if isinstance(found, str | int | float) and len(str(found)) <= MOST_FOUND:
        said["found"] = found
    if error.allowed:
        said["allowed"] = error.allowed
    return said


def install(app: FastAPI) -> None:
    """Every error becomes a problem; a bug is logged and says nothing of itself."""

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
            {"where": ".".join(str(part) for part in one["loc"]), "what": one["msg"]} for one in error.errors()[:20]
        ]
        said = "; ".join(f"{one['where']}: {one['what']}" for one in complaints[:3])
        return problem(HTTPStatus.UNPROCESSABLE_ENTITY, said, errors=complaints)

    @app.exception_handler(HTTPException)
    def other(request: Request, error: HTTPException) -> JSONResponse:
        return problem(error.status_code, str(error.detail), headers=error.headers)

    @app.exception_handler(ClientDisconnect)
    def left(request: Request, error: ClientDisconnect) -> JSONResponse:
        return problem(HTTPStatus.BAD_REQUEST, "the request was not sent to its end")  # nobody reads it; it is no bug

    @app.exception_handler(Exception)
    def bug(request: Request, error: Exception) -> JSONResponse:
        LOG.error("a request failed", exc_info=error, extra={"path": request.url.path, "method": request.method})
        return problem(HTTPStatus.INTERNAL_SERVER_ERROR, "this is a bug of Tailor; its log says more")
