"""Traces as large as a benchmark wants them, of the shape of real ones: services that call caches and each other."""

from __future__ import annotations

import numpy as np
import orjson

from framework.model.spans import KINDS, SpanTable

SERVER, CLIENT = KINDS.index("server"), KINDS.index("client")
SERVICES = ("loadgen", "nginx", "compose", "text", "user", "storage", "timeline", "graph")


def table(count: int, per_trace: int = 25, seed: int = 1) -> SpanTable:
    """About ``count`` spans in traces of ``per_trace``: each span's parent is one of the few before it."""
    rng = np.random.default_rng(seed)
    traces = max(1, count // per_trace)
    place = np.tile(np.arange(per_trace), traces)
    first = np.repeat(np.arange(traces) * per_trace, per_trace)
    back = 1 + rng.integers(0, 4, len(place))
    parent = np.where(place == 0, -1, first + np.maximum(0, place - back))
    start, end = np.empty(len(place), np.int64), np.empty(len(place), np.int64)
    base = np.repeat(rng.integers(0, 10**9, traces), per_trace)
    for number in range(per_trace):  # parents come before their children
        rows = np.flatnonzero(place == number)
        if number == 0:
            start[rows], end[rows] = base[rows], base[rows] + rng.integers(10**6, 10**8, len(rows))
            continue
        above = parent[rows]
        low, length = start[above], end[above] - start[above]
        a = (rng.random(len(rows)) * length).astype(np.int64)
        b = (rng.random(len(rows)) * length * 1.02).astype(np.int64)  # a few end after their parent
        start[rows], end[rows] = low + np.minimum(a, b), low + np.maximum(a, b)
    return _made(np.repeat(np.arange(traces), per_trace), parent, start, end, place)


def fan_out(count: int, *, shuffled: bool = False) -> SpanTable:
    """One trace: a root with all other spans below it, one after the other or in any order of rows."""
    order = np.random.default_rng(1).permutation(count - 1) if shuffled else np.arange(count - 1)
    start = np.concatenate([[0], 2 * order])
    end = np.concatenate([[2 * count], 2 * order + 1])
    parent = np.concatenate([[-1], np.zeros(count - 1, np.int64)])
    return _made(np.zeros(count, np.int64), parent, start, end, np.arange(count))


def chain(depth: int) -> SpanTable:
    """One trace: each span inside the one before."""
    rows = np.arange(depth)
    return _made(np.zeros(depth, np.int64), rows - 1, rows, 2 * depth - rows, rows)


def _made(trace: np.ndarray, parent: np.ndarray, start: np.ndarray, end: np.ndarray, place: np.ndarray) -> SpanTable:
    count = len(trace)
    return SpanTable(
        traces=tuple(f"{number:032x}" for number in range(int(trace.max()) + 1)),
        strings=SERVICES,
        trace=trace.astype(np.int32),
        span_id=np.arange(1, count + 1, dtype=np.uint64),
        parent=parent.astype(np.int64),
        follows=np.zeros(count, np.bool_),
        service=(place % len(SERVICES)).astype(np.int32),
        operation=(place % len(SERVICES)).astype(np.int32),
        peer=np.full(count, -1, np.int32),
        host=np.full(count, -1, np.int32),
        address=np.full(count, -1, np.int32),
        kind=np.where(place % 2 == 0, SERVER, CLIENT).astype(np.int8),
        error=np.zeros(count, np.bool_),
        start_ns=start.astype(np.int64),
        end_ns=end.astype(np.int64),
    )


def jaeger_documents(megabytes: int, files: int) -> list[bytes]:
    """Jaeger JSON as its query API gives it: about a kilobyte a span, most of it tags."""
    documents = []
    per_span = 850
    per_file = max(1, megabytes * 1_000_000 // files // per_span // 25)
    for number in range(files):
        spans = table(per_file * 25, seed=number)
        traces = []
        for trace in range(per_file):
            identity = f"{number:08x}{trace:024x}"
            rows = range(trace * 25, trace * 25 + 25)
            traces.append(
                {
                    "traceID": identity,
                    "spans": [_span(spans, row, identity) for row in rows],
                    "processes": {
                        f"p{k}": {
                            "serviceName": name,
                            "tags": [{"key": "hostname", "type": "string", "value": f"{name}-7d9f"},
                                     {"key": "telemetry.sdk.language", "type": "string", "value": "go"}],
                        }
                        for k, name in enumerate(SERVICES)
                    },
                    "warnings": None,
                }
            )  # fmt: skip
        documents.append(orjson.dumps({"data": traces, "total": 0, "limit": 0, "offset": 0, "errors": None}))
    return documents


def _span(spans: SpanTable, row: int, trace: str) -> dict[str, object]:
    parent = int(spans.parent[row])
    reference = {"refType": "CHILD_OF", "traceID": trace, "spanID": f"{parent + 1:016x}"}
    start = 1_700_000_000_000_000 + int(spans.start_ns[row]) // 1000
    return {
        "traceID": trace,
        "spanID": f"{row + 1:016x}",
        "operationName": f"/{SERVICES[spans.operation[row]]}/read",
        "references": [reference] if parent >= 0 else [],
        "startTime": start,
        "duration": (int(spans.end_ns[row]) - int(spans.start_ns[row])) // 1000,
        "tags": [
            {"key": "span.kind", "type": "string", "value": KINDS[spans.kind[row]]},
            {"key": "http.request.method", "type": "string", "value": "GET"},
            {"key": "url.path", "type": "string", "value": "/wrk2-api/home-timeline/read"},
            {"key": "http.response.status_code", "type": "int64", "value": 200},
            {"key": "server.address", "type": "string", "value": "home-timeline-redis"},
            {"key": "server.port", "type": "int64", "value": 6379},
            {"key": "otel.scope.name", "type": "string", "value": "tailor/apps/common/service"},
        ],
        "logs": [],
        "processID": f"p{spans.service[row]}",
        "warnings": None,
    }
