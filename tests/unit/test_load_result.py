"""The generator's result line is read as it was written, and a damaged one is refused."""

from __future__ import annotations

import base64
import json
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from framework.errors import LoadFailed
from framework.load.container import generator_cpuset
from framework.load.result import COLUMNS, load_result, unpack

CASE = Path(__file__).parent.parent / "cases" / "load" / "result.json"

INT64 = st.integers(-(2**63), 2**63 - 1)
ROW = st.tuples(INT64, INT64, INT64, st.integers(0, 255), st.integers(-(2**15), 2**15 - 1), st.integers(0, 1))


def packed(rows: list[tuple[int, ...]]) -> str:
    """Pack rows as the generator does."""
    data = b"".join(np.array([row[column] for row in rows], kind).tobytes() for column, (_, kind) in enumerate(COLUMNS))
    return base64.b64encode(zlib.compress(data)).decode()


def recorded() -> dict[str, Any]:
    case: dict[str, Any] = json.loads(CASE.read_text())
    return case


@given(st.lists(ROW, max_size=50))
def test_columns_come_back_as_they_were_packed(rows: list[tuple[int, ...]]) -> None:
    columns = unpack(packed(rows), len(rows))
    assert list(zip(*(columns[name].tolist() for name, _ in COLUMNS), strict=True)) == rows


def test_what_the_generator_wrote_is_read() -> None:
    case = recorded()
    result = load_result(case["event"])
    columns = zip(
        result.due_ns.tolist(),
        result.sent_ns.tolist(),
        result.end_ns.tolist(),
        result.request_class.tolist(),
        result.status.tolist(),
        result.ok.tolist(),
        strict=True,
    )
    assert [list(row) for row in columns] == case["rows"]
    assert result.started_ns == 1_700_000_000_123_456_789
    assert (result.warmup_s, result.window_s, result.classes) == (1.0, 2.0, ("read", "write"))
    assert result.errors == {"timeout": 1, "status 500": 1}
    assert (result.spans_created, result.spans_exported, result.cpu_s) == (4, 3, 0.25)
    assert (result.usage_before, result.usage_after) == (None, None)


def test_the_time_of_a_tick_is_read_where_there_was_time_for_one() -> None:
    assert load_result(recorded()["event"]).tick_us is None
    assert load_result(changed(yardstick={"ticks": 9, "tick_us": 40.5})).tick_us == 40.5


def test_ids_of_root_spans_come_back_by_request() -> None:
    event = recorded()["event"]
    data = bytes(range(24)) * event["requests"]
    result = load_result(changed(ids=base64.b64encode(data).decode()))
    assert load_result(event).ids is None
    assert load_result(event).roots == ()
    start, end = result.edges_ns
    roots = result.roots
    assert len(roots) == int(((result.due_ns >= start) & (result.due_ns < end)).sum()) > 0
    assert {(root.trace, root.span_id) for root in roots} == {(bytes(range(16)).hex(), 0x1011121314151617)}
    assert [root.start_ns for root in roots] == sorted(root.start_ns for root in roots)
    assert all(root.start_ns <= root.end_ns for root in roots)
    for ids in (base64.b64encode(data[:-1]).decode(), "%"):
        with pytest.raises(LoadFailed, match="ids"):
            load_result(changed(ids=ids))


def test_many_requests_are_sampled_at_even_distances() -> None:
    count = 10_001
    rows: list[tuple[int, ...]] = [(at * 1_000_000, 0, at * 1_000_000 + 5, 0, 200, 1) for at in range(count)]
    event = changed(
        started_ns=0, warmup_s=0.0, window_s=20.0, requests=count, columns=packed(rows),
        ids=base64.b64encode(bytes(24 * count)).decode(),
    )  # fmt: skip
    sample = load_result(event).sample
    assert (len(sample), sample[0], sample[-1]) == (2_000, 0, count - 1)
    assert set(np.diff(sample).tolist()) <= {5, 6}


def changed(**change: Any) -> dict[str, Any]:
    return {**recorded()["event"], **change}


@pytest.mark.parametrize(
    ("event", "message"),
    [
        (changed(version=2), "version 2, not 1"),
        (changed(requests=7), "expected 196"),
        (changed(columns="AAAA"), "damaged columns"),
        (changed(columns="?"), "damaged columns"),
        (changed(columns=base64.b64encode(zlib.compress(b"")).decode()), "0 bytes of columns for 6 requests"),
        (changed(classes=["read"]), "beyond the 1 named"),
        (changed(cpu_s=None), "TypeError"),
        (changed(errors=[]), "AttributeError"),
        (changed(yardstick={"ticks": 9}), "KeyError"),
        ({"version": 1}, "KeyError"),
    ],
)
def test_a_damaged_result_is_refused(event: dict[str, Any], message: str) -> None:
    with pytest.raises(LoadFailed, match=message):
        load_result(event)


@pytest.mark.parametrize(("cores", "cpuset"), [(1, ""), (2, ""), (3, ""), (4, "3"), (64, "63")])
def test_the_generator_gets_a_core_of_its_own_where_there_are_four(cores: int, cpuset: str) -> None:
    assert generator_cpuset(cores) == cpuset
