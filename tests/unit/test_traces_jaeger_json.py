"""Jaeger's JSON to columns: real traces, every field, and each way in which a trace is rejected."""

from __future__ import annotations

import gc
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from framework.critical_path.service_time import service_times
from framework.errors import TracesMissing
from framework.model.spans import KINDS, SpanTable
from framework.traces.jaeger_json import spans_of

CASES = Path(__file__).parent.parent / "cases" / "traces"


def case(name: str) -> bytes:
    return (CASES / name).read_bytes()


def read(traces: list[Any]) -> tuple[SpanTable, Mapping[str, int]]:
    return spans_of(orjson.dumps({"data": traces}))


def one_trace(*spans: dict[str, Any], identity: str = "abc") -> dict[str, Any]:
    processes = {"p1": {"serviceName": "loadgen"}, "p2": {"serviceName": "post"}}
    return {"traceID": identity, "processes": processes, "spans": list(spans)}


def span(identity: str, parent: str = "", **given: Any) -> dict[str, Any]:
    references = [{"refType": "CHILD_OF", "traceID": "abc", "spanID": parent}] if parent else []
    plain = {"spanID": identity, "operationName": "op", "references": references, "startTime": 1000, "duration": 10}
    return plain | {"tags": [], "processID": "p1"} | given


def tags(**given: Any) -> list[dict[str, Any]]:
    return [{"key": key.replace("_", "."), "value": value} for key, value in given.items()]


def test_real_traces_of_several_hosts() -> None:
    spans, rejected = spans_of(case("hotel-reservation.json"))
    assert (len(spans), len(spans.traces), rejected) == (33, 3, {})
    roots = np.flatnonzero(spans.parent == -1)
    assert {spans.strings[index] for index in spans.service[roots]} == {"frontend"}
    assert sorted({KINDS[kind] for kind in spans.kind}) == ["client", "server"]
    # Parents lie in their child's trace, whatever the order of the file.
    children = np.flatnonzero(spans.parent >= 0)
    assert (spans.trace[spans.parent[children]] == spans.trace[children]).all()
    assert (spans.end_ns >= spans.start_ns).all()
    assert spans.start_ns.min() > 1_600_000_000_000_000_000


def test_real_traces_without_kinds() -> None:
    spans, rejected = spans_of(case("media.json"))
    assert (len(spans), len(spans.traces), rejected) == (54, 2, {})
    assert {KINDS[kind] for kind in spans.kind} == {"internal"}
    rows = service_times(spans, "nginx")
    # One client span of no kind at the root: its own service keeps its time, and nothing is lost or counted twice.
    assert sum(row.share.value for row in rows) == pytest.approx(1.0)
    assert sum(row.spans for row in rows) == 54


def test_each_malformed_trace_is_counted_and_the_sound_one_kept() -> None:
    spans, rejected = spans_of(case("malformed.json"))
    assert spans.traces == ("00",)
    assert rejected == {
        "malformed field": 20,
        "roots other than one": 3,
        "duplicate span id": 1,
        "missing parent": 1,
        "cycle of parents": 2,
    }
    assert spans.parent.tolist() == [-1, 0]


def test_every_field() -> None:
    call = tags(span_kind="client", peer_service="post-memcached", server_address="10.0.0.7", error=True)
    spans, rejected = read([one_trace(span("ff", tags=call), span("1", "ff", processID="p2", operationName="get"))])
    assert rejected == {}
    assert spans.span_id.tolist() == [255, 1]
    assert [spans.strings[index] for index in spans.service] == ["loadgen", "post"]
    assert [spans.strings[index] for index in spans.operation] == ["op", "get"]
    assert (spans.strings[spans.peer[0]], spans.peer[1]) == ("post-memcached", -1)
    assert [KINDS[kind] for kind in spans.kind] == ["client", "internal"]
    assert spans.error.tolist() == [True, False]
    assert (spans.start_ns[0], spans.end_ns[0]) == (1_000_000, 1_010_000)


@pytest.mark.parametrize(
    ("given", "peer"),
    [
        (tags(span_kind="client", server_address="db", net_peer_name="old"), "db"),
        (tags(span_kind="producer", net_peer_name="queue"), "queue"),
        (tags(span_kind="client"), None),
        (tags(span_kind="server", server_address="itself"), None),
    ],
)
def test_whose_peer(given: list[dict[str, Any]], peer: str | None) -> None:
    spans, _ = read([one_trace(span("1", tags=given))])
    assert (spans.strings[spans.peer[0]] if spans.peer[0] >= 0 else None) == peer


def test_follows_from_gives_way_to_child_of_and_links_elsewhere_are_no_parents() -> None:
    follow = {"refType": "FOLLOWS_FROM", "traceID": "abc", "spanID": "1"}
    child = {"refType": "CHILD_OF", "traceID": "abc", "spanID": "2"}
    link = {"refType": "FOLLOWS_FROM", "traceID": "def", "spanID": "9"}
    spans, rejected = read(
        [
            one_trace(
                span("1", references=[link]),
                span("2", references=[link, follow]),
                span("3", references=[follow, child]),
            )
        ]
    )
    assert rejected == {}
    assert spans.parent.tolist() == [-1, 0, 1]
    assert spans.follows.tolist() == [False, True, False]


def test_traces_keep_apart_though_they_share_span_ids() -> None:
    spans, _ = read([one_trace(span("1"), span("2", "1")), one_trace(span("1"), identity="def")])
    assert spans.trace.tolist() == [0, 0, 1]
    assert spans.parent.tolist() == [-1, 0, -1]


def test_nothing_is_an_empty_table() -> None:
    spans, rejected = read([])
    assert (len(spans), rejected) == (0, {})


@pytest.mark.parametrize("document", [b"", b"<html>", b"[]", b"{}", b'{"data": null}', b'{"data": {}}'])
def test_what_is_no_jaeger_json(document: bytes) -> None:
    with pytest.raises(TracesMissing):
        spans_of(document)


def test_the_collector_is_on_again_afterwards() -> None:
    with pytest.raises(TracesMissing):
        spans_of(b"{")
    read([])
    assert gc.isenabled()


anything = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@settings(deadline=None)
@given(
    st.sampled_from(["spanID", "operationName", "references", "startTime", "duration", "tags", "processID"]), anything
)
def test_a_broken_field_never_costs_the_other_traces(field: str, value: Any) -> None:
    broken = one_trace(span("1"), span("2", "1") | {field: value}, identity="def")
    spans, rejected = read([one_trace(span("1")), broken, one_trace(span("5"), identity="fed")])
    assert {"abc", "fed"} <= set(spans.traces)
    assert len(spans.traces) + sum(rejected.values()) == 3


@settings(deadline=None)
@given(st.permutations(range(4)))
def test_the_order_of_spans_does_not_matter(order: list[int]) -> None:
    tree = [span("1"), span("2", "1"), span("3", "2"), span("4", "2")]
    spans, rejected = read([one_trace(*(tree[index] for index in order))])
    assert rejected == {}
    parents = {
        int(own): int(spans.span_id[row]) if row >= 0 else 0
        for own, row in zip(spans.span_id, spans.parent, strict=True)
    }
    assert parents == {1: 0, 2: 1, 3: 2, 4: 2}


def test_the_malformed_cases_say_what_they_are() -> None:
    cases = orjson.loads((CASES / "malformed.json").read_bytes())["data"]
    assert all("why" in case for case in cases if isinstance(case, dict))
