"""Routes of the dashboard: pages rendered on the server, one small script, nothing from other hosts.

The token that a user enters is kept in a cookie that no script can read and no other site can use.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

from fastapi import APIRouter, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import FileResponse, HTMLResponse, RedirectResponse, Response
from markupsafe import Markup

from framework.api.access import COOKIE, Caller
from framework.api.answers import ON_A_PAGE
from framework.api.dependencies import AppService, ReadCaller
from framework.api.energy import listed
from framework.api.form import Choice, choices_of_testbeds, form_fields
from framework.api.guarding import guard_document, guard_view
from framework.api.pages import PAGES
from framework.api.planning import nodes_of
from framework.api.problems import Refused
from framework.api.scrubbing import detail_of
from framework.api.service import Service
from framework.api.studies import study_document
from framework.errors import NotFound
from framework.model import EXTERNAL, Study, StudyState
from framework.study.planning import expected_windows

STATIC = Path(__file__).parent / "static"
TYPES = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}


PLAN_FIELDS = (
    ("name", "name", "a key-value store", False),
    ("reads", "reads, such as 10M/s, or low likely high: 8M/s 10M/s 12M/s", "10M/s", False),
    ("writes", "writes", "500k/s", False),
    ("stored", "stored", "1TB", True),
    ("record", "size of a record", "1KiB", True),
    ("clients", "clients", "10k", False),
    ("connection", "memory of a connection", "4KiB", False),
    ("latency", "most time of a request inside a node, in the mean", "1ms", False),
    ("headroom", "headroom", "20%", False),
)
"""(key of the need, label, example, whether it must be there) of the form of a plan."""

router = APIRouter(include_in_schema=False)


@router.get("/")
def studies(
    service: AppService, caller: ReadCaller, state: str = "", application: str = "", after: str = ""
) -> HTMLResponse:
    return _page(
        "studies.html", caller, "studies", states=list(StudyState), applications=list(service.applications()[0]),
        **_listed(service, state, application, after),
    )  # fmt: skip


@router.get("/studies-table")
def table(service: AppService, caller: ReadCaller, state: str = "", application: str = "") -> HTMLResponse:
    return _page("studies_table.html", caller, **_listed(service, state, application, ""))


@router.get("/studies/{study}")
async def study(study: str, service: AppService, caller: ReadCaller) -> HTMLResponse:
    shown = await run_in_threadpool(service.study, study)
    if shown.testbed == EXTERNAL:
        part = await _part(service, "external", [study], [shown], caller)
        return _page("external.html", caller, study=shown, body=part)
    body = await _body(service, shown, caller)
    progress = await run_in_threadpool(service.queue.progress, shown.id) or {}
    return _page(
        "live_study.html", caller, study=shown, body=Markup(body["html"]),
        expected=expected_windows(shown.effective_plan), done=progress.get("repetitions", body["repetitions"]),
    )  # fmt: skip


@router.get("/studies/{study}/body")
async def body(study: str, service: AppService, caller: ReadCaller) -> HTMLResponse:
    tuned = await run_in_threadpool(service.tuned, study)
    return HTMLResponse((await _body(service, tuned, caller))["html"])


@router.get("/launch")
def launch(service: AppService, caller: ReadCaller, application: str = "") -> HTMLResponse:
    applications, broken = service.applications()
    documents = [service.application_document(application) for application in applications.values()]
    usable = [document["name"] for document in documents if not document["asks_for"]]
    chosen = application if application in usable else next(iter(usable), "")
    groups = service.catalogue.space(applications[chosen]).groups if chosen else {}
    return _page(
        "launch.html", caller, "launch", applications=documents, chosen=chosen,
        broken={**broken, **_refused(documents)}, groups=groups, fields=form_fields(_choices(service)),
    )  # fmt: skip


@router.get("/compare")
async def compare(service: AppService, caller: ReadCaller, first: str = "", second: str = "") -> HTMLResponse:
    comparison = Markup("")
    if first and second:
        try:
            compared = await run_in_threadpool(service.compared, first, second)
            comparison = await _part(service, "comparison", [first, second], compared, caller)
        except NotFound as error:
            comparison = Markup('<p class="warn" role="alert">{}</p>').format(detail_of(error))
    newest = [study_document(study) for study in await run_in_threadpool(service.store.page, ON_A_PAGE)]
    return _page("compare.html", caller, "compare", studies=newest, first=first, second=second, body=comparison)


@router.get("/optimizers")
async def optimizers(service: AppService, caller: ReadCaller, application: str = "") -> HTMLResponse:
    race = await _part(service, "race", [application], [], caller)
    return _page("optimizers.html", caller, "optimizers", body=race)


@router.get("/guards")
def guards(service: AppService, caller: ReadCaller) -> HTMLResponse:
    shown = [guard_document(service.audits, guard) for guard in service.audits.ids()[:ON_A_PAGE]]
    return _page("guards.html", caller, "guards", guards=shown)


@router.get("/guards/{guard}")
def guard(guard: str, service: AppService, caller: ReadCaller) -> HTMLResponse:
    contents = guard_view(service.audits, guard)
    return _page("guard_page.html", caller, "guards", id=guard, running=service.audits.running(guard), **contents)


@router.get("/guards/{guard}/body")
def guard_body(guard: str, service: AppService, caller: ReadCaller) -> HTMLResponse:
    return _page("guard_body.html", caller, **guard_view(service.audits, guard))


@router.get("/plans")
def plans(service: AppService, caller: ReadCaller) -> HTMLResponse:
    nodes = [path.stem for path in nodes_of(service.backends.home)]
    shown = service.plans.summaries(ON_A_PAGE)
    return _page("plans.html", caller, "plans", plans=shown, nodes=nodes, fields=PLAN_FIELDS)


@router.get("/plans/{plan}")
async def plan(plan: str, service: AppService, caller: ReadCaller) -> HTMLResponse:
    await run_in_threadpool(service.plans.check, plan)
    return _page(
        "plan_page.html", caller, "plans", plan=plan, body=await _part(service, "plan_body", [plan], [], caller)
    )


@router.get("/energy")
def energies(service: AppService, caller: ReadCaller) -> HTMLResponse:
    return _page("energies.html", caller, "energy", measurements=listed(service.energies))


@router.get("/energy/{application}")
async def energy(application: str, service: AppService, caller: ReadCaller) -> HTMLResponse:
    await run_in_threadpool(service.energies.check, application)
    body = await _part(service, "energy_body", [application], [], caller)
    return _page("energy_page.html", caller, "energy", application=application, body=body)


@router.get("/login")
def login_form() -> HTMLResponse:
    return _page("login.html", Caller("", "read"), problem="")


@router.post("/login")
async def login(request: Request, service: AppService) -> Response:
    [token, *_] = parse_qs((await request.body()).decode("latin-1")).get("token", [""])
    if await service.access.caller_with_token(request, token) is None:
        form = _page("login.html", Caller("", "read"), problem="no such token")
        form.status_code = HTTPStatus.UNAUTHORIZED
        return form
    answer = RedirectResponse("/", HTTPStatus.SEE_OTHER)
    secure = request.url.scheme == "https"
    answer.set_cookie(COOKIE, token, httponly=True, samesite="strict", secure=secure)
    return answer


@router.post("/logout")
def logout() -> Response:
    answer = RedirectResponse("/login", HTTPStatus.SEE_OTHER)
    answer.delete_cookie(COOKIE)
    return answer


@router.get("/static/{name}")
def static(name: str) -> FileResponse:
    files = {path.name: path for path in STATIC.iterdir()}
    if name not in files:
        raise Refused(HTTPStatus.NOT_FOUND, "no such file")
    return FileResponse(files[name], media_type=TYPES[files[name].suffix])


def _page(template: str, caller: Caller, here: str = "", **values: Any) -> HTMLResponse:
    return HTMLResponse(PAGES.get_template(template).render(caller=caller, here=here, **values))


def _listed(service: Service, state: str, application: str, after: str) -> dict[str, Any]:
    """Return the values of a list of studies: those after one of this id, in this state and of this application."""
    in_state = StudyState(state) if state in list(StudyState) else None
    page = service.store.page(ON_A_PAGE + 1, before=after, state=in_state, application=application or None)
    more = page[ON_A_PAGE - 1].id if len(page) > ON_A_PAGE else ""
    shown = [study_document(study) for study in page[:ON_A_PAGE]]
    return {"studies": shown, "state": state, "application": application, "next": more}


async def _body(service: Service, study: Study, caller: Caller) -> Mapping[str, Any]:
    """Return the part of a page that shows a study: {"html", "repetitions"}."""
    if not await run_in_threadpool(service.is_default_measured, study):
        return {"html": PAGES.get_template("live_body.html").render(summary={"default": None}), "repetitions": 0}
    shown: Mapping[str, Any] = json.loads(await service.rendering.answer("body", [study.id], [study], caller.who))
    return shown


async def _part(
    service: Service, name: str, arguments: Sequence[str], studies: Sequence[Study], caller: Caller
) -> Markup:
    """Return an answer that is a part of a page, escaped where it was made."""
    return Markup((await service.rendering.answer(name, arguments, studies, caller.who)).decode())


def _choices(service: Service) -> dict[str, Sequence[Choice]]:
    """Return the values of the options that the service knows, for the launch form."""
    optimizers = [
        (str(about["name"]), f"{about['name']}: {about['summary']}") for about in service.catalogue.optimizers()
    ]
    return {"optimizer": optimizers, "testbed": choices_of_testbeds(service.catalogue.testbeds())}


def _refused(documents: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Return the applications that may not be launched here, and why."""
    return {
        document["name"]: f"asks for {', '.join(document['asks_for'])}"
        for document in documents
        if document["asks_for"]
    }
