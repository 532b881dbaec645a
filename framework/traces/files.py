"""Traces from a file or an address, whatever their format; each document that cannot be read is counted, with why."""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx

from framework.config.reading import TRACES_BYTES, read_bytes
from framework.errors import FileError, InputError, TracesMissing
from framework.model.spans import Format, TraceSet
from framework.traces import jaeger_json, otlp, zipkin
from framework.traces.columns import SpanColumns
from framework.traces.link import RawSpans

READERS: Mapping[Format, Callable[[SpanColumns, bytes], object]] = {
    "jaeger": jaeger_json.read_into,
    "otlp": otlp.read_json_into,
    "otlp-protobuf": otlp.read_protobuf_into,
    "zipkin": zipkin.read_into,
}
SUFFIXES = (".json", ".jsonl", ".pb", ".bin", ".json.gz", ".jsonl.gz", ".pb.gz")
WEB = ("http://", "https://")
WORTH_A_PROCESS = 256 << 20  # bytes of documents; below, starting a process takes longer than reading them
NEWEST = 1000
"""Traces that are asked of a Jaeger for each of its services, where only its address is given."""
GZIP = b"\x1f\x8b"
LARGEST = TRACES_BYTES
"""Bytes of one document, packed and unpacked: a small compressed file must not fill the memory."""


def read_all(sources: Sequence[str], form: Format | None = None, workers: int | None = None) -> TraceSet:
    """Every trace of files, directories and http addresses.

    ``workers``: processes (default: one a core where there are files enough).  Raises InputError when a source does
    not exist.
    """
    names = [name for source in sources for name in _names(source)]
    columns, unreadable = SpanColumns(), dict[str, str]()
    usable = len(os.sched_getaffinity(0)) if workers is None else workers
    heavy = workers is not None or _bytes(names) >= WORTH_A_PROCESS
    if usable > 1 and len(names) > 1 and heavy:
        # New processes, not copies of this one: it may have threads.
        with ProcessPoolExecutor(min(usable, len(names)), mp_context=get_context("spawn")) as pool:
            for raw, rejected, failed, whole in pool.map(_read_apart, names, [form] * len(names)):
                columns.absorb(raw, rejected, whole=whole)
                unreadable |= failed
    else:
        for name in names:
            unreadable |= _read_one(columns, name, form)[1]
    spans, rejected = columns.table()
    return TraceSet(tuple(sources), spans, rejected, unreadable)


def _read_apart(name: str, form: Format | None) -> tuple[RawSpans, Mapping[str, int], Mapping[str, str], bool]:
    """One document in a process of its own, and whether its traces are whole, as Jaeger's are."""
    columns = SpanColumns()
    found, unreadable = _read_one(columns, name, form)
    return columns.raw(), columns.rejected, unreadable, found == "jaeger"


def _read_one(columns: SpanColumns, name: str, form: Format | None) -> tuple[Format | None, Mapping[str, str]]:
    """Add one document, or a whole Jaeger; returns its format, or why it could not be read, by its name."""
    try:
        if name.startswith(WEB) and urlsplit(name).path in ("", "/") and not urlsplit(name).query:
            _read_jaeger(columns, name.rstrip("/"))
            return "jaeger", {}
        return read_into(columns, _fetch(name) if name.startswith(WEB) else read_bytes(Path(name), LARGEST), form), {}
    except TracesMissing as error:
        return None, {name: str(error)}
    except FileError as error:
        return None, {name: f"{error.found}; allowed: {error.allowed}"}


def _bytes(names: Sequence[str]) -> int:
    return sum(Path(name).stat().st_size for name in names if not name.startswith(WEB))


def read_into(columns: SpanColumns, document: bytes, form: Format | None = None) -> Format:
    """Add one document, packed with gzip or not; returns its format.  Raises TracesMissing when no reader knows it."""
    document = _unpacked(document)
    form = form or detect(document)
    READERS[form](columns, document)
    return form


def detect(document: bytes) -> Format:
    """The format, from the first bytes.  Raises TracesMissing."""
    head = document[:4096].lstrip(b" \t\r\n\xef\xbb\xbf")
    if not head:
        raise TracesMissing("the document is empty")
    if head[:1] == b"[":
        return "zipkin"
    if head[:1] != b"{":
        return "otlp-protobuf"
    # The first key that tells; a document may begin with others (Jaeger's "total", "errors").
    otlp_at, jaeger_at = document.find(b'"resourceSpans"'), document.find(b'"data"')
    if max(otlp_at, jaeger_at) < 0:
        raise TracesMissing('neither Jaeger\'s "data" nor OTLP\'s "resourceSpans" nor a list as Zipkin gives')
    return "jaeger" if otlp_at < 0 or 0 <= jaeger_at < otlp_at else "otlp"


def _unpacked(document: bytes) -> bytes:
    """The document without gzip; a file may have several parts, one after the other."""
    parts, left = [], LARGEST
    while document[:2] == GZIP:
        unpacker = zlib.decompressobj(wbits=31)
        try:
            parts.append(unpacker.decompress(document, left))
        except zlib.error as error:
            raise TracesMissing(f"gzip: {error}") from error
        left -= len(parts[-1])
        if unpacker.unconsumed_tail or not left:
            raise TracesMissing(f"more than {LARGEST >> 30} GiB when unpacked")
        if not unpacker.eof:
            raise TracesMissing("gzip: it ends too early")
        document = unpacker.unused_data
    return b"".join(parts) if parts else document


def _names(source: str) -> Sequence[str]:
    """The documents of a source: an address, a file, or each file of a directory.  Raises InputError."""
    if source.startswith(WEB):
        return [source]
    path = Path(source)
    if path.is_dir():
        files = sorted(file for file in path.rglob("*") if file.name.endswith(SUFFIXES))
        if not files:
            raise InputError(f"{source}: found no trace files; allowed: {', '.join(SUFFIXES)}")
        return [str(file) for file in files]
    if not path.is_file():
        raise InputError(f"{source}: found nothing; allowed: a file or a directory of traces, or an http address")
    return [str(path)]


def _read_jaeger(columns: SpanColumns, address: str) -> None:
    """The newest traces of each service that a Jaeger knows, each once (Jaeger's HTTP API, v1 and v2)."""
    try:
        services = json.loads(_fetch(f"{address}/api/services"))["data"] or []
    except (ValueError, KeyError, TypeError):
        raise TracesMissing("no Jaeger answers there; give the whole address of the traces") from None
    seen = set[str]()
    for service in services:
        jaeger_json.read_into(columns, _fetch(f"{address}/api/traces", service=service, limit=NEWEST), seen)


def _fetch(address: str, **query: Any) -> bytes:
    try:
        reply = httpx.get(address, params=query or None, timeout=60.0, follow_redirects=True)
    except httpx.HTTPError as error:
        raise TracesMissing(f"no answer: {error!r}") from error
    if reply.status_code != 200:
        raise TracesMissing(f"answers {reply.status_code}: {reply.text.strip()[:300]}")
    return reply.content
