"""Real traces of DeathStarBench: nothing is rejected, every sum is exact, and clock skew is what it is known to be."""

from __future__ import annotations

import gzip
import json
import random
import re
from functools import cache
from pathlib import Path

import numpy as np
import orjson
import pytest
from typer.testing import CliRunner

from framework.cli.main import app
from framework.config.space import along_the_path
from framework.critical_path.analysis import View, analyse
from framework.critical_path.extract import path_time_ns, sections
from framework.critical_path.service_time import service_times
from framework.critical_path.skew import adjusted
from framework.model.spans import SpanTable, TraceSet
from framework.traces.files import read_all
from optimizer.algorithms.serial import Serial
from optimizer.space import Parameter, SearchSpace
from tests.unit.test_critical_path_extract import by_the_book

REAL = Path(__file__).resolve().parents[1] / "cases" / "traces" / "real"
FILES = sorted(REAL.glob("*.json.gz"))
HOTEL = REAL / "hotel-reservation-load25.json.gz"


@cache
def traces(path: Path) -> TraceSet:
    return read_all([str(path)])


def outside(spans: SpanTable) -> int:
    """Return the number of spans that lie wholly outside their parent, so that clipping would drop them."""
    rows = np.flatnonzero(spans.parent >= 0)
    above = spans.parent[rows]
    away = (spans.start_ns[rows] >= spans.end_ns[above]) | (spans.end_ns[rows] <= spans.start_ns[above])
    return int(away.sum())


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_nothing_is_rejected_and_every_sum_is_exact(path: Path) -> None:
    extraction = traces(path)
    assert (extraction.rejected, extraction.unreadable) == ({}, {})
    for spans in (extraction.spans, adjusted(extraction.spans, "on")):
        root = np.flatnonzero(spans.parent == -1)
        total = np.zeros(len(spans.traces), dtype=np.int64)
        np.add.at(total, spans.trace, path_time_ns(spans))
        assert (total[spans.trace[root]] == (spans.end_ns - spans.start_ns)[root]).all()
        pieces = sections(spans)
        listed = list(zip(pieces.row.tolist(), pieces.start_ns.tolist(), pieces.end_ns.tolist(), strict=True))
        assert listed == by_the_book(spans, 0.0)


def test_there_are_thousands() -> None:
    assert [len(traces(path).spans.traces) for path in FILES] == [400, 300, 2_500]
    assert [len(traces(path).spans) for path in FILES] == [4_400, 8_100, 22_631]


def test_caches_and_databases_are_among_the_services_though_they_send_no_spans() -> None:
    extraction = traces(REAL / "social-network-load150.json.gz")
    sending = {extraction.spans.strings[service] for service in set(extraction.spans.service)}
    told = {service.name: service.share.value for service in analyse(extraction, View(entry="nginx")).services}
    silent = {"post-storage-memcached", "home-timeline-redis", "post-storage-db", "nginx"}
    assert not silent & sending
    assert all(told[name] > 0.03 for name in silent)
    assert sum(told.values()) == pytest.approx(1.0)


def test_services_have_their_places_along_the_path() -> None:
    rows = service_times(traces(REAL / "social-network-load150.json.gz").spans, "nginx")
    depth = {row.service: row.depth for row in rows}
    assert depth["nginx"] < depth["home-timeline"] < depth["post-storage"] < depth["post-storage-memcached"]
    groups = ("elsewhere", "post-storage-db", "post-storage", "nginx")
    space = SearchSpace([Parameter(f"{group}.x", "integer", 1, low=1, high=3, group=group) for group in groups])
    serial = Serial(along_the_path(space, rows), seed=1, budget=8)
    assert serial._groups() == ["nginx", "post-storage", "post-storage-db", "elsewhere"]


def test_clipping_alone_would_drop_spans_and_the_adjustment_keeps_them() -> None:
    spans = traces(HOTEL).spans
    before = outside(spans)
    assert 0 < before < 0.05 * len(spans)
    assert outside(adjusted(spans, "on")) == 0
    assert outside(adjusted(spans, "auto")) == before, "these traces name no host.id: nothing may be assumed"


def test_the_order_of_spans_in_the_file_does_not_matter(tmp_path: Path) -> None:
    document = orjson.loads(gzip.decompress(HOTEL.read_bytes()))
    rng = random.Random(1)
    for trace in document["data"]:
        rng.shuffle(trace["spans"])
    rng.shuffle(document["data"])
    (tmp_path / "shuffled.json").write_bytes(orjson.dumps(document))
    as_stored, shuffled = (
        analyse(extraction, View(skew="on")) for extraction in (traces(HOTEL), read_all([str(tmp_path)]))
    )
    assert [s.name for s in as_stored.services] == [s.name for s in shuffled.services]
    for left, right in zip(as_stored.services, shuffled.services, strict=True):
        assert left.share.value == pytest.approx(right.share.value)
        assert left.mean_ms.value == pytest.approx(right.mean_ms.value)
    assert as_stored.shapes[0].services == shuffled.shapes[0].services


def test_analyze_prints_and_draws_what_it_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TAILOR_HOME", str(tmp_path))
    page = tmp_path / "page.html"
    ran = CliRunner().invoke(
        app, ["analyze", str(HOTEL), "--skew", "on", "--output", str(page), "--json", "--against", str(HOTEL)]
    )
    assert ran.exit_code == 0, ran.output
    document = json.loads(ran.stdout)
    assert (document["traces"], document["spans"], document["rejected"]) == (400, 4_400, {})
    assert sum(service["share"]["value"] for service in document["services"]) == pytest.approx(1.0)
    assert all(service["difference_ms"]["value"] == 0 for service in document["against"]["services"])
    text = page.read_text()
    assert text.count("<svg") == 7
    assert not re.search(r"(?:src|href)=\"(?!#)", text), "it loads nothing"
    for service in document["services"]:
        assert service["name"] in text
    for columns, header in (("60", "p95$"), ("200", r"on it \[ms\] +mean \[ms\] +p95 +p99 +CV +requests$")):
        table = CliRunner().invoke(app, ["analyze", str(HOTEL), "--output", str(page)], env={"COLUMNS": columns})
        assert table.exit_code == 0
        assert "slowest" in table.stdout
        first = next(line for line in table.stdout.splitlines() if line.startswith("service "))
        assert re.search(header, first.rstrip())
        assert "…" not in table.stdout[table.stdout.index(first) :][: 8 * len(first)], "no number is cut"
