"""Commands about the twin: calibrate, evidence, rehost, what-if."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from framework.cli import terminal
from framework.cli.session import messages, opened, output, print_json
from framework.errors import InputError
from framework.use_cases.twin import Answer, Calibration, WhatIf

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document on standard output.")]
Application = Annotated[Path, typer.Argument(metavar="APP", help="Directory of an application.yaml.")]
Sources = Annotated[
    list[str], typer.Argument(metavar="STUDY|FILE...", help="Measured studies and sweeps, or files of evidence.")
]


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    twin = typer.Typer(no_args_is_help=True, help="The application's queueing model: make it, ask it.")
    app.add_typer(twin, name="twin")
    twin.command()(calibrate)
    twin.command()(evidence)
    twin.command()(rehost)
    twin.command("what-if")(what_if)


def calibrate(
    application: Application,
    sources: Sources,
    path: Annotated[Path | None, typer.Option("--output", help="Where to write [default: APP/twin.json].")] = None,
    as_json: Json = False,
) -> None:
    """Fit the application's twin to what studies measured; a quarter of the configurations validates it."""
    twins = opened().twins
    with messages.status("calibrating") as status:
        calibration = twins.calibrate(application, sources, lambda step: status.update(f"calibrating: {step}"))
    written = twins.write_twin(calibration.twin, application, path)
    if as_json:
        print_json({"twin": written, "fit": calibration.twin.fit, "services": calibration.services})
    else:
        _show_calibration(output, calibration)
        output.print(f"twin: {written}", soft_wrap=True)


def evidence(
    application: Application,
    sources: Sources,
    path: Annotated[Path, typer.Option("--output", help="The file to write.")],
    as_json: Json = False,
) -> None:
    """Keep what studies say in a file, so that the twin can be made again where the studies are not."""
    written = opened().twins.write_evidence(application, sources, path)
    print_json({"evidence": written}) if as_json else output.print(str(written), soft_wrap=True)


def rehost(
    application: Application,
    cores: Annotated[int, typer.Option(min=1, max=4096, help="Of the other machine.")],
    nodes: Annotated[int, typer.Option(min=1, help="Memory nodes, each with a last-level cache.")] = 1,
    memory: Annotated[int, typer.Option("--memory-mib", min=64)] = 16_384,
    profile: Annotated[Path | None, typer.Option(help="Of `tailor profile`: what services suffer and inflict.")] = None,
    path: Annotated[Path | None, typer.Option("--output", help="Where to write [default: APP/twin.json].")] = None,
    as_json: Json = False,
) -> None:
    """Put the twin on another machine, to try placements there: as many cores as it has, each as fast as before."""
    if nodes > cores:
        raise InputError(f"--nodes: found {nodes}; allowed: 1 to {cores}, a core for each")
    twins = opened().twins
    twin = twins.rehosted(application, cores=cores, nodes=nodes, memory_mib=memory, profile=profile)
    written = twins.write_twin(twin, application, path)
    print_json({"twin": written}) if as_json else output.print(f"twin: {written}", soft_wrap=True)


def what_if(
    application: Application,
    settings: Annotated[list[str] | None, typer.Option("--set", help="service.parameter=value (repeatable).")] = None,
    rate: Annotated[float | None, typer.Option(help="Requests per second [default: the application's].")] = None,
    duration: Annotated[str, typer.Option(help="Simulated window.")] = "30s",
    count: Annotated[int, typer.Option("--replications", help="Independent runs.")] = 8,
    sweep: Annotated[bool, typer.Option("--sweep", help="Also raise the rate until p95 passes --limit.")] = False,
    limit: Annotated[str, typer.Option(help="Of p95, for --sweep.")] = "50ms",
    plot: Annotated[Path | None, typer.Option(help="Where to write the sweep's plot (SVG).")] = None,
    seed: Annotated[int, typer.Option(help="Of the first replication.")] = 1,
    as_json: Json = False,
) -> None:
    """Ask the twin about a changed configuration, beside the default, for the same requests."""
    twins = opened().twins
    with messages.status("asking the twin") as status:
        answer = twins.what_if(
            application,
            terminal.values(settings or [], "--set"),
            rate_rps=rate,
            seconds=terminal.seconds("--duration", duration),
            count=count,
            seed=seed,
            limit_ms=1e3 * terminal.seconds("--limit", limit) if sweep else None,
            progress=lambda step: status.update(f"asking the twin: {step}"),
        )
    drawn = twins.plot(answer, plot) if sweep or plot else None
    if as_json:
        print_json({"modelled": True, **_document(answer), "plot": drawn})
        return
    output.print(terminal.MODELLED.format("its twin, a queueing model (twin.json)"))
    _show(output, answer)
    if drawn is not None:
        output.print(f"plot: {drawn}", soft_wrap=True)


def _show_calibration(output: Console, calibration: Calibration) -> None:
    table = Table(box=None, pad_edge=False)
    for column in ("service", "measured [ms]", "modelled [ms]", "ratio"):
        table.add_column(terminal.escape(column), justify="left" if column == "service" else "right")
    for name, (measured, modelled) in sorted(calibration.services.items(), key=lambda row: -row[1][0]):
        ratio = f"{modelled / measured:.2f}" if measured > 0 else ""
        table.add_row(name, f"{measured:.3f}", f"{modelled:.3f}", ratio)
    output.print(table)
    fit = calibration.twin.fit
    output.print(f"mean time on the critical path, of the default at {calibration.recorded.rate_rps:g} requests/s")
    for name, what in (("fitted", "fitted to"), ("validation", "kept for validation")):
        if fit[f"{name}_points"]:
            output.print(
                f"{what}: {fit[f'{name}_points']:g} configurations and rates; median error "
                f"p50 {100 * fit[f'{name}_p50_error']:.0f} %, p95 {100 * fit[f'{name}_p95_error']:.0f} %"
            )
    if not fit["validation_points"]:
        output.print("[yellow]nothing was left to validate with: the twin's errors are not known[/]")


def _show(output: Console, answer: WhatIf) -> None:
    arms = {"default": answer.default} | ({"changed": answer.changed} if answer.changed else {})
    output.print(f"{answer.application} at {answer.rate_rps:g} requests/s")
    table = Table(box=None, pad_edge=False)
    table.add_column("modelled")
    for name in arms:
        table.add_column(name)
    for quantity, unit in (("p50", "ms"), ("p95", "ms"), ("p99", "ms"), ("throughput", "1/s"), ("cores", "busy")):
        row = [terminal.estimate(arm.quantities[quantity], unit) for arm in arms.values()]
        table.add_row(quantity, *map(terminal.escape, row))
    output.print(table)
    if answer.ratio is not None:
        ratio = answer.ratio
        output.print(f"p95, changed to default: {ratio.value:.3f} times [{ratio.low:.3f}, {ratio.high:.3f}]")
    for name, arm in arms.items():
        if arm.quantities["failed"].value > 0:
            output.print(f"{name}: {100 * arm.quantities['failed'].value:.1f} % of the requests fail")
        if arm.sweep is not None:
            output.print(f"{name}: {arm.sweep.statement}", soft_wrap=True)
    if answer.inert:
        output.print(f"means nothing to the model: {', '.join(answer.inert)}", soft_wrap=True)
    error = answer.fit.get("validation_p95_error")
    known = "unknown" if error is None else f"{100 * error:.0f} %"
    output.print(
        f"intervals: 95 %, of the simulation only; the twin's own error of p95 in validation is {known} (median), "
        f"and runs of the real application differ by {100 * answer.run_spread:.0f} % (standard deviation of "
        "the median)",
        soft_wrap=True,
    )


def _document(answer: WhatIf) -> dict[str, Any]:
    def of(arm: Answer | None) -> Any:
        return None if arm is None else {"quantities": arm.quantities, "sweep": arm.sweep}

    return {
        "application": answer.application,
        "rate_rps": answer.rate_rps,
        "changes": answer.changes,
        "default": of(answer.default),
        "changed": of(answer.changed),
        "p95_ratio": answer.ratio,
        "inert": answer.inert,
        "run_spread": answer.run_spread,
        "fit": answer.fit,
    }
