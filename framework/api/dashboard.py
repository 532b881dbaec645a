"""The dashboard: pages made here, one small script, nothing from other hosts.

A browser that has entered a token keeps it in a cookie that no script reads and no other site can use.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

from fastapi import APIRouter, Depends, Request
from fastapi.responses import FileResponse, HTMLResponse, RedirectResponse, Response
from jinja2 import ChoiceLoader, PackageLoader
from markupsafe import Markup

from framework.api.access import COOKIE, Caller
from framework.api.problems import Refused
from framework.api.scrubbing import detail_of
from framework.api.service import Service
from framework.api.studies import document
from framework.errors import TailorError
from framework.model import DEFAULT_OPTIMIZER, EXTERNAL, Study, StudyState, Trial
from framework.report.contenders import contenders, race_plot
from framework.report.importance import importance
from framework.report.page import ENVIRONMENT, contents, interval
from framework.report.plots import parallel
from framework.report.trace_plots import contrast
from framework.study.planning import expected_repetitions

STATIC = Path(__file__).parent / "static"
TYPES = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
PAGES = ENVIRONMENT.overlay(
    loader=ChoiceLoader([PackageLoader("framework.api", "templates"), PackageLoader("framework.report", "templates")])
)
ON_A_PAGE = 50
MOST_COMPARED = 200  # studies, the latest
AXES = 8  # of the parallel coordinates


def router(service: Service) -> APIRouter:
    """The pages."""
    routes = APIRouter(include_in_schema=False)
    tailor = service.tailor
    reads = Depends(service.access.needs("read"))

    def page(template: str, caller: Caller, here: str = "", **values: Any) -> HTMLResponse:
        return HTMLResponse(PAGES.get_template(template).render(caller=caller, here=here, **values))

    @routes.get("/")
    def studies(state: str = "", application: str = "", after: str = "", caller: Caller = reads) -> HTMLResponse:
        return page(
            "studies.html", caller, "studies", states=list(StudyState), applications=list(service.applications()[0]),
            **listed(state, application, after),
        )  # fmt: skip

    @routes.get("/studies-table")
    def table(state: str = "", application: str = "", caller: Caller = reads) -> HTMLResponse:
        return page("studies_table.html", caller, **listed(state, application, ""))

    def listed(state: str, application: str, after: str) -> dict[str, Any]:
        known = StudyState(state) if state in list(StudyState) else None
        found = tailor.store.page(ON_A_PAGE + 1, before=after, state=known, application=application or None)
        more = found[ON_A_PAGE - 1].id if len(found) > ON_A_PAGE else ""
        shown = [document(one) for one in found[:ON_A_PAGE]]
        return {"studies": shown, "state": state, "application": application, "next": more}

    @routes.get("/studies/{study}")
    def study(study: str, caller: Caller = reads) -> HTMLResponse:
        found = service.study(study)
        if found.testbed == EXTERNAL:
            trials = tailor.store.trial_page(found.id, 0, 1_000)
            return page("external.html", caller, study=found, trials=trials)
        progress: Mapping[str, Any] = service.queue.progress(found.id) or {}
        values = shown(found)
        done = progress.get("repetitions", sum(len(t.measurements) for t in values["trials"]))
        return page("live_study.html", caller, expected=expected_repetitions(found.plan), done=done, **values)

    @routes.get("/studies/{study}/body")
    def body(study: str, caller: Caller = reads) -> HTMLResponse:
        return page("live_body.html", caller, **shown(service.study(study)))

    def shown(found: Study) -> dict[str, Any]:
        trials = tailor.store.trials(found.id)
        summary = tailor.summary(found, trials)
        return {**contents(summary, trials), "parallel": Markup(coordinates(found, trials))}

    @routes.get("/launch")
    def launch(application: str = "", caller: Caller = reads) -> HTMLResponse:
        found, broken = service.applications()
        known = [service.about(one) for one in found.values()]
        usable = [one["name"] for one in known if not one["asks_for"]]
        chosen = application if application in usable else next(iter(usable), "")
        groups = tailor.space(found[chosen]).groups if chosen else {}
        return page(
            "launch.html", caller, "launch", applications=known, chosen=chosen,
            broken={**broken, **refused(known)}, groups=groups, optimizers=tailor.optimizers(),
            default=DEFAULT_OPTIMIZER,
        )  # fmt: skip

    @routes.get("/compare")
    def compare(first: str = "", second: str = "", caller: Caller = reads) -> HTMLResponse:
        values: dict[str, Any] = {"first": first, "second": second, "groups": None, "problem": ""}
        if first and second:
            try:
                names = [tailor.labelled(name) for name in (first, second)]
                groups = tailor.compare(first, second)
                values |= {"names": names, "groups": groups, "figure": Markup(contrast(groups, *names))}
            except TailorError as error:
                values["problem"] = detail_of(error)
        known = [document(one) for one in tailor.store.page(ON_A_PAGE)]
        return page("compare.html", caller, "compare", studies=known, interval=interval, **values)

    @routes.get("/optimizers")
    def optimizers(application: str = "", caller: Caller = reads) -> HTMLResponse:
        names = sorted({Path(one.plan.application).name for one in tailor.store.studies() if one.testbed != EXTERNAL})
        chosen = application if application in names else next(iter(names), "")
        latest = tailor.store.page(MOST_COMPARED, application=chosen) if chosen else ()
        found = contenders((one, tailor.store.trial_page(one.id, 0, 1_000)) for one in latest)
        return page(
            "optimizers.html", caller, "optimizers", applications=names, application=chosen, contenders=found,
            figure=Markup(race_plot(found)) if found else "",
        )  # fmt: skip

    @routes.get("/login")
    def asking() -> HTMLResponse:
        return page("login.html", Caller("", "read"), problem="")

    @routes.post("/login")
    async def login(request: Request) -> Response:
        [token, *_] = parse_qs((await request.body()).decode("latin-1")).get("token", [""])
        if await service.access.known(request, token) is None:
            said = page("login.html", Caller("", "read"), problem="no such token")
            said.status_code = HTTPStatus.UNAUTHORIZED
            return said
        answer = RedirectResponse("/", HTTPStatus.SEE_OTHER)
        secure = request.url.scheme == "https"
        answer.set_cookie(COOKIE, token, httponly=True, samesite="strict", secure=secure)
        return answer

    @routes.post("/logout")
    def logout() -> Response:
        answer = RedirectResponse("/login", HTTPStatus.SEE_OTHER)
        answer.delete_cookie(COOKIE)
        return answer

    @routes.get("/static/{name}")
    def static(name: str) -> FileResponse:
        known = {path.name: path for path in STATIC.iterdir()}
        if name not in known:
            raise Refused(HTTPStatus.NOT_FOUND, "no such file")
        return FileResponse(known[name], media_type=TYPES[known[name].suffix])

    return routes


def refused(known: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Applications that may not be launched here, and why."""
    return {one["name"]: f"asks for {', '.join(one['asks_for'])}" for one in known if one["asks_for"]}


def coordinates(study: Study, trials: Sequence[Trial]) -> str:
    """Parallel coordinates over what mattered, else over what the best changes; empty where there is nothing."""
    valued = [t for t in trials if t.told_value is not None and t.purpose in ("default", "search")]
    if len(valued) < 3:
        return ""
    explained = importance(study, trials)
    names = [one.name for one in explained.parameters[:AXES]] if explained and explained.explained > 0 else []
    if not names:
        default = valued[0].configuration
        best = min(valued, key=lambda t: float(t.told_value or 0.0)).configuration
        names = [name for name in best if best[name] != default.get(name)][:AXES]
    return parallel(valued, names, study.space) if names else ""
