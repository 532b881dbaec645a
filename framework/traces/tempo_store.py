"""Reading of traces by their ids from Tempo's HTTP API, as protobuf: the same bytes as OTLP's TracesData."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import httpx

from framework.model.spans import RootSpan
from framework.traces.columns import SpanColumns
from framework.traces.joined import add_root, answer_of
from framework.traces.otlp import read_protobuf_into

AT_ONCE = 8
"""Requests at a time: Tempo answers one trace a request."""

PROTOBUF = {"Accept": "application/protobuf"}


class TempoStore:
    """Tempo's query API; implements ``framework.traces.joined.Store``."""

    def read(self, client: httpx.Client, url: str, roots: Sequence[RootSpan], columns: SpanColumns) -> None:
        """Add the traces of these roots, one request each."""

        def fetch(root: RootSpan) -> bytes | None:
            return answer_of(client.get(f"{url}/api/traces/{root.trace}", headers=PROTOBUF))

        with ThreadPoolExecutor(AT_ONCE) as pool:
            for root, document in zip(roots, pool.map(fetch, roots), strict=True):
                add_root(columns, root)
                if document:
                    read_protobuf_into(columns, document)
                columns.added()
