"""Self time: small cases, the service that is charged, and an independent count on random trees."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from framework.critical_path.attribution import charged
from framework.critical_path.per_trace import self_time_ns
from framework.critical_path.service_time import service_times
from framework.model.spans import SpanTable
from tests.span_tables import Row, span_table

# Keyed by the rule that a case shows: (rows, self time of each row).
CASES = {
    "a child and a longer grandchild are clipped": (
        [Row("A", 0, 100), Row("B", 10, 110, 0), Row("C", 40, 50, 1)],
        [10, 90, 10],
    ),
    "a child outside its parent takes nothing": (
        [Row("A", 0, 100), Row("B", 110, 160, 0), Row("D", 60, 90, 0)],
        [70, 50, 30],
    ),
    "overlapping siblings count once": (
        [Row("A", 0, 80), Row("B", 10, 30, 0), Row("C", 20, 45, 0), Row("D", 40, 65, 0)],
        [25, 20, 25, 25],
    ),
    "a sibling inside another adds nothing": (
        [Row("A", 0, 80), Row("B", 10, 60, 0), Row("C", 20, 30, 0)],
        [30, 50, 10],
    ),
    "siblings that touch": ([Row("A", 0, 80), Row("B", 10, 30, 0), Row("C", 30, 40, 0)], [50, 20, 10]),
    "the order of rows does not matter": ([Row("B", 10, 30, 2), Row("C", 20, 40, 2), Row("A", 0, 80)], [20, 20, 50]),
    "a child that only follows is not waited for": ([Row("A", 0, 80), Row("B", 10, 60, 0, follows=True)], [80, 50]),
    "a consumer does not hold up its producer": (
        [Row("A", 1, 31, kind="producer"), Row("B", 10, 20, 0, kind="consumer")],
        [30, 10],
    ),
    "an empty child": ([Row("A", 0, 80), Row("B", 10, 10, 0)], [80, 0]),
}


def charged_to(spans: SpanTable, entry: str) -> list[str]:
    charges = charged(spans, entry)
    return [charges.names[index] for index in charges.service]


@pytest.mark.parametrize(("rows", "expected"), CASES.values(), ids=CASES.keys())
def test_self_time(rows: list[Row], expected: list[int]) -> None:
    assert self_time_ns(span_table(rows)).tolist() == expected


def test_a_call_to_a_silent_store_is_charged_to_it_and_the_root_to_the_entry() -> None:
    spans = span_table(
        [
            Row("loadgen", 0, 1000, kind="client"),
            Row("compose", 200, 900, 0, kind="server"),
            Row("compose", 300, 400, 1, kind="client", peer="post-memcached"),
            Row("compose", 500, 800, 1, kind="client", peer="post-storage"),
            Row("post-storage", 550, 750, 3, kind="server"),
        ]
    )
    assert charged_to(spans, "nginx") == ["nginx", "compose", "post-memcached", "compose", "post-storage"]
    times = {profile.service: profile for profile in service_times(spans, "nginx")}
    # 1000 root - 700 of the server; compose: 700 - 400 and the 100 around post-storage's 200.
    shares = {name: round(service.share.value, 6) for name, service in times.items()}
    assert shares == {"nginx": 0.3, "compose": 0.4, "post-memcached": 0.1, "post-storage": 0.2}
    assert (times["compose"].spans, times["compose"].traces) == (2, 1)
    assert times["compose"].mean_ms.value == times["compose"].path_ms.value == pytest.approx(400 / 1e6)
    told = service_times(spans, "nginx", {"": "cache"})
    assert {service.service for service in told} == set(times), "a peer that the span names counts before any pattern"
    assert [service.service for service in service_times(spans, "nginx")] == [
        "compose",
        "nginx",
        "post-storage",
        "post-memcached",
    ]


def test_without_an_entry_the_root_keeps_its_own_time() -> None:
    spans = span_table([Row("loadgen", 0, 10, kind="client"), Row("a", 2, 8, 0, kind="server")])
    assert charged_to(spans, "") == ["loadgen", "a"]


def test_no_spans_no_services() -> None:
    assert service_times(span_table([]), "nginx") == ()


@st.composite
def trees(draw: st.DrawFn) -> list[Row]:
    rows = [Row("s0", 0, draw(st.integers(1, 1000)))]
    for number in range(1, draw(st.integers(1, 25))):
        start = draw(st.integers(-50, 1050))
        rows.append(Row(f"s{number % 4}", start, start + draw(st.integers(0, 400)), draw(st.integers(0, number - 1))))
    return rows


@settings(deadline=None)
@given(trees(), st.integers(-(10**6), 10**18))
def test_self_time_agrees_with_marking_every_nanosecond_and_ignores_a_shift(rows: list[Row], shift: int) -> None:
    expected = []
    for number, row in enumerate(rows):
        free = np.ones(row.end - row.start, dtype=np.bool_)
        for child in rows:
            if child.parent == number:
                free[max(0, child.start - row.start) : max(0, child.end - row.start)] = False
        expected.append(int(free.sum()))
    moved = [row._replace(start=row.start + shift, end=row.end + shift) for row in rows]
    assert self_time_ns(span_table(rows)).tolist() == expected
    assert self_time_ns(span_table(moved)).tolist() == expected
