"""Commands that show: studies, show, best, report, optimizers, spaces, apps."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from framework.cli.session import opened, output, print_json, studies_here

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document on standard output.")]
StudyArgument = Annotated[str, typer.Argument(help="A study's id, or an unambiguous beginning of it.")]


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    app.command()(studies)
    app.command()(show)
    app.command()(best)
    app.command()(report)
    app.command()(optimizers)
    app.command()(spaces)
    app.command()(apps)


def studies(as_json: Json = False) -> None:
    """List the studies."""
    if as_json:
        from framework.report.summary_json import summary_document

        print_json([summary_document(summary) for summary in opened().results.summaries()])
        return
    rows = [
        (
            listed.study.id,
            listed.study.state,
            listed.study.application_name,
            listed.study.plan.optimizer,
            str(listed.trials),
            listed.headline,
        )
        for listed in studies_here()
    ]
    output.print(_table(("study", "state", "application", "optimizer", "trials", "verdict"), rows))


def show(study: StudyArgument, as_json: Json = False) -> None:
    """Show a study: its trials and its result."""
    from framework.cli import terminal
    from framework.model.plan_document import plan_document
    from framework.report.summary_json import summary_document

    tailor = opened()
    shown = tailor.store.get(study)
    trials = list(tailor.store.trials(shown.id))
    summary = tailor.results.summary(shown)
    if as_json:
        print_json({**summary_document(summary), "plan": plan_document(shown), "trials_detail": trials})
        return
    terminal.opening(output, shown)
    output.print(terminal.trials_table(trials, summary.objective))
    terminal.summary(output, summary)


def best(
    study: StudyArgument,
    directory: Annotated[Path, typer.Option("--output", help="Directory to write, new or empty.")],
    as_json: Json = False,
) -> None:
    """Write the best configuration: compose file, mounted files, configuration and a diff against the default.

    The user's files that it needs are copied, so that the directory can be started on another machine.
    """
    written = opened().results.export_best(study, directory)
    if as_json:
        print_json({"directory": directory, "files": written})
    else:
        output.print("\n".join(str(directory / name) for name in written), soft_wrap=True)


def report(
    study: StudyArgument,
    path: Annotated[Path | None, typer.Option("--output", help="HTML file to write.")] = None,
    as_json: Json = False,
) -> None:
    """Write a study's report: one self-contained HTML page."""
    tailor = opened()
    written = tailor.results.write_report(tailor.store.get(study), path)
    print_json({"report": written}) if as_json else output.print(str(written), soft_wrap=True)


def optimizers(as_json: Json = False) -> None:
    """List the optimizers with their options and sources."""
    optimizers = opened().catalogue.optimizers()
    if as_json:
        print_json(optimizers)
        return
    rows = [
        (o["name"], o["summary"], ", ".join(f"{k}={v}" for k, v in o["options"].items()), o["source"])
        for o in optimizers
    ]
    output.print(_table(("optimizer", "what it does", "options", "source"), rows))


def spaces(
    service_type: Annotated[
        str | None, typer.Argument(metavar="TYPE|APP", help="Show the parameters of one type, or of one application.")
    ] = None,
    as_json: Json = False,
) -> None:
    """List the knowledge base: service types and their parameters."""
    if service_type is not None and Path(service_type).exists():
        _application_parameters(Path(service_type), as_json=as_json)
        return
    types = opened().catalogue.service_types_named(service_type)
    if as_json:
        print_json({kind.name: kind for kind in types})
        return
    if service_type is None:
        rows = [(t.name, str(len(t.parameters)), "" if t.measured else "unmeasured", t.description) for t in types]
        output.print(_table(("type", "parameters", "", "description"), rows))
        return
    parameters: list[tuple[str, ...]] = [
        (p.name, p.kind, _range(p), f"{p.default} {p.unit}".strip(), p.role, p.weakens, p.description)
        for p in types[0].parameters
    ]
    output.print(_table(("parameter", "kind", "range", "default", "role", "weakens", "description"), parameters))


def apps(
    directory: Annotated[Path, typer.Argument(help="Where to look for application.yaml files.")] = Path("apps"),
    as_json: Json = False,
) -> None:
    """List the applications below a directory."""
    applications = opened().catalogue.applications(directory)
    if as_json:
        print_json(applications)
        return
    rows = [
        (a["name"], a["directory"], str(a["services"]), str(a["parameters"]), f"{a['rate_rps']:g}")
        for a in applications
    ]
    output.print(_table(("application", "directory", "services", "parameters", "requests/s"), rows))


def _application_parameters(path: Path, *, as_json: bool) -> None:
    """Show the parameters of an application with their values of today."""
    kept = opened()
    listed = kept.catalogue.parameters(kept.backends.application(path))
    if as_json:
        print_json(listed)
        return
    rows = [
        (
            p["name"],
            p["kind"],
            ", ".join(map(str, p["choices"])) or ("" if p["low"] is None else f"{p['low']} .. {p['high']}"),
            f"{p['default']} {p['unit']}".strip(),
            p["state"],
            p["reaches"],
            p["from"],
        )
        for p in listed
    ]
    output.print(_table(("parameter", "kind", "range", "today", "", "reaches it by", "today's value from"), rows))


def _range(parameter: Any) -> str:
    if parameter.choices:
        return ", ".join(map(str, parameter.choices))
    return "" if parameter.low is None else f"{parameter.low} .. {parameter.high}"


def _table(columns: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> Table:
    table = Table(box=None, pad_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*map(escape, row))
    return table
