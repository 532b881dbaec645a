"""Commands about the machine and the load: doctor, clean, sweep."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from framework.cli import options, terminal
from framework.cli.session import messages, opened, output, print_json
from framework.model import Step
from framework.model.events import Event, RateMeasured
from framework.use_cases.clean import clean_up
from framework.use_cases.examine import examine

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document on standard output.")]
_COLOURS = {"ok": "green", "limited": "yellow", "missing": "red"}


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    app.command()(doctor)
    app.command()(clean)
    app.command()(sweep)


def doctor(
    applications: Annotated[list[Path] | None, typer.Argument(metavar="[APP]...", help="Check their images.")] = None,
    testbed: Annotated[
        str, typer.Option(help="Examine only this one, such as swarm; auto: this machine, and all that APP can use.")
    ] = "auto",
    as_json: Json = False,
) -> None:
    """Examine what this machine can do, what is missing and how to get it.  Exits 3 when tuning cannot work."""
    findings = examine(opened().backends, applications or [], testbed)
    if as_json:
        print_json(findings)
    else:
        table = Table(box=None, pad_edge=False)
        for column in ("", "what", "found", "remedy"):
            table.add_column(column, overflow="fold")
        for finding in findings:
            colour = _COLOURS[finding.state]
            table.add_row(f"[{colour}]{finding.state}[/]", finding.what, terminal.escape(finding.found), finding.remedy)
        output.print(table)
    if any(finding.state == "missing" and finding.needed for finding in findings):
        raise typer.Exit(3)


def clean(
    seeds: Annotated[bool, typer.Option("--seeds", help="Also remove the kept data volumes.")] = False,
    images: Annotated[
        bool, typer.Option("--images", help="Also remove the images that Tailor built from applications' sources.")
    ] = False,
    project: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Also what this one of another TAILOR_HOME left (repeatable)."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Remove containers, networks and volumes that killed studies and profiles left; what runs stays."""
    tailor = opened()
    done = clean_up(tailor.backends, tailor.runner, seeds=seeds, images=images, projects=project or ())
    if as_json:
        print_json(done)
        return
    if done.removed or not done.kept:
        output.print("\n".join(done.removed) if done.removed else "nothing to remove", soft_wrap=True)
    if done.kept:
        output.print(
            f"something of {', '.join(done.kept)} stays: a container of somebody else is attached to it, or the engine "
            "keeps an empty network until it is restarted (engines before 28)",
            soft_wrap=True,
        )
    if done.images:
        why = "a container uses them" if images else "tailor clean --images removes them"
        output.print(f"images built from sources stay ({why}): {', '.join(done.images)}", soft_wrap=True)
    if done.left:
        output.print(
            f"left alone, since this TAILOR_HOME does not know them: {', '.join(done.left)}; where nobody runs one: "
            "tailor clean --project NAME",
            soft_wrap=True,
        )


def sweep(
    application: Annotated[Path, typer.Argument(metavar="APP", help="Directory of an application.yaml.")],
    start: Annotated[float, typer.Option(help="First rate, requests per second.")] = 50.0,
    factor: Annotated[float, typer.Option(help="Each rate is this many times the one before.")] = 1.3,
    limit: Annotated[
        str | None,
        typer.Option(
            help="Stop when p95 passes this; default: three times that of the first rate answered, 50ms or more.",
            show_default=False,
        ),
    ] = None,
    duration: Annotated[str, options.option_of("window_s")] = "10s",
    repetitions: Annotated[int, typer.Option(help="Repetitions per rate.")] = 1,
    maximum: Annotated[float, typer.Option(help="Highest rate to try.")] = 5000.0,
    seed: Annotated[int, typer.Option(help="Of the arrivals.")] = 1,
    limit_of: Annotated[list[str] | None, options.option_of("limits")] = None,
    plot: Annotated[Path | None, typer.Option(help="Where to write the plot (SVG).")] = None,
    testbed: Annotated[str, options.option_of("testbed")] = "auto",
    as_json: Json = False,
) -> None:
    """Raise the rate on the default configuration until p95 passes the limit; show the knee and propose a rate.

    A rate that does not hold is measured twice; where the first does not, lower ones are tried.  Ctrl-C ends it with a
    proposal from what was measured.
    """
    sweeps = opened().sweeps

    def watch(event: Event) -> None:
        match event:
            case RateMeasured(step):
                messages.print(rate_line(step), soft_wrap=True)

    finished = sweeps.run(
        application,
        watch,
        start_rps=start,
        factor=factor,
        limit_ms=None if limit is None else 1e3 * terminal.seconds("--limit", limit),
        window_s=terminal.seconds("--duration", duration),
        repetitions=repetitions,
        maximum_rps=maximum,
        seed=seed,
        limits=terminal.limits(limit_of or []),
        testbed=testbed,
    )
    written = sweeps.plot(finished, plot)
    if as_json:
        print_json({"sweep": finished, "plot": written})
    else:
        output.print(f"{finished.statement}\nplot: {written}", soft_wrap=True)
        if finished.proposed_rps is not None:
            output.print(f"next: tailor tune {application} --rate {finished.proposed_rps:g}", soft_wrap=True)
    if finished.stopped:
        raise typer.Exit(130)


def rate_line(step: Step) -> str:
    p95 = [f"p95 {step.p95.value:.2f} ms"] if step.p95 is not None else []
    reason = [step.reason.removeprefix("p95 ") if p95 else step.reason] if step.reason else []
    return f"{step.rate_rps:7g} requests/s: {', '.join([*p95, *reason])}"
