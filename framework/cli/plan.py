"""Command for planning machines: plan."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from framework.capacity.counting import CONFIDENCE, DRAWS
from framework.capacity.laws import MOST_TIMES
from framework.cli import options, terminal
from framework.cli.machine import rate_line
from framework.cli.plan_output import show
from framework.cli.session import messages, opened, output, print_json
from framework.config.node_file import load_node
from framework.errors import FieldError, FieldName, InputError
from framework.model.capacity import Interval, ScalingPoint
from framework.model.documents import encode
from framework.model.events import Event, ProfileStepStarted, RateMeasured
from framework.model.node_measurement import NodeMeasurement, NodeRequest
from framework.use_cases.capacity import PlanRequest, check_page, read_inputs

if TYPE_CHECKING:
    from framework.bootstrap.adapters import Opened

MOST_CORES = 4096
MOST_RPS = 1e12
POINTS = (
    "CORES:RPS or CORES:RPS:SPREAD (the standard error of RPS), with commas between, such as "
    "1:90000,4:340000,16:1123453:20000"
)
SPEED = "PATTERN=SPEED or PATTERN=LOW,LIKELY,HIGH, above 0, such as '*Graviton*=0.8,0.9,1.1'"
CORES = "whole numbers with commas between, such as 1,2,4"
_OF_NODE = ("node", "node_from", "measure")
_OF_MEASURING = (
    "quick", "again", "cores", "runs", "duration", "start_rps", "limit", "operations", "read_request", "write_request",
    "node_file", "testbed", "limits",
)  # fmt: skip
_RANGES = {
    "confidence": (0, 1),
    "draws": (100, 20_000),
    "seed": (0, 2**31 - 1),
    "most_nodes": (1, 1_000_000),
    "most_times": (1, 1_000),
}
"""Of numbers that are wanted after the sweeps, and are better checked before."""

Need = Annotated[Path, typer.Argument(metavar="NEED", help="A need.yaml.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document on standard output.")]
Texts, Files, File, Number = list[str] | None, list[Path] | None, Path | None, float | None
_SHIPPED = "Machine types with prices (repeatable) [default: EC2's of 2023, which come with Tailor]."
_MEASURE = "Sweep this application on 1 to all cores, each up to its knee; goes on where it was stopped."
_FROM = (
    "Plan with a study's best configuration, and tell its gain in money: swept beside the default with --measure, else "
    "by the CPU time in its verdict."
)
_OPERATIONS = "Requests of the need in one of the load, which may send bursts [default: what the application says]."
_READ = "A request of the workload that counts as a read (repeatable) [default: all count as both]."


def _option(*flags: str, **about: Any) -> Any:
    return typer.Option(*flags, **about)


OPTIONS: Mapping[str, tuple[Any, Any, Any]] = {
    "catalogue": (Files, None, _option(help=_SHIPPED)),
    "node": (str | None, None, _option(metavar="POINTS", help=f"Reads/s that one node gave: {POINTS}.")),
    "node_writes": (str | None, None, _option(metavar="POINTS", help="Writes/s of one node [default: as reads].")),
    "node_from": (File, None, _option(metavar="FILE", help="Sweeps of a node that --measure has kept.")),
    "measure": (File, None, _option(metavar="APP", help=_MEASURE)),
    "from_study": (str, "", _option("--from", metavar="STUDY", help=_FROM)),
    "quick": (bool, False, _option("--quick", help="Sweep fewer sizes, shorter and coarser: a first look.")),
    "again": (bool, False, _option("--again", help="Sweep anew; what was measured is lost.")),
    "cores": (str, "", _option(metavar="CORES", help=f"Sizes to sweep: {CORES} [default: up to all].")),
    "runs": (int, 1, _option(min=1, help="Sweeps of each size.")),
    "duration": (str, "", _option(help="Measured window of a sweep [default: 10s, or 6s with --quick].")),
    "start_rps": (Number, None, _option("--start", help="First rate of the first sweep, requests per second.")),
    "limit": (
        str,
        "",
        _option(help="Of p95; passed where a node no longer keeps up, it ends a sweep [default: 500ms]."),
    ),
    "operations": (Number, None, _option(help=_OPERATIONS)),
    "read_request": (Texts, None, _option(metavar="NAME", help=_READ)),
    "write_request": (Texts, None, _option(metavar="NAME", help="One that counts as a write; swept apart.")),
    "node_file": (File, None, _option(metavar="FILE", help="Where sweeps are kept [default: below TAILOR_HOME].")),
    "testbed": (str, "auto", options.option_of("testbed")),
    "limits": (Texts, None, options.option_of("limits")),
    "speed": (Texts, None, _option(metavar="PATTERN=SPEED", help=f"Speed of other CPUs' cores: {SPEED}.")),
    "region": (Texts, None, _option(help="Only these regions (repeatable).")),
    "currency": (str, "", _option(help="Where the catalogues have several; prices are not converted.")),
    "confidence": (float, CONFIDENCE, _option(help="Share of the cases in which the machines are enough.")),
    "draws": (int, DRAWS, _option(help="Cases drawn from the need's intervals and the laws.")),
    "seed": (int, 0, _option(help="Of the cases, not of the sweeps.")),
    "most_nodes": (int, 1_000, _option(help="Most machines of a plan.")),
    "top": (int, 10, _option(min=1, help="Plans to show.")),
    "most_times": (float, MOST_TIMES, _option(help="Most times the measured cores that a law is asked for.")),
    "extrapolate": (bool, False, _option("--extrapolate", help="Ask the laws beyond that; plans are marked.")),
    "media": (bool, False, _option("--media", help="Compare memory with disks, 1 to 100 TB.")),
    "page": (File, None, _option(metavar="FILE", help="The HTML page [default: below TAILOR_HOME].")),
}
"""Name -> (type, default, flag and help)."""


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    app.command()(plan)


@options.with_table(OPTIONS)
def plan(context: typer.Context, need: Need, as_json: Json = False, **given: Any) -> None:
    """Plan machines for a stated need: how many of which type, what they cost, what binds.  Exits 1 without a plan."""
    _check_node(given, options.typed_in(context))
    tailor = opened()
    study = tailor.store.get(given["from_study"]).id if given["from_study"] else ""
    request = _request(need, {**given, "from_study": study})
    if given["page"] is not None:
        check_page(given["page"])
    if given["measure"] is not None:  # before hours of measuring
        read_inputs(request)
    node = _node(tailor, {**given, "from_study": study})
    if study and node is not None:
        _check_application(tailor, study, node)
    swept = node is not None and node.study == study
    ratio = tailor.results.cpu_ratio(study) if study and not swept else None
    with messages.status("planning"):
        made = tailor.plans.make(replace(request, node=node, cpu_ratio=ratio), given["page"])
    if as_json:
        print_json({"plan": made.id, "page": made.page, **encode(made.answer)})
    else:
        show(output, made.answer)
        output.print(f"page: {made.page}", soft_wrap=True)
    if not made.answer.plans.plans:
        raise typer.Exit(1)


def _check_node(given: Mapping[str, Any], typed: Collection[str]) -> None:
    """Check that a node is given in one way, and options of measuring only where it is measured.  Raises InputError."""
    if sum(given[name] is not None for name in _OF_NODE) != 1:
        named = [f"--{name.replace('_', '-')}" for name in _OF_NODE if given[name] is not None]
        raise InputError(
            f"the node: found {' and '.join(named) or 'nothing'}; allowed: one of ", FieldName("node"), ", ",
            FieldName("node_from"), " and ", FieldName("measure"),
        )  # fmt: skip
    if given["node_writes"] is not None and given["node"] is None:
        raise InputError(FieldName("node_writes"), ": allowed with ", FieldName("node"))
    for name in _OF_MEASURING:
        if name in typed and given["measure"] is None:
            raise InputError(FieldName(name), ": allowed with ", FieldName("measure"))
    for name, (least, most) in _RANGES.items():
        if not least <= given[name] <= most:
            raise FieldError(name, given[name], f"{least:g} to {most:,}")


def _check_application(tailor: Opened, study: str, node: NodeMeasurement) -> None:
    """Check that a study is of the application that was swept.  Raises FieldError."""
    tuned = tailor.store.get(study).application_name
    if tuned != node.application:
        raise FieldError("from_study", study, f"a study of {node.application}, which was swept, not of {tuned}")


def _node(tailor: Opened, given: Mapping[str, Any]) -> NodeMeasurement | None:
    """Return the sweeps of a node, measured now or before; None where points are given."""
    if given["node_from"] is not None:
        return load_node(given["node_from"])
    if given["measure"] is None:
        return None

    def watch(event: Event) -> None:
        match event:
            case ProfileStepStarted(step):
                messages.print(step)
            case RateMeasured(step):
                messages.print(f"  {rate_line(step)}", soft_wrap=True)

    request = NodeRequest(
        given["measure"],
        study=given["from_study"],
        reads=tuple(given["read_request"] or ()),
        writes=tuple(given["write_request"] or ()),
        cores=_cores(given["cores"]),
        runs=given["runs"],
        window_s=terminal.seconds("--duration", given["duration"]) if given["duration"] else None,
        start_rps=given["start_rps"],
        operations=given["operations"],
        limit_ms=1e3 * terminal.seconds("--limit", given["limit"]) if given["limit"] else None,
        limits=terminal.limits(given["limits"] or []),
        testbed=given["testbed"],
        quick=given["quick"],
    )
    node, path = tailor.nodes.measure(request, watch, given["node_file"], again=given["again"])
    messages.print(f"sweeps: {path}", soft_wrap=True)
    return node


def _request(need: Path, given: Mapping[str, Any]) -> PlanRequest:
    """Return the question without the sweeps of a node, which may have to be made yet.  Raises FieldError."""
    points = {name: _points(name, given[name]) for name in ("node", "node_writes") if given[name] is not None}
    return PlanRequest(
        need=need,
        catalogues=given["catalogue"] or (),
        reads=points.get("node", ()),
        writes=points.get("node_writes", ()),
        speeds=dict(_speed(text) for text in given["speed"] or []),
        regions=given["region"] or (),
        currency=given["currency"],
        confidence=given["confidence"],
        draws=given["draws"],
        seed=given["seed"],
        most_nodes=given["most_nodes"],
        most_plans=given["top"],
        most_times=given["most_times"],
        extrapolate=given["extrapolate"],
        media=given["media"],
        study=given["from_study"],
    )


def _cores(text: str) -> tuple[int, ...]:
    parts = text.split(",") if text else []
    if not all(part.isascii() and part.isdigit() and 1 <= int(part) <= MOST_CORES for part in parts):
        raise FieldError("cores", text, f"{CORES}; 1 to {MOST_CORES}")
    return tuple(sorted({int(part) for part in parts}))


def _points(field: str, text: str) -> Sequence[ScalingPoint]:
    points = []
    for part in text.split(","):
        try:
            values = [float(number) for number in part.split(":")]
            cores, rps, spread = [*values, 0.0][:3]
        except ValueError:
            raise FieldError(field, part, POINTS) from None
        if len(values) > 3 or not (1 <= cores <= MOST_CORES and 0 < rps <= MOST_RPS and 0 <= spread < rps):
            bounds = f"1 to {MOST_CORES:,} cores, RPS above 0 and up to {MOST_RPS:.0e}, SPREAD below RPS"
            raise FieldError(field, part, f"{POINTS}; {bounds}")
        points.append(ScalingPoint(cores, rps, spread))
    return points


def _speed(text: str) -> tuple[str, Interval]:
    pattern, _, numbers = text.rpartition("=")
    number = r"\d+(?:\.\d+)?"
    values = (
        [float(value) for value in numbers.split(",")]
        if re.fullmatch(f"{number}(,{number},{number})?", numbers)
        else []
    )
    if not pattern or not values or min(values) <= 0 or values != sorted(values):
        raise FieldError("speed", text, SPEED)
    return pattern, Interval(values[0], values[len(values) // 2], values[-1])
