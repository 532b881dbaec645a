"""Routes of studies: launch, list, show, stop, resume, delete, compare, and the best configuration."""

from __future__ import annotations

import json
from functools import partial
from http import HTTPStatus
from typing import Annotated, Any

from fastapi import APIRouter, Query, Response
from fastapi import Path as InPath
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import HTMLResponse

from framework.api.access import Caller
from framework.api.dependencies import ADMIN, READ, RUN, AppService, ReadCaller, RunCaller
from framework.api.large_spaces import LARGE
from framework.api.requests import MOST_NUMBER, IdempotencyHeader, NewStudy, Page, Resume, Stop
from framework.api.scrubbing import scrubbed
from framework.api.service import Service
from framework.model import EXTERNAL, Purpose, Study, StudyState, Trial, TrialState
from framework.model.documents import encode
from framework.report.summary_json import summary_document
from framework.study.planning import quick

MOST = 200  # items of a page
JSON = "application/json"


router = APIRouter(tags=["studies"])


@router.post("/studies", status_code=HTTPStatus.CREATED)
def launch(
    body: NewStudy,
    response: Response,
    service: AppService,
    caller: RunCaller,
    idempotency_key: IdempotencyHeader = None,
) -> dict[str, Any]:
    """Create a study and put it into the queue of the workers.

    The same request with the same Idempotency-Key makes no second study.
    """
    request = f"study {body.model_dump_json()}"
    study, new = service.create_once(caller, idempotency_key, request, partial(_prepared, service, body), body.priority)
    if not new:
        response.status_code = HTTPStatus.OK
    response.headers["Location"] = f"/v1/studies/{study.id}"
    return study_document(study)


@router.get("/studies", dependencies=[READ])
def studies(
    service: AppService,
    state: StudyState | None = None,
    application: str | None = None,
    optimizer: str | None = None,
    testbed: str | None = None,
    after: str = "",
    limit: Annotated[int, Query(ge=1, le=MOST)] = 50,
) -> Page:
    """List studies, the newest first; ``after`` is the id of the last study of the page before."""
    page = service.store.page(
        limit + 1, before=after, state=state, application=application, optimizer=optimizer, testbed=testbed
    )
    items = [study_document(study) for study in page[:limit]]
    return Page(items=items, next=page[limit - 1].id if len(page) > limit else None)


@router.get("/studies/{study}")
async def study(study: str, service: AppService, caller: ReadCaller) -> dict[str, Any]:
    """Show a study: its results so far, its phase and the time left.  Results are at most 30 s old."""
    shown, summary, live = await run_in_threadpool(_shown, service, study)
    if summary is None:
        summary = json.loads(await _answer(service, "summary", shown.id, caller))
    return {**study_document(shown), **summary, **live}


@router.get("/studies/{study}/trials", dependencies=[READ])
def trials(
    study: str,
    service: AppService,
    after: Annotated[int, Query(ge=0, le=MOST_NUMBER)] = 0,
    limit: Annotated[int, Query(ge=1, le=MOST)] = 50,
    state: TrialState | None = None,
    purpose: Purpose | None = None,
) -> Page:
    """List the trials of a study in their order, without their measurements."""
    page = service.store.trial_page(service.study(study).id, after, limit + 1, state=state, purpose=purpose)
    items = [trial_document(trial) for trial in page[:limit]]
    return Page(items=items, next=str(page[limit - 1].number) if len(page) > limit else None)


@router.get("/studies/{study}/trials/{number}", dependencies=[READ])
def trial(study: str, number: Annotated[int, InPath(ge=0, le=MOST_NUMBER)], service: AppService) -> dict[str, Any]:
    """Show one trial with its measurements."""
    whole: dict[str, Any] = encode(service.store.trial(service.study(study).id, number))
    return whole


@router.get("/studies/{study}/report", response_class=HTMLResponse)
async def report(study: str, service: AppService, caller: ReadCaller) -> HTMLResponse:
    """Return the HTML report."""
    return HTMLResponse(await _answer(service, "report", study, caller))


@router.get("/studies/{study}/critical-path", response_model=dict[str, Any])
async def critical_path(study: str, service: AppService, caller: ReadCaller) -> Response:
    """Show, for each service, the time that requests spend there with the default and with the best configuration."""
    return Response(await _answer(service, "critical_path", study, caller), media_type=JSON)


@router.get("/studies/{study}/best", response_model=dict[str, Any])
async def best(study: str, service: AppService, caller: ReadCaller) -> Response:
    """Show the best configuration: the values that differ from the default."""
    return Response(await _answer(service, "best", study, caller), media_type=JSON)


@router.get("/studies/{study}/best.tar.gz")
async def archive(study: str, service: AppService, caller: ReadCaller) -> Response:
    """Return the files to deploy the best configuration, as a tar.gz file."""
    return _download(await _answer(service, "archive", study, caller), f"{study}.tar.gz", "application/gzip")


@router.get("/studies/{study}/export")
async def export(study: str, service: AppService, caller: ReadCaller) -> Response:
    """Return the whole study as a zip file, without secrets: JSON for `tailor import`, Parquet to analyse."""
    exported = await run_in_threadpool(service.study, study)
    packed = await service.rendering.answer("export", [exported.id], [exported], caller.who)
    return _download(packed, f"{exported.id}.zip", "application/zip")


@router.post("/studies/{study}/stop", status_code=HTTPStatus.ACCEPTED, dependencies=[RUN])
def stop(study: str, body: Stop, service: AppService) -> dict[str, Any]:
    """Let the worker that runs the study stop, now or after the trial.  The study can be resumed."""
    return {"job": encode(service.queue.stop(service.study(study).id, body.when))}


@router.post("/studies/{study}/resume", status_code=HTTPStatus.ACCEPTED)
def resume(study: str, body: Resume, service: AppService, caller: RunCaller) -> dict[str, Any]:
    """Put a study into the queue of the workers again."""
    resumable = service.resumable(study)
    service.enqueue(resumable, caller, body.priority)
    return study_document(resumable)


@router.delete("/studies/{study}", status_code=HTTPStatus.NO_CONTENT, dependencies=[ADMIN])
async def delete(study: str, service: AppService) -> None:
    """Delete a study with all its measurements.  A study that runs is refused."""
    deleted = await run_in_threadpool(service.study, study)
    if deleted.testbed == EXTERNAL:
        await run_in_threadpool(service.external.leave, deleted.id)
        if len(deleted.space["parameters"]) >= LARGE:
            await service.large_spaces.leave(deleted.id)
    await run_in_threadpool(service.studies.delete, deleted.id)


@router.get("/compare", response_model=dict[str, Any])
async def compare(first: str, second: str, service: AppService, caller: ReadCaller) -> Response:
    """Compare two configurations service by service.  Each is a study's best (its ID) or its default ("ID:default")."""
    compared = await run_in_threadpool(service.compared, first, second)
    answer = await service.rendering.answer("compare", [first, second], compared, caller.who)
    return Response(answer, media_type=JSON)


def study_document(study: Study) -> dict[str, Any]:
    """Return a study as lists show it."""
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
        "auto": plan.auto,
        "rate_rps": plan.rate_rps,
        "rates": list(plan.rates),
        "parameters": len(study.space["parameters"]),
        "best_trial": study.best,
        "verdict": study.verdict.statement if study.verdict else None,
        "gain": study.verdict.gain.value if study.verdict else None,
        "message": scrubbed(study.message),
    }


def trial_document(trial: Trial) -> dict[str, Any]:
    """Return a trial as lists show it."""
    whole: dict[str, Any] = encode(trial)
    for name in ("measurements", "documents", "images", "standins", "passed"):
        whole.pop(name)
    return whole


def _prepared(service: Service, body: NewStudy) -> Study:
    """Return the study that the body asks for, which is not yet stored."""
    directory = service.launchable(body.application)
    request = body.request(directory, lambda: service.profiles.kept(service.application(body.application)))
    return service.studies.prepared(quick(request) if request.quick else request)


def _shown(service: Service, name: str) -> tuple[Study, dict[str, Any] | None, dict[str, Any]]:
    """Return the study, its summary (None where that takes long to compute), and its state, job and progress now."""
    study = service.study(name)
    summary: dict[str, Any] | None = None
    if study.testbed == EXTERNAL:  # it has trials and no summary
        summary = {}
    elif not service.is_default_measured(study):
        summary = encode(summary_document(service.results.summary(study)))
    job = next((job for job in service.queue.jobs() if job.study == study.id), None)
    progress = service.queue.progress(study.id)
    return study, summary, {"state": study.state.value, "job": encode(job), "progress": encode(progress)}


async def _answer(service: Service, name: str, study: str, caller: Caller) -> bytes:
    """Return an answer that takes long, of a study of an application."""
    tuned = await run_in_threadpool(service.tuned, study)
    return await service.rendering.answer(name, [tuned.id], [tuned], caller.who)


def _download(data: bytes, name: str, kind: str) -> Response:
    return Response(data, media_type=kind, headers={"Content-Disposition": f'attachment; filename="{name}"'})
