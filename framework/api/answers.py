"""Answers that take long to compute: statistics, figures, archives.

A child process computes them by the functions of this module (``framework.api.rendering``); it opens the store for
itself.  Each answer is bytes, ready to be sent or to be put into a page.
"""

from __future__ import annotations

import io
import json
import tarfile
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from http import HTTPStatus
from pathlib import Path
from typing import Any

from markupsafe import Markup

from framework.api.pages import PAGES, coordinates
from framework.api.planning import request_of
from framework.api.problems import Refused
from framework.api.requests import NewPlan
from framework.api.scrubbing import detail_of, scrubbed
from framework.bootstrap.adapters import Opened
from framework.energy.answer import answered
from framework.errors import TailorError
from framework.model import EXTERNAL, Study
from framework.model.documents import encode
from framework.report.energy_page import energy_contents, energy_page
from framework.report.optimizer_comparison import contenders, race_plot
from framework.report.page import contents, interval
from framework.report.page import page as report_page
from framework.report.plan_page import plan_contents, plan_page
from framework.report.summary_json import summary_document
from framework.report.trace_plots import contrast
from framework.study.export import without_directory
from framework.study.importance import importance

ON_A_PAGE = 50
MOST_COMPARED = 200  # studies, the newest
MOST_TRIALS = 1_000  # of one study on a page
MOVED = "\nFiles of the application are named from its own directory: put these files there.\n"


def summary(kept: Opened, study: str) -> bytes:
    """Return the summary of a study, as ``tailor show --json`` prints it."""
    return _json(summary_document(kept.results.summary(_study(kept, study))))


def body(kept: Opened, study: str) -> bytes:
    """Return the body of a study's page: {"html", "repetitions": how many were measured}."""
    shown, trials = _study(kept, study), kept.store.trials(study)
    explained = importance(shown, trials)
    values = contents(kept.results.summary(shown, trials), trials, explained)
    figure = Markup(coordinates(shown, trials, explained))
    html = PAGES.get_template("live_body.html").render(**values, parallel=figure)
    return _json({"html": html, "repetitions": sum(len(trial.measurements) for trial in trials)})


def external(kept: Opened, study: str) -> bytes:
    """Return the trials of a study that is measured elsewhere, a part of a page."""
    trials = kept.store.trial_page(study, 0, MOST_TRIALS)
    return PAGES.get_template("external_body.html").render(study=_study(kept, study), trials=trials).encode()


def report(kept: Opened, study: str) -> bytes:
    """Return the HTML report."""
    reported, trials = _study(kept, study), kept.store.trials(study)
    return report_page(kept.results.summary(reported, trials), trials).encode()


def best(kept: Opened, study: str) -> bytes:
    """Return the best configuration: the values that differ from the default.  Raises Refused where there is none."""
    summary = kept.results.summary(_study(kept, study), with_model=False)
    if summary.best is None:
        raise Refused(HTTPStatus.CONFLICT, "no trial has a value yet")
    return _json({"trial": summary.best.trial, "changes": summary.changes, "headline": summary.headline})


def archive(kept: Opened, study: str) -> bytes:
    """Return the files to deploy the best configuration, a tar.gz file; paths in them start at the application."""
    base = str(_study(kept, study).directory)
    with tempfile.TemporaryDirectory() as directory:
        target = Path(directory) / "best"
        names = kept.results.export_best(study, target, whole=False)
        for name in names:
            text = (target / name).read_text()
            (target / name).write_text(without_directory(text, base) + (MOVED if name == "README.md" else ""))
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w:gz") as file:
            for name in names:
                file.add(target / name, arcname=f"{study}/{name}")
    return packed.getvalue()


def export(kept: Opened, study: str) -> bytes:
    """Return the whole study, a zip file."""
    return kept.sharing.pack(study)


def critical_path(kept: Opened, study: str) -> bytes:
    """Compare, service by service, the time of requests with the default and with the best configuration."""
    return _json({"study": study, "groups": kept.traces.compare(f"{study}:default", study)})


def compare(kept: Opened, first: str, second: str) -> bytes:
    """Compare two configurations service by service."""
    names = [kept.traces.labelled(name) for name in (first, second)]
    return _json({"first": names[0], "second": names[1], "groups": kept.traces.compare(first, second)})


def comparison(kept: Opened, first: str, second: str) -> bytes:
    """Return the answer of ``compare`` as a part of a page; the page says why where there is nothing to compare."""
    values: dict[str, Any] = {"groups": None, "problem": ""}
    try:
        names = [kept.traces.labelled(name) for name in (first, second)]
        groups = kept.traces.compare(first, second)
        values |= {"names": names, "groups": groups, "figure": Markup(contrast(groups, *names))}
    except TailorError as error:
        values["problem"] = detail_of(error)
    return PAGES.get_template("comparison.html").render(interval=interval, **values).encode()


def race(kept: Opened, application: str) -> bytes:
    """Compare the optimizers that were tried on an application, a part of a page."""
    store = kept.store
    names = sorted({study.application_name for study in store.studies() if study.testbed != EXTERNAL})
    chosen = application if application in names else next(iter(names), "")
    latest = store.page(MOST_COMPARED, application=chosen) if chosen else ()
    racing = contenders((study, store.trial_page(study.id, 0, MOST_TRIALS)) for study in latest)
    figure = Markup(race_plot(racing)) if racing else ""
    template = PAGES.get_template("race.html")
    return template.render(applications=names, application=chosen, contenders=racing, figure=figure).encode()


def make_plan(kept: Opened, body: str) -> bytes:
    """Plan machines, and keep the plan."""
    made = kept.plans.make(request_of(NewPlan.model_validate_json(body), kept.backends.home), drawn=False)
    return _json({"plan": made.id, **encode(made.answer)})


def plan(kept: Opened, plan: str) -> bytes:
    """Return a plan of machines that was kept."""
    return _json({"plan": plan, **encode(kept.plans.records.read(plan))})


def plan_report(kept: Opened, plan: str) -> bytes:
    """Return the HTML page of a plan."""
    return plan_page(kept.plans.records.read(plan)).encode()


def plan_body(kept: Opened, plan: str) -> bytes:
    """Return the page of a plan as a part of a page."""
    return PAGES.get_template("plan_body.html").render(**plan_contents(kept.plans.records.read(plan))).encode()


def energy(kept: Opened, application: str) -> bytes:
    """Return what a measurement of energy says."""
    return _json(answered(kept.energies.records.read(application)))


def energy_report(kept: Opened, application: str) -> bytes:
    """Return the HTML page of a measurement of energy."""
    return energy_page(answered(kept.energies.records.read(application))).encode()


def energy_body(kept: Opened, application: str) -> bytes:
    """Return the page of a measurement of energy as a part of a page."""
    contents = energy_contents(answered(kept.energies.records.read(application)))
    return PAGES.get_template("energy_body.html").render(**contents).encode()


ANSWERS: Mapping[str, Callable[..., bytes]] = {
    function.__name__: function
    for function in (
        *(summary, body, external, report, best, archive, export, critical_path, compare, comparison, race),
        *(make_plan, plan, plan_report, plan_body),
        *(energy, energy_report, energy_body),
    )
}
"""Functions of the process by name; each takes the open adapters and the question's arguments."""


def _study(kept: Opened, study: str) -> Study:
    stored = kept.store.get(study)
    return replace(stored, message=scrubbed(stored.message))


def _json(value: Any) -> bytes:
    return json.dumps(encode(value), ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
