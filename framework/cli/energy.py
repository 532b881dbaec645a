"""Commands about energy: energy (run, show, compare, scale)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from framework.cli import options, terminal
from framework.cli.energy_output import show, show_comparison, show_scaling
from framework.cli.groups import RunByDefault
from framework.cli.machine import rate_line
from framework.cli.session import messages, opened, output, print_json
from framework.config.energy_file import load_energy
from framework.errors import FieldError, FieldName, InputError
from framework.model.documents import encode
from framework.model.energy import LEVELS
from framework.model.energy_measurement import PHASES, EnergyRequest
from framework.model.events import Event, ProfileStepStarted, RateMeasured, RepetitionFinished
from framework.use_cases.energy import MeasuredEnergy

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document on standard output.")]
Application = Annotated[Path, typer.Argument(metavar="APP", help="Directory of an application.yaml.")]
Texts, File = list[str] | None, Path | None
POWER = (
    "Power source, NAME or NAME:ARGUMENT, such as rapl, hwmon, ipmi, recording:FILE, csv:FILE, prometheus:URL, "
    "curve:IDLE,FULL (watts), tdp; auto: the best that works here."
)
_FROM = "Measure the best configuration of this study instead of the default."
_RATE = "Requests per second, with commas between [default: the application's own]."
_DISK = (
    "Let each service read from a disk, and write to it, at most so many MB/s, as of a slower one; with compare: the "
    "second's."
)
_FILE = "Where the windows are kept [default: below TAILOR_HOME]."


def _option(*flags: str, **about: Any) -> Any:
    return typer.Option(*flags, **about)


MEASURING: Mapping[str, tuple[Any, Any, Any]] = {
    "rate": (Texts, None, _option(help=_RATE)),
    "phases": (str, ",".join(PHASES), _option(help="Phases to measure, with commas between.")),
    "power": (str, "auto", _option(metavar="SOURCE", help=POWER)),
    "rounds": (int | None, None, _option(help="Rounds, each with every phase [default: 10, or 3 with --quick].")),
    "duration": (str, "", _option(help="Measured window [default: 30s, or 10s with --quick].")),
    "warmup": (str, "", _option(help="Load before each window [default: 10s, or 3s with --quick].")),
    "disk": (float, 0.0, _option(help=_DISK)),
    "io": (str, "device", _option(help=f"Where I/O operations are counted: {', '.join(LEVELS)}.")),
    "trace": (bool, False, _option("--trace", help="Trace the load too, as studies do.")),
    "seed": (int, 1, _option(help="Of the order of windows and of the arrivals.")),
    "testbed": (str, "auto", options.option_of("testbed")),
    "limits": (Texts, None, options.option_of("limits")),
    "quick": (bool, False, _option("--quick", help="Fewer and shorter windows: a first look.")),
    "again": (bool, False, _option("--again", help="Measure anew; what was measured is lost.")),
}
"""Name -> (type, default, flag and help) of the options of measuring."""

OF_RUN: Mapping[str, tuple[Any, Any, Any]] = {
    **MEASURING,
    "from_study": (str, "", _option("--from", metavar="STUDY", help=_FROM)),
    "file": (File, None, _option(metavar="FILE", help=_FILE)),
    "page": (File, None, _option(metavar="FILE", help="The HTML page [default: beside the file].")),
}


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    group = typer.Typer(
        cls=RunByDefault,
        no_args_is_help=True,
        help="Measure what a request and an I/O operation of an application cost, in cycles and joules.",
    )
    app.add_typer(group, name="energy")
    group.command("run")(energy)
    group.command("show")(show_file)
    group.command("compare")(compare)
    group.command("scale")(scale)


@options.with_table(OF_RUN)
def energy(application: Application, as_json: Json = False, **given: Any) -> None:
    """Measure what a request and an I/O operation of an application cost, in cycles and joules.

    Rounds of windows in which nothing of it runs, in which it is up without load, and under load.  Goes on where it was
    stopped.
    """
    tailor = opened()
    study = tailor.store.get(given["from_study"]).id if given["from_study"] else ""
    request = _request(application, given, study)
    measured = tailor.energies.measure(
        request, _watch, given["file"], level=given["io"], page=given["page"], again=given["again"]
    )
    _told(measured, as_json)


def show_file(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Windows that `tailor energy` has kept.")],
    io: Annotated[str, typer.Option(help=f"Where I/O operations are counted: {', '.join(LEVELS)}.")] = "device",
    page: Annotated[Path | None, typer.Option(metavar="FILE", help="The HTML page [default: beside the file].")] = None,
    as_json: Json = False,
) -> None:
    """Show a measurement that is kept, and write its page anew."""
    _told(opened().energies.answered(load_energy(file), file, _level(io), page), as_json)


@options.with_table(MEASURING)
def compare(
    first: Annotated[Path, typer.Argument(metavar="APP", help="Directory of an application.yaml.")],
    second: Annotated[
        Path | None, typer.Argument(metavar="[APP2]", help="Another application that does the same work.")
    ] = None,
    from_study: Annotated[
        str, typer.Option("--from", metavar="STUDY", help="Compare APP with this study's best configuration of it.")
    ] = "",
    as_json: Json = False,
    **given: Any,
) -> None:
    """Compare the energy of two applications that do the same work, or of two configurations, round by round.

    Rounds of both alternate in random order.  Says which takes more per request and per I/O, and by how much.
    """
    tailor = opened()
    if sum((second is not None, bool(from_study), bool(given["disk"]))) == 0 or (second and from_study):
        raise InputError(
            "compare: allowed: a second application, ", FieldName("from_study"), ", or ", FieldName("disk"),
        )  # fmt: skip
    study = tailor.store.get(from_study).id if from_study else ""
    requests = _request(first, {**given, "disk": 0.0}, ""), _request(second or first, given, study)
    comparison = tailor.energy_comparisons.compare(*requests, _watch, level=_level(given["io"]), again=given["again"])
    if as_json:
        print_json(comparison)
    else:
        show_comparison(output, comparison)


@options.with_table(MEASURING)
def scale(
    application: Application,
    cores: Annotated[str, typer.Option(metavar="CORES", help="Physical cores, with commas between, such as 1,2,4,8.")],
    as_json: Json = False,
    **given: Any,
) -> None:
    """Measure cycles per I/O operation on rising numbers of cores, and project those in the kernel to 1,024.

    With fewer than four numbers of cores, they are measured and nothing is projected.
    """
    sizes = _sizes(cores)
    scaling = opened().energy_comparisons.scale(
        _request(application, given, ""), sizes, _watch, level=_level(given["io"]), again=given["again"]
    )
    if as_json:
        print_json(scaling)
    else:
        show_scaling(output, scaling)


def _told(measured: MeasuredEnergy, as_json: bool) -> None:
    if as_json:
        print_json({"file": measured.file, "page": measured.page, **encode(measured.answer)})
        return
    show(output, measured.answer)
    output.print(f"windows: {measured.file}\npage: {measured.page}", soft_wrap=True)


def _watch(event: Event) -> None:
    match event:
        case ProfileStepStarted(step):
            messages.print(step, soft_wrap=True)
        case RateMeasured(step):
            messages.print(f"  {rate_line(step)}", soft_wrap=True)
        case RepetitionFinished(_, window) if window.invalid:
            messages.print(f"  a window does not count: {'; '.join(window.invalid)}", soft_wrap=True)


def _request(application: Path, given: Mapping[str, Any], study: str) -> EnergyRequest:
    window_s, warmup_s = (
        terminal.seconds(f"--{name}", given[name]) if given[name] else None for name in ("duration", "warmup")
    )
    return EnergyRequest(
        application,
        rates_rps=terminal.numbers(given["rate"] or [], "--rate"),
        phases=tuple(phase.strip() for phase in given["phases"].split(",") if phase.strip()),
        study=study,
        disk_mbs=given["disk"],
        power=given["power"],
        rounds=given["rounds"],
        seed=given["seed"],
        limits=terminal.limits(given["limits"] or []),
        testbed=given["testbed"],
        trace=given["trace"],
        quick=given["quick"],
        window_s=window_s,
        warmup_s=warmup_s,
    )


def _sizes(text: str) -> list[int]:
    parts = text.split(",")
    if not all(part.strip().isascii() and part.strip().isdigit() and int(part) >= 1 for part in parts):
        raise FieldError("cores", text, "whole numbers of 1 or more with commas between, such as 1,2,4,8")
    return [int(part) for part in parts]


def _level(text: str) -> Any:
    if text not in LEVELS:
        raise FieldError("io", text, ", ".join(LEVELS))
    return text
