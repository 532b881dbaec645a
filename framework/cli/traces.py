"""Commands about traces: analyze, compare."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, cast

import typer
from rich.console import Console
from rich.table import Table

from framework.cli.session import opened, output, print_json
from framework.cli.terminal import escape
from framework.critical_path.analysis import Analysis, View
from framework.critical_path.breakdown import ServiceBreakdown
from framework.critical_path.comparison import Groups, between
from framework.critical_path.skew import Mode
from framework.errors import InputError
from framework.model import Estimate

SHOWN = 15
LEAST_NAME = 12  # characters of a service's name
FIRST_TO_GO = ("CV", "requests", "p99", "mean [ms]")  # where a terminal is narrow
SKEWS = ("auto", "on", "off")


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    app.command()(analyze)
    app.command()(compare)


def analyze(
    sources: Annotated[list[str], typer.Argument(metavar="FILE|DIRECTORY|URL...", help="Traces.")],
    against: Annotated[
        list[str] | None, typer.Option(help="Compare with these traces (repeatable): service by service.")
    ] = None,
    form: Annotated[
        str | None,
        typer.Option(
            "--format",
            help="jaeger, otlp, otlp-protobuf, zipkin, or another package's [default: found from the content].",
        ),
    ] = None,
    skew: Annotated[
        str, typer.Option(help="Adjust clocks: auto (between known hosts), on (between addresses), off.")
    ] = "auto",
    tolerance: Annotated[
        float, typer.Option(help="Siblings that overlap by less than this fraction of their parent are a chain.")
    ] = 0.0,
    entry: Annotated[str, typer.Option(help="The service that clients call.")] = "",
    peer: Annotated[
        list[str] | None,
        typer.Option(help="pattern=service: whom calls of such an operation reach (repeatable)."),
    ] = None,
    mix: Annotated[
        list[str] | None,
        typer.Option(help="operation=weight of a kind of request (repeatable) [default: as found]."),
    ] = None,
    page: Annotated[Path | None, typer.Option("--output", help="HTML page to write.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document on standard output.")] = False,
) -> None:
    """Show where the time of requests goes: the critical path of traces from files or from Jaeger."""
    if skew not in SKEWS:
        raise InputError(f"--skew: found {skew!r}; allowed: {', '.join(SKEWS)}")
    if not 0 <= tolerance < 1:
        raise InputError(f"--tolerance: found {tolerance:g}; allowed: from 0 to below 1")
    weights = {name: _weight(name, text) for name, text in _pairs("--mix", mix).items()}
    view = View(cast("Mode", skew), tolerance, entry, _peers(peer), weights)
    traces = opened().traces
    analysis = traces.analyse(sources, view, form)
    other = traces.analyse(against, view, form) if against else None
    written = traces.write_analysis(analysis, page, other)
    if as_json:
        print_json(document(analysis, other, written))
        return
    _show(output, analysis)
    if other is not None:
        show_groups(output, between(analysis.table, other.table), "this set", "the other")
    elif analysis.tail is not None:
        show_groups(output, analysis.tail, "typical", "slowest 5 %")
    output.print(f"page: {written}", soft_wrap=True)


def compare(
    first: Annotated[str, typer.Argument(metavar="STUDY[:default]", help="A study's best, or its default.")],
    second: Annotated[str, typer.Argument(metavar="STUDY[:default]")],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document on standard output.")] = False,
) -> None:
    """Compare where the time of requests goes in two configurations, service by service."""
    traces = opened().traces
    groups = traces.compare(first, second)
    names = [traces.labelled(name) for name in (first, second)]
    if as_json:
        print_json({"first": names[0], "second": names[1], "groups": groups})
    else:
        show_groups(output, groups, *names)


def show_groups(output: Console, groups: Groups, first: str, second: str) -> None:
    """Print two groups of requests, service by service."""
    table = Table(box=None, pad_edge=False)
    table.add_column("on the path, ms per request", no_wrap=True)
    for column in (first, second, "difference"):
        table.add_column(column, justify="right")
    table.add_row("all", _text(groups.first_ms), _text(groups.second_ms), "")
    for service in groups.services[:8]:
        table.add_row(
            escape(service.name), _text(service.first_ms), _text(service.second_ms), _text(service.difference_ms)
        )
    output.print(table)


def document(analysis: Analysis, other: Analysis | None, page: Path) -> dict[str, Any]:
    """Return the analysis as ``--json`` prints it."""
    return {
        "sources": analysis.traces.sources,
        "traces": analysis.table.traces,
        "spans": len(analysis.spans),
        "rejected": analysis.traces.rejected,
        "unreadable": analysis.traces.unreadable,
        "spans_moved": analysis.moved,
        "requests": analysis.requests,
        "latency_ms": analysis.latency,
        "services": analysis.services,
        "operations": analysis.operations,
        "tail": analysis.tail,
        "against": between(analysis.table, other.table) if other else None,
        "shapes": analysis.shapes,
        "calls": analysis.edges,
        "page": str(page),
    }


def _show(output: Console, analysis: Analysis) -> None:
    latency = ", ".join(f"{name} {_text(value)} ms" for name, value in analysis.latency.items())
    output.print(f"{analysis.table.traces:,} requests, {len(analysis.spans):,} spans: {latency}", soft_wrap=True)
    for reason, count in analysis.traces.rejected.items():
        output.print(f"[yellow]{count} traces rejected: {reason}")
    for name, why in analysis.traces.unreadable.items():
        output.print(f"[yellow]{escape(name)}: {escape(why)}", soft_wrap=True)
    if analysis.moved:
        output.print(f"clock skew: the times of {analysis.moved:,} spans were adjusted")
    output.print(_services(analysis.services[:SHOWN], output.width))
    if len(analysis.services) > SHOWN:
        output.print(f"and {len(analysis.services) - SHOWN} more services: see the page")
    if analysis.shapes:
        most = analysis.shapes[0]
        part = 100 * most.traces / analysis.table.traces
        output.print(f"most frequent path ({part:.0f} %): {escape(' > '.join(most.services))}", soft_wrap=True)


def _services(services: Sequence[ServiceBreakdown], width: int) -> Table:
    """Make a table with as many columns as ``width`` has room for; no number is cut, the page and --json have all."""
    rows = []
    for service in services:
        part = service.share
        share = Estimate(100 * part.value, 100 * part.low, 100 * part.high, part.count)
        rows.append({
            "service": escape(service.name), "path [%]": _text(share), "on it [ms]": _text(service.path_ms),
            "mean [ms]": _text(service.mean_ms), "p95": f"{service.p95_ms.value:.3g}",
            "p99": f"{service.p99_ms.value:.3g}", "CV": f"{service.cv.value:.2f}", "requests": f"{service.traces:,}",
        })  # fmt: skip
    wide = {name: max(len(name), *(len(row[name]) for row in rows)) for name in rows[0]} if rows else {}
    numbers = [name for name in wide if name != "service"]
    for name in FIRST_TO_GO:
        if rows and LEAST_NAME + sum(wide[number] + 2 for number in numbers) > width:
            numbers.remove(name)
    table = Table(box=None, pad_edge=False)
    table.add_column(
        "service", no_wrap=True, max_width=max(LEAST_NAME, width - sum(wide[number] + 2 for number in numbers))
    )
    for name in numbers:
        table.add_column(escape(name), justify="right", no_wrap=True, min_width=wide[name])
    for row in rows:
        table.add_row(row["service"], *(row[name] for name in numbers))
    return table


def _text(value: Estimate) -> str:
    """Write a value with half of its interval, short enough for a terminal; the page and --json give both ends."""
    half = (value.high - value.low) / 2
    return f"{value.value:.3g} ±{half:.2g}" if math.isfinite(half) else f"{value.value:.3g}"


def _pairs(option: str, given: list[str] | None) -> dict[str, str]:
    pairs = {}
    for text in given or []:
        name, separator, value = text.rpartition("=")
        if not separator or not name or not value:
            raise InputError(f"{option}: found {text!r}; allowed: name=value")
        pairs[name] = value
    return pairs


def _peers(given: list[str] | None) -> dict[str, str]:
    peers = _pairs("--peer", given)
    for pattern in peers:
        try:
            re.compile(pattern)
        except re.error as error:
            raise InputError(f"--peer: found {pattern!r}; allowed: a regular expression ({error})") from None
    return peers


def _weight(name: str, text: str) -> float:
    try:
        weight = float(text)
    except ValueError:
        weight = -1.0
    if not 0 <= weight < float("inf"):
        raise InputError(f"--mix {name}: found {text!r}; allowed: a number from 0")
    return weight
