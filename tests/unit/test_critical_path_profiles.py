"""Many traces in numbers: shares, service times, contrasts, shapes, the graph, and what they leave to tune."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from framework.critical_path import comparison, graph
from framework.critical_path.analysis import by_operation
from framework.critical_path.attribution import charged
from framework.critical_path.breakdown import profiles, variation, weights
from framework.critical_path.extract import sections
from framework.critical_path.per_trace import PerTrace, per_trace
from framework.critical_path.reduce import Evidence, overlap, reduce
from framework.critical_path.shapes import shapes
from framework.errors import InputError
from framework.model import Estimate
from framework.model.decisions import Thresholds
from framework.model.spans import SpanTable
from tests.span_tables import Row, span_table

MS = 1_000_000


def request(number: int, first: int, front: int, back: int, cache: int = 0) -> list[Row]:
    """Return the rows, from ``first`` on, of a request that takes so many ms at web, at post and at post's cache."""
    whole = front + back + cache
    return [
        Row("loadgen", 0, whole * MS, kind="client", trace=number),
        Row("web", 0, whole * MS, first, kind="server", trace=number),
        Row("post", front * MS, whole * MS, first + 1, kind="server", trace=number),
        Row("post", front * MS, (front + cache) * MS, first + 2, kind="client", peer="cache", trace=number),
    ]


def many(*times: tuple[int, int, int]) -> SpanTable:
    rows: list[Row] = []
    for number, (front, back, cache) in enumerate(times):
        rows += request(number, len(rows), front, back, cache)
    return span_table(rows)


def table_of(spans: SpanTable) -> PerTrace:
    return per_trace(spans, charged(spans, "web"))


def test_shares_add_up_and_peers_count_as_services() -> None:
    by_name = {profile.name: profile for profile in profiles(table_of(many((1, 2, 1), (3, 2, 1), (2, 5, 3))))}
    assert set(by_name) == {"web", "post", "cache"}
    assert sum(profile.share.value for profile in by_name.values()) == pytest.approx(1.0)
    assert by_name["web"].share.value == pytest.approx(6 / 20)
    assert by_name["cache"].path_ms.value == pytest.approx(5 / 3)
    assert by_name["post"].p50_ms.value == 2.0
    assert all(profile.share.low <= profile.share.value <= profile.share.high for profile in by_name.values())


def test_the_mix_weighs_kinds_of_requests() -> None:
    rows = request(0, 0, 1, 1) + request(1, 4, 9, 1)
    spans = span_table(rows)
    other = spans.operation.copy()
    other[0] = spans.strings.index("post")
    mixed = SpanTable(**{**{name: getattr(spans, name) for name in SpanTable.__slots__}, "operation": other})
    table = table_of(mixed)
    assert weights(table).tolist() == [0.5, 0.5]
    assert weights(table, {"post": 3, "loadgen": 1}).tolist() == [0.75, 0.25]
    web = next(profile for profile in profiles(table, {"post": 1, "loadgen": 0}) if profile.name == "web")
    assert web.share.value == pytest.approx(0.5)
    with pytest.raises(InputError, match=r"found 'none'; allowed: loadgen, post"):
        weights(table, {"none": 1})


@given(st.lists(st.floats(0.1, 100), min_size=5, max_size=40))
def test_the_coefficient_of_variation(values: list[float]) -> None:
    shorter = variation(np.array(values))
    assert shorter.value == pytest.approx(np.std(values) / np.mean(values), abs=1e-9)
    assert shorter.low <= shorter.value <= shorter.high
    longer = variation(np.array(values * 4))
    assert longer.high - longer.low <= shorter.high - shorter.low + 1e-12


def test_the_interval_of_the_variation_covers_the_truth() -> None:
    rng = np.random.default_rng(1)
    intervals = [variation(rng.exponential(1.0, 400)) for _ in range(300)]
    covered = sum(interval.low <= 1.0 <= interval.high for interval in intervals)
    assert covered >= 0.88 * 300  # the delta method is a little short for heavy tails


def test_the_tail_is_explained_without_a_rest() -> None:
    times = [(1, 2, 1)] * 95 + [(1, 20, 1)] * 5
    contrast = comparison.tail(table_of(many(*times)))
    assert contrast.services[0].name == "post"
    assert contrast.services[0].difference_ms.value == pytest.approx(18.0)
    differences = sum(service.difference_ms.value for service in contrast.services)
    assert differences == pytest.approx(contrast.second_ms.value - contrast.first_ms.value)
    with pytest.raises(InputError, match="takes 20 or more"):
        comparison.tail(table_of(many((1, 2, 1))))


def test_two_sets_are_compared_service_by_service() -> None:
    before, after = table_of(many(*[(1, 2, 4), (1, 4, 4)] * 10)), table_of(many(*[(1, 2, 0), (1, 4, 0)] * 10))
    contrast = comparison.between(before, after)
    assert contrast.services[0].name == "cache"
    assert contrast.services[0].difference_ms.value == pytest.approx(-4.0)
    assert contrast.services[0].difference_ms.high < 0
    web = next(service for service in contrast.services if service.name == "web")
    assert web.difference_ms.low <= 0 <= web.difference_ms.high


def test_shapes_and_their_frequency() -> None:
    spans = many(*[(1, 2, 1)] * 3, (1, 2, 0))
    charges = charged(spans, "web")
    frequent = shapes(spans, charges, sections(spans))
    assert [(shape.services, shape.traces) for shape in frequent] == [
        (("web", "cache", "post"), 3),
        (("web", "post"), 1),
    ]
    assert frequent[0].mean_ms == 4.0


def test_the_graph_counts_calls_also_to_what_sends_no_spans() -> None:
    spans = many((1, 2, 1), (1, 2, 1))
    edges = {(edge.caller, edge.callee): edge for edge in graph.edges(spans, charged(spans, "web"))}
    assert set(edges) == {("web", "post"), ("post", "cache")}
    assert edges["web", "post"].per_request == 1.0
    assert edges["post", "cache"].mean_ms == 1.0
    unnamed = {(edge.caller, edge.callee) for edge in graph.edges(spans, charged(spans))}
    assert unnamed == {("loadgen", "web"), ("web", "post"), ("post", "cache")}


def test_operations_split_services() -> None:
    spans = many((1, 2, 1))
    charges = by_operation(spans, charged(spans, "web"))
    assert "cache: post" in charges.names
    assert sum(profile.share.value for profile in profiles(per_trace(spans, charges))) == pytest.approx(1.0)


def test_a_pattern_stands_for_a_peer_that_is_not_named() -> None:
    rows = request(0, 0, 1, 2, 1)
    rows[3] = rows[3]._replace(peer="")
    spans = span_table(rows)
    charges = charged(spans, "web", {"^post$": "its-cache"})
    assert [charges.names[index] for index in charges.service] == ["web", "web", "post", "its-cache"]


# ------------------------------------------------------------------------------------- reduction


def evidence(service: str, share: float, path_ms: float, cv: float) -> Evidence:
    def exact(value: float) -> Estimate:
        return Estimate(value, value, value, 100)

    return Evidence(service, exact(share), exact(path_ms), exact(cv))


FOUND = [evidence("web", 0.5, 3, 0.2), evidence("post", 0.4, 2, 0.9), evidence("text", 0.095, 0.4, 0.8),
         evidence("media", 0.005, 2, 0.7)]  # fmt: skip
TUNABLE = {"web": 5, "post": 7, "text": 6, "media": 6, "user": 4}


@pytest.mark.parametrize(
    ("kind", "kept"),
    [
        ("none", ["web", "post", "text", "media", "user"]),
        ("soft", ["web", "post", "text", "media", "user"]),
        ("critical-path", ["web", "post"]),
        ("variability", ["post", "text", "media"]),
        ("path+variability", ["post"]),
        ("bottlenecks", ["user"]),
    ],
)
def test_what_each_reduction_keeps(kind: str, kept: list[str]) -> None:
    reduction = reduce(kind, FOUND, TUNABLE, bottlenecks=["user"])
    assert list(reduction.kept) == kept
    assert {*reduction.kept, *(service.service for service in reduction.removed)} == set(TUNABLE)
    assert reduction.parameters == sum(TUNABLE[service] for service in kept)
    assert reduction.parameters_before == 28
    assert all(service.reason for service in reduction.removed)
    assert reduction.priors.keys() == set(kept)
    assert max(reduction.priors.values()) == 1.0


def test_reasons_carry_their_numbers() -> None:
    reasons = {removed.service: removed.reason for removed in reduce("critical-path", FOUND, TUNABLE).removed}
    assert reasons["user"] == "it appears in no trace"
    assert all(text in reasons["text"] for text in ("0.4 ms", "1 ms"))
    assert all(text in reasons["media"] for text in ("0.50%", "1.0%"))


def test_thresholds_are_options_and_an_empty_space_is_refused() -> None:
    assert reduce("critical-path", FOUND, TUNABLE, thresholds=Thresholds(path_ms=0.0)).kept == ("web", "post", "text")
    with pytest.raises(InputError, match="would leave nothing to tune"):
        reduce("critical-path", FOUND, TUNABLE, thresholds=Thresholds(share=0.9))
    with pytest.raises(InputError, match=r"found nobody; allowed: web"):
        reduce("bottlenecks", FOUND, TUNABLE, bottlenecks=["nobody"])
    with pytest.raises(InputError, match=r"found 'hard'; allowed: none, critical-path"):
        reduce("hard", FOUND, TUNABLE)


def test_priors_follow_the_shares() -> None:
    priors = reduce("soft", FOUND, TUNABLE).priors
    assert priors["web"] == 1.0
    assert priors["post"] == pytest.approx(0.8)
    assert priors["user"] == 0.05


def test_the_overlap_of_subsets() -> None:
    overlaps = overlap([reduce("critical-path", FOUND, TUNABLE), reduce("variability", FOUND, TUNABLE)])
    assert overlaps == {("critical-path", "variability"): 0.25}
