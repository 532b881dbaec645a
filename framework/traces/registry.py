"""Registry of trace formats: each is one file of this folder, or comes from another package."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from framework.registry import Registry
from framework.traces.columns import SpanColumns


@dataclass(frozen=True, slots=True)
class TraceFormat:
    """Reader of one trace format.

    ``shows_at``: the position [bytes] in a document at which this format can be recognised, None where it cannot; the
    format with the lowest position is chosen.  ``read``: adds a document's spans to the columns; raises TracesMissing.
    ``whole``: True where each trace lies in one document.
    """

    shows_at: Callable[[bytes], int | None]
    read: Callable[[SpanColumns, bytes], object]
    whole: bool = False


FORMATS: Registry[TraceFormat] = Registry("trace format", "tailor.trace_formats", "framework.traces")


def begins_with(document: bytes) -> bytes:
    """Return the first character after white space and a byte order mark; empty where there is none."""
    return document[:4096].lstrip(b" \t\r\n\xef\xbb\xbf")[:1]


def position(document: bytes, key: bytes) -> int | None:
    """Return the position of a key in a JSON object; None where it is missing, or the document is not a JSON object."""
    at = document.find(key) if begins_with(document) == b"{" else -1
    return at if at >= 0 else None
