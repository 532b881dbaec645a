"""Traces that were broken on purpose, one deterministic case after another: what the fuzzing campaign runs."""

from __future__ import annotations

import copy
import faulthandler
import gzip
import json
import random
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from framework.critical_path.analysis import View, analyse
from framework.critical_path.extract import path_time_ns
from framework.critical_path.per_trace import self_time_ns
from framework.errors import TracesMissing
from framework.model.spans import TraceSet
from framework.traces.columns import SpanColumns
from framework.traces.files import read_into
from tests.unit.test_traces_formats import WRITERS, Span

HANG_S = 120
"""Cases that take longer end the process with a trace of every thread: nothing here needs a second."""
WATCHED = 100
"""Cases per watch: the clock that watches them is a thread of its own, which costs more than a case."""

NUMBERS: tuple[Any, ...] = (
    -1, 0, 1, 2**31, 2**53 + 1, 2**62, 2**63 - 1, 2**63, 2**64, 10**30, -(2**63), 0.5, 1e308, 1e-300, True,
)  # fmt: skip
VALUES: tuple[Any, ...] = (
    *NUMBERS, None, "", "0", "x", "ffffffffffffffff", "0" * 64, "é\x00\ud7ff", "9" * 400, [], {}, [[]], {"a": {}},
    ["x"] * 50,
)  # fmt: skip


@dataclass
class Outcome:
    """How the cases ended."""

    cases: int = 0
    refused: int = 0
    traces: int = 0
    analysed: int = 0
    rejected: Counter[str] = field(default_factory=Counter)
    failed: list[str] = field(default_factory=list)

    def counts(self) -> dict[str, Any]:
        return {
            "cases": self.cases, "documents_refused": self.refused, "traces_accepted": self.traces,
            "documents_analysed": self.analysed, "traces_rejected": dict(sorted(self.rejected.items())),
            "failed": self.failed,
        }  # fmt: skip


def campaign(seed: int, go_on: Callable[[int], bool], failures: Path | None = None) -> Outcome:
    """Run case after case while ``go_on(cases so far)``."""
    outcome = Outcome()
    try:
        while go_on(outcome.cases):
            if outcome.cases % WATCHED == 0:
                faulthandler.dump_traceback_later(HANG_S, exit=True)
            document = case(seed, outcome.cases)
            try:
                check(document, outcome)
            except Exception:
                name = f"seed-{seed}-case-{outcome.cases}"
                outcome.failed.append(f"{name}: {traceback.format_exc(limit=-2)}")
                if failures is not None:
                    failures.mkdir(exist_ok=True)
                    (failures / name).write_bytes(document)
            outcome.cases += 1
    finally:
        faulthandler.cancel_dump_traceback_later()
    return outcome


def check(document: bytes, outcome: Outcome) -> None:
    """Read and analyse a document; raises AssertionError for a wrong sum, or any error that the reader lets through."""
    columns = SpanColumns()
    try:
        read_into(columns, document)
    except TracesMissing:
        outcome.refused += 1
        # The traces before the fault are still sound.
    spans, rejected = columns.table()
    outcome.rejected.update(rejected)
    outcome.traces += len(spans.traces)
    roots = spans.parent == -1
    assert roots.sum() == len(spans.traces), "a trace without exactly one root"
    below = spans.parent >= 0
    assert (spans.trace[spans.parent[below]] == spans.trace[below]).all(), "a parent in another trace"
    assert (spans.end_ns >= spans.start_ns).all(), "a span that ends before it starts"
    path, own = path_time_ns(spans), self_time_ns(spans)
    assert (path >= 0).all(), "a negative time on the path"
    assert (own >= 0).all(), "a negative self time"
    total = np.zeros(len(spans.traces), dtype=np.int64)
    np.add.at(total, spans.trace, path)
    expected = np.zeros(len(spans.traces), dtype=np.int64)
    expected[spans.trace[roots]] = (spans.end_ns - spans.start_ns)[roots]
    assert (total == expected).all(), "sections that do not add up to their root"
    if len(spans.traces):
        for view in (View(), View(skew="on", tolerance=0.01, entry="nginx")):
            analysed = analyse(TraceSet(("case",), spans, rejected, {}), view)
            shares = sum(service.share.value for service in analysed.services)
            assert not analysed.table.root_ns.any() or abs(shares - 1) < 1e-6, f"shares add up to {shares}"
        outcome.analysed += 1


# ------------------------------------------------------------------------------------- cases


def case(seed: int, number: int) -> bytes:
    """Return the document of a case: equal seeds and numbers give equal bytes."""
    rng = random.Random(seed * 1_000_003 + number)
    form = rng.choice(list(WRITERS))
    document = WRITERS[form](*spans_of(rng))
    if form not in ("otlp-protobuf", "otlp-lines") and rng.random() < 0.6:
        parsed = orjson.loads(document)
        for _ in range(rng.randint(1, 4)):
            _break(parsed, rng)
        document = json.dumps(parsed, ensure_ascii=rng.random() < 0.5).encode(errors="surrogatepass")
        if rng.random() < 0.05:
            deep = rng.choice((b"[", b'{"data":', b'{"a":')) * rng.choice((100, 5_000, 200_000))
            document = document.replace(b"null", deep, 1) if b"null" in document else deep + document
    for _ in range(rng.choice((0, 0, 1, 1, 2, 8))):
        document = _damaged(document, rng)
    if rng.random() < 0.1:
        document = gzip.compress(document, 1)
        if rng.random() < 0.5:
            document = _damaged(document, rng)
    return document


def spans_of(rng: random.Random) -> list[Span]:
    """Return a trace that is sound, or nearly: cycles, two roots, strange lengths and equal ids come up."""
    count = rng.choice((1, 2, 3, 8, 40))
    services = ("nginx", "post", "text", "user")
    spans: list[Span] = []
    for index in range(count):
        parent = "" if index == 0 else f"{rng.randrange(index) + 1:016x}"
        if rng.random() < 0.02:
            parent = f"{rng.randrange(count + 1):016x}"
        start = rng.randrange(0, 1000)
        length = rng.choice((0, 1, rng.randrange(1000), 10**9))
        kind = rng.choice(("internal", "server", "client", "producer", "consumer"))
        peer = rng.choice(("", "", "cache", "nginx"))
        identity = index + 1 if rng.random() > 0.01 else rng.randrange(count) + 1
        service, operation = rng.choice(services), rng.choice(services)
        spans.append((f"{identity:016x}", parent, service, operation, kind, start, start + length, peer, False))
    if rng.random() < 0.5:
        rng.shuffle(spans)
    return spans


def _break(parsed: Any, rng: random.Random) -> None:
    """Replace, remove or repeat something at a random place of a document."""
    at = parsed
    while True:
        inner = at.values() if isinstance(at, dict) else at if isinstance(at, list) else ()
        deeper = [child for child in inner if isinstance(child, dict | list) and child]
        if not deeper or rng.random() < 0.25:
            break
        at = rng.choice(deeper)
    if not at:
        return
    key: Any = rng.choice(list(at)) if isinstance(at, dict) else rng.randrange(len(at))
    action = rng.random()
    if action < 0.15:
        del at[key]
    elif action < 0.3 and isinstance(at, list):
        at.append(copy.deepcopy(at[key]))  # the same twice: duplicate ids
    elif action < 0.4 and isinstance(at, dict):
        at[rng.choice(list(at))] = copy.deepcopy(at[key])
    elif isinstance(at[key], int) and rng.random() < 0.5:
        at[key] = rng.choice((at[key] * 1000, at[key] // 1000, at[key] * 10**9, -at[key], at[key] + 0.5, str(at[key])))
    else:
        at[key] = copy.deepcopy(rng.choice(VALUES))  # later breaks may reach into it


def _damaged(document: bytes, rng: random.Random) -> bytes:
    """Return the bytes with one place cut, flipped, repeated or filled with noise."""
    if not document:
        return bytes(rng.randrange(256) for _ in range(rng.randrange(20)))
    begin = rng.randrange(len(document))
    end = min(len(document), begin + rng.choice((1, 1, 2, 16, 300)))
    noise = bytes(rng.randrange(256) for _ in range(rng.randrange(1, 9)))
    return rng.choice(
        (
            document[:begin],
            document[:begin] + document[end:],
            document[:begin] + noise + document[end:],
            document[:end] + document[begin:],
            document[:begin] + bytes([document[begin] ^ (1 << rng.randrange(8))]) + document[begin + 1 :],
            document[:begin] + str(rng.choice(NUMBERS)).encode() + document[end:],
        )
    )
