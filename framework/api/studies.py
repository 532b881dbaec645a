"""Studies: launch, list, look, stop, resume, delete, compare, and the best configuration."""

from __future__ import annotations

import json
from http import HTTPStatus
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Response
from fastapi import Path as InPath
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import HTMLResponse

from framework.api.access import Caller
from framework.api.asking import LARGE
from framework.api.requests import MOST_NUMBER, IdempotencyHeader, NewStudy, Page, Resume, Stop
from framework.api.scrubbing import scrubbed
from framework.api.service import Service
from framework.model import EXTERNAL, Purpose, Study, StudyState, Trial, TrialState
from framework.model.documents import encode
from framework.report.summary_json import summary_document
from framework.study.planning import quick

MOST = 200  # of a page
JSON = "application/json"


def router(service: Service) -> APIRouter:
    """The routes below /v1/studies."""
    routes = APIRouter(tags=["studies"])
    queue = service.queue
    reads = Depends(service.access.needs("read"))
    runs = Depends(service.access.needs("run"))
    admins = Depends(service.access.needs("admin"))

    @routes.post("/studies", status_code=HTTPStatus.CREATED)
    def launch(
        body: NewStudy,
        response: Response,
        caller: Caller = runs,
        idempotency_key: IdempotencyHeader = None,
    ) -> dict[str, Any]:
        """Create a study and let it wait for a worker.

        With an Idempotency-Key, sending the same again makes no second one.
        """

        def prepared() -> Study:
            directory = service.launchable(body.application)
            request = body.request(directory, lambda: service.profiles.kept(service.application(body.application)))
            return service.studies.prepared(quick(request) if request.quick else request)

        asked = f"study {body.model_dump_json()}"
        study, new = service.once(caller, idempotency_key, asked, prepared, body.priority)
        if not new:
            response.status_code = HTTPStatus.OK
        response.headers["Location"] = f"/v1/studies/{study.id}"
        return document(study)

    @routes.get("/studies", dependencies=[reads])
    def studies(
        state: StudyState | None = None,
        application: str | None = None,
        optimizer: str | None = None,
        testbed: str | None = None,
        after: str = "",
        limit: Annotated[int, Query(ge=1, le=MOST)] = 50,
    ) -> Page:
        """The newest first; ``after`` is the id of the last one of the page before."""
        found = service.store.page(
            limit + 1, before=after, state=state, application=application, optimizer=optimizer, testbed=testbed
        )
        items = [document(one) for one in found[:limit]]
        return Page(items=items, next=found[limit - 1].id if len(found) > limit else None)

    async def answer(name: str, study: str, caller: Caller) -> bytes:
        """One that takes long, of a study of an application."""
        found = await run_in_threadpool(service.tuned, study)
        return await service.rendering.answer(name, [found.id], [found], caller.who)

    @routes.get("/studies/{study}")
    async def study(study: str, caller: Caller = reads) -> dict[str, Any]:
        """What it found so far, its phase and the time left; what is computed from trials is at most 30 s old."""
        found, summary, live = await run_in_threadpool(looked, study)
        if summary is None:
            summary = json.loads(await answer("summary", found.id, caller))
        return {**document(found), **summary, **live}

    def looked(study: str) -> tuple[Study, dict[str, Any] | None, dict[str, Any]]:
        """The study, what it found (None where that takes long to compute), and what is said of it as it is now."""
        found = service.study(study)
        summary: dict[str, Any] | None = None
        if found.testbed == EXTERNAL:  # of what was measured elsewhere there is no more than its trials
            summary = {}
        elif not service.has_value(found):
            summary = encode(summary_document(service.results.summary(found)))
        job = next((one for one in queue.jobs() if one.study == found.id), None)
        state = found.state.value
        return found, summary, {"state": state, "job": encode(job), "progress": encode(queue.progress(found.id))}

    @routes.get("/studies/{study}/trials", dependencies=[reads])
    def trials(
        study: str,
        after: Annotated[int, Query(ge=0, le=MOST_NUMBER)] = 0,
        limit: Annotated[int, Query(ge=1, le=MOST)] = 50,
        state: TrialState | None = None,
        purpose: Purpose | None = None,
    ) -> Page:
        """In their order, without their measurements."""
        found = service.store.trial_page(service.study(study).id, after, limit + 1, state=state, purpose=purpose)
        items = [trial_document(one) for one in found[:limit]]
        return Page(items=items, next=str(found[limit - 1].number) if len(found) > limit else None)

    @routes.get("/studies/{study}/trials/{number}", dependencies=[reads])
    def trial(study: str, number: Annotated[int, InPath(ge=0, le=MOST_NUMBER)]) -> dict[str, Any]:
        """One trial with its measurements."""
        whole: dict[str, Any] = encode(service.store.trial(service.study(study).id, number))
        return whole

    @routes.get("/studies/{study}/report", response_class=HTMLResponse)
    async def report(study: str, caller: Caller = reads) -> HTMLResponse:
        """The HTML page."""
        return HTMLResponse(await answer("report", study, caller))

    @routes.get("/studies/{study}/critical-path", response_model=dict[str, Any])
    async def critical_path(study: str, caller: Caller = reads) -> Response:
        """Service by service: where requests spend their time with the default and with the best."""
        return Response(await answer("critical_path", study, caller), media_type=JSON)

    @routes.get("/studies/{study}/best", response_model=dict[str, Any])
    async def best(study: str, caller: Caller = reads) -> Response:
        """The best configuration: what differs from the default."""
        return Response(await answer("best", study, caller), media_type=JSON)

    @routes.get("/studies/{study}/best.tar.gz")
    async def archive(study: str, caller: Caller = reads) -> Response:
        """The files to deploy it."""
        return download(await answer("archive", study, caller), f"{study}.tar.gz", "application/gzip")

    @routes.get("/studies/{study}/export")
    async def export(study: str, caller: Caller = reads) -> Response:
        """The whole study as a zip file: JSON for `tailor import`, Parquet to analyse; without secrets."""
        found = await run_in_threadpool(service.study, study)
        packed = await service.rendering.answer("export", [found.id], [found], caller.who)
        return download(packed, f"{found.id}.zip", "application/zip")

    @routes.post("/studies/{study}/stop", status_code=HTTPStatus.ACCEPTED, dependencies=[runs])
    def stop(study: str, body: Stop) -> dict[str, Any]:
        """Ask whoever runs it to stop, now or after the trial; it can be resumed."""
        return {"job": encode(queue.stop(service.study(study).id, body.when))}

    @routes.post("/studies/{study}/resume", status_code=HTTPStatus.ACCEPTED)
    def resume(study: str, body: Resume, caller: Caller = runs) -> dict[str, Any]:
        """Let it wait for a worker again."""
        found = service.resumable(study)
        service.wait(found, caller, body.priority)
        return document(found)

    @routes.delete("/studies/{study}", status_code=HTTPStatus.NO_CONTENT)
    async def delete(study: str, caller: Caller = admins) -> None:
        """Remove a study with all that it measured; not while it runs."""
        found = await run_in_threadpool(service.study, study)
        if found.testbed == EXTERNAL:
            await run_in_threadpool(service.external.leave, found.id)
            if len(found.space["parameters"]) >= LARGE:
                await service.asking.leave(found.id)
        await run_in_threadpool(service.studies.delete, found.id)

    @routes.get("/compare", response_model=dict[str, Any])
    async def compare(first: str, second: str, caller: Caller = reads) -> Response:
        """Service by service, two configurations: a study's best, or "ID:default"."""
        studies = await run_in_threadpool(service.compared, first, second)
        found = await service.rendering.answer("compare", [first, second], studies, caller.who)
        return Response(found, media_type=JSON)

    return routes


def document(study: Study) -> dict[str, Any]:
    """A study in a list."""
    plan = study.effective_plan
    return {
        "study": study.id,
        "state": study.state.value,
        "created_at": study.created_at,
        "application": study.application_name,
        "optimizer": plan.optimizer,
        "testbed": study.testbed,
        "modelled": study.modelled,
        "quick": plan.quick,
        "iterations": plan.iterations,
        "rate_rps": plan.rate_rps,
        "parameters": len(study.space["parameters"]),
        "best_trial": study.best,
        "verdict": study.verdict.statement if study.verdict else None,
        "gain": study.verdict.gain.value if study.verdict else None,
        "message": scrubbed(study.message),
    }


def trial_document(trial: Trial) -> dict[str, Any]:
    """A trial in a list."""
    whole: dict[str, Any] = encode(trial)
    for name in ("measurements", "documents", "images", "standins"):
        whole.pop(name)
    return whole


def download(data: bytes, name: str, kind: str) -> Response:
    return Response(data, media_type=kind, headers={"Content-Disposition": f'attachment; filename="{name}"'})
