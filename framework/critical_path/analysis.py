"""The analysis of a set of traces: all results that ``tailor analyze`` prints and draws."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from framework.critical_path import comparison, graph
from framework.critical_path.attribution import Charges, charged
from framework.critical_path.breakdown import ServiceBreakdown, kinds, profiles
from framework.critical_path.comparison import Groups
from framework.critical_path.extract import Sections, sections
from framework.critical_path.graph import Edge
from framework.critical_path.per_trace import PerTrace, per_trace
from framework.critical_path.shapes import Shape, shapes
from framework.critical_path.skew import Mode, adjusted
from framework.errors import InputError
from framework.model import Estimate
from framework.model.estimates import mean, quantile
from framework.model.spans import SpanTable, TraceSet

ENOUGH_FOR_A_TAIL = 20


@dataclass(frozen=True, slots=True)
class View:
    """Options of an analysis.

    ``entry``: the service that clients call.  ``peers``: pattern of an operation -> service, for calls that name no
    peer.  ``mix``: weight of each kind of request.
    """

    skew: Mode = "auto"
    tolerance: float = 0.0
    entry: str = ""
    peers: Mapping[str, str] | None = None
    mix: Mapping[str, float] | None = None


@dataclass(frozen=True, slots=True)
class Analysis:
    """Results of an analysis.  ``latency``: in ms by name (mean, p50, p95, p99).  ``requests``: kind -> traces."""

    traces: TraceSet
    view: View
    spans: SpanTable  # after clock-skew adjustment
    moved: int  # spans that the adjustment moved
    charges: Charges
    sections: Sections
    table: PerTrace
    latency: Mapping[str, Estimate]
    requests: Mapping[str, int]
    services: tuple[ServiceBreakdown, ...]
    operations: tuple[ServiceBreakdown, ...]
    tail: Groups | None  # None: too few traces
    shapes: tuple[Shape, ...]
    edges: tuple[Edge, ...]


def analyse(traces: TraceSet, view: View = View()) -> Analysis:
    """Analyse traces.  Raises InputError when there is no usable trace."""
    if not len(traces.spans.traces):
        reasons = [f"{count} rejected: {reason}" for reason, count in traces.rejected.items()]
        reasons += [f"{name}: {why}" for name, why in traces.unreadable.items()]
        raise InputError(f"no usable trace in {', '.join(traces.sources)}: {'; '.join(reasons) or 'they are empty'}")
    spans = adjusted(traces.spans, view.skew)
    charges = charged(spans, view.entry, view.peers)
    table = per_trace(spans, charges, tolerance=view.tolerance)
    path = sections(spans, tolerance=view.tolerance)
    latency_ms = np.sort(table.root_ns) / 1e6
    return Analysis(
        traces=traces,
        view=view,
        spans=spans,
        moved=int((spans.start_ns != traces.spans.start_ns).sum()),
        charges=charges,
        sections=path,
        table=table,
        latency={"mean": mean(table.root_ns / 1e6)}
        | {f"p{percent}": quantile(latency_ms, percent / 100) for percent in (50, 95, 99)},
        requests={kind: int((table.request == table.requests.index(kind)).sum()) for kind in kinds(table)},
        services=profiles(table, view.mix),
        operations=profiles(per_trace(spans, by_operation(spans, charges), tolerance=view.tolerance), view.mix),
        tail=comparison.tail(table) if table.traces >= ENOUGH_FOR_A_TAIL else None,
        shapes=shapes(spans, charges, path),
        edges=graph.edges(spans, charges),
    )


def by_operation(spans: SpanTable, charges: Charges) -> Charges:
    """Split charges by the operation of the span: "service: operation"."""
    pair = charges.service.astype(np.int64) * len(spans.strings) + spans.operation
    pairs, index = np.unique(pair, return_inverse=True)
    count = len(spans.strings)
    names = tuple(f"{charges.names[code // count]}: {spans.strings[code % count]}" for code in pairs)
    return Charges(names, index.astype(np.int32))
