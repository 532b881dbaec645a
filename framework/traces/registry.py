"""Trace formats by name: one file of this folder each, or of another package."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from framework.registry import Registry
from framework.traces.columns import SpanColumns


@dataclass(frozen=True, slots=True)
class TraceFormat:
    """``shows_at``: where in a document it shows that it is of this format (a position in bytes), None where it does
    not; of several formats the one that shows first is taken.  ``read``: adds a document's spans; raises TracesMissing.
    ``whole``: each trace is in one document.
    """

    shows_at: Callable[[bytes], int | None]
    read: Callable[[SpanColumns, bytes], object]
    whole: bool = False


FORMATS: Registry[TraceFormat] = Registry("trace format", "tailor.trace_formats", "framework.traces")


def begins_with(document: bytes) -> bytes:
    """The first character that is no white space and no byte order mark; empty where there is none."""
    return document[:4096].lstrip(b" \t\r\n\xef\xbb\xbf")[:1]


def position(document: bytes, key: bytes) -> int | None:
    """Where a key stands in a JSON object; None where it does not, or where the document is none."""
    found = document.find(key) if begins_with(document) == b"{" else -1
    return found if found >= 0 else None
