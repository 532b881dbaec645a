"""Answers that take long to compute: statistics, figures, archives.

They are computed in a process of their own (``framework.api.rendering``), which has its own view of the store; here is
what it computes.  Each is bytes, ready to be sent or to be put into a page.
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
from framework.api.problems import Refused
from framework.api.scrubbing import detail_of, scrubbed
from framework.bootstrap.adapters import Opened
from framework.errors import TailorError
from framework.model import EXTERNAL, Study
from framework.model.documents import encode
from framework.report.optimizer_comparison import contenders, race_plot
from framework.report.page import contents, interval
from framework.report.page import page as report_page
from framework.report.summary_json import summary_document
from framework.report.trace_plots import contrast
from framework.study.export import without_directory
from framework.study.importance import importance

ON_A_PAGE = 50
MOST_COMPARED = 200  # studies, the latest
MOST_TRIALS = 1_000  # of a study on a page
MOVED = "\nFiles of the application are named from its own directory: put these files there.\n"


def summary(kept: Opened, study: str) -> bytes:
    """A study in numbers, as ``tailor show --json`` says it."""
    return _json(summary_document(kept.results.summary(_study(kept, study))))


def body(kept: Opened, study: str) -> bytes:
    """What the page of a study shows: {"html", "repetitions": that were measured}."""
    found, trials = _study(kept, study), kept.store.trials(study)
    explained = importance(found, trials)
    values = contents(kept.results.summary(found, trials), trials, explained)
    figure = Markup(coordinates(found, trials, explained))
    html = PAGES.get_template("live_body.html").render(**values, parallel=figure)
    return _json({"html": html, "repetitions": sum(len(trial.measurements) for trial in trials)})


def external(kept: Opened, study: str) -> bytes:
    """The trials of a study that is measured elsewhere."""
    trials = kept.store.trial_page(study, 0, MOST_TRIALS)
    return PAGES.get_template("external_body.html").render(study=_study(kept, study), trials=trials).encode()


def report(kept: Opened, study: str) -> bytes:
    """The HTML page."""
    found, trials = _study(kept, study), kept.store.trials(study)
    return report_page(kept.results.summary(found, trials), trials).encode()


def best(kept: Opened, study: str) -> bytes:
    """The best configuration: what differs from the default.  Raises Refused where there is none."""
    found = kept.results.summary(_study(kept, study))
    if found.best is None:
        raise Refused(HTTPStatus.CONFLICT, "no trial has a value yet")
    return _json({"trial": found.best.trial, "changes": found.changes, "headline": found.headline})


def archive(kept: Opened, study: str) -> bytes:
    """The files to deploy it, a tar file, where paths of the application's files are relative to its directory."""
    where = str(_study(kept, study).directory)
    with tempfile.TemporaryDirectory() as directory:
        target = Path(directory) / "best"
        names = kept.results.export_best(study, target)
        for name in names:
            text = (target / name).read_text()
            (target / name).write_text(without_directory(text, where) + (MOVED if name == "README.md" else ""))
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w:gz") as file:
            for name in names:
                file.add(target / name, arcname=f"{study}/{name}")
    return packed.getvalue()


def export(kept: Opened, study: str) -> bytes:
    """The whole study, a zip file."""
    return kept.sharing.pack(study)


def critical_path(kept: Opened, study: str) -> bytes:
    """Where requests spend their time with the default and with the best."""
    return _json({"study": study, "groups": kept.traces.compare(f"{study}:default", study)})


def compare(kept: Opened, first: str, second: str) -> bytes:
    """Two configurations, service by service."""
    names = [kept.traces.labelled(name) for name in (first, second)]
    return _json({"first": names[0], "second": names[1], "groups": kept.traces.compare(first, second)})


def comparison(kept: Opened, first: str, second: str) -> bytes:
    """The same as a part of a page, which also says why there is nothing to compare."""
    values: dict[str, Any] = {"groups": None, "problem": ""}
    try:
        names = [kept.traces.labelled(name) for name in (first, second)]
        groups = kept.traces.compare(first, second)
        values |= {"names": names, "groups": groups, "figure": Markup(contrast(groups, *names))}
    except TailorError as error:
        values["problem"] = detail_of(error)
    return PAGES.get_template("comparison.html").render(interval=interval, **values).encode()


def race(kept: Opened, application: str) -> bytes:
    """Optimizers against each other on an application, a part of a page."""
    store = kept.store
    names = sorted({one.application_name for one in store.studies() if one.testbed != EXTERNAL})
    chosen = application if application in names else next(iter(names), "")
    latest = store.page(MOST_COMPARED, application=chosen) if chosen else ()
    found = contenders((one, store.trial_page(one.id, 0, MOST_TRIALS)) for one in latest)
    figure = Markup(race_plot(found)) if found else ""
    template = PAGES.get_template("race.html")
    return template.render(applications=names, application=chosen, contenders=found, figure=figure).encode()


ANSWERS: Mapping[str, Callable[..., bytes]] = {
    one.__name__: one
    for one in (summary, body, external, report, best, archive, export, critical_path, compare, comparison, race)
}
"""By name; each takes what is open and the question's arguments."""


def _study(kept: Opened, study: str) -> Study:
    found = kept.store.get(study)
    return replace(found, message=scrubbed(found.message))


def _json(value: Any) -> bytes:
    return json.dumps(encode(value), ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
