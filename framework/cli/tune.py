"""Commands that run studies: tune, resume, edit."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from framework.cli import terminal
from framework.cli.progress import StudyProgress
from framework.cli.session import messages, output, print_json, tailor
from framework.errors import StoreError, Transient
from framework.model import DEFAULT_OPTIMIZER, TuneRequest
from framework.report.summary_json import summary_document
from framework.study.planning import quick as quick_request
from framework.use_cases.studies import Tailor

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document on standard output.")]
StudyArgument = Annotated[str, typer.Argument(help="A study's id, or an unambiguous beginning of it.")]


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    for command in (tune, resume, edit):
        app.command()(command)


def tune(
    application: Annotated[Path, typer.Argument(metavar="APP", help="Directory of an application.yaml.")],
    optimizer: Annotated[str, typer.Option(help="See `tailor optimizers`.")] = DEFAULT_OPTIMIZER,
    iterations: Annotated[
        int, typer.Option(help="Configurations to try, besides the default; 0 with --versus: compare only.")
    ] = 15,
    repetitions: Annotated[int, typer.Option(help="Repetitions of each.")] = 3,
    duration: Annotated[str, typer.Option(help="Measured window, such as 20s.")] = "20s",
    warm_up: Annotated[str, typer.Option(help="Warm-up before each window; longer if the default needs it.")] = "5s",
    rate: Annotated[float | None, typer.Option(help="Requests per second [default: the application's].")] = None,
    pairs: Annotated[int, typer.Option(help="Interleaved pairs of the verdict; 0: none, and no claim.")] = 10,
    minimal: Annotated[
        int,
        typer.Option(help="After an improvement, try this many recommendations with less changed (0 to 3)."),
    ] = 1,
    only: Annotated[list[str] | None, typer.Option(help="Tune only this service (repeatable).")] = None,
    without: Annotated[list[str] | None, typer.Option(help="Leave this service or service.parameter alone.")] = None,
    allow_weaker: Annotated[
        list[str] | None,
        typer.Option(help="Also tune service.parameter though it weakens durability, consistency or security."),
    ] = None,
    initial: Annotated[
        str, typer.Option(help="Where the optimizer starts: default, random or a configuration FILE.")
    ] = "default",
    versus: Annotated[
        list[Path] | None, typer.Option(help="Also compare with this configuration file in the verdict (repeatable).")
    ] = None,
    target: Annotated[
        str | None, typer.Option(help="Stop when the objective is this low, confirmed, such as 20ms.")
    ] = None,
    time_limit: Annotated[str | None, typer.Option(help="Such as 30m: frozen into a number of configurations.")] = None,
    drift_every: Annotated[int, typer.Option(help="Measure the default again once per so many trials; 0: never.")] = 5,
    incremental: Annotated[
        bool, typer.Option("--incremental", help="Recreate only what changed (not equal state; labelled).")
    ] = False,
    quick: Annotated[
        bool, typer.Option("--quick", help="8 configurations, 2 x 10 s, 6 pairs: a first look, labelled so.")
    ] = False,
    no_trace: Annotated[
        bool, typer.Option("--no-trace", hidden=True, help="Load without tracing (for experiments).")
    ] = False,
    reduce: Annotated[
        str,
        typer.Option(
            help="Tune only what the default's traces point at: critical-path, variability, path+variability, "
            "bottlenecks:FILE, or soft (priors instead of a cut)."
        ),
    ] = "none",
    threshold: Annotated[
        list[str] | None, typer.Option(help="name=value of the reduction: share, path_ms, cv (repeatable).")
    ] = None,
    subject_to: Annotated[
        list[str] | None,
        typer.Option(help="A limit that the best has to keep, such as 'p99 <= 40' or 'cpu <= 1.5' (repeatable)."),
    ] = None,
    also: Annotated[
        list[str] | None, typer.Option(help="Keep this quantity low too, and show the Pareto set (repeatable).")
    ] = None,
    history: Annotated[
        list[str] | None,
        typer.Option(help="Start from what a STUDY or a FILE of results knows, as ratios to its default (repeatable)."),
    ] = None,
    option: Annotated[list[str] | None, typer.Option("--option", help="name=value for the optimizer.")] = None,
    limits: Annotated[list[str] | None, typer.Option("--limits", help=terminal.LIMITS_HELP)] = None,
    prior: Annotated[
        str,
        typer.Option(help="twin: start from what the application's twin says of thousands of configurations."),
    ] = "none",
    placement: Annotated[
        str, typer.Option(help="also: tune on which CPUs each service runs, too; only: nothing but that.")
    ] = "none",
    profile: Annotated[
        Path | None, typer.Option(help="What `tailor profile` wrote, for optimizers that place by it.")
    ] = None,
    domains: Annotated[
        str, typer.Option(help="The CPU sets that services are placed on: how many, or which (0-3/4-7).")
    ] = "2",
    testbed: Annotated[str, typer.Option(help=terminal.TESTBED_HELP)] = "auto",
    seed: Annotated[int, typer.Option(help="Of the optimizer, the arrivals and the order of pairs.")] = 1,
    as_json: Json = False,
) -> None:
    """Find a better configuration of an application, and prove it."""
    request = TuneRequest(
        application=application,
        optimizer=optimizer,
        iterations=iterations,
        repetitions=repetitions,
        window_s=terminal.seconds("--duration", duration),
        warmup_s=terminal.seconds("--warm-up", warm_up),
        rate_rps=rate,
        pairs=pairs,
        minimal=minimal,
        only=tuple(only or ()),
        without=tuple(without or ()),
        allow_weaker=tuple(allow_weaker or ()),
        initial=terminal.initial(initial),
        rivals=tuple(versus or ()),
        target_ms=None if target is None else 1e3 * terminal.seconds("--target", target),
        time_limit_s=None if time_limit is None else terminal.seconds("--time-limit", time_limit),
        drift_every=drift_every,
        incremental=incremental,
        seed=seed,
        trace=not no_trace,
        limits=terminal.limits(limits or []),
        options=terminal.values(option or [], "--option"),
        **terminal.reduction(reduce),
        thresholds=terminal.limits(threshold or [], "--threshold"),
        subject_to=tuple(subject_to or ()),
        also=tuple(also or ()),
        history=terminal.history(history or []),
        prior=prior,
        testbed=testbed,
        placement=placement,
        domains=domains,
        profile=profile,
    )
    if quick:
        request = quick_request(request)
    with_tailor = tailor()
    study = with_tailor.create(request)
    run_study(with_tailor, study.id, as_json)


def resume(study: StudyArgument, as_json: Json = False) -> None:
    """Go on with a study that was stopped; finished trials are kept."""
    with_tailor = tailor()
    run_study(with_tailor, with_tailor.store.get(study).id, as_json)


def edit(
    study: StudyArgument,
    only: Annotated[list[str] | None, typer.Option(help="Tune only this service or service.parameter.")] = None,
    without: Annotated[list[str] | None, typer.Option(help="Leave this service or service.parameter alone.")] = None,
    allow_weaker: Annotated[
        list[str] | None, typer.Option(help="Also tune service.parameter though it weakens something.")
    ] = None,
) -> None:
    """Tune other parameters in a study that was stopped; what was measured is kept where it still fits."""
    with_tailor = tailor()
    found = with_tailor.store.get(study)
    request = TuneRequest(
        found.directory, only=tuple(only or ()), without=tuple(without or ()),
        allow_weaker=tuple(allow_weaker or ()),
    )  # fmt: skip
    before, after = len(found.space["parameters"]), len(with_tailor.edit(found.id, request).space["parameters"])
    output.print(f"study {found.id}: {after} parameters instead of {before}; go on with: tailor resume {found.id}")


def run_study(with_tailor: Tailor, study_id: str, as_json: bool) -> None:
    """Run a study to its verdict and show it."""
    study = with_tailor.store.get(study_id)
    terminal.opening(messages, study)
    with StudyProgress(messages, study.plan) as progress:
        try:
            study = with_tailor.run(study_id, progress)
        except (Transient, StoreError):
            messages.print(f"study {study_id} is paused; continue with: tailor resume {study_id}")
            raise
    path = with_tailor.write_report(study)
    summary = with_tailor.summary(study)
    if as_json:
        print_json({**summary_document(summary), "report": str(path)})
    else:
        terminal.summary(output, summary)
        output.print(f"report: {path}\nfiles:  tailor best {study.id} --output DIR", soft_wrap=True)
