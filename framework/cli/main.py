"""``tailor`` on the command line: the commands, thin over ``framework.use_cases.studies``."""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

import framework
from framework import bootstrap
from framework.cli import (
    bench,
    export,
    machine,
    options,
    placement,
    serve,
    studies,
    terminal,
    traces,
    twin,
)
from framework.cli.exits import exit_code
from framework.cli.flags import flag
from framework.cli.progress import StudyProgress
from framework.config import Settings
from framework.errors import InputError, StoreError, TailorError, Transient
from framework.model import TuneRequest
from framework.model.documents import encode
from framework.report.summary_json import summary_document
from framework.study.planning import quick as quick_request
from framework.use_cases.studies import Tailor

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help=framework.__doc__ and "Tune a microservice application by experiment.",
)
messages = Console(stderr=True, highlight=False)
output = Console(highlight=False)

# What the command line itself refuses; typer keeps its own copy of click and exports only this descendant.
Refused: Any = typer.BadParameter.__mro__[2]

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document on standard output.")]
StudyArgument = Annotated[str, typer.Argument(help="A study's id, or an unambiguous beginning of it.")]


def opened() -> bootstrap.Opened:
    return bootstrap.opened(Settings.from_environment())


def tailor() -> Tailor:
    return opened().tailor


@app.callback(invoke_without_command=True)
def root(version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False) -> None:
    if version:
        output.print(f"tailor {framework.__version__}")
        raise typer.Exit


@app.command()
@options.with_options
def tune(
    application: Annotated[Path, typer.Argument(metavar="APP", help="Directory of an application.yaml.")],
    as_json: Json = False,
    **given: Any,
) -> None:
    """Find a better configuration of an application, and prove it."""
    request = options.request_of(application, given)
    if request.quick:
        request = quick_request(request)
    with_tailor = tailor()
    study = with_tailor.create(request)
    _run(with_tailor, study.id, as_json)


@app.command()
def resume(study: StudyArgument, as_json: Json = False) -> None:
    """Go on with a study that was stopped; finished trials are kept."""
    with_tailor = tailor()
    _run(with_tailor, with_tailor.store.get(study).id, as_json)


@app.command()
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


def _run(with_tailor: Tailor, study_id: str, as_json: bool) -> None:
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


def print_json(document: Any) -> None:
    """One JSON document on standard output, whatever the terminal's width."""
    sys.stdout.write(json.dumps(encode(document), indent=2, allow_nan=False) + "\n")


def _stop(signum: int, frame: object) -> None:
    raise KeyboardInterrupt  # SIGTERM ends a study as Ctrl-C does: cleaned up and resumable


bench.register(app, tailor, output, messages, print_json)
export.register(app, opened, output, print_json)
studies.register(app, tailor, output, print_json)
machine.register(app, tailor, output, messages, print_json)
placement.register(app, tailor, output, messages, print_json, _run)
serve.register(app, opened, output, messages, print_json)
traces.register(app, tailor, output, print_json)
twin.register(app, tailor, output, messages, print_json)


def main() -> None:
    """Entry point: errors become one clear message and the exit code of framework.cli.exits."""
    signal.signal(signal.SIGTERM, _stop)
    try:
        status = app(prog_name="tailor", standalone_mode=False)
        sys.exit(status if isinstance(status, int) else 0)  # the library gives a command's own exit code back
    except TailorError as error:
        message = error.worded(flag) if isinstance(error, InputError) else str(error)
        messages.print(f"[red]tailor:[/] {terminal.escape(message)}", soft_wrap=True)
        sys.exit(exit_code(error))
    except Refused as error:  # a missing argument, an option that does not exist
        error.show()
        sys.exit(exit_code(InputError()))
    except KeyboardInterrupt:
        messages.print("tailor: interrupted")
        sys.exit(130)
