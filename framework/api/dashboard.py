"""The dashboard: pages made here, one small script, nothing from other hosts.

A browser that has entered a token keeps it in a cookie that no script reads and no other site can use.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

from fastapi import APIRouter, Depends, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import FileResponse, HTMLResponse, RedirectResponse, Response
from markupsafe import Markup

from framework.api.access import COOKIE, Caller
from framework.api.answers import ON_A_PAGE
from framework.api.form import Choice, choices_of_testbeds, form_fields
from framework.api.pages import PAGES
from framework.api.problems import Refused
from framework.api.scrubbing import detail_of
from framework.api.service import Service
from framework.api.studies import document
from framework.errors import NotFound
from framework.model import EXTERNAL, Study, StudyState
from framework.study.planning import expected_repetitions

STATIC = Path(__file__).parent / "static"
TYPES = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}


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
    async def study(study: str, caller: Caller = reads) -> HTMLResponse:
        found = await run_in_threadpool(service.study, study)
        if found.testbed == EXTERNAL:
            return page("external.html", caller, study=found, body=await part("external", [study], [found], caller))
        shown = await body_of(found, caller)
        progress = await run_in_threadpool(service.queue.progress, found.id) or {}
        return page(
            "live_study.html", caller, study=found, body=Markup(shown["html"]),
            expected=expected_repetitions(found.plan), done=progress.get("repetitions", shown["repetitions"]),
        )  # fmt: skip

    @routes.get("/studies/{study}/body")
    async def body(study: str, caller: Caller = reads) -> HTMLResponse:
        found = await run_in_threadpool(service.tuned, study)
        return HTMLResponse((await body_of(found, caller))["html"])

    async def body_of(found: Study, caller: Caller) -> Mapping[str, Any]:
        """What a page shows of a study: {"html", "repetitions"}."""
        if not await run_in_threadpool(service.has_value, found):
            return {"html": PAGES.get_template("live_body.html").render(summary={"default": None}), "repetitions": 0}
        shown: Mapping[str, Any] = json.loads(await answer("body", [found.id], [found], caller))
        return shown

    async def answer(name: str, arguments: Sequence[str], studies: Sequence[Study], caller: Caller) -> bytes:
        return await service.rendering.answer(name, arguments, studies, caller.who)

    async def part(name: str, arguments: Sequence[str], studies: Sequence[Study], caller: Caller) -> Markup:
        """An answer that is a part of a page, escaped where it was made."""
        return Markup((await answer(name, arguments, studies, caller)).decode())

    def choices() -> dict[str, Sequence[Choice]]:
        listed = [(str(one["name"]), f"{one['name']}: {one['summary']}") for one in tailor.optimizers()]
        return {"optimizer": listed, "testbed": choices_of_testbeds(tailor.testbeds())}

    @routes.get("/launch")
    def launch(application: str = "", caller: Caller = reads) -> HTMLResponse:
        found, broken = service.applications()
        known = [service.about(one) for one in found.values()]
        usable = [one["name"] for one in known if not one["asks_for"]]
        chosen = application if application in usable else next(iter(usable), "")
        groups = tailor.space(found[chosen]).groups if chosen else {}
        return page(
            "launch.html", caller, "launch", applications=known, chosen=chosen,
            broken={**broken, **refused(known)}, groups=groups, fields=form_fields(choices()),
        )  # fmt: skip

    @routes.get("/compare")
    async def compare(first: str = "", second: str = "", caller: Caller = reads) -> HTMLResponse:
        body = Markup("")
        if first and second:
            try:
                body = await part(
                    "comparison", [first, second], await run_in_threadpool(service.compared, first, second), caller
                )
            except NotFound as error:
                body = Markup('<p class="warn" role="alert">{}</p>').format(detail_of(error))
        known = [document(one) for one in await run_in_threadpool(tailor.store.page, ON_A_PAGE)]
        return page("compare.html", caller, "compare", studies=known, first=first, second=second, body=body)

    @routes.get("/optimizers")
    async def optimizers(application: str = "", caller: Caller = reads) -> HTMLResponse:
        return page("optimizers.html", caller, "optimizers", body=await part("race", [application], [], caller))

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
