"""Spans that nothing counts are waited for as long as exporters may hold them back, and no longer than needed."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from framework.model.spans import SpanTable
from framework.traces.columns import KIND, NONE, ROOT, SpanColumns
from framework.traces.settling import MARGIN_S, PAUSE_S, TRIES, complete, settled

SECOND = 10**9
WINDOW = (0, 20 * SECOND)


def table(rows: list[tuple[int, str, int]]) -> SpanTable:
    """Return traces of (start in ns, operation, spans of the service "web"), each lasting a millisecond."""
    columns = SpanColumns()
    for number, (start_ns, operation, below) in enumerate(rows):
        for place in range(1 + below):
            columns.trace.append(columns.number(f"{number:032x}"))
            columns.span_id.append(place + 1)
            columns.parent_id.append(1 if place else ROOT)
            columns.follows.append(False)
            columns.service.append(columns.intern("web" if place else "loadgen"))
            columns.operation.append(columns.intern(operation))
            columns.peer.append(NONE)
            columns.host.append(NONE)
            columns.address.append(NONE)
            columns.kind.append(KIND["server" if place else "client"])
            columns.error.append(False)
            columns.start_ns.append(start_ns)
            columns.end_ns.append(start_ns + SECOND // 1000)
    spans, rejected = columns.table()
    assert not rejected
    return spans


@dataclass
class Exporter:
    """A service that makes one span for each of 200 requests in 20 s, and sends them at these times [s]."""

    sends_s: list[float]
    now_s: float = 20.3
    asked: list[float] = field(default_factory=list)
    spans: int = 1

    def sleep(self, pause_s: float) -> None:
        self.now_s += pause_s

    def search(self) -> SpanTable:
        self.asked.append(self.now_s)
        sent_s = max((at for at in self.sends_s if at <= self.now_s), default=0.0)
        starts = [at * SECOND // 10 for at in range(200)]
        return table([(at, "read", self.spans if at + SECOND // 1000 <= sent_s * SECOND else 0) for at in starts])

    def read(self, export_delay_s: float = 5.0) -> SpanTable:
        return settled(
            self.search,
            WINDOW,
            export_delay_s,
            sleep=self.sleep,
            now_ns=lambda: int(self.now_s * SECOND),
            pause_s=PAUSE_S,
        )


@given(phase=st.floats(0.05, 4.95))
def test_no_span_is_lost_whenever_the_exporter_sends(phase: float) -> None:
    """It sends every five seconds, at any phase."""
    exporter = Exporter([phase + 5 * turn for turn in range(6)])
    assert len(exporter.read()) == 400
    assert exporter.now_s <= 25.0 + MARGIN_S + 3 * PAUSE_S


def test_an_exporter_that_has_sent_everything_is_not_waited_for() -> None:
    exporter = Exporter([4.0, 9.0, 14.0, 19.0, 20.2])
    assert len(exporter.read()) == 400
    assert exporter.now_s == pytest.approx(20.3 + 2 * PAUSE_S)


def test_one_that_never_sends_is_waited_for_until_it_must_have() -> None:
    exporter = Exporter([])
    assert len(exporter.read()) == 200
    assert 25.25 <= exporter.now_s <= 25.25 + 0.05 + PAUSE_S


def test_shorter_delays_are_shorter_waits() -> None:
    exporter = Exporter([], now_s=20.0)
    exporter.read(export_delay_s=1.0)
    assert exporter.now_s == pytest.approx(21.25, abs=0.1)


def test_spans_that_go_on_to_arrive_end_the_wait_at_last() -> None:
    counts = iter(range(1, 1000))
    now_s = [100.0]

    def sleep(pause_s: float) -> None:
        now_s[0] += pause_s

    spans = settled(
        lambda: table([(0, "read", next(counts))]), WINDOW, 5.0, sleep=sleep, now_ns=lambda: int(now_s[0] * SECOND)
    )
    assert len(spans) == TRIES + 1


def test_requests_that_differ_say_nothing() -> None:
    alike = [(at * SECOND, "read", 2) for at in range(10)]
    assert complete(table(alike), WINDOW, 5.0)
    assert complete(table([*alike, (0, "write", 3)]), WINDOW, 5.0), "each kind has a number of its own"
    assert not complete(table([*alike, (11 * SECOND, "read", 1)]), WINDOW, 5.0)
    assert not complete(table([*alike, (16 * SECOND, "write", 3)]), WINDOW, 5.0), "all of its spans may be on their way"
    assert not complete(table([(at * SECOND, "read", 0) for at in range(10)]), WINDOW, 5.0)
    assert not complete(table([]), WINDOW, 5.0)


def test_a_request_that_ended_after_the_window_is_waited_for() -> None:
    now_s = [20.0]

    def sleep(pause_s: float) -> None:
        now_s[0] += pause_s

    long = table([(0, "read", 1), (1, "read", 2)])
    ends = np.where(np.arange(len(long)) == 0, 22 * SECOND, long.end_ns)
    late = SpanTable(
        long.traces, long.strings, long.trace, long.span_id, long.parent, long.follows, long.service, long.operation,
        long.peer, long.host, long.address, long.kind, long.error, long.start_ns, ends,
    )  # fmt: skip
    settled(lambda: late, WINDOW, 5.0, sleep=sleep, now_ns=lambda: int(now_s[0] * SECOND))
    assert now_s[0] == pytest.approx(27.25)
