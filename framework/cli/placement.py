"""Commands about placement: profile, place."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from framework.cli import options, terminal
from framework.cli.session import messages, opened, output, print_json
from framework.cli.tune import run_study
from framework.errors import InputError
from framework.model import Study, TuneRequest
from framework.model.events import Event, ProfileStepStarted, ProfileWindowStarted
from framework.model.profiling import STRESSORS, ProfileRequest
from framework.placement.domains import AUTO, CPU_SETS, HOSTS
from framework.placement.interference import thesis_scores
from framework.placement.profile import FEWEST_SPANS, Profile
from framework.placement.reasons import reasons
from framework.placement.slowdowns import Slowdown, attributes, judgement, losses, pressures, ratios, slowdowns
from framework.placement.space import load_profile
from framework.study.planning import quick as quick_request
from optimizer.space import SearchSpace

if TYPE_CHECKING:
    from framework.bootstrap.adapters import Opened

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document on standard output.")]
Application = Annotated[Path, typer.Argument(metavar="APP", help="Directory of an application.yaml.")]


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    app.command()(profile)
    app.command()(place)


def profile(
    application: Application,
    service: Annotated[list[str] | None, typer.Option(help="Only this service (repeatable).")] = None,
    stressor: Annotated[
        list[str] | None, typer.Option(help=f"Only this one (repeatable): {', '.join(STRESSORS)}.")
    ] = None,
    blocks: Annotated[int, typer.Option(min=1, max=100, help="How often everything is repeated.")] = 3,
    pairs: Annotated[
        int, typer.Option(min=0, max=1000, help="Pairs of services measured side by side, to judge predictions.")
    ] = 8,
    duration: Annotated[str, typer.Option(help="Of one window.")] = "5s",
    rate: Annotated[float | None, options.option_of("rate_rps")] = None,
    domains: Annotated[
        str, typer.Option(help="The service's CPUs and those of the rest: 2 for halves, or 0-3/4-7.")
    ] = "2",
    limits: Annotated[list[str] | None, options.option_of("limits")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Three stressors, one intensity, one block.")] = False,
    again: Annotated[bool, typer.Option("--again", help="Begin a new profile; what was measured is lost.")] = False,
    path: Annotated[
        Path | None, typer.Option("--output", help="The profile's file [default: below TAILOR_HOME].")
    ] = None,
    seed: Annotated[int, typer.Option(help="Of the arrivals and the order of windows.")] = 1,
    as_json: Json = False,
) -> None:
    """Measure what each service suffers beside stressors, and what it inflicts; goes on where it was stopped."""
    request = ProfileRequest(
        application,
        blocks=blocks,
        pairs=pairs,
        window_s=terminal.seconds("--duration", duration),
        rate_rps=rate,
        seed=seed,
        domains=domains,
        limits=terminal.limits(limits or []),
    )
    request = request.quick() if quick else request
    if stressor:
        request = replace(request, stressors=tuple(stressor))
    request = replace(request, services=tuple(service or ()))
    profiles = opened().profiles
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=messages) as bar:
        measured = profiles.run(request, _watching(bar), path, again=again)
    plots = profiles.write_plots(measured)
    if as_json:
        print_json({**_document(measured), "plots": plots})
        return
    _show(output, measured)
    if plots:
        output.print(f"a figure for each service: {plots}", soft_wrap=True)


def place(
    context: typer.Context,
    application: Application,
    profile: Annotated[
        Path | None,
        typer.Option(help="Of `tailor profile` [default: the one below TAILOR_HOME, or a new one]."),
    ] = None,
    pairs: Annotated[int, typer.Option(help="Groups of fresh runs of all placements in the verdict.")] = 10,
    duration: Annotated[str, options.option_of("window_s")] = "20s",
    optimizer: Annotated[
        str, typer.Option(help="knapsack, placement-exact, placement-cpsat, placement-spread, placement-latency.")
    ] = "placement-exact",
    domains: Annotated[str, options.option_of("domains")] = "auto",
    pin: Annotated[list[str] | None, options.option_of("pin")] = None,
    apart: Annotated[list[str] | None, options.option_of("apart")] = None,
    option: Annotated[list[str] | None, options.option_of("options")] = None,
    rate: Annotated[float | None, options.option_of("rate_rps")] = None,
    limits: Annotated[list[str] | None, options.option_of("limits")] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="A short profile, 6 pairs of 10 s, or as --pairs and --duration say.")
    ] = False,
    testbed: Annotated[str, options.option_of("testbed")] = "auto",
    seed: Annotated[int, typer.Option(help="Of the arrivals and of the random placements.")] = 1,
    as_json: Json = False,
) -> None:
    """Propose where services run, say why, and measure it against all together and random placements."""
    tailor = opened()
    disturbance = terminal.limits(limits or [])
    target = profile or tailor.profiles.path(tailor.backends.application(application))
    sets = CPU_SETS if domains in (AUTO, HOSTS) else domains  # a profile is of one machine
    profile_request = ProfileRequest(application, rate_rps=rate, domains=sets, seed=seed, limits=disturbance)
    profile_request = profile_request.quick() if quick else profile_request
    if profile is None and tailor.profiles.unfinished(profile_request):
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        with Progress(*columns, console=messages) as bar:
            tailor.profiles.run(profile_request, _watching(bar), target)
    measured = load_profile(target, tailor.backends.application(application))
    if not attributes(measured):
        raise InputError(f"{target}: no service was measured beside every stressor; run: tailor profile {application}")
    request = TuneRequest(
        application, optimizer=optimizer, iterations=1, placement="only", profile=target, domains=domains,
        minimal=0, pairs=pairs, window_s=terminal.seconds("--duration", duration), rate_rps=rate, limits=disturbance,
        testbed=testbed, pin=tuple(pin or ()), apart=tuple(apart or ()),
        options=terminal.values(option or [], "--option"), seed=seed, drift_every=0,
        only=tuple(sorted(attributes(measured))),
        given=options.typed_in(context, {"duration": "window_s"}) | {"iterations", "minimal"},
    )  # fmt: skip
    request = quick_request(request) if quick else request
    study = tailor.placements.propose(request)
    run_study(tailor, study.id, as_json)
    if not as_json:
        _explain(output, tailor, study, measured)
        output.print(_recommended(tailor.store.get(study.id)), soft_wrap=True)


def _explain(output: Console, tailor: Opened, study: Study, profile: Profile) -> None:
    """Print why the solver put each service where it is: from the profile, so predicted and not measured."""
    searched = [trial for trial in tailor.store.trials(study.id) if trial.purpose == "search"]
    if not searched:
        return
    table = Table(box=None, pad_edge=False)
    for column in ("service", "place", "harm", "left", "why"):
        table.add_column(column)
    why_each = reasons(SearchSpace.from_dict(study.space), searched[0].configuration, profile)
    whole = sum(reason.harm_shared for reason in why_each)
    for reason in sorted(why_each, key=lambda reason: -reason.harm_shared):
        kept = "kept apart from" if reason.separated else "still beside"
        parts = {
            f"{kept} {reason.worst}, which harms it most ({reason.resource})": reason.worst,
            f"with {reason.called}, which it calls": reason.called,
            "with what stays there and it talks to": reason.stays,
        }
        why = "; ".join(text for text, is_so in parts.items() if is_so)
        harm = _share(reason.harm_shared, whole), _share(reason.harm_placed, reason.harm_shared)
        table.add_row(reason.service, reason.cpus, *harm, why)
    output.print(table)
    output.print(
        "harm: the service's share of what the profile predicts that all suffer on the same CPUs; left: how much of it "
        "this placement leaves. Predicted, for the order of placements and not for sizes; what counts is the verdict.",
        soft_wrap=True,
    )
    _warn(output, profile)
    if picture := tailor.placements.write_machine(study, searched[0].configuration):
        output.print(f"picture: {picture}", soft_wrap=True)


def _recommended(study: Study) -> str:
    """Recommend the placement, if it was shown to be better than every service on all CPUs."""
    if study.verdict is not None and study.verdict.statement == "improvement":
        return f"recommended: this placement; its files: tailor best {study.id} --output DIR"
    return "no placement is recommended: this one was not shown to be better than every service on all CPUs"


def _share(part: float, whole: float) -> str:
    return f"{part / whole:.0%}" if whole > 0 else "-"


def _warn(output: Console, profile: Profile) -> None:
    """Print what makes the profile less reliable."""
    about = profile.about
    if about.rare():
        output.print(
            f"left out, fewer than {FEWEST_SPANS // 2} requests in {about.window_s:g} s: {', '.join(about.rare())}; "
            "a higher --rate or longer windows reach them",
            soft_wrap=True,
        )
    if about.crowded():
        output.print(
            f"the undisturbed load used {about.busy:.1f} CPUs, and all but one service had CPU {about.rest} in the "
            "profile: they mostly waited for each other there, and slowdowns are rough; a lower --rate says more",
            soft_wrap=True,
        )


def _watching(bar: Progress) -> Callable[[Event], None]:
    """Return a watch that shows each window; where no bar can be drawn (a log file), a line per service and block."""
    task = bar.add_task("deploying", total=None)
    last = ""

    def watch(event: Event) -> None:
        nonlocal last
        match event:
            case ProfileStepStarted(step):
                bar.update(task, description=step[:60])
            case ProfileWindowStarted(number, planned, service, beside):
                description = f"{service} beside {beside}" if beside else f"{service} alone"
                bar.update(task, total=planned, completed=number - 1, description=description)
                if not bar.console.is_terminal and service != last:
                    last = service
                    bar.console.print(f"profile: window {number} of {planned}, {last}", soft_wrap=True)

    return watch


def _document(profile: Profile) -> dict[str, Any]:
    judged = judgement(profile)
    return {
        "about": asdict(profile.about),
        "slowdowns": [asdict(slowdown) for slowdown in slowdowns(profile.windows)],
        "scores": thesis_scores(losses(profile.windows)),
        "pressures": pressures(profile),
        "attributes": attributes(profile),
        "pairs": ratios(profile.pairs),
        "leave_one_out": None if judged is None else asdict(judged),
        "pipelines": {pipeline.service: pipeline.shares for pipeline in profile.pipelines},
        "windows": len(profile.windows),
        "invalid": sum(bool(window.invalid) for window in profile.windows),
    }


def _leaves(shares: Mapping[str, float]) -> Mapping[str, float]:
    """Return the nodes of a top-down tree that have no children in it."""
    return {node: share for node, share in shares.items() if not any(other.startswith(f"{node}.") for other in shares)}


def _harm(service: str, rows: Sequence[Slowdown]) -> str:
    """Name the stressors that slow the service in every block at their strongest, the worst first."""
    strongest = {row.stressor: row for row in sorted(rows, key=lambda row: row.intensity) if row.service == service}
    harmful = sorted((row for row in strongest.values() if row.low > 1), key=lambda row: -row.mean)
    return ", ".join(f"{row.stressor} x{row.mean:.2f}" for row in harmful) or "-"


def _show(output: Console, profile: Profile) -> None:
    about = profile.about
    output.print(
        f"{about.application} at {about.rate_rps:g} requests/s: each service alone on CPU {about.place}; all else, "
        f"Jaeger and the load generator too, on CPU {about.rest}; {len(profile.windows)} windows of "
        f"{about.window_s:g} s",
        soft_wrap=True,
    )
    scores = thesis_scores(losses(profile.windows))
    rows = slowdowns(profile.windows)
    table = Table(box=None, pad_edge=False)
    for column in ("service", "peak cores", "score"):
        table.add_column(column, no_wrap=True)
    table.add_column("slower in every block beside (mean latency, stressors at their strongest)")
    for service in sorted(scores, key=lambda service: -scores[service][""]):
        table.add_row(service, f"{about.peaks.get(service, 0):.2f}", f"{scores[service]['']:.3f}", _harm(service, rows))
    output.print(table)
    _warn(output, profile)
    left_out = sorted(about.peaks.keys() - scores.keys() - set(about.rare()))
    if left_out:
        output.print(f"without a score, not measured beside every stressor: {', '.join(left_out)}", soft_wrap=True)
    judged = judgement(profile)
    if judged:
        output.print(
            f"predicted slowdown of a service beside another: off by {judged.median:.0%} (median; at most "
            f"{judged.most:.0%}) over {judged.pairs} measured pairs, each left out of the fit in its turn; to predict "
            f"none is off by {judged.harmless:.0%}"
            + ("" if judged.median < judged.harmless else ": nothing is known about the size of a slowdown here"),
            soft_wrap=True,
        )
    if about.without_counters:
        output.print(f"scores are from latency; no hardware counters: {about.without_counters}", soft_wrap=True)
    for pipeline in profile.pipelines:
        heaviest = sorted(_leaves(pipeline.shares).items(), key=lambda node: -node[1])[:3]
        shares = ", ".join(f"{node} {share:.0%}" for node, share in heaviest) or "too little was counted"
        output.print(f"pipeline of {pipeline.service}: {shares}", soft_wrap=True)
    invalid = sum(bool(window.invalid) for window in profile.windows)
    if invalid:
        output.print(f"{invalid} windows did not count: disturbed by the machine's host, or too few spans")
