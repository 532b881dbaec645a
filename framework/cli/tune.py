"""Commands that run studies: tune, resume, edit."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from framework.cli import options, terminal
from framework.cli.progress import StudyProgress
from framework.cli.session import messages, opened, output, print_json
from framework.errors import StoreError, Transient
from framework.model import Study, StudyState, TuneRequest
from framework.report.summary_json import summary_document
from framework.study.planning import quick as quick_request
from framework.use_cases.quiet import LOADED, share_of_others, wait_until_quiet

if TYPE_CHECKING:
    from framework.bootstrap.adapters import Opened

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document on standard output.")]
StudyArgument = Annotated[str, typer.Argument(help="A study's id, or an unambiguous beginning of it.")]


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    for command in (tune, resume, edit):
        app.command()(command)


@options.with_options
def tune(
    context: typer.Context,
    application: Annotated[Path, typer.Argument(metavar="APP", help="Directory of an application.yaml.")],
    as_json: Json = False,
    **given: Any,
) -> None:
    """Find a better configuration of an application, and prove it."""
    request = options.request_of(application, given, options.typed_in(context))
    if request.quick:
        request = quick_request(request)
    tailor = opened()
    study = tailor.studies.create(request)
    run_study(tailor, study.id, as_json)


def resume(study: StudyArgument, as_json: Json = False) -> None:
    """Go on with a study that was stopped; finished trials are kept."""
    tailor = opened()
    run_study(tailor, tailor.store.get(study).id, as_json)


def edit(
    study: StudyArgument,
    only: Annotated[list[str] | None, typer.Option(help="Tune only this service or service.parameter.")] = None,
    without: Annotated[list[str] | None, options.option_of("without")] = None,
    allow_weaker: Annotated[list[str] | None, options.option_of("allow_weaker")] = None,
) -> None:
    """Tune other parameters in a study that was stopped; what was measured is kept where it still fits."""
    tailor = opened()
    stopped = tailor.store.get(study)
    request = TuneRequest(
        stopped.directory, only=tuple(only or ()), without=tuple(without or ()),
        allow_weaker=tuple(allow_weaker or ()),
    )  # fmt: skip
    before, after = len(stopped.space["parameters"]), len(tailor.studies.edit(stopped.id, request).space["parameters"])
    output.print(f"study {stopped.id}: {after} parameters instead of {before}; go on with: tailor resume {stopped.id}")


def _offer_to_wait(tailor: Opened, study: Study) -> None:
    """Say the share of other processes where they load the machine; somebody at a terminal may wait for them."""
    share = share_of_others(tailor.backends, study)
    if share is None or share <= LOADED:
        return
    messages.print(
        f"[yellow]other processes take {share:.0%} of this machine's CPU time now: measurements would wait",
        soft_wrap=True,
    )
    if not (sys.stdin.isatty() and messages.is_terminal):
        return
    if typer.confirm(f"Wait until they take at most {LOADED:.0%}?", default=True, err=True):
        with messages.status("waiting for a quiet machine (Ctrl-C: begin later, with tailor resume)") as status:
            wait_until_quiet(
                tailor.backends, study, lambda share: status.update(f"waiting: other processes take {share:.0%}")
            )


def run_study(tailor: Opened, study_id: str, as_json: bool) -> None:
    """Run a study to its verdict and show it."""
    study = tailor.store.get(study_id)
    terminal.opening(messages, study)
    if study.state is not StudyState.COMPLETED:
        _offer_to_wait(tailor, study)
    with StudyProgress(messages, study.effective_plan) as progress:
        try:
            study = tailor.studies.run(study_id, progress)
        except (Transient, StoreError):
            messages.print(f"study {study_id} is paused; continue with: tailor resume {study_id}")
            raise
    path = tailor.results.write_report(study)
    summary = tailor.results.summary(study)
    if as_json:
        print_json({**summary_document(summary), "report": str(path)})
    else:
        terminal.summary(output, summary)
        output.print(f"report: {path}\nfiles:  tailor best {study.id} --output DIR", soft_wrap=True)
