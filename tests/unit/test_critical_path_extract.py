"""Critical paths: the specification's cases, properties of any trace, and a slow reference implementation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from ruamel.yaml import YAML

from framework.critical_path.extract import path_time_ns, sections
from framework.critical_path.waiting import waited_for
from framework.model.spans import SpanTable
from tests.span_tables import Row, shuffled, span_table

CASES = sorted((Path(__file__).resolve().parents[1] / "cases" / "critical_path").glob("*.yaml"))


def case_table(case: dict[str, Any]) -> tuple[SpanTable, list[str]]:
    names = [span["name"] for span in case["spans"]]
    rows = [
        Row(
            span["name"],
            span["start"],
            span["end"],
            parent=names.index(span["parent"]) if "parent" in span else -1,
            kind=span.get("span_kind", "internal"),
            follows=span.get("follows", False),
        )
        for span in case["spans"]
    ]
    return span_table(rows), names


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_a_case_of_the_specification(path: Path) -> None:
    case = YAML(typ="safe").load(path.read_text())
    table, names = case_table(case)
    extracted = sections(table, tolerance=case.get("tolerance", 0.0))
    if "sections" in case:
        pieces = zip(extracted.row, extracted.start_ns, extracted.end_ns, strict=True)
        assert [[names[row], start, end] for row, start, end in pieces] == case["sections"]
    if "exclusive" in case:
        own = path_time_ns(table, tolerance=case.get("tolerance", 0.0))
        assert {names[row]: time for row, time in enumerate(own) if time} == case["exclusive"]


def test_there_are_cases() -> None:
    assert len(CASES) >= 13


# ------------------------------------------------------------------------------------- any trace

times = st.tuples(st.integers(0, 60), st.integers(0, 60)).map(lambda pair: (min(pair), max(pair)))
kinds = st.sampled_from(["internal", "server", "client", "producer", "consumer"])


@st.composite
def traces(draw: st.DrawFn, number: int = 0, first_row: int = 0) -> list[Row]:
    """Draw one trace: its root, then spans whose parents come before them."""
    count = draw(st.integers(1, 12))
    rows = []
    for index in range(count):
        start, end = draw(times)
        parent = -1 if index == 0 else first_row + draw(st.integers(0, index - 1))
        kind, follows = draw(kinds), draw(st.integers(0, 9)) == 0
        rows.append(Row(f"s{draw(st.integers(0, 3))}", start, end, parent, kind, follows=follows, trace=number))
    return rows


@st.composite
def tables(draw: st.DrawFn) -> SpanTable:
    rows: list[Row] = []
    for number in range(draw(st.integers(1, 3))):
        rows += draw(traces(number, len(rows)))
    return span_table(rows)


def by_the_book(table: SpanTable, tolerance: float) -> list[tuple[int, int, int]]:
    """Compute the sections by recursion over Python lists."""
    start, end = table.start_ns.tolist(), table.end_ns.tolist()
    below: dict[int, list[int]] = {}
    for row, waited in enumerate(waited_for(table)):
        if waited:
            below.setdefault(int(table.parent[row]), []).append(row)
    cut = []

    def walk(row: int) -> None:
        inside = [child for child in below.get(row, []) if start[child] < end[row] and end[child] > start[row]]
        for child in inside:
            start[child], end[child] = max(start[child], start[row]), min(end[child], end[row])
        cursor = end[row]
        for child in sorted(inside, key=lambda child: (-end[child], -start[child], int(table.span_id[child]))):
            if (
                end[child] > cursor
                and end[child] - cursor < tolerance * (end[row] - start[row])
                and start[child] < cursor
            ):
                end[child] = cursor
            if end[child] <= cursor and end[child] > start[child]:
                if cursor > end[child]:
                    cut.append((row, end[child], cursor))
                walk(child)
                cursor = start[child]
        if cursor > start[row]:
            cut.append((row, start[row], cursor))

    for root in np.flatnonzero(table.parent == -1):
        walk(int(root))
    return cut


def pieces(table: SpanTable, tolerance: float = 0.0) -> list[tuple[int, int, int]]:
    path = sections(table, tolerance=tolerance)
    return list(zip(path.row.tolist(), path.start_ns.tolist(), path.end_ns.tolist(), strict=True))


@given(tables(), st.sampled_from([0.0, 0.01, 0.2]))
def test_sections_agree_with_the_reference(table: SpanTable, tolerance: float) -> None:
    assert pieces(table, tolerance) == by_the_book(table, tolerance)


@given(st.integers(0, 2**32 - 1), st.integers(25, 400), st.sampled_from([3, 60, 10**6, 2**40]))
def test_many_siblings_are_visited_in_the_same_order(seed: int, count: int, span: int) -> None:
    """More siblings than insertion sort takes: with few distinct times (ties of ends, then of starts) and with many."""
    rng = np.random.default_rng(seed)
    times = np.sort(rng.integers(0, span, (count, 2), endpoint=True), axis=1).tolist()
    table = span_table([Row("root", 0, span), *(Row("s", a, b, parent=0) for a, b in times)])
    table = shuffled(table, rng.permutation(len(table)).tolist())
    assert pieces(table, 0.01) == by_the_book(table, 0.01)


@given(tables(), st.sampled_from([0.0, 0.2]))
def test_sections_are_contiguous_inside_their_spans_and_add_up_to_the_root(table: SpanTable, tolerance: float) -> None:
    all_pieces = pieces(table, tolerance)
    for root in np.flatnonzero(table.parent == -1):
        own = [piece for piece in all_pieces if table.trace[piece[0]] == table.trace[root]]
        assert sum(end - start for _, start, end in own) == table.end_ns[root] - table.start_ns[root]
        cursor = table.end_ns[root]
        for row, start, end in own:
            assert end == cursor
            assert table.start_ns[row] <= start < end <= table.end_ns[row]
            cursor = start
    totals = np.zeros(len(table), dtype=np.int64)
    for row, start, end in all_pieces:
        totals[row] += end - start
    assert totals.tolist() == path_time_ns(table, tolerance=tolerance).tolist()


@given(tables(), st.randoms(use_true_random=False))
def test_the_order_of_the_rows_does_not_matter(table: SpanTable, random: Any) -> None:
    order = list(range(len(table)))
    random.shuffle(order)
    mixed = shuffled(table, order)
    assert path_time_ns(mixed).tolist() == path_time_ns(table)[order].tolist()


@given(tables(), st.integers(-(2**40), 2**40))
def test_a_shift_of_all_times_does_not_matter(table: SpanTable, shift: int) -> None:
    moved = replace(table, start_ns=table.start_ns + shift, end_ns=table.end_ns + shift)
    assert path_time_ns(moved).tolist() == path_time_ns(table).tolist()


@given(traces())
def test_a_child_hidden_inside_the_last_finisher_changes_nothing(rows: list[Row]) -> None:
    before = pieces(span_table(rows))
    hiding = [piece for piece in before if piece[0] != 0 and rows[piece[0]].parent == 0]
    if not hiding:
        return
    row, start, end = hiding[0]
    if end - start < 3:
        return
    # Later in time than the piece's own start, and not its span's last finisher: a sibling inside the span's time.
    hidden = Row("hidden", max(rows[row].start, rows[0].start) + 1, end - 1, parent=0)
    after = pieces(span_table([*rows, hidden]))
    assert [piece for piece in after if piece[0] == len(rows)] == []
    assert after == before


# ------------------------------------------------------------------------------------- large and deep


def chain(depth: int) -> Sequence[Row]:
    return [Row("a", index, 2 * depth - index, index - 1) for index in range(depth)]


def test_a_trace_of_depth_10_000() -> None:
    table = span_table(chain(10_000))
    own = path_time_ns(table)
    assert own.sum() == 20_000
    assert own[:-1].tolist() == [2] * 9_999


def test_100_000_children_of_one_span() -> None:
    count = 100_000
    rows = [Row("root", 0, 2 * count), *(Row("a", 2 * k, 2 * k + 1, 0) for k in range(count))]
    table = span_table(rows)
    own = path_time_ns(table)
    assert own[0] == count
    assert own.sum() == 2 * count
    same = [Row("root", 0, 10), *(Row("a", 2, 8, 0) for _ in range(100))]
    own = path_time_ns(span_table(same))
    assert own.tolist() == [4, 6, *[0] * 99], "of equal spans the one with the smallest id"


def test_an_empty_table() -> None:
    assert path_time_ns(span_table([])).tolist() == []
    assert len(sections(span_table([]))) == 0
