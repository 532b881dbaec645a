"""Decoding of the generator's last line, the "result" event, into a LoadResult.

The generator reports every request.  As JSON numbers that would be tens of megabytes, so the columns come packed:
base64(zlib(due_ns[n] sent_ns[n] end_ns[n] class[n] status[n] ok[n])), little-endian int64, int64, int64, uint8,
int16, uint8.  Ids of root spans, where they were asked for: base64 of 16 bytes of the trace and 8 of the span each.
"""

from __future__ import annotations

import base64
import binascii
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from framework.errors import LoadFailed
from framework.model import LoadResult, Usage
from framework.model.measurement import ID_BYTES

VERSION = 1

COLUMNS = (("due_ns", "<i8"), ("sent_ns", "<i8"), ("end_ns", "<i8"), ("class", "u1"), ("status", "<i2"), ("ok", "u1"))
"""Names and numpy types of the packed columns, in their order."""


def load_result(
    event: Mapping[str, Any], usage_before: Usage | None = None, usage_after: Usage | None = None
) -> LoadResult:
    """Decode a "result" event.  Raises LoadFailed when it is not of this version, or damaged."""
    try:
        if event["version"] != VERSION:
            raise LoadFailed(f"the generator's result has version {event['version']!r}, not {VERSION}: `make images`")
        columns = unpack(event["columns"], event["requests"])
        classes = tuple(str(name) for name in event["classes"])
        result = LoadResult(
            started_ns=int(event["started_ns"]),
            warmup_s=float(event["warmup_s"]),
            window_s=float(event["window_s"]),
            classes=classes,
            due_ns=columns["due_ns"].astype(np.int64),
            sent_ns=columns["sent_ns"].astype(np.int64),
            end_ns=columns["end_ns"].astype(np.int64),
            request_class=columns["class"].astype(np.uint8),
            status=columns["status"].astype(np.int16),
            ok=columns["ok"].astype(np.bool_),
            errors={reason: sum(by_class.values()) for reason, by_class in event["errors"].items()},
            spans_created=int(event["spans_created"]),
            spans_exported=int(event["spans_exported"]),
            cpu_s=float(event["cpu_s"]),
            usage_before=usage_before,
            usage_after=usage_after,
            tick_us=float(event["yardstick"]["tick_us"]) if event.get("yardstick") else None,
            ids=unpack_ids(event["ids"], event["requests"]) if event.get("ids") else None,
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise LoadFailed(f"the generator's result cannot be read: {type(error).__name__}: {error}") from error
    if result.request_class.size and int(result.request_class.max()) >= len(classes):
        raise LoadFailed(f"the generator's result cannot be read: a request of a class beyond the {len(classes)} named")
    return result


def unpack_ids(packed: str, count: int) -> NDArray[np.uint8]:
    """Unpack the ids of root spans, shape (count, 24).  Raises ValueError when they are damaged or too few."""
    try:
        data = base64.b64decode(packed, validate=True)
    except binascii.Error as error:
        raise ValueError(f"damaged ids: {error}") from error
    if len(data) != count * ID_BYTES:
        raise ValueError(f"{len(data)} bytes of ids for {count} requests; expected {count * ID_BYTES}")
    return np.frombuffer(data, np.uint8).reshape(count, ID_BYTES)


def unpack(packed: str, count: int) -> dict[str, NDArray[Any]]:
    """Unpack the columns, each of shape (count,).  Raises ValueError when they are damaged or of another length."""
    try:
        data = zlib.decompress(base64.b64decode(packed, validate=True))
    except (binascii.Error, zlib.error) as error:
        raise ValueError(f"damaged columns: {error}") from error
    wanted = count * sum(np.dtype(kind).itemsize for _, kind in COLUMNS)
    if len(data) != wanted:
        raise ValueError(f"{len(data)} bytes of columns for {count} requests; expected {wanted}")
    columns: dict[str, NDArray[Any]] = {}
    offset = 0
    for name, kind in COLUMNS:
        columns[name] = np.frombuffer(data, kind, count, offset)
        offset += columns[name].nbytes
    return columns
