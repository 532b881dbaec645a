"""Reading of traces by their ids from Zipkin's API v2.

Libraries that know ids of 64 bits only (older Brave, many others) keep the lower half of a trace's id, and Zipkin has
their spans under it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import httpx
import msgspec

from framework.errors import TracesMissing
from framework.model.spans import RootSpan
from framework.traces.columns import SpanColumns
from framework.traces.joined import ROOT_SERVICE, answer_of
from framework.traces.zipkin import read_into

BATCH = 50
"""Traces in one request: 1.7 kB of address."""

HALF = 16
"""Hexadecimal digits of an id of 64 bits."""


class ZipkinStore:
    """Zipkin's API v2; implements ``framework.traces.joined.Store``."""

    def read(self, client: httpx.Client, url: str, roots: Sequence[RootSpan], columns: SpanColumns) -> None:
        """Add the traces of these roots, in batches; spans under half an id belong to the trace of the whole one."""
        for begin in range(0, len(roots), BATCH):
            batch = roots[begin : begin + BATCH]
            traces = _fetch(client, url, [root.trace for root in batch])
            known = {_half(span) for trace in traces for span in trace}
            missing = [root.trace[-HALF:] for root in batch if root.trace[-HALF:] not in known]
            if missing:
                traces += _fetch(client, url, missing)
            by_half = {root.trace[-HALF:]: root for root in batch}
            documents: dict[str, list[Any]] = {root.trace: [_root(root)] for root in batch}
            for span in (span for trace in traces for span in trace):
                root = by_half.get(_half(span))
                if root is not None:
                    documents[root.trace].append({**span, "traceId": root.trace})
            read_into(columns, msgspec.json.encode(list(documents.values())))


def _fetch(client: httpx.Client, url: str, ids: Sequence[str]) -> list[list[dict[str, Any]]]:
    """Return the traces that Zipkin has of these ids.  One alone has an address of its own: traceMany refuses it."""
    if len(ids) == 1:
        body = answer_of(client.get(f"{url}/api/v2/trace/{ids[0]}"))
        return [] if body is None else [_decoded(body, list[dict[str, Any]])]
    body = answer_of(client.get(f"{url}/api/v2/traceMany", params={"traceIds": ",".join(ids)}))
    if body is None:
        raise TracesMissing(f"{url}/api/v2/traceMany is not there: Zipkin 2.14 or later is needed")
    traces: list[list[dict[str, Any]]] = _decoded(body, list[list[dict[str, Any]]])
    return traces


def _decoded(body: bytes, kind: Any) -> Any:
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise TracesMissing(f"no Zipkin v2 JSON: {error}") from error


def _half(span: dict[str, Any]) -> str:
    return str(span.get("traceId", "")).lower()[-HALF:].rjust(HALF, "0")


def _root(root: RootSpan) -> dict[str, Any]:
    """Return a root span in Zipkin's own form, so that a server that shares its id becomes its child."""
    return {
        "traceId": root.trace,
        "id": f"{root.span_id:016x}",
        "kind": "CLIENT",
        "name": root.operation,
        "timestamp": root.start_ns // 1000,
        "duration": root.end_ns // 1000 - root.start_ns // 1000,
        "localEndpoint": {"serviceName": ROOT_SERVICE},
        "tags": {"error": "true"} if root.error else {},
    }
