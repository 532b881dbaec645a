"""Reading of traces from files and addresses, in any format; each unreadable document is listed with the reason."""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx

from framework.config.reading import TRACES_BYTES, read_bytes
from framework.errors import FileError, InputError, TracesMissing
from framework.model.spans import TraceSet
from framework.traces import jaeger_json
from framework.traces.columns import SpanColumns
from framework.traces.link import RawSpans
from framework.traces.registry import FORMATS

SUFFIXES = (".json", ".jsonl", ".pb", ".bin", ".json.gz", ".jsonl.gz", ".pb.gz")
WEB = ("http://", "https://")
WORTH_A_PROCESS = 256 << 20  # bytes of documents; starting a process takes longer than reading fewer
NEWEST = 1000
"""Number of traces to ask for per service, where only the address of a Jaeger is given."""
GZIP = b"\x1f\x8b"
LARGEST = TRACES_BYTES
"""Bytes of one document, packed and unpacked: a small compressed file must not fill the memory."""


def read_all(sources: Sequence[str], form: str | None = None, workers: int | None = None) -> TraceSet:
    """Read every trace of files, directories and http addresses.

    ``form``: name of the format; None: detected per document.  ``workers``: processes (default: one per core where
    there is enough to read).  Raises InputError when a source does not exist, UnknownName for an unknown format.
    """
    if form is not None:
        FORMATS.get(form)
    names = [name for source in sources for name in _names(source)]
    columns, unreadable = SpanColumns(), dict[str, str]()
    usable = len(os.sched_getaffinity(0)) if workers is None else workers
    heavy = workers is not None or _bytes(names) >= WORTH_A_PROCESS
    if usable > 1 and len(names) > 1 and heavy:
        # New processes, not copies of this one: it may have threads.
        with ProcessPoolExecutor(min(usable, len(names)), mp_context=get_context("spawn")) as pool:
            for raw, rejected, failed, whole in pool.map(_read_in_process, names, [form] * len(names)):
                columns.absorb(raw, rejected, whole=whole)
                unreadable |= failed
    else:
        for name in names:
            unreadable |= _read_one(columns, name, form)[1]
    spans, rejected = columns.table()
    return TraceSet(tuple(sources), spans, rejected, unreadable)


def _read_in_process(name: str, form: str | None) -> tuple[RawSpans, Mapping[str, int], Mapping[str, str], bool]:
    """Read one document in a worker process; returns (spans, rejected, unreadable, whether its traces are whole)."""
    columns = SpanColumns()
    known, unreadable = _read_one(columns, name, form)
    return columns.raw(), columns.rejected, unreadable, known is not None and FORMATS.get(known).whole


def _read_one(columns: SpanColumns, name: str, form: str | None) -> tuple[str | None, Mapping[str, str]]:
    """Add one document, or a whole Jaeger; returns its format (None: unreadable), and name -> why it is unreadable."""
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


def read_into(columns: SpanColumns, document: bytes, form: str | None = None) -> str:
    """Add one document, compressed with gzip or not; returns its format.

    ``form``: None: detected.  Raises TracesMissing when it cannot be read, UnknownName for an unknown format.
    """
    document = _decompressed(document)
    form = form or detect(document)
    FORMATS.get(form).read(columns, document)
    return form


def detect(document: bytes) -> str:
    """Detect which of Tailor's formats a document has; others have to be named.  Raises TracesMissing."""
    if not document.strip(b" \t\r\n\xef\xbb\xbf"):
        raise TracesMissing("the document is empty")
    shown = {name: candidate.shows_at(document) for name, candidate in FORMATS.own().items()}
    positions = [(at, name) for name, at in shown.items() if at is not None]
    if not positions:
        raise TracesMissing('neither Jaeger\'s "data" nor OTLP\'s "resourceSpans" nor a list as Zipkin gives')
    return min(positions)[1]


def _decompressed(document: bytes) -> bytes:
    """Decompress a document; a gzip file may have several members, one after the other."""
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
    """Return the documents of a source: an address, a file, or each file of a directory.  Raises InputError."""
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
    """Add the newest traces of each service that a Jaeger knows, each once (Jaeger's HTTP API, v1 and v2)."""
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
