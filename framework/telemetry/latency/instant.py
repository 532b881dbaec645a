"""Instant queries at a Prometheus server, by its HTTP API."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from framework.errors import Transient
from framework.telemetry.latency.pages import Pages


class _Series(msgspec.Struct):
    metric: dict[str, str]
    value: tuple[float, str]


class _Data(msgspec.Struct):
    result: list[_Series]


class _Reply(msgspec.Struct):
    data: _Data


@dataclass(frozen=True, slots=True)
class InstantValue:
    """The value of a series: its labels, and when the server evaluated it [s since 1970]."""

    labels: Mapping[str, str]
    evaluated_s: float
    value: float


def instant(pages: Pages, query: str) -> list[InstantValue]:
    """Return the values of a query now; empty where it has no series.  Raises Transient where there is no answer."""
    body = pages.get("/api/v1/query", {"query": query})
    try:
        reply = msgspec.json.decode(body, type=_Reply)
        return [
            InstantValue(series.metric, series.value[0], float(series.value[1])) for series in reply.data.result
        ]  # fmt: skip
    except (msgspec.MsgspecError, UnicodeDecodeError, ValueError) as error:
        raise Transient(f"{pages.shown}: this is not an answer of Prometheus: {error}") from error
